/* What the parts of the sampling share (sampler.c), and these parts. */
#ifndef K3_REGION_SAMPLER_H
#define K3_REGION_SAMPLER_H

#include "bench/region/measure.h"
#include "bench/region/span.h"
#include "bench/region/timeline.h"
#include "bench/region/verify.h"

enum { K3_WARMUP_LEAST = 2, K3_WARMUP_MOST = 256 };

typedef struct k3_sampler {
    k3_region_t                *region;
    const k3_measure_options_t *options;
    k3_verify_t                 verify;
    k3_phase_t                  headline;
    uint64_t                    payload, capacity;
    double                     *local[K3_PHASE_COUNT]; /* [capacity] this rank's times */
    k3_overlap_us_t            *overlap;               /* [capacity]; NULL: nothing overlaps */
    double                     *headline_max, *scratch;
    double                     *gap;  /* [capacity] before each iteration, us */
    double                     *beat; /* [capacity] likewise: how fast the processor was, us */
    double                      last_gap;
    uint64_t                    last_end; /* ticks */
    double                      took_us;  /* the last iteration with all its parts, slowest rank */
    double                      timed_us; /* its sum over timed iterations */
    uint64_t                    timed_begin, shown_at; /* ticks; 0: nothing was shown */
    k3_error_t                  trapped;               /* a rank has run into the limit of a call */
    k3_spans_global_t           global;
    k3_timeline_t               timeline;
    double                     *unbooked; /* [capacity] headline times with the accounts off */
    double                     *unmarked; /* [capacity] ... and the events of a device off too */
} k3_sampler_t;

/* One iteration with inputs of its own. Another rank waits inside it, so a fault cannot be agreed on. */
void k3_sampler_iterate(k3_sampler_t *s);
/* This rank's time of a phase in the last iteration, us. */
double k3_sampler_time(const k3_sampler_t *s, int phase);
/* Headline time of the last iteration, us: the maximum over ranks, as then is took_us. *late_us: by how much the latest rank
 * missed the start; NULL: not wanted. Collective. */
double k3_sampler_headline(k3_sampler_t *s, double *late_us);
void   k3_sampler_progress(k3_sampler_t *s, bool warm_up, uint64_t n);

/* Rounds of 1, 1, 2, 4, ... iterations. Ends when a round is complete, the headline has taken long
 * enough, and the round's samples do not move; or at the limits of time and number. */
void k3_warm_up(k3_sampler_t *s, k3_warmup_t *warmup);

/* How fast the processor is just now, us; in front of each iteration. */
double k3_sampler_beat(const k3_sampler_t *s);

/* One iteration in seven more with the accounts off, and on a device one with its events off as well, apart
 * from the samples; behind `n` of these. */
void        k3_instrument_control(k3_sampler_t *s, uint64_t n, k3_measurement_t *out);
k3_status_t k3_instrument_judge(const k3_sampler_t *s, uint64_t n, k3_measurement_t *out,
                                k3_error_t *err);

#endif
