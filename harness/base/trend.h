/* Does a series of samples move while it is taken? */
#ifndef K3_BASE_TREND_H
#define K3_BASE_TREND_H

#include <stdbool.h>
#include <stddef.h>

/* Longer series are cut into so many blocks of equal length, and the blocks' medians are looked at:
 * neighbours resemble each other, and the test counts them as independent. */
enum { K3_TREND_BLOCKS = 64, K3_TREND_LEAST = 8 };

typedef struct k3_trend {
    bool   valid;  /* K3_TREND_LEAST samples or more, and their median is above 0 */
    double halves; /* median of the second half over that of the first, less 1 */
    double slope;  /* Theil-Sen slope times the length, over the median */
    double p;      /* Mann-Kendall, two-sided */
} k3_trend_t;

/* `scratch` holds n values; no allocation. Samples are finite. Kendall's S counts rising less falling
 * pairs; its variance is corrected for ties, the normal approximation for continuity. */
void k3_trend(const double *samples, size_t n, double *scratch, k3_trend_t *trend);

/* p <= 1 % and more than 2 % from begin to end, by the slope. */
bool k3_trend_moves(const k3_trend_t *trend);

#endif
