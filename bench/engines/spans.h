/* The clock of one iteration: how long each phase took on this rank. Phases may be entered more
 * than once in an iteration (their times add up) and may overlap. Nothing here allocates. */
#ifndef K3_ENGINES_SPANS_H
#define K3_ENGINES_SPANS_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "bench/plan/phase.h"
#include "harness/mpi/clock.h"
#include "harness/mpi/watchdog.h"

/* What engines that overlap dispatch, experts and combine did in an iteration, in ticks: the parts' own
 * times and the span that they took together. The experts' own time is their phase. */
typedef struct k3_overlap {
    uint64_t dispatch, combine, span;
} k3_overlap_t;

typedef struct k3_spans {
    uint64_t begin[K3_PHASE_COUNT];
    uint64_t ticks[K3_PHASE_COUNT];
    uint64_t first[K3_PHASE_COUNT]; /* its first begin in the iteration */
    uint64_t last[K3_PHASE_COUNT];  /* ... and its last end */
    bool     used[K3_PHASE_COUNT];
    uint64_t step; /* iteration, for the watchdog */
    /* Called at each begin and end, for phases that a device runs in its own time; NULL: nobody. */
    void (*mark)(void *arg, k3_phase_t phase, bool end);
    void        *mark_arg;
    k3_overlap_t overlap;
    /* Fault injection, at the first begin of this phase in an iteration; -1: none. */
    int    fault_phase;
    double stall_ms;
    bool   dies;         /* else it is late by stall_ms */
    bool   stands_still; /* once dead it never returns: nobody can do without it */
    bool   dead;         /* takes no part in the exchange any more */
    bool   struck;       /* a fault came about, in this iteration or before */
} k3_spans_t;

static inline void k3_spans_start(k3_spans_t *spans, uint64_t step)
{
    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        spans->ticks[p] = 0;
        spans->used[p] = false;
    }
    spans->step = step;
    spans->overlap = (k3_overlap_t){0};
}

static inline void k3_spans_sleep(double ms)
{
    struct timespec pause = {.tv_sec = (time_t)(ms / 1e3),
                             .tv_nsec = (long)((ms - 1e3 * (time_t)(ms / 1e3)) * 1e6)};

    nanosleep(&pause, NULL);
}

/* As long as asked: a sleep alone ends too late by what the kernel's timers are coarse. */
static inline void k3_spans_stall(double ms)
{
    static const double coarse = 0.2;
    uint64_t            end = k3_clock_now() + k3_clock_ticks(1e3 * ms);

    if (ms > coarse) {
        k3_spans_sleep(ms - coarse);
    }
    while (k3_clock_now() < end) {
        sched_yield();
    }
}

/* A stall lies inside the span: it is the phase that is late. */
static inline void k3_spans_fault(k3_spans_t *spans)
{
    spans->struck = true;
    spans->dead = spans->dies;
    if (!spans->dies) {
        k3_spans_stall(spans->stall_ms);
    }
    while (spans->dead && spans->stands_still) {
        k3_spans_sleep(1000.0); /* the watchdog ends the job */
    }
}

static inline void k3_span_begin(k3_spans_t *spans, k3_phase_t phase)
{
    k3_watchdog_tick(k3_phase_names[phase], spans->step);
    spans->begin[phase] = k3_clock_now();
    spans->first[phase] = spans->used[phase] ? spans->first[phase] : spans->begin[phase];
    if (spans->fault_phase == (int)phase && !spans->used[phase]) {
        k3_spans_fault(spans);
    }
    if (spans->mark != NULL) {
        spans->mark(spans->mark_arg, phase, false);
    }
}

/* An end that somebody else saw. */
static inline void k3_span_end_at(k3_spans_t *spans, k3_phase_t phase, uint64_t now)
{
    spans->ticks[phase] += now > spans->begin[phase] ? now - spans->begin[phase] : 0;
    spans->last[phase] = now > spans->begin[phase] ? now : spans->begin[phase];
    spans->used[phase] = true;
}

static inline void k3_span_end(k3_spans_t *spans, k3_phase_t phase)
{
    if (spans->mark != NULL) {
        spans->mark(spans->mark_arg, phase, true);
    }
    k3_span_end_at(spans, phase, k3_clock_now());
}

#endif
