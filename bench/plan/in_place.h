/* Which weights of a checkpoint a rank reads where they lie in the mapped file; all others it copies.
 * Pages of the file are not allocated, and shared by the ranks of a node. */
#ifndef K3_PLAN_IN_PLACE_H
#define K3_PLAN_IN_PLACE_H

#include "bench/plan/cell.h"

/* Whole experts; slices of their intermediate width are no rows of w2. */
bool k3_experts_in_place(const k3_cell_t *cell);

/* The part of a dense tensor that `rank` holds: all of it, or its slice of the shared expert. */
typedef struct k3_tensor_part {
    uint32_t row_begin, row_end, column_begin, column_end;
} k3_tensor_part_t;

k3_tensor_part_t k3_tensor_held(const k3_cell_t *cell, uint32_t rank, k3_tensor_t tensor);

/* Where the part lies in the file; NULL: it must be copied, because it is no run of whole rows or begins
 * at an odd byte, or the weights are synthetic. */
const uint16_t *k3_tensor_in_place(const k3_cell_t *cell, k3_tensor_t tensor,
                                   k3_tensor_part_t part);

/* Bytes of the dense tensors that `rank` reads in place. */
uint64_t k3_dense_in_place_bytes(const k3_cell_t *cell, uint32_t rank);

#endif
