#include "harness/base/order.h"

#include <stdint.h>
#include <string.h>

int k3_by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

/* Doubles as whole numbers in the same order; both zeros are 0. */
static int64_t ordinal(double x)
{
    int64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits >= 0 ? bits : INT64_MIN - bits;
}

static double from_ordinal(int64_t at)
{
    int64_t bits = at >= 0 ? at : INT64_MIN - at;
    double  x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

double k3_kth(const void *values, k3_count_up_to_t count, double low, double high, size_t k)
{
    int64_t from = ordinal(low), to = ordinal(high);

    while (from < to) {
        int64_t middle = from + (int64_t)(((uint64_t)to - (uint64_t)from) / 2);

        if (count(values, from_ordinal(middle)) >= k) {
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    return from_ordinal(from);
}
