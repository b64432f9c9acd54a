/* Fused: dispatch, GEMMs and combine overlap. */
#include "bench/plan/traffic_internal.h"

void k3_visit_fused(const k3_traffic_t *traffic, uint32_t origin, k3_flow_visit_t visit, void *arg)
{
    (void)traffic;
    (void)origin;
    (void)visit;
    (void)arg;
}
