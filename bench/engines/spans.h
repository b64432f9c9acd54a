/* The clock of one iteration: how long each phase took on this rank. Phases may be entered more
 * than once in an iteration (their times add up) and may overlap. Nothing here allocates. */
#ifndef K3_ENGINES_SPANS_H
#define K3_ENGINES_SPANS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "bench/plan/phase.h"
#include "harness/mpi/clock.h"
#include "harness/mpi/watchdog.h"

typedef struct k3_spans {
    uint64_t begin[K3_PHASE_COUNT];
    uint64_t ticks[K3_PHASE_COUNT];
    bool     used[K3_PHASE_COUNT];
    uint64_t step;        /* iteration, for the watchdog */
    int      stall_phase; /* fault injection: sleep at the begin of this phase; -1: none */
    double   stall_ms;
} k3_spans_t;

static inline void k3_spans_start(k3_spans_t *spans, uint64_t step)
{
    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        spans->ticks[p] = 0;
        spans->used[p] = false;
    }
    spans->step = step;
}

/* The stall lies inside the span: it is the phase that is late. */
static inline void k3_spans_stall(const k3_spans_t *spans)
{
    struct timespec pause = {
        .tv_sec = (time_t)(spans->stall_ms / 1e3),
        .tv_nsec = (long)((spans->stall_ms - 1e3 * (time_t)(spans->stall_ms / 1e3)) * 1e6)};

    nanosleep(&pause, NULL);
}

static inline void k3_span_begin(k3_spans_t *spans, k3_phase_t phase)
{
    k3_watchdog_tick(k3_phase_names[phase], spans->step);
    spans->begin[phase] = k3_clock_now();
    if (spans->stall_phase == (int)phase) {
        k3_spans_stall(spans);
    }
}

static inline void k3_span_end(k3_spans_t *spans, k3_phase_t phase)
{
    spans->ticks[phase] += k3_clock_now() - spans->begin[phase];
    spans->used[phase] = true;
}

#endif
