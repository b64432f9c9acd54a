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
/* Counts, in one pass over all rows, what each rank forwards in its node. */
k3_status_t k3_rails_scratch_open(const k3_cell_t *cell, struct k3_rails_scratch **scratch_p,
                                  k3_error_t *err);
void        k3_rails_scratch_close(struct k3_rails_scratch *scratch);

/* Two hops over rings, for k3_visit_rails. */
struct k3_rings_scratch;
k3_status_t k3_rings_scratch_open(const k3_cell_t *cell, struct k3_rings_scratch **scratch_p,
                                  k3_error_t *err);
void        k3_rings_scratch_close(struct k3_rings_scratch *scratch);
void        k3_visit_rings(const k3_cell_t *cell, struct k3_rings_scratch *scratch, uint32_t rank,
                           k3_flow_visit_t visit, void *arg);

void k3_visit_fused(const k3_traffic_t *traffic, uint32_t origin, k3_flow_visit_t visit, void *arg);
void k3_visit_mpi(const k3_traffic_t *traffic, uint32_t origin, k3_flow_visit_t visit, void *arg);

/* Where rows lie on lanes by their number: the table, and one row of the origin. */
k3_status_t k3_open_ranks(k3_traffic_t *traffic, k3_error_t *err);
void        k3_count_ranks(k3_traffic_t *traffic, uint64_t row, const int32_t *ids);

/* Doorbells of a range of n messages and its signal: each `doorbell_every`-th, and each signal. */
static inline uint64_t k3_range_doorbells(const k3_profile_t *p, uint64_t n)
{
    if (p->doorbell_every == 0) {
        return K3_DOORBELLS_UNKNOWN;
    }
    return n / p->doorbell_every + (p->doorbell_signal ? 1 : 0);
}

#endif
