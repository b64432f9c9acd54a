/* How evenly something is spread over n carriers: two measures, each from n values >= 0. */
#ifndef K3_BASE_BALANCE_H
#define K3_BASE_BALANCE_H

#include <stddef.h>

/* Maximum over mean: 1 when all are equal, n when one has all. NAN for no values, or all 0. */
double k3_max_over_mean(const double *values, size_t n);

/* Gini coefficient: sum over all ordered pairs of |x - y|, over 2 n^2 times the mean. 0 when all are
 * equal, (n - 1) / n when one has all. NAN for no values, or all 0. Sorts `values`. */
double k3_gini(double *values, size_t n);

#endif
