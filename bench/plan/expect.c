#include "bench/plan/expect.h"

#include <math.h>

/* C(E - n, K) / C(E, K): the probability that none of n given experts is drawn. */
static double none_of(uint32_t experts, double n, uint32_t topk)
{
    double p = 1.0;

    for (uint32_t k = 0; k < topk; k++) {
        double left = (double)experts - n - k;

        p *= left > 0 ? left / ((double)experts - k) : 0.0;
    }
    return p;
}

k3_expectation_t k3_expected_distinct(uint32_t experts, uint32_t blocks, uint32_t topk)
{
    double block = blocks > 0 ? (double)experts / blocks : 0;
    double none = none_of(experts, block, topk), none_of_two = none_of(experts, 2 * block, topk);
    double n = blocks, variance;

    /* Of indicators: each has none (1 - none), each pair of different ones none_of_two - none^2. */
    variance = n * none * (1 - none) + n * (n - 1) * (none_of_two - none * none);
    return (k3_expectation_t){n * (1 - none), sqrt(variance > 0 ? variance : 0)};
}

double k3_expected_hit(uint32_t experts, uint32_t local, uint32_t topk, double rows)
{
    return local * (1 - pow(1 - (double)topk / experts, rows));
}
