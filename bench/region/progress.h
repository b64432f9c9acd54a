/* One line on a terminal while a cell is measured: which cell, which iteration, the median so far with its
 * interval, and how long it will still take. Written between iterations, at rank 0, a few times a second. */
#ifndef K3_REGION_PROGRESS_H
#define K3_REGION_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/base/stats.h"

typedef struct k3_progress {
    bool     shown;       /* else nothing is written */
    uint64_t cell, cells; /* from 1 */
} k3_progress_t;

/* How a cell stands. */
typedef struct k3_progress_state {
    const char  *name;       /* of the backend */
    bool         warm_up;    /* then n counts its iterations, and there is no summary */
    uint64_t     n, iters;   /* iters 0: the target or the limit of time ends it */
    double       elapsed_us; /* since the first timed iteration */
    double       timed_us;   /* inside iterations */
    double       limit_us;   /* of timed_us */
    double       target;     /* half width over the median */
    k3_summary_t summary;    /* so far */
} k3_progress_state_t;

/* Microseconds until the cell ends, as far as one can tell; negative: one cannot. An interval gets narrower
 * with the root of the number of iterations. */
double k3_progress_left(const k3_progress_state_t *state);

/* Writes the line to `text`, at most `size` - 1 characters; returns `text`. */
const char *k3_progress_text(const k3_progress_t *progress, const k3_progress_state_t *state,
                             char *text, size_t size);

#endif
