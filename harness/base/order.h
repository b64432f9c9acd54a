/* Order statistics of values that are too many to be written down: found by counting. */
#ifndef K3_BASE_ORDER_H
#define K3_BASE_ORDER_H

#include <stddef.h>

/* For qsort and bsearch. */
int k3_by_value(const void *x, const void *y);

/* How many of the values are at most `bound`; rises with it. */
typedef size_t (*k3_count_up_to_t)(const void *values, double bound);

/* The value number k in order, k from 1, of values that all lie in [low, high]: the smallest double with k of
 * them up to it. Takes at most 64 counts. */
double k3_kth(const void *values, k3_count_up_to_t count, double low, double high, size_t k);

#endif
