/* Rank statistics of two independent samples: is one larger, and by how much. No assumption on the
 * shape of the distributions. Formulas: Mann & Whitney 1947, Hodges & Lehmann 1963, Holm 1979. */
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

/* Holm's step-down adjustment of m p-values, in place: p[i] becomes the smallest family error at which
 * hypothesis i is rejected. */
k3_status_t k3_holm(double *p, size_t m, k3_error_t *err);

/* Smallest two-sided p that n values a side can reach, 2 / C(2n, n). */
double k3_smallest_p(size_t n);

#endif
