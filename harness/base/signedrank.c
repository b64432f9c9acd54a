/* Pairs: Wilcoxon's signed ranks, and the Hodges-Lehmann shift that belongs to them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/base/memory.h"
#include "harness/base/order.h"
#include "harness/base/ranktest.h"

/* Differences b - a, in order of their size; zeros left out. */
typedef struct signed_ranks {
    double *difference; /* [n] sorted by |difference| */
    size_t *twice;      /* [n] midrank times two */
    size_t  n;
    double  ties; /* sum of t^3 - t over groups of equal size */
} signed_ranks_t;

static int by_size(const void *x, const void *y)
{
    double a = fabs(*(const double *)x), b = fabs(*(const double *)y);

    return (a > b) - (a < b);
}

static k3_status_t make_ranks(const double *a, const double *b, size_t n, signed_ranks_t *r,
                              k3_error_t *err)
{
    *r = (signed_ranks_t){0};
    if (k3_alloc("differences", n, sizeof(double), &r->difference, err) != K3_OK ||
        k3_alloc("ranks", n, sizeof(size_t), &r->twice, err) != K3_OK) {
        return err->status;
    }
    for (size_t i = 0; i < n; i++) {
        if (b[i] != a[i]) {
            r->difference[r->n++] = b[i] - a[i];
        }
    }
    qsort(r->difference, r->n, sizeof(double), by_size);
    for (size_t i = 0, end; i < r->n; i = end) {
        for (end = i + 1; end < r->n && fabs(r->difference[end]) == fabs(r->difference[i]);) {
            end++;
        }
        for (size_t j = i; j < end; j++) {
            r->twice[j] = i + 1 + end;
        }
        r->ties += (double)(end - i) * ((double)(end - i) * (double)(end - i) - 1.0);
    }
    return K3_OK;
}

/* In how many of the 2^n choices of signs the risen ranks have the doubled sum s. Counts up to 2^60 as doubles
 * are right to 1e-16. The caller frees *ways_p. */
static k3_status_t count_ways(const size_t *twice, size_t n, double **ways_p, size_t *sums,
                              k3_error_t *err)
{
    double *ways;

    *sums = 1;
    for (size_t i = 0; i < n; i++) {
        *sums += twice[i];
    }
    if (k3_alloc("null distribution", *sums, sizeof(double), &ways, err) != K3_OK) {
        return err->status;
    }
    ways[0] = 1.0;
    for (size_t i = 0; i < n; i++) {
        for (size_t s = *sums; s-- > twice[i];) {
            ways[s] += ways[s - twice[i]];
        }
    }
    *ways_p = ways;
    return K3_OK;
}

static k3_status_t exact_p(const signed_ranks_t *r, size_t twice_sum, double *p, k3_error_t *err)
{
    double *ways = NULL, below = 0.0, above = 0.0, all = ldexp(1.0, (int)r->n);
    size_t  sums;

    if (count_ways(r->twice, r->n, &ways, &sums, err) == K3_OK) {
        for (size_t s = 0; s < sums; s++) {
            below += s <= twice_sum ? ways[s] : 0.0;
            above += s >= twice_sum ? ways[s] : 0.0;
        }
        *p = fmin(2.0 * fmin(below, above) / all, 1.0);
    }
    k3_free(ways);
    return err->status;
}

/* Normal approximation; the variance is smaller with ties. */
static double normal_p(const signed_ranks_t *r, double w)
{
    double n = (double)r->n;
    double variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - r->ties / 48.0;
    double distance = fabs(w - n * (n + 1.0) / 4.0) - 0.5;

    return fmin(erfc(fmax(distance, 0.0) / sqrt(2.0 * variance)), 1.0);
}

k3_status_t k3_signed_rank(const double *a, const double *b, size_t n, k3_rank_test_t *test,
                           k3_error_t *err)
{
    signed_ranks_t r;
    size_t         sum = 0;

    *test = (k3_rank_test_t){.p = 1.0, .exact = true};
    if (make_ranks(a, b, n, &r, err) == K3_OK && r.n > 0) {
        for (size_t i = 0; i < r.n; i++) {
            sum += r.difference[i] > 0.0 ? r.twice[i] : 0;
        }
        test->u = (double)sum / 2.0;
        test->exact = r.n <= K3_RANKTEST_EXACT;
        if (test->exact) {
            exact_p(&r, sum, &test->p, err);
        } else {
            test->p = normal_p(&r, test->u);
        }
    }
    k3_free(r.twice);
    k3_free(r.difference);
    return err->status;
}

/* --- shift ----------------------------------------------------------------------------------- */

typedef struct sorted {
    double *values;
    size_t  n;
} sorted_t;

static double mean_of(double x, double y)
{
    return x / 2.0 + y / 2.0;
}

/* Means of two (the same one twice included) of at most `bound`: as one of them rises the other falls. */
static size_t count_up_to(const void *values, double bound)
{
    const sorted_t *s = values;
    size_t          count = 0, end = s->n;

    for (size_t i = 0; i < s->n; i++) {
        while (end > i && mean_of(s->values[i], s->values[end - 1]) > bound) {
            end--;
        }
        if (end <= i) {
            break;
        }
        count += end - i;
    }
    return count;
}

/* The largest k with P(W < k) <= (1 - level) / 2 without ties; 0: there is none. */
static k3_status_t interval_rank(size_t n, double level, size_t *k, k3_error_t *err)
{
    size_t  ranks[K3_RANKTEST_EXACT], sums;
    double *ways = NULL, below = 0.0, tail = (1.0 - level) / 2.0;

    *k = 0;
    if (n > K3_RANKTEST_EXACT) {
        double m = (double)n, middle = m * (m + 1.0) / 4.0;
        double half = k3_normal_bound(tail) * sqrt(m * (m + 1.0) * (2.0 * m + 1.0) / 24.0);

        *k = middle > half ? (size_t)floor(middle - half) : 0;
        return K3_OK;
    }
    for (size_t i = 0; i < n; i++) {
        ranks[i] = i + 1;
    }
    if (count_ways(ranks, n, &ways, &sums, err) == K3_OK) {
        for (size_t s = 0; s < sums; s++) {
            below += ways[s];
            if (below > ldexp(tail, (int)n)) {
                break;
            }
            *k = s + 1;
        }
    }
    k3_free(ways);
    return err->status;
}

static double kth_mean(const sorted_t *s, size_t k)
{
    return k3_kth(s, count_up_to, s->values[0], s->values[s->n - 1], k);
}

k3_status_t k3_paired_shift(const double *a, const double *b, size_t n, double level,
                            k3_shift_t *shift, k3_error_t *err)
{
    sorted_t s = {.n = n};
    size_t   m = n * (n + 1) / 2, k;

    *shift = (k3_shift_t){0};
    if (interval_rank(n, level, &k, err) != K3_OK ||
        k3_alloc("differences", n, sizeof(double), &s.values, err) != K3_OK) {
        return err->status;
    }
    for (size_t i = 0; i < n; i++) {
        s.values[i] = b[i] - a[i];
    }
    qsort(s.values, n, sizeof(double), k3_by_value);
    shift->shift = mean_of(kth_mean(&s, (m + 1) / 2), kth_mean(&s, m / 2 + 1));
    shift->has_range = k > 0;
    if (k > 0) {
        shift->low = kth_mean(&s, k);
        shift->high = kth_mean(&s, m - k + 1);
    }
    k3_free(s.values);
    return K3_OK;
}

double k3_smallest_paired_p(size_t n)
{
    return n == 0 ? 1.0 : ldexp(2.0, -(int)(n < 1000 ? n : 1000));
}
