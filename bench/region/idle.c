#include "bench/region/idle.h"

#include "harness/base/stats.h"

static const double long_gap = 5.0; /* medians */

/* Median of the samples behind long, or behind other gaps; false: there are none. */
static bool median_behind(const double *samples, const double *gaps, uint64_t n, double bound,
                          bool is_long, double *scratch, double *median)
{
    k3_summary_t sum;
    uint64_t     kept = 0;

    for (uint64_t i = 0; i < n; i++) {
        if ((gaps[i] > bound) == is_long) {
            scratch[kept++] = samples[i];
        }
    }
    k3_summarize(scratch, kept, scratch + n, &sum);
    *median = sum.median;
    return sum.valid;
}

void k3_idle_judge(const double *samples, const double *gaps, uint64_t n, double *scratch,
                   k3_idle_t *idle)
{
    k3_summary_t sum;
    double       bound, after, others;

    *idle = (k3_idle_t){0};
    k3_summarize(gaps, n, scratch, &sum);
    if (!sum.valid) {
        return;
    }
    idle->valid = true;
    idle->median_us = sum.median;
    idle->max_us = sum.max;
    bound = long_gap * sum.median;
    for (uint64_t i = 0; i < n; i++) {
        idle->long_gaps += gaps[i] > bound;
    }
    if (median_behind(samples, gaps, n, bound, true, scratch, &after) &&
        median_behind(samples, gaps, n, bound, false, scratch, &others) && others > 0.0) {
        idle->has_difference = true;
        idle->pct = 100.0 * (after / others - 1.0);
    }
}
