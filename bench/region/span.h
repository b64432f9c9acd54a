/* Spans on the global clock: from the first rank's begin of a phase to the last rank's end. Kept for
 * the totals that a rank enters once in an iteration.
 *
 * Times are kept as the own clock gives them and become global ones after the next comparison of the
 * clocks, when the line has a point on both sides of them. */
#ifndef K3_REGION_SPAN_H
#define K3_REGION_SPAN_H

#include "bench/region/region.h"
#include "harness/base/stats.h"

typedef struct k3_spans_global {
    k3_sync_t *sync;                                        /* NULL: nothing is kept */
    double    *begin[K3_PHASE_COUNT], *end[K3_PHASE_COUNT]; /* [capacity] ns; NULL: not kept */
    uint64_t   placed;                                      /* iterations in global time */
    double     error_us;                                    /* of a global time, the worst so far */
    uint64_t   steps;                                       /* of the clocks, at the begin */
    bool       stepped;
} k3_spans_global_t;

/* A phase's span; withheld when clocks or phase do not allow it. */
typedef struct k3_span_result {
    bool         valid;
    k3_summary_t summary; /* us */
    char         reason[128];
} k3_span_result_t;

k3_status_t k3_spans_global_open(k3_spans_global_t *g, k3_sync_t *sync, const k3_region_t *region,
                                 uint64_t capacity, k3_error_t *err);
void        k3_spans_global_close(k3_spans_global_t *g);

/* Iteration n, which just ended. */
void k3_spans_global_note(k3_spans_global_t *g, const k3_spans_t *spans, uint64_t n);
/* Compares the clocks and places the iterations up to n. Collective. */
void k3_spans_global_place(k3_spans_global_t *g, uint64_t n);
/* The span of n iterations at rank 0, divided by `parts`. `own` and `scratch` hold n values.
 * Collective. */
void k3_spans_global_collect(const k3_spans_global_t *g, const k3_world_t *world, k3_phase_t phase,
                             uint64_t n, unsigned parts, double *own, double *scratch,
                             k3_span_result_t *result);

#endif
