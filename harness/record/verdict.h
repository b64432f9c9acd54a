/* The verdict on one cell measured twice: the launch is the unit, a value is one launch's median.
 * Every launch has a bias of its own, so iterations of one launch are no independent samples. */
#ifndef K3_RECORD_VERDICT_H
#define K3_RECORD_VERDICT_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/base/ranktest.h"

typedef enum k3_verdict {
    K3_VERDICT_BETTER,
    K3_VERDICT_WORSE,
    K3_VERDICT_SAME,         /* equivalence is shown: the interval lies within the floor */
    K3_VERDICT_INCONCLUSIVE, /* too few launches, or too noisy ones */
    K3_VERDICT_INCOMPARABLE, /* other machine, other routing */
    K3_VERDICT_MISSING,      /* one side has no time for it */
    K3_VERDICT_ADDED,        /* only the new side has it */
    K3_VERDICT_BROKEN,       /* a check failed, or the cell did */
    K3_VERDICT_COUNT
} k3_verdict_t;

extern const char *const k3_verdict_names[]; /* NULL at the end */

typedef struct k3_verdict_rule {
    double level;     /* 0.95: error of the family at most 1 - level; coverage of intervals */
    double floor;     /* a smaller shift than this share of the base is no finding */
    double floor_abs; /* ... or than this, in the unit of the values, where it is not 0 */
} k3_verdict_rule_t;

enum { K3_LAUNCHES_MAX = 1000 }; /* more are not asked for */

/* Launches a side from which a shift has an interval, and with it `same` can be shown; of pairs so many launches. */
enum { K3_LAUNCHES_FOR_RANGE = 4, K3_LAUNCHES_FOR_PAIRED_RANGE = 6 };

/* Launches a side (of pairs: launches) below which no item of a family of so many can be better or worse: where the
 * smallest two-sided p that the test can reach, times the family, is above 1 - level. */
size_t k3_launches_least(bool paired, size_t family, double level);

/* Times: lower is better. */
typedef struct k3_judged {
    const double  *a, *b; /* base and new, one value for each launch */
    size_t         na, nb;
    bool           paired; /* na == nb, and a[i] and b[i] are of one launch */
    bool           apart;  /* of the other family: such items are judged beside those without it */
    double         median_a, median_b;
    k3_rank_test_t test;
    double         p_family;  /* after Holm over the items of its family */
    size_t         family;    /* how many these are */
    bool           by_family; /* p alone would have been enough, p_family is not */
    bool       ratios; /* shift and margin are shares of the base; else in the unit of the values */
    k3_shift_t shift;
    double     margin; /* the floor */
    k3_verdict_t verdict;
    size_t       launches_needed; /* a side, when inconclusive: an estimate; 0: more than
                                       K3_LAUNCHES_MAX */
} k3_judged_t;

/* Judges items with na, nb >= 1, those that are `apart` as a family of their own. Values are finite. Where all of an
 * item are above 0, and the rule has no absolute floor, their ratios are judged, new over base: the shift is that of
 * the logarithms, x, as a share of the base, exp(x) - 1, and never below -1. */
k3_status_t k3_judge(k3_judged_t *items, size_t count, const k3_verdict_rule_t *rule,
                     k3_error_t *err);

/* Median of n >= 1 values, in scratch[n] sorted. */
double k3_median_of(const double *values, size_t n, double *scratch);

#endif
