/* What a distribution of experts leads to expect, in closed form where all experts are equally likely. */
#ifndef K3_PLAN_EXPECT_H
#define K3_PLAN_EXPECT_H

#include <stdint.h>

typedef struct k3_expectation {
    double mean, spread; /* spread: standard deviation of one row */
} k3_expectation_t;

/* Of `blocks` equal blocks of experts, how many a row with `topk` distinct experts out of `experts`
 * touches: B (1 - C(E - E/B, K) / C(E, K)). Blocks are ranks or nodes. */
k3_expectation_t k3_expected_distinct(uint32_t experts, uint32_t blocks, uint32_t topk);

/* Of `local` experts, how many at least one of `rows` rows touches. */
double k3_expected_hit(uint32_t experts, uint32_t local, uint32_t topk, double rows);

#endif
