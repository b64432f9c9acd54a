/* Samples after idle gaps against the others. */
#ifndef K3_REGION_IDLE_H
#define K3_REGION_IDLE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct k3_idle {
    bool     valid;             /* there are samples */
    double   median_us, max_us; /* of the gaps in front of the samples */
    uint64_t long_gaps;         /* above five times the median */
    bool     has_difference;    /* there are samples of both kinds */
    double   pct;               /* median after long gaps over that of the others, less 1 */
} k3_idle_t;

/* gaps[i] lies in front of samples[i]; `scratch` holds 2 n values. */
void k3_idle_judge(const double *samples, const double *gaps, uint64_t n, double *scratch,
                   k3_idle_t *idle);

#endif
