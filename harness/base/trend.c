#include "harness/base/trend.h"

#include <math.h>
#include <string.h>

#include "harness/base/stats.h"

enum { PAIRS = K3_TREND_BLOCKS * (K3_TREND_BLOCKS - 1) / 2 };

static const double level = 0.01, least_move = 0.02;

static double median_of(const double *values, size_t n, double *scratch)
{
    k3_summary_t sum;

    k3_summarize(values, n, scratch, &sum);
    return sum.median;
}

/* The first (n mod blocks) blocks are longer by one. */
static size_t block_medians(const double *samples, size_t n, double *scratch, double *block)
{
    size_t blocks = n < K3_TREND_BLOCKS ? n : K3_TREND_BLOCKS;
    size_t at = 0;

    for (size_t i = 0; i < blocks; i++) {
        size_t length = n / blocks + (i < n % blocks);

        block[i] = median_of(samples + at, length, scratch);
        at += length;
    }
    return blocks;
}

/* Sum of t (t - 1) (2 t + 5) over groups of t equal values. */
static double tie_term(const double *values, size_t n)
{
    double sum = 0.0;

    for (size_t i = 0; i < n; i++) {
        double t = 1.0;
        bool   first = true;

        for (size_t j = 0; j < n && first; j++) {
            first = j >= i || values[j] != values[i];
            t += j > i && values[j] == values[i];
        }
        sum += first ? t * (t - 1.0) * (2.0 * t + 5.0) : 0.0;
    }
    return sum;
}

static double mann_kendall(const double *values, size_t n)
{
    double s = 0.0, m = (double)n;
    double variance = (m * (m - 1.0) * (2.0 * m + 5.0) - tie_term(values, n)) / 18.0;

    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + 1; j < n; j++) {
            s += (values[j] > values[i]) - (values[j] < values[i]);
        }
    }
    if (fabs(s) < 1.0 || variance <= 0.0) {
        return 1.0;
    }
    return erfc((fabs(s) - 1.0) / sqrt(2.0 * variance));
}

static double theil_sen(const double *values, size_t n)
{
    double slope[PAIRS], scratch[PAIRS];
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + 1; j < n; j++) {
            slope[count++] = (values[j] - values[i]) / (double)(j - i);
        }
    }
    return median_of(slope, count, scratch);
}

void k3_trend(const double *samples, size_t n, double *scratch, k3_trend_t *trend)
{
    double block[K3_TREND_BLOCKS], first, second, median;
    size_t blocks;

    *trend = (k3_trend_t){0};
    if (n < K3_TREND_LEAST) {
        return;
    }
    median = median_of(samples, n, scratch);
    first = median_of(samples, n / 2, scratch);
    second = median_of(samples + (n - n / 2), n / 2, scratch);
    if (median <= 0.0 || first <= 0.0) {
        return;
    }
    blocks = block_medians(samples, n, scratch, block);
    trend->valid = true;
    trend->halves = second / first - 1.0;
    trend->slope = theil_sen(block, blocks) * (double)(blocks - 1) / median;
    trend->p = mann_kendall(block, blocks);
}

bool k3_trend_moves(const k3_trend_t *trend)
{
    return trend->valid && trend->p <= level && fabs(trend->slope) > least_move;
}
