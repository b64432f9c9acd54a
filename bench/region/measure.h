/* Sampling: warm-up, timed iterations, checks, and what comes out for the whole launch.
 *
 * Every iteration is entered by all ranks together and gets its own payload. A phase's sample is the
 * maximum over the ranks of the time that the rank spent in it. Checks and the writing of inputs
 * lie outside the timed spans. */
#ifndef K3_REGION_MEASURE_H
#define K3_REGION_MEASURE_H

#include "bench/plan/traffic.h"
#include "bench/region/idle.h"
#include "bench/region/oracle.h"
#include "bench/region/progress.h"
#include "bench/region/region.h"
#include "bench/region/span.h"
#include "bench/region/timeline.h"
#include "harness/base/stats.h"
#include "harness/base/trend.h"

typedef enum k3_check_mode { K3_CHECK_OFF, K3_CHECK_ENDS, K3_CHECK_EVERY } k3_check_mode_t;
extern const char *const k3_check_mode_names[]; /* "off", "ends", "every", NULL */

typedef struct k3_measure_options {
    k3_check_mode_t check;
    uint64_t        iters;       /* 0: until the target or the time limit */
    double          ci_target;   /* half width of the median's interval over the median, percent */
    double          max_seconds; /* of timed iterations, checks not counted; used when iters is 0 */
    k3_progress_t   progress;
    bool            accounting;   /* of the queue pairs, as the region was made */
    k3_sync_t      *sync;         /* the global clock; NULL: no spans */
    const char     *start_reason; /* why iterations begin as they do; for the record */
    const char     *dump;         /* folder that one more iteration is written to; NULL: none */
} k3_measure_options_t;

typedef struct k3_phase_result {
    bool             present;
    double          *samples; /* [iterations] at rank 0: us, maximum over ranks; owned */
    k3_summary_t     summary;
    int              slowest_rank;  /* the slowest one most often */
    uint64_t         max_iteration; /* of the longest sample, from 1 */
    int              max_rank;
    k3_span_result_t span;
} k3_phase_result_t;

/* Samples of the headline before the timed iterations; the first one is the cold start. */
typedef struct k3_warmup {
    uint64_t n;
    double  *samples; /* [n] us, owned */
    bool     steady;  /* else it ended at a limit */
} k3_warmup_t;

/* Headline with the accounts of the queue pairs, or the events of a device, against without. */
typedef struct k3_instrument {
    uint64_t on, off; /* iterations */
    bool     valid, has_range;
    double   pct, low_pct, high_pct; /* Hodges-Lehmann shift over the median without */
} k3_instrument_t;

/* How fast the processors were while the cell was measured. Nothing where ranks share cores: a beat would measure
 * who has the core. */
typedef struct k3_host_speed {
    bool         valid;
    k3_summary_t beat;   /* us; of an iteration the mean over the ranks */
    k3_summary_t scaled; /* headline, us, each sample times K3_BEAT_NOMINAL_US over its beat */
} k3_host_speed_t;

/* How the iterations began. */
typedef struct k3_starts {
    bool              common; /* at a common start; else behind a barrier */
    char              why[96];
    uint32_t         *late_at; /* [late] iterations in which a rank was late; owned */
    uint64_t          late;
    double            late_max_us, slack_us;
    bool              compared; /* the clocks were */
    k3_sync_quality_t clock;
} k3_starts_t;

typedef struct k3_lane_row {
    int32_t  phase, src, dst, qp, kind;
    bool     pulled;                                      /* the destination read it */
    uint64_t messages, signals, doorbells, payload, wire; /* per iteration */
    double   first_post_us, last_done_us, busy_us;        /* mean over iterations */
    double   p50_us, p99_us, max_us;                      /* post to completion, all iterations */
} k3_lane_row_t;

typedef struct k3_wait_row {
    int32_t   phase, dst, src;
    k3_wait_t wait; /* over all timed iterations */
} k3_wait_row_t;

/* Of one rank in one iteration, microseconds. */
typedef struct k3_overlap_us {
    double dispatch, expert, combine, span;
} k3_overlap_us_t;

/* Medians over the iterations, each by its rank with the longest span; hidden: of what the parts' own
 * times are longer than the span. */
typedef struct k3_overlap_result {
    bool            present;
    bool            nothing; /* exactly 0 hidden in every iteration: no measurement gives that */
    k3_overlap_us_t own;
    double          hidden;
} k3_overlap_result_t;

typedef struct k3_mask_row {
    int32_t   by, rank;
    k3_mask_t mask;
} k3_mask_row_t;

/* Complete at rank 0; the other ranks hold status, iterations and check. */
typedef struct k3_measurement {
    uint64_t          iterations;
    k3_phase_t        headline;
    k3_warmup_t       warmup;
    k3_instrument_t   instrument; /* accounts */
    k3_instrument_t   events;     /* both times without accounts, where there are some */
    k3_starts_t       starts;
    k3_trend_t        trend; /* of the headline */
    k3_idle_t         idle;
    k3_host_speed_t   host;
    k3_phase_result_t phase[K3_PHASE_COUNT];
    k3_check_t        check; /* of all ranks */
    bool              checked;
    bool              share_cores;  /* more ranks than cores on some node */
    bool              has_lanes;    /* the engine has queue pairs */
    bool              accounted;    /* ... and their accounts were on */
    bool              matches_plan; /* measured == planned on every lane of every rank */
    k3_error_t        mismatch;     /* the first lane that differs */
    k3_lane_row_t    *lanes;        /* owned */
    uint64_t          lane_count;
    char             *transport; /* "self, mapped, tcp/eth0", of all ranks; owned */
    char              order[16]; /* fence or flush */
    uint64_t          order_rounds, order_overtaken;
    k3_wait_row_t    *waits; /* owned */
    uint64_t          wait_count;
    double            limit_s; /* of a call, in force; 0: none */
    int               struck;  /* ranks on which the fault that was asked for came about */
    k3_mask_row_t    *masks;   /* owned */
    uint64_t          mask_count;
    k3_error_t        trapped;         /* a limit has stopped the cell: the rest was not measured */
    uint64_t          allocated_bytes; /* of the rank that holds most */
    uint64_t          device_bytes;    /* likewise, of a device */
    uint64_t          timed_allocations; /* inside timed iterations; must be 0 */
    double            weights_us, queue_pairs_us, registration_us, connection_us,
        selftest_us; /* slowest rank */

    k3_timeline_result_t timeline;
    k3_overlap_result_t  overlap; /* of engines that overlap dispatch, experts and combine */
} k3_measurement_t;

/* Collective. A wrong result is not an error: it is in *out. A failure of one rank in the middle of
 * an iteration ends the job. */
k3_status_t k3_measure(k3_region_t *region, const k3_measure_options_t *options,
                       k3_measurement_t *out, k3_error_t *err);
/* Whether samples and span of the phase are kept: of the totals, and of a part that the component is judged by. */
bool k3_measurement_judges(const k3_measurement_t *m, int phase);
void k3_measurement_free(k3_measurement_t *measurement);

#endif
