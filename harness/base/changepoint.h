/* Change points of a series: E-divisive (Matteson & James, Journal of the American Statistical
 * Association 109, 2014) for one variable and the distance |x - y|. It assumes no distribution and finds
 * a change of any kind; how large one is, and whether that matters, is for the caller to say. */
#ifndef K3_BASE_CHANGEPOINT_H
#define K3_BASE_CHANGEPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "harness/base/status.h"

typedef struct k3_change_rule {
    size_t   least;        /* values on each side of a change, at least 2 */
    double   level;        /* a change stays when its p is at most this */
    size_t   permutations; /* the smallest p is 1 / (permutations + 1) */
    uint64_t seed;         /* of the permutations: the same seed gives the same p */
} k3_change_rule_t;

typedef struct k3_change {
    size_t at; /* the first value after the change */
    double q;  /* the statistic */
    double p;  /* share of permutations of the part with a q at least as large */
} k3_change_t;

/* Finds the changes of n finite values, in order. `changes` has room for n / rule->least entries.
 * Takes O(n^2) time for each permutation and O(n) memory. */
k3_status_t k3_change_points(const double *values, size_t n, const k3_change_rule_t *rule,
                             k3_change_t *changes, size_t *count, k3_error_t *err);

/* The best split of n values: the largest statistic over all pairs of neighbouring parts
 * [0, at), [at, end) with at least `least` values each. 0 where there is none. `scratch` holds 2 n + 1
 * values. */
double k3_change_best(const double *values, size_t n, size_t least, double *scratch, size_t *at);

#endif
