/* A clock against a reference: offset and drift by a line through comparisons of the two. Pure
 * arithmetic; times are nanoseconds since an origin of each clock, as double: whole up to 104 days. */
#ifndef K3_MPI_CLOCK_MODEL_H
#define K3_MPI_CLOCK_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum { K3_CLOCK_WINDOW = 16 };

/* One comparison: at `local` the reference was ahead by `offset`, known to half the round trip. */
typedef struct k3_clock_point {
    double local, offset, round_trip;
} k3_clock_point_t;

/* reference = local + offset + drift (local - anchor) */
typedef struct k3_clock_line {
    double anchor, offset, drift;
} k3_clock_line_t;

/* Zeroed: no comparison yet, the identity. */
typedef struct k3_clock_fit {
    k3_clock_point_t points[K3_CLOCK_WINDOW]; /* the latest ones, oldest first */
    unsigned         count;
    k3_clock_line_t  line;
    double           residual; /* weighted root mean square of the points' distance from the line */
    double           round_trip; /* weighted mean of the points' */
    double           predicted;  /* how far the last point lay from the line before it was added */
    uint64_t         added;      /* points ever */
    uint64_t         steps;      /* jumps of one of the clocks: the points before were forgotten */
} k3_clock_fit_t;

/* Weights are 1 / (half round trip)^2. A drift beyond 50 in 10^6 needs evidence: it is what crystals
 * and a short calibration leave, and a few points close together say nothing about it. A point that
 * no drift can explain is a step, and the line begins anew there. */
void k3_clock_fit_add(k3_clock_fit_t *fit, const k3_clock_point_t *point);

/* How far a time by the line may be off: half the round trip, which no exchange can look behind, and
 * the residual. */
double k3_clock_fit_error(const k3_clock_fit_t *fit);

double k3_clock_line_at(const k3_clock_line_t *line, double local);       /* reference time */
double k3_clock_line_back(const k3_clock_line_t *line, double reference); /* local time */

/* inner: local to middle; outer: middle to reference. */
k3_clock_line_t k3_clock_line_chain(const k3_clock_line_t *inner, const k3_clock_line_t *outer);

#endif
