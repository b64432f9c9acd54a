/* The flows of each engine family, one file each (traffic_*.c). */
#ifndef K3_PLAN_TRAFFIC_INTERNAL_H
#define K3_PLAN_TRAFFIC_INTERNAL_H

#include "bench/plan/traffic.h"

/* As k3_traffic_origin. traffic->rows_to holds the origin's rows for each expert; what depends on
 * single rows (one copy per rank, channels, chunks) asks k3_routing_row again. */
void k3_visit_slab(const k3_traffic_t *traffic, uint32_t origin, k3_flow_visit_t visit, void *arg);
void k3_visit_counted(const k3_traffic_t *traffic, uint32_t origin, k3_flow_visit_t visit,
                      void *arg);
void k3_visit_ranks(const k3_traffic_t *traffic, uint32_t origin, k3_flow_visit_t visit, void *arg);
void k3_visit_rails(const k3_traffic_t *traffic, uint32_t origin, k3_flow_visit_t visit, void *arg);
void k3_visit_fused(const k3_traffic_t *traffic, uint32_t origin, k3_flow_visit_t visit, void *arg);
void k3_visit_mpi(const k3_traffic_t *traffic, uint32_t origin, k3_flow_visit_t visit, void *arg);

/* Doorbells of a range of n messages and its signal: each `doorbell_every`-th, and each signal. */
static inline uint64_t k3_range_doorbells(const k3_profile_t *p, uint64_t n)
{
    if (p->doorbell_every == 0) {
        return K3_DOORBELLS_UNKNOWN;
    }
    return n / p->doorbell_every + (p->doorbell_signal ? 1 : 0);
}

#endif
