/* Brings what the ranks measured to rank 0, and holds it against the plan. */
#ifndef K3_REGION_COLLECT_H
#define K3_REGION_COLLECT_H

#include "bench/region/measure.h"

/* Collective. local[phase][out->iterations]: this rank's times, below 0 where a phase did not
 * occur; overlap[out->iterations], or NULL on all ranks. */
k3_status_t k3_collect(const k3_region_t *region, double *const *local,
                       const k3_overlap_us_t *overlap, k3_measurement_t *out, k3_error_t *err);

/* collect_items.c. Collective: gathers `count` items of `size` bytes of each rank to rank 0, in rank order; owned by the caller. */
k3_status_t k3_gather_items(const k3_world_t *world, const void *items, uint64_t count, size_t size,
                            void *all_p, uint64_t *all_count, k3_error_t *err);

/* collect_lanes.c. Collective. */
k3_status_t k3_collect_lanes(const k3_region_t *region, k3_qps_t *qps, k3_measurement_t *out,
                             k3_error_t *err);

/* collect_overlap.c: the medians of all[n]; values: [2][n] work space. */
void k3_overlap_summarize(const k3_overlap_us_t *all, uint64_t n, double *values,
                          k3_overlap_result_t *result);

/* Collective; *result at rank 0. */
k3_status_t k3_collect_overlap(const k3_region_t *region, const k3_overlap_us_t *own,
                               uint64_t iterations, k3_overlap_result_t *result, k3_error_t *err);

#endif
