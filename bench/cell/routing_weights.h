/* Popularity of experts by a law, and the load that a popularity gives. */
#ifndef K3_CELL_ROUTING_WEIGHTS_H
#define K3_CELL_ROUTING_WEIGHTS_H

#include <stdint.h>

#include "harness/base/status.h"

/* 1 / position^exponent, position = place + 1. */
void k3_weights_zipf(double exponent, uint32_t experts, double *weights);

/* exp(sigma z_e) with normal z_e from `key`, scaled to a largest weight of 1; sigma such that the
 * expected max/mean load of rows that draw `topk` experts is 1 + max_violation. K3_ERR_USAGE when
 * no sigma reaches it (the load of an expert is at most one per row: experts / topk - 1). */
k3_status_t k3_weights_lognormal(uint64_t key, double max_violation, uint32_t experts,
                                 uint32_t topk, double *weights, k3_error_t *err);

/* The probability that the place of the largest weight, which must be 1, is among the `topk` places
 * of a row drawn without replacement in proportion to the weights; topk <= K3_TOPK_MAX. */
double k3_weights_top_share(const double *weights, uint32_t experts, uint32_t topk);

#endif
