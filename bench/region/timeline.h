/* One iteration over the ranks: when each of them entered and left each phase, on the global clock.
 *
 * Some iterations, evenly spread over the launch, are remembered while it lasts. At the end all ranks
 * choose the same one of them: the one whose headline lies nearest to the median of all iterations. */
#ifndef K3_REGION_TIMELINE_H
#define K3_REGION_TIMELINE_H

#include "bench/region/region.h"

/* Iterations remembered; ranks whose rows are kept, so that a record of a large world stays small. */
enum { K3_TIMELINE_TAKEN = 32, K3_TIMELINE_RANKS = 64 };

/* A phase that is entered several times goes from its first begin to its last end. */
typedef struct k3_timeline_phase {
    double begin, end; /* ns, of the own clock until they are placed; NaN: not entered */
    double own_us;     /* inside the phase */
} k3_timeline_phase_t;

typedef struct k3_timeline_iteration {
    uint64_t            number; /* from 0 */
    bool                placed; /* on the global clock */
    k3_timeline_phase_t phase[K3_PHASE_COUNT];
} k3_timeline_iteration_t;

typedef struct k3_timeline {
    k3_sync_t               *sync;  /* NULL: nothing is kept */
    k3_timeline_iteration_t *taken; /* [K3_TIMELINE_TAKEN] */
    uint64_t                 count, every;
} k3_timeline_t;

typedef struct k3_timeline_row {
    int32_t rank, phase;
    double  begin_us, end_us, own_us; /* from the earliest begin of all ranks */
} k3_timeline_row_t;

/* At rank 0; row NULL: there is none, for the reason. */
typedef struct k3_timeline_result {
    char               reason[64];
    uint64_t           iteration; /* from 0 */
    double             headline_us;
    int                ranks_kept;
    k3_timeline_row_t *row; /* owned */
    uint64_t           row_count;
} k3_timeline_result_t;

k3_status_t k3_timeline_open(k3_timeline_t *t, k3_sync_t *sync, k3_error_t *err);
void        k3_timeline_close(k3_timeline_t *t);

/* Iteration n, which just ended. */
void k3_timeline_note(k3_timeline_t *t, const k3_spans_t *spans, uint64_t n);
/* The clocks were compared: what was noted before becomes global. */
void k3_timeline_place(k3_timeline_t *t);
/* Which of the remembered iterations lies nearest to `median`; `us` holds all headlines. */
uint64_t k3_timeline_choose(const k3_timeline_t *t, const double *us, double median);

/* Collective. `us` holds the headlines of n iterations, the same on all ranks. */
k3_status_t k3_timeline_collect(const k3_timeline_t *t, const k3_world_t *world, const double *us,
                                uint64_t n, k3_phase_t headline, double *scratch,
                                k3_timeline_result_t *result, k3_error_t *err);

#endif
