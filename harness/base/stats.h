/* Summaries of samples. Times are microseconds here, but nothing depends on the unit. */
#ifndef K3_BASE_STATS_H
#define K3_BASE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* n == 0: every field is 0 and `valid` is false; the reader must print null. */
typedef struct k3_summary {
    bool   valid;
    size_t n;
    double median;          /* mean of the two middle values for even n */
    bool   has_ci;          /* false below 6 samples: no order-statistic interval reaches 95 % */
    double ci_low, ci_high; /* order-statistic interval of the median, coverage at least 95 % */
    double p95, p99;        /* nearest rank: the value at rank ceil(q n) */
    bool   p99_is_max;      /* n < 100: p99 is only the maximum, the reader must mark it */
    double min, max;
    double mean, deviation; /* sample standard deviation (n - 1); 0 for n == 1 */
} k3_summary_t;

/* `scratch` holds n values and is used for sorting; no allocation. Samples must be finite. */
void k3_summarize(const double *samples, size_t n, double *scratch, k3_summary_t *summary);

/* Value at nearest rank ceil(q n) of sorted[n], n > 0, 0 <= q <= 1. */
double k3_percentile(const double *sorted, size_t n, double q);

/* Ranks (0-based, inclusive) of the order-statistic interval of the median with coverage at least
 * `level` under the binomial(n, 1/2); false if no such interval exists. */
bool k3_median_interval(size_t n, double level, size_t *low, size_t *high);

/* --- log-linear histogram -------------------------------------------------------------------- */

/* Values are whole nanoseconds. Below 2^K3_HIST_SUB_BITS a bucket is one value wide; above, each
 * power of two is cut into 2^K3_HIST_SUB_BITS buckets, so a value read back (the bucket's middle)
 * is wrong by at most 1 / 2^(K3_HIST_SUB_BITS + 1) = 6.25 %. Values of 2^36 ns (68 s) and more
 * fall into the last bucket. */
enum {
    K3_HIST_SUB_BITS = 3,
    K3_HIST_MAX_BITS = 36,
    K3_HIST_BUCKETS = (K3_HIST_MAX_BITS - K3_HIST_SUB_BITS + 1) << K3_HIST_SUB_BITS
};

typedef struct k3_hist {
    uint32_t count[K3_HIST_BUCKETS]; /* saturates */
    uint64_t total;
    uint64_t max; /* exact */
} k3_hist_t;

static inline unsigned k3_hist_bucket(uint64_t ns)
{
    if (ns < (1u << K3_HIST_SUB_BITS)) {
        return (unsigned)ns;
    }

    unsigned top = 63u - (unsigned)__builtin_clzll(ns);

    if (top >= K3_HIST_MAX_BITS) {
        return K3_HIST_BUCKETS - 1;
    }

    unsigned shift = top - K3_HIST_SUB_BITS;

    return ((shift + 1) << K3_HIST_SUB_BITS) +
           (unsigned)((ns >> shift) & ((1u << K3_HIST_SUB_BITS) - 1));
}

static inline void k3_hist_add(k3_hist_t *hist, uint64_t ns)
{
    uint32_t *slot = &hist->count[k3_hist_bucket(ns)];

    *slot += *slot != UINT32_MAX;
    hist->total++;
    hist->max = ns > hist->max ? ns : hist->max;
}

/* Nearest-rank percentile in nanoseconds: the middle of the bucket that holds it, never above the
 * exact maximum. 0 when empty. */
double k3_hist_percentile(const k3_hist_t *hist, double q);

#endif
