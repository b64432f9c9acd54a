#include "harness/base/ranktest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/base/memory.h"
#include "harness/base/order.h"

/* --- ranks ----------------------------------------------------------------------------------- */

typedef struct ranks {
    size_t  n;
    double *sorted;
    size_t *twice; /* [n] midrank times two of each sorted value: a whole number */
    double  ties;  /* sum of t^3 - t over groups of equal values */
} ranks_t;

static void free_ranks(ranks_t *r)
{
    k3_free(r->twice);
    k3_free(r->sorted);
}

static k3_status_t make_ranks(const double *a, size_t na, const double *b, size_t nb, ranks_t *r,
                              k3_error_t *err)
{
    *r = (ranks_t){.n = na + nb};
    if (k3_alloc("ranks", r->n, sizeof(double), &r->sorted, err) != K3_OK ||
        k3_alloc("ranks", r->n, sizeof(size_t), &r->twice, err) != K3_OK) {
        return err->status;
    }
    memcpy(r->sorted, a, na * sizeof(double));
    memcpy(r->sorted + na, b, nb * sizeof(double));
    qsort(r->sorted, r->n, sizeof(double), k3_by_value);
    for (size_t i = 0, end; i < r->n; i = end) {
        for (end = i + 1; end < r->n && r->sorted[end] == r->sorted[i];) {
            end++;
        }
        for (size_t j = i; j < end; j++) {
            r->twice[j] = i + 1 + end;
        }
        r->ties += (double)(end - i) * ((double)(end - i) * (double)(end - i) - 1.0);
    }
    return K3_OK;
}

/* Twice the sum of the ranks of b. */
static size_t twice_rank_sum(const ranks_t *r, const double *b, size_t nb)
{
    size_t sum = 0;

    for (size_t i = 0; i < nb; i++) {
        const double *at = bsearch(&b[i], r->sorted, r->n, sizeof(double), k3_by_value);

        sum += at != NULL ? r->twice[at - r->sorted] : 0;
    }
    return sum;
}

/* --- the exact distribution ------------------------------------------------------------------ */

/* In how many ways k of the n ranks have the doubled sum s: a table [k][s] filled rank by rank, the
 * recursion for subset sums. Counts stay below C(60, 30) < 2^57; as doubles they are exact below
 * 2^53 and right to 1e-16 above. */
typedef struct ways {
    double *table;
    size_t  sums; /* columns */
} ways_t;

static k3_status_t count_ways(const size_t *twice, size_t n, size_t k, ways_t *w, k3_error_t *err)
{
    w->sums = 1;
    for (size_t i = 0; i < n; i++) {
        w->sums += twice[i];
    }
    if (k3_alloc("null distribution", (k + 1) * w->sums, sizeof(double), &w->table, err) != K3_OK) {
        return err->status;
    }
    w->table[0] = 1.0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = k < i + 1 ? k : i + 1; j > 0; j--) {
            double       *to = w->table + j * w->sums + twice[i];
            const double *from = w->table + (j - 1) * w->sums;

            for (size_t s = 0; s + twice[i] < w->sums; s++) {
                to[s] += from[s];
            }
        }
    }
    return K3_OK;
}

static double clip(double p)
{
    return p > 1.0 ? 1.0 : p;
}

static k3_status_t exact_p(const ranks_t *r, size_t nb, size_t twice_sum, double *p,
                           k3_error_t *err)
{
    ways_t w = {0};
    double below = 0.0, above = 0.0, all = 0.0;

    if (count_ways(r->twice, r->n, nb, &w, err) == K3_OK) {
        const double *row = w.table + nb * w.sums;

        for (size_t s = 0; s < w.sums; s++) {
            all += row[s];
            below += s <= twice_sum ? row[s] : 0.0;
            above += s >= twice_sum ? row[s] : 0.0;
        }
        *p = clip(2.0 * (below < above ? below : above) / all);
    }
    k3_free(w.table);
    return err->status;
}

/* Normal approximation; the variance is smaller with ties. */
static double normal_p(const ranks_t *r, size_t na, size_t nb, double u)
{
    double n = (double)r->n, pairs = (double)na * (double)nb;
    double variance = pairs / 12.0 * (n + 1.0 - r->ties / (n * (n - 1.0)));
    double distance = fabs(u - pairs / 2.0) - 0.5;

    if (variance <= 0.0) {
        return 1.0;
    }
    return clip(erfc((distance > 0.0 ? distance : 0.0) / sqrt(2.0 * variance)));
}

k3_status_t k3_mann_whitney(const double *a, size_t na, const double *b, size_t nb,
                            k3_rank_test_t *test, k3_error_t *err)
{
    ranks_t r;
    size_t  sum;

    if (make_ranks(a, na, b, nb, &r, err) == K3_OK) {
        sum = twice_rank_sum(&r, b, nb);
        test->u = (double)sum / 2.0 - (double)nb * ((double)nb + 1.0) / 2.0;
        test->exact = r.n <= K3_RANKTEST_EXACT;
        if (test->exact) {
            exact_p(&r, nb, sum, &test->p, err);
        } else {
            test->p = normal_p(&r, na, nb, test->u);
        }
    }
    free_ranks(&r);
    return err->status;
}

/* --- shift ----------------------------------------------------------------------------------- */

