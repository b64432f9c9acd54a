#include "harness/record/verdict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/base/memory.h"
#include "harness/base/stats.h"

const char *const k3_verdict_names[] = {
    "better", "worse", "same", "inconclusive", "incomparable", "missing", "added", "broken", NULL};

double k3_median_of(const double *values, size_t n, double *scratch)
{
    k3_summary_t summary;

    k3_summarize(values, n, scratch, &summary);
    return summary.median;
}

/* 1.4826 times the median absolute deviation: the standard deviation of normal values. */
static double deviation_of(double *off, size_t n, double *scratch)
{
    return 1.4826 * k3_median_of(off, n, scratch);
}

/* Spread of the launches of both sides about their own medians; of pairs, of their differences. As a standard
 * deviation. */
static double spread(const k3_judged_t *item, double *scratch)
{
    size_t  n = item->na + item->nb;
    double *off = scratch + n;

    if (item->paired) {
        for (size_t i = 0; i < item->na; i++) {
            off[i] = fabs(item->b[i] - item->a[i] - item->shift.shift);
        }
        return deviation_of(off, item->na, scratch);
    }
    for (size_t i = 0; i < item->na; i++) {
        off[i] = fabs(item->a[i] - item->median_a);
    }
    for (size_t i = 0; i < item->nb; i++) {
        off[item->na + i] = fabs(item->b[i] - item->median_b);
    }
    return deviation_of(off, n, scratch);
}

/* Launches a side after which a normal shift as large as the one seen is found 95 times in 100 (power z =
 * 1.645), or the interval fits into the floor. Both sides add their variance; of pairs the differences' is
 * known. The efficiency of the rank tests for normal values is 3 / pi. */
static double launches_for(const k3_judged_t *item, double sigma, double z_family)
{
    double shift = fabs(item->shift.shift), distance, z, sides = item->paired ? 1.0 : 2.0;

    if (shift >= item->margin) {
        distance = shift;
        z = z_family + 1.6449;
    } else {
        distance = item->margin - shift;
        z = 1.96;
    }
    return distance > 0.0 ? ceil(sides * pow(z * sigma / distance, 2.0) * 3.141592653589793 / 3.0)
                          : INFINITY;
}

static size_t least_for(bool paired, size_t family, double level)
{
    size_t n = 1;

    while ((paired ? k3_smallest_paired_p(n) : k3_smallest_p(n)) * (double)family > 1.0 - level) {
        n++;
    }
    return n;
}

size_t k3_launches_least(size_t family, double level)
{
    return least_for(false, family, level);
}

static size_t needed(const k3_judged_t *item, size_t family, double level, double *scratch)
{
    size_t least = least_for(item->paired, family, level);
    double n, z = k3_normal_bound((1.0 - level) / 2.0 / (double)family); /* Holm's first step */

    n = launches_for(item, spread(item, scratch), z);
    if (!(n <= K3_LAUNCHES_MAX)) {
        return 0;
    }
    /* What was there did not decide: more than that are needed. */
    least = least > item->na + 1 ? least : item->na + 1;
    return (size_t)n > least ? (size_t)n : least;
}

static k3_status_t measure(k3_judged_t *item, const k3_verdict_rule_t *rule, double *scratch,
                           k3_error_t *err)
{
    double floor_share;

    item->median_a = k3_median_of(item->a, item->na, scratch);
    item->median_b = k3_median_of(item->b, item->nb, scratch);
    floor_share = rule->floor * fabs(item->median_a);
    item->margin = floor_share > rule->floor_abs ? floor_share : rule->floor_abs;
    if (item->paired) {
        if (k3_signed_rank(item->a, item->b, item->na, &item->test, err) == K3_OK) {
            k3_paired_shift(item->a, item->b, item->na, rule->level, &item->shift, err);
        }
    } else if (k3_mann_whitney(item->a, item->na, item->b, item->nb, &item->test, err) == K3_OK) {
        k3_hodges_lehmann(item->a, item->na, item->b, item->nb, rule->level, &item->shift, err);
    }
    return err->status;
}

static void decide(k3_judged_t *item, size_t family, const k3_verdict_rule_t *rule, double *scratch)
{
    const k3_shift_t *s = &item->shift;

    if (item->p_family <= 1.0 - rule->level && fabs(s->shift) >= item->margin && s->shift != 0.0) {
        item->verdict = s->shift > 0.0 ? K3_VERDICT_WORSE : K3_VERDICT_BETTER;
    } else if (s->has_range && s->low >= -item->margin && s->high <= item->margin) {
        item->verdict = K3_VERDICT_SAME;
    } else {
        item->verdict = K3_VERDICT_INCONCLUSIVE;
        item->launches_needed = needed(item, family, rule->level, scratch);
    }
}

static size_t most_values(const k3_judged_t *items, size_t count)
{
    size_t most = 1;

    for (size_t i = 0; i < count; i++) {
        size_t n = items[i].na + items[i].nb;

        most = n > most ? n : most;
    }
    return most;
}

k3_status_t k3_judge(k3_judged_t *items, size_t count, const k3_verdict_rule_t *rule,
                     k3_error_t *err)
{
    double *scratch = NULL, *p = NULL;

    if (k3_alloc("launches", 2 * most_values(items, count), sizeof(double), &scratch, err) ==
        K3_OK) {
        k3_alloc("p-values", count + 1, sizeof(double), &p, err);
    }
    for (size_t i = 0; i < count && err->status == K3_OK; i++) {
        measure(&items[i], rule, scratch, err);
        p[i] = items[i].test.p;
    }
    if (err->status == K3_OK && k3_holm(p, count, err) == K3_OK) {
        for (size_t i = 0; i < count; i++) {
            items[i].p_family = p[i];
            decide(&items[i], count, rule, scratch);
        }
    }
    k3_free(p);
    k3_free(scratch);
    return err->status;
}
