/* Where the numbers of a cell come from: weights are synthetic or a checkpoint's, rows are synthetic or
 * those of a file. Set-up and oracle read both by rows from here, so that neither depends on how the
 * other holds them. */
#ifndef K3_CELL_SOURCE_H
#define K3_CELL_SOURCE_H

#include "bench/cell/checkpoint.h"
#include "bench/cell/hidden.h"
#include "bench/cell/inputs.h"

typedef struct k3_source {
    const k3_model_t      *model;
    uint64_t               seed;
    const k3_checkpoint_t *checkpoint; /* NULL: synthetic weights */
    const k3_hidden_t     *hidden;     /* NULL: synthetic rows */
} k3_source_t;

/* As k3_tensor_row, k3_router_bias and k3_expert_row. */
void  k3_source_tensor_row(const k3_source_t *source, k3_tensor_t tensor, uint32_t row,
                           uint32_t begin, uint32_t end, uint16_t *out);
float k3_source_bias(const k3_source_t *source, uint32_t expert);
void  k3_source_expert_row(const k3_source_t *source, uint32_t expert, k3_expert_matrix_t matrix,
                           uint32_t row, uint32_t begin, uint32_t end, uint8_t *values,
                           void *scales);

/* Partial attention output, as k3_input_partial. Given rows are the same in every iteration; their values
 * are dealt out over the attn_tp partials in pieces of 16, with zeros elsewhere, so that the sum is the
 * row exactly and every partial matters. */
void k3_source_partial(const k3_source_t *source, uint64_t payload, uint64_t row,
                       uint32_t attn_index, uint32_t attn_tp, uint16_t *out);

#endif
