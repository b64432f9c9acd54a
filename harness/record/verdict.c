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

/* What is judged: the values, or their logarithms. */
typedef struct view {
    double *a, *b;
    double *scratch; /* twice as many as there are values */
} view_t;

static bool are_positive(const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!(values[i] > 0.0)) {
            return false;
        }
    }
    return true;
}

static view_t view_of(const k3_judged_t *item, double *room)
{
    view_t v = {.a = room, .b = room + item->na, .scratch = room + item->na + item->nb};

    for (size_t i = 0; i < item->na; i++) {
        v.a[i] = item->ratios ? log(item->a[i]) : item->a[i];
    }
    for (size_t i = 0; i < item->nb; i++) {
        v.b[i] = item->ratios ? log(item->b[i]) : item->b[i];
    }
    return v;
}

/* Of logarithms back to a share of the base. */
static double share_of(const k3_judged_t *item, double x)
{
    return item->ratios ? expm1(x) : x;
}

static double size_of(const k3_judged_t *item, double share)
{
    return fabs(item->ratios ? log1p(share) : share);
}

/* Spread of the launches of both sides about their own medians; of pairs, of their differences. As a standard
 * deviation. */
static double spread(const k3_judged_t *item, const view_t *v)
{
    size_t  n = item->na + item->nb;
    double *off = v->scratch + n, middle;

    if (item->paired) {
        middle = item->ratios ? log1p(item->shift.shift) : item->shift.shift;
        for (size_t i = 0; i < item->na; i++) {
            off[i] = fabs(v->b[i] - v->a[i] - middle);
        }
        return deviation_of(off, item->na, v->scratch);
    }
    middle = k3_median_of(v->a, item->na, v->scratch);
    for (size_t i = 0; i < item->na; i++) {
        off[i] = fabs(v->a[i] - middle);
    }
    middle = k3_median_of(v->b, item->nb, v->scratch);
    for (size_t i = 0; i < item->nb; i++) {
        off[item->na + i] = fabs(v->b[i] - middle);
    }
    return deviation_of(off, n, v->scratch);
}

/* Launches a side after which a normal shift as large as the one seen is found 95 times in 100 (power z =
 * 1.645), or the interval fits into the floor. Both sides add their variance; of pairs the differences' is
 * known. The efficiency of the rank tests for normal values is 3 / pi. */
static double launches_for(const k3_judged_t *item, double sigma, double z_family)
{
    double shift = size_of(item, item->shift.shift), distance, z, sides = item->paired ? 1.0 : 2.0;

    if (fabs(item->shift.shift) >= item->margin) {
        distance = shift;
        z = z_family + 1.6449;
    } else { /* a fall by everything has no logarithm */
        distance = size_of(item, item->shift.shift > 0.0 || item->margin >= 1.0 ? item->margin
                                                                                : -item->margin) -
                   shift;
        z = 1.96;
    }
    return distance > 0.0 ? ceil(sides * pow(z * sigma / distance, 2.0) * 3.141592653589793 / 3.0)
                          : INFINITY;
}

size_t k3_launches_least(bool paired, size_t family, double level)
{
    size_t n = 1;

    while ((paired ? k3_smallest_paired_p(n) : k3_smallest_p(n, n)) * (double)family >
           1.0 - level) {
        n++;
    }
    return n;
}

static size_t needed(const k3_judged_t *item, double level, double *room)
{
    size_t least = k3_launches_least(item->paired, item->family, level);
    double n,
        z = k3_normal_bound((1.0 - level) / 2.0 / (double)item->family); /* Holm's first step */
    view_t v = view_of(item, room);

    n = launches_for(item, spread(item, &v), z);
    if (!(n <= K3_LAUNCHES_MAX)) {
        return 0;
    }
    /* What was there did not decide: more than that are needed. */
    least = least > item->na + 1 ? least : item->na + 1;
    return (size_t)n > least ? (size_t)n : least;
}

static void set_margin(k3_judged_t *item, const k3_verdict_rule_t *rule)
{
    double share = rule->floor * fabs(item->median_a);

    item->ratios = rule->floor_abs == 0.0 && are_positive(item->a, item->na) &&
                   are_positive(item->b, item->nb);
    item->margin = item->ratios ? rule->floor : share > rule->floor_abs ? share : rule->floor_abs;
}

static k3_status_t measure(k3_judged_t *item, const k3_verdict_rule_t *rule, double *room,
                           k3_error_t *err)
{
    k3_shift_t *s = &item->shift;
    view_t      v;

    item->median_a = k3_median_of(item->a, item->na, room);
    item->median_b = k3_median_of(item->b, item->nb, room);
    set_margin(item, rule);
    v = view_of(item, room);
    if (item->paired) {
        if (k3_signed_rank(v.a, v.b, item->na, &item->test, err) == K3_OK) {
            k3_paired_shift(v.a, v.b, item->na, rule->level, s, err);
        }
    } else if (k3_mann_whitney(v.a, item->na, v.b, item->nb, &item->test, err) == K3_OK) {
        k3_hodges_lehmann(v.a, item->na, v.b, item->nb, rule->level, s, err);
    }
    *s = (k3_shift_t){share_of(item, s->shift), s->has_range, share_of(item, s->low),
                      share_of(item, s->high)};
    return err->status;
}

static void decide(k3_judged_t *item, const k3_verdict_rule_t *rule, double *room)
{
    const k3_shift_t *s = &item->shift;
    bool              large = fabs(s->shift) >= item->margin && s->shift != 0.0;

    if (item->p_family <= 1.0 - rule->level && large) {
        item->verdict = s->shift > 0.0 ? K3_VERDICT_WORSE : K3_VERDICT_BETTER;
    } else if (s->has_range && s->low >= -item->margin && s->high <= item->margin) {
        item->verdict = K3_VERDICT_SAME;
    } else {
        item->verdict = K3_VERDICT_INCONCLUSIVE;
        item->by_family = large && item->test.p <= 1.0 - rule->level;
        item->launches_needed = needed(item, rule->level, room);
    }
}

/* Holm over the items of one family; p has room for all. */
static k3_status_t correct(k3_judged_t *items, size_t count, bool apart, double *p, k3_error_t *err)
{
    size_t n = 0, at = 0;

    for (size_t i = 0; i < count; i++) {
        if (items[i].apart == apart) {
            p[n++] = items[i].test.p;
        }
    }
    k3_holm(p, n, err);
    for (size_t i = 0; i < count; i++) {
        if (items[i].apart == apart) {
            items[i].p_family = p[at++];
            items[i].family = n;
        }
    }
    return err->status;
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
    double *room = NULL, *p = NULL;

    if (k3_alloc("launches", 3 * most_values(items, count), sizeof(double), &room, err) == K3_OK) {
        k3_alloc("p-values", count + 1, sizeof(double), &p, err);
    }
    for (size_t i = 0; i < count && err->status == K3_OK; i++) {
        measure(&items[i], rule, room, err);
    }
    if (err->status == K3_OK && correct(items, count, false, p, err) == K3_OK &&
        correct(items, count, true, p, err) == K3_OK) {
        for (size_t i = 0; i < count; i++) {
            decide(&items[i], rule, room);
        }
    }
    k3_free(p);
    k3_free(room);
    return err->status;
}
