#include "harness/base/stats.h"

#include <float.h>
#include <math.h>
#include <string.h>

static void sift_down(double *heap, size_t root, size_t n)
{
    for (;;) {
        size_t child = 2 * root + 1;

        if (child >= n) {
            return;
        }
        if (child + 1 < n && heap[child] < heap[child + 1]) {
            child++;
        }
        if (heap[root] >= heap[child]) {
            return;
        }

        double moved = heap[root];

        heap[root] = heap[child];
        heap[child] = moved;
        root = child;
    }
}

/* Heap sort, because qsort of the C library takes memory for larger arrays. */
static void sort(double *values, size_t n)
{
    for (size_t i = n / 2; i > 0; i--) {
        sift_down(values, i - 1, n);
    }
    for (size_t end = n; end > 1; end--) {
        double largest = values[0];

        values[0] = values[end - 1];
        values[end - 1] = largest;
        sift_down(values, 0, end - 1);
    }
}

/* ceil(q n), at least 1 and at most n. Neither q nor the product is exact: 0.07 * 100 comes out a
 * little above 7 and must still be rank 7, hence the step down by the largest such error. */
static uint64_t nearest_rank(uint64_t n, double q)
{
    double rank = ceil(q * (double)n * (1.0 - 2.0 * DBL_EPSILON));

    if (!(rank >= 1.0)) {
        return 1;
    }
    return rank >= (double)n ? n : (uint64_t)rank;
}

double k3_percentile(const double *sorted, size_t n, double q)
{
    return sorted[nearest_rank(n, q) - 1];
}

/* P(B = k) for B binomial(n, 1/2). */
static double binomial_half(double n, double k)
{
    return exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2.0));
}

/* The interval from the k-th smallest to the k-th largest sample misses the median when fewer than
 * k samples fall on one side of it: coverage is 1 - 2 P(B <= k - 1), B binomial(n, 1/2). The
 * largest k that keeps the level is taken. The sum starts 10 sqrt(n) below the middle; by
 * Hoeffding's bound all terms before it add up to less than exp(-200). */
bool k3_median_interval(size_t n, double level, size_t *low, size_t *high)
{
    if (n == 0) {
        return false;
    }

    double samples = (double)n;
    double skipped = floor(samples / 2 - 10 * sqrt(samples));
    size_t first = skipped > 0 ? (size_t)skipped : 0;
    double start = (double)first;
    double term = first == 0 ? ldexp(1, -(int)n) : binomial_half(samples, start);
    double below = 0;
    size_t k = first;

    while (k < (n + 1) / 2 && 1 - 2 * (below + term) >= level) {
        below += term;
        term = term * (samples - (double)k) / ((double)k + 1);
        k++;
    }
    if (k == first) {
        return false;
    }
    *low = k - 1;
    *high = n - k;
    return true;
}

static void set_moments(const double *samples, size_t n, k3_summary_t *summary)
{
    double sum = 0, squares = 0;

    for (size_t i = 0; i < n; i++) {
        sum += samples[i];
    }
    /* Rounding of the sum must not push the mean of equal samples out of their range. */
    summary->mean = fmin(fmax(sum / (double)n, summary->min), summary->max);
    for (size_t i = 0; i < n; i++) {
        double off = samples[i] - summary->mean;

        squares += off * off;
    }
    summary->deviation = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
}

void k3_summarize(const double *samples, size_t n, double *scratch, k3_summary_t *summary)
{
    memset(summary, 0, sizeof(*summary));
    if (n == 0) {
        return;
    }
    memcpy(scratch, samples, n * sizeof(*samples));
    sort(scratch, n);

    double lower = scratch[(n - 1) / 2], upper = scratch[n / 2];
    size_t low = 0, high = 0;

    summary->valid = true;
    summary->n = n;
    summary->median = lower + (upper - lower) / 2;
    summary->has_ci = k3_median_interval(n, 0.95, &low, &high);
    summary->ci_low = summary->has_ci ? scratch[low] : 0;
    summary->ci_high = summary->has_ci ? scratch[high] : 0;
    summary->p95 = k3_percentile(scratch, n, 0.95);
    summary->p99 = k3_percentile(scratch, n, 0.99);
    summary->p99_is_max = n < 100;
    summary->min = scratch[0];
    summary->max = scratch[n - 1];
    set_moments(scratch, n, summary);
}

/* A bucket of width w and lower edge l >= 8 w holds l to l + w - 1; its middle is at most (w - 1) /
 * 2 from any of them, so the relative error is below 1/16. */
static double bucket_middle(unsigned bucket)
{
    const unsigned per_power = 1u << K3_HIST_SUB_BITS;

    if (bucket < per_power) {
        return bucket;
    }

    unsigned shift = (bucket >> K3_HIST_SUB_BITS) - 1;
    uint64_t low = (uint64_t)(per_power + bucket % per_power) << shift;
    uint64_t width = UINT64_C(1) << shift;

    return (double)low + (double)(width - 1) / 2;
}

double k3_hist_percentile(const k3_hist_t *hist, double q)
{
    if (hist->total == 0) {
        return 0;
    }

    uint64_t rank = nearest_rank(hist->total, q);
    uint64_t seen = 0;

    for (unsigned i = 0; i < K3_HIST_BUCKETS; i++) {
        seen += hist->count[i];
        if (seen >= rank) {
            return fmin(bucket_middle(i), (double)hist->max);
        }
    }
    return (double)hist->max; /* only after a bucket has saturated */
}
