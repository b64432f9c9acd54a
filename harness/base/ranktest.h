/* Rank statistics of two samples, independent or in pairs: is one larger, and by how much. No assumption on the
 * shape of the distributions. Formulas: Wilcoxon 1945, Mann & Whitney 1947, Hodges & Lehmann 1963, Holm 1979. */
#ifndef K3_BASE_RANKTEST_H
#define K3_BASE_RANKTEST_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/base/status.h"

/* Up to so many values together the null distribution is enumerated, also with ties (midranks);
 * above, the normal approximation with tie and continuity correction is used. */
enum { K3_RANKTEST_EXACT = 60 };

typedef struct k3_rank_test {
    double u;     /* pairs in which b is larger, ties count one half */
    double p;     /* two-sided: twice the smaller tail, at most 1 */
    bool   exact; /* p is enumerated */
} k3_rank_test_t;

/* na, nb >= 1; all values finite (the caller has checked). K3_ERR_ENV when memory is short. */
k3_status_t k3_mann_whitney(const double *a, size_t na, const double *b, size_t nb,
                            k3_rank_test_t *test, k3_error_t *err);

typedef struct k3_shift {
    double shift;     /* Hodges-Lehmann: median of all differences b - a */
    bool   has_range; /* false: too few values for the level */
    double low, high; /* interval of the shift, coverage at least the level asked for */
} k3_shift_t;

k3_status_t k3_hodges_lehmann(const double *a, size_t na, const double *b, size_t nb, double level,
                              k3_shift_t *shift, k3_error_t *err);

/* The same of pairs, where a[i] and b[i] belong together (two cells of one launch): Wilcoxon's signed ranks of
 * b[i] - a[i]. Pairs without a difference are left out of the test, not of the shift. The distribution is
 * enumerated up to K3_RANKTEST_EXACT pairs, also with ties. test->u is the sum of the ranks of the rises. */
k3_status_t k3_signed_rank(const double *a, const double *b, size_t n, k3_rank_test_t *test,
                           k3_error_t *err);

/* Hodges-Lehmann of pairs: median of the means of all two differences b - a, each with itself too. */
k3_status_t k3_paired_shift(const double *a, const double *b, size_t n, double level,
                            k3_shift_t *shift, k3_error_t *err);

/* Holm's step-down adjustment of m p-values, in place: p[i] becomes the smallest family error at which
 * hypothesis i is rejected. */
k3_status_t k3_holm(double *p, size_t m, k3_error_t *err);

/* Smallest two-sided p that so many values can reach, 2 / C(na + nb, nb); n pairs, 2 / 2^n. */
double k3_smallest_p(size_t na, size_t nb);
double k3_smallest_paired_p(size_t n);

/* |z| of a normal variable that has `tail` above it. */
double k3_normal_bound(double tail);

#endif