double k3_normal_bound(double tail)
{
    double low = 0.0, high = 40.0;

    for (int i = 0; i < 200; i++) {
        double middle = (low + high) / 2.0;

        if (erfc(middle / sqrt(2.0)) / 2.0 > tail) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return high;
}

/* The largest k with P(U < k) <= (1 - level) / 2 without ties: the k-th smallest and the k-th
 * largest difference bound the interval. 0: there is none. */
static k3_status_t interval_rank(size_t na, size_t nb, double level, size_t *k, k3_error_t *err)
{
    size_t twice[K3_RANKTEST_EXACT], n = na + nb, least = nb * (nb + 1);
    ways_t w = {0};
    double all = 0.0, below = 0.0, tail = (1.0 - level) / 2.0;

    *k = 0;
    if (n > K3_RANKTEST_EXACT) {
        double pairs = (double)na * (double)nb;
        double half = k3_normal_bound(tail) * sqrt(pairs * ((double)n + 1.0) / 12.0);

        *k = pairs / 2.0 > half ? (size_t)floor(pairs / 2.0 - half) : 0;
        return K3_OK;
    }
    for (size_t i = 0; i < n; i++) {
        twice[i] = 2 * (i + 1);
    }
    if (count_ways(twice, n, nb, &w, err) == K3_OK) {
        const double *row = w.table + nb * w.sums;

        for (size_t s = 0; s < w.sums; s++) {
            all += row[s];
        }
        for (size_t u = 0; u < na * nb; u++) {
            below += row[least + 2 * u];
            if (below > tail * all) {
                break;
            }
            *k = u + 1;
        }
    }
    k3_free(w.table);
    return err->status;
}

/* Two sorted samples, whose differences b - a are too many to be written down. */
typedef struct sorted_pair {
    double *a, *b;
    size_t  na, nb;
} sorted_pair_t;

/* Differences of at most `bound`: along a they fall, along b they rise, also when rounded. */
static size_t count_up_to(const void *values, double bound)
{
    const sorted_pair_t *s = values;
    size_t               count = 0, j = 0;

    for (size_t i = 0; i < s->na; i++) {
        while (j < s->nb && s->b[j] - s->a[i] <= bound) {
            j++;
        }
        count += j;
    }
    return count;
}

static double kth_difference(const sorted_pair_t *s, size_t k)
{
    return k3_kth(s, count_up_to, s->b[0] - s->a[s->na - 1], s->b[s->nb - 1] - s->a[0], k);
}

static k3_status_t sort_pair(const double *a, size_t na, const double *b, size_t nb,
                             sorted_pair_t *s, k3_error_t *err)
{
    if (k3_alloc("sorted launches", na + nb, sizeof(double), &s->a, err) != K3_OK) {
        return err->status;
    }
    s->b = s->a + na;
    s->na = na;
    s->nb = nb;
    memcpy(s->a, a, na * sizeof(double));
    memcpy(s->b, b, nb * sizeof(double));
    qsort(s->a, na, sizeof(double), k3_by_value);
    qsort(s->b, nb, sizeof(double), k3_by_value);
    return K3_OK;
}

k3_status_t k3_hodges_lehmann(const double *a, size_t na, const double *b, size_t nb, double level,
                              k3_shift_t *shift, k3_error_t *err)
{
    sorted_pair_t s = {0};
    size_t        m = na * nb, k;

    *shift = (k3_shift_t){0};
    if (interval_rank(na, nb, level, &k, err) != K3_OK ||
        sort_pair(a, na, b, nb, &s, err) != K3_OK) {
        return err->status;
    }
    shift->shift = (kth_difference(&s, (m + 1) / 2) + kth_difference(&s, m / 2 + 1)) / 2.0;
    shift->has_range = k > 0;
    if (k > 0) {
        shift->low = kth_difference(&s, k);
        shift->high = kth_difference(&s, m - k + 1);
    }
    k3_free(s.a);
    return K3_OK;
}

/* --- families -------------------------------------------------------------------------------- */

typedef struct ordered {
    double p;
    size_t at;
} ordered_t;

static int by_p(const void *x, const void *y)
{
    const ordered_t *a = x, *b = y;

    if (a->p != b->p) {
        return a->p < b->p ? -1 : 1;
    }
    return (a->at > b->at) - (a->at < b->at);
}

k3_status_t k3_holm(double *p, size_t m, k3_error_t *err)
{
    ordered_t *order = NULL;
    double     least = 0.0;

    if (m == 0) {
        return K3_OK;
    }
    if (k3_alloc("p-values", m, sizeof(*order), &order, err) != K3_OK) {
        return err->status;
    }
    for (size_t i = 0; i < m; i++) {
        order[i] = (ordered_t){p[i], i};
    }
    qsort(order, m, sizeof(*order), by_p);
    for (size_t i = 0; i < m; i++) {
        double adjusted = clip(order[i].p * (double)(m - i));

        least = adjusted > least ? adjusted : least;
        p[order[i].at] = least;
    }
    k3_free(order);
    return K3_OK;
}

double k3_smallest_p(size_t na, size_t nb)
{
    double ways = 1.0;

    for (size_t i = 1; i <= nb; i++) {
        ways *= (double)(na + i) / (double)i;
    }
    return clip(2.0 / ways);
}
