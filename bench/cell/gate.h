/* The router's choice on given hidden states, at set-up: what every rank must know before anything moves.
 *
 * logit = sum over H of x * w in f64, where every product of two bf16 values is exact and the order of the
 * sum is fixed; score = 1 / (1 + exp(-logit)); the K experts with the largest score + bias, in falling
 * order, ties to the lower id. So all ranks of a launch find the same ids, whatever kernels they use. */
#ifndef K3_CELL_GATE_H
#define K3_CELL_GATE_H

#include "bench/cell/source.h"

/* ids: [rows][K] for rows [0, rows) of source->hidden. */
k3_status_t k3_gate_choose(const k3_source_t *source, uint64_t rows, int32_t *ids, k3_error_t *err);

#endif
