/* Synthetic inputs and weights, as pure functions of a seed: any rank can recompute any row of any
 * expert or activation. Values are chosen so that nothing saturates: the partial attention outputs
 * of a row sum to values of about unit size, weights keep every layer's output of order one.
 *
 * Activations change with the payload number (a new one for every iteration); weights do not. */
#ifndef K3_CELL_INPUTS_H
#define K3_CELL_INPUTS_H

#include <stdint.h>

#include "bench/cell/model.h"

/* Partial attention output of global row `row` on the attn_tp-th rank of its group: [H] bf16. The
 * row that enters the router is bf16(sum over the attn_tp partials in rank order, in f32). */
void k3_input_partial(const k3_model_t *model, uint64_t seed, uint64_t payload, uint64_t row,
                      uint32_t attn_index, uint32_t attn_tp, uint16_t *out);

typedef enum k3_tensor {
    K3_TENSOR_GATE,        /* [E][H] bf16 */
    K3_TENSOR_LATENT_DOWN, /* [L][H] bf16 */
    K3_TENSOR_LATENT_NORM, /* [1][L] bf16, near one */
    K3_TENSOR_LATENT_UP,   /* [H][L] bf16 */
    K3_TENSOR_SHARED_GATE, /* [S][H] bf16 */
    K3_TENSOR_SHARED_UP,   /* [S][H] bf16 */
    K3_TENSOR_SHARED_DOWN, /* [H][S] bf16 */
    K3_TENSOR_COUNT
} k3_tensor_t;

void k3_tensor_shape(const k3_model_t *model, k3_tensor_t tensor, uint32_t *rows,
                     uint32_t *columns);

/* Columns [begin, end) of one row of a dense tensor; begin a multiple of 4. */
void k3_tensor_row(const k3_model_t *model, uint64_t seed, k3_tensor_t tensor, uint32_t row,
                   uint32_t begin, uint32_t end, uint16_t *out);

/* Correction bias of the router, f32, small against the scores' spread. */
float k3_router_bias(uint64_t seed, uint32_t expert);

typedef enum k3_expert_matrix { K3_MATRIX_W1, K3_MATRIX_W3, K3_MATRIX_W2 } k3_expert_matrix_t;

/* One row of an expert's matrix in the model's weight format, columns [begin, end), whole scale
 * groups (32 or 128). w1, w3: row of I, columns of L; w2: row of L, columns of I. MXFP4: (end -
 * begin) / 2 bytes of values, (end - begin) / 32 E8M0 scales. FP8_B128: (end - begin) bytes of
 * values, (end - begin) / 128 f32 scales (the same for all rows of a block). */
void k3_expert_row(const k3_model_t *model, uint64_t seed, uint32_t expert,
                   k3_expert_matrix_t matrix, uint32_t row, uint32_t begin, uint32_t end,
                   uint8_t *values, void *scales);

/* Factor of the stand-in expert of the components pair, dispatch and combine: y = bf16(x * factor).
 * A power of two times +-1 or +-1.5, different for neighbouring experts, so that no identity
 * passes. */
float k3_stand_in_factor(uint32_t expert);

#endif
