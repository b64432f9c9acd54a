/* Findings, and which of two is told; what the files of the patterns compute them from. */
#include <math.h>
#include <stdlib.h>

#include "bench/report/pattern_internal.h"

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

double k3_pattern_median(double *values, int n)
{
    if (n == 0) {
        return NAN;
    }
    qsort(values, (size_t)n, sizeof(double), by_value);
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2.0;
}

/* A lane apart from all others of its kind is a cause, and so is a node whose lanes are; ranks that are late because
 * of them are their consequence, and their waits add up to more than the lanes' own time. */
static double weight(const k3_finding_t *f)
{
    return f->link ? INFINITY : f->lane[0] >= 0 ? 10.0 * f->excess_us : f->excess_us;
}

void k3_pattern_keep(k3_finding_t *best, const k3_finding_t *f)
{
    if (best->name == NULL || weight(f) > weight(best)) {
        *best = *f;
    }
}

/* Three digits, or whole microseconds. */
const char *k3_pattern_us(double us, char text[32])
{
    snprintf(text, 32, us >= 100.0 ? "%.0f" : "%.3g", us);
    return text;
}

k3_finding_t k3_pattern_finding(const k3_pattern_view_t *v, const char *name, double excess)
{
    return (k3_finding_t){.name = name,
                          .phase = v->phase,
                          .rank = -1,
                          .node = -1,
                          .lane = {-1, -1, -1},
                          .excess_us = excess,
                          .share = fmin(excess / v->phase_us, 1.0)};
}

bool k3_pattern_is_lane(const k3_pattern_view_t *v, const json_t *row, const char *kind)
{
    return k3_field_is(row, v->lanes.phase, v->phase) && k3_field_is(row, v->lanes.lane, kind) &&
           json_is_number(k3_field(row, v->lanes.p50_us));
}
