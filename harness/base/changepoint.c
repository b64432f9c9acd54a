#include "harness/base/changepoint.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "harness/base/keyed.h"
#include "harness/base/memory.h"

/* With m values in the first part and k in the second, B the sum of distances between the parts, W and V
 * those of all pairs inside the first and the second:
 *
 *   q = m k / (m + k) (2 B / (m k) - 2 W / (m (m - 1)) - 2 V / (k (k - 1)))
 */
static double statistic(double between, double first, double second, double m, double k)
{
    return 2.0 / (m + k) * (between - k / (m - 1.0) * first - m / (k - 1.0) * second);
}

/* The sums grow value by value: `inside[t]` holds the pairs of [t, end), `head[t]` those of [0, t). */
double k3_change_best(const double *values, size_t n, size_t least, double *scratch, size_t *at)
{
    double *inside = scratch, *head = scratch + n, best = 0.0;

    *at = 0;
    memset(inside, 0, n * sizeof(*inside));
    for (size_t end = 1; end <= n; end++) {
        double added = 0.0;

        for (size_t t = end - 1; t-- > 0;) {
            added += fabs(values[end - 1] - values[t]);
            inside[t] += added;
        }
        head[end] = inside[0];
        for (size_t t = least; t + least <= end; t++) {
            double q = statistic(inside[0] - head[t] - inside[t], head[t], inside[t], (double)t,
                                 (double)(end - t));

            if (q > best) {
                best = q;
                *at = t;
            }
        }
    }
    return best;
}

typedef struct search {
    const k3_change_rule_t *rule;
    const double           *values;
    double                 *shuffled, *scratch;
    k3_change_t            *changes;
    size_t                  count;
} search_t;

static void shuffle(double *values, size_t n, uint64_t key)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)k3_below(k3_key(key, i), i);
        double moved = values[i - 1];

        values[i - 1] = values[j];
        values[j] = moved;
    }
}

/* Share of permutations with a statistic as large. Ends when the level is out of reach: most parts have
 * no change, and are done after a few permutations. */
static bool is_significant(search_t *s, size_t low, size_t high, double q, double *p)
{
    size_t   as_large = 1, n = high - low, unused;
    double   all = (double)s->rule->permutations + 1.0;
    uint64_t key = k3_key(k3_key(s->rule->seed, low), high);

    memcpy(s->shuffled, s->values + low, n * sizeof(double));
    for (size_t r = 0; r < s->rule->permutations; r++) {
        shuffle(s->shuffled, n, k3_key(key, r));
        /* Sums in another order differ in their last digits. */
        if (k3_change_best(s->shuffled, n, s->rule->least, s->scratch, &unused) >=
            q * (1.0 - 1e-9)) {
            as_large++;
        }
        if ((double)as_large > s->rule->level * all) {
            return false;
        }
    }
    *p = (double)as_large / all;
    return *p <= s->rule->level;
}

/* Splits [low, high) and then both parts. */
static void divide(search_t *s, size_t low, size_t high)
{
    size_t at;
    double q, p;

    if (high - low < 2 * s->rule->least) {
        return;
    }
    q = k3_change_best(s->values + low, high - low, s->rule->least, s->scratch, &at);
    if (q <= 0.0 || !is_significant(s, low, high, q, &p)) {
        return;
    }
    divide(s, low, low + at);
    s->changes[s->count++] = (k3_change_t){low + at, q, p};
    divide(s, low + at, high);
}

k3_status_t k3_change_points(const double *values, size_t n, const k3_change_rule_t *rule,
                             k3_change_t *changes, size_t *count, k3_error_t *err)
{
    search_t s = {.rule = rule, .values = values, .changes = changes};

    *count = 0;
    if (k3_alloc("series", n, sizeof(double), &s.shuffled, err) == K3_OK &&
        k3_alloc("series", 2 * (uint64_t)n + 1, sizeof(double), &s.scratch, err) == K3_OK) {
        divide(&s, 0, n);
        *count = s.count;
    }
    k3_free(s.scratch);
    k3_free(s.shuffled);
    return err->status;
}
