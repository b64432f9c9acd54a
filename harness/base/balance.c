#include "harness/base/balance.h"

#include <math.h>
#include <stdlib.h>

double k3_max_over_mean(const double *values, size_t n)
{
    double sum = 0.0, max = 0.0;

    for (size_t i = 0; i < n; i++) {
        sum += values[i];
        max = values[i] > max ? values[i] : max;
    }
    return sum > 0.0 ? max * (double)n / sum : NAN;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

/* In ascending order the pairs' sum is 2 sum (2 i - n - 1) x_i, i from 1. */
double k3_gini(double *values, size_t n)
{
    double sum = 0.0, weighted = 0.0;

    if (n > 0) {
        qsort(values, n, sizeof(*values), by_value);
    }
    for (size_t i = 0; i < n; i++) {
        sum += values[i];
        weighted += (2.0 * (double)(i + 1) - (double)n - 1.0) * values[i];
    }
    return sum > 0.0 ? weighted / ((double)n * sum) : NAN;
}
