/* The arithmetic of the MoE region behind one table of functions.
 *
 * No function allocates; work space is given by the caller. Rows are contiguous unless pointers are
 * given. All sums are f32 unless stated. The numeric recipe (where values are rounded) is data, so
 * that the independent oracle can follow the same rounding points. */
#ifndef K3_KERNELS_KERNELS_H
#define K3_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/format.h"

typedef enum k3_activation {
    K3_ACT_SITU,  /* beta tanh(g / beta) sigmoid(g) * lambda tanh(u / lambda), beta 4, lambda 25 */
    K3_ACT_SWIGLU /* g sigmoid(g) * u */
} k3_activation_t;

typedef enum k3_weight_format {
    K3_WEIGHT_MXFP4,   /* E2M1, low nibble first, E8M0 for 32 along the inner dimension */
    K3_WEIGHT_FP8_B128 /* e4m3, one f32 scale for a block of 128 x 128 */
} k3_weight_format_t;

enum { K3_WEIGHT_FORMAT_COUNT = 2 };
extern const char *const k3_weight_format_names[]; /* "mxfp4", "fp8_b128", NULL */

/* Where an expert's numbers are rounded; everything between is f32.
 *
 * input   rows that arrive in this format are decoded only; bf16 rows are encoded to it and
 *         decoded; rows in another format are decoded, rounded to bf16 and then treated as bf16.
 * middle  the format of the activation's output that the down GEMM reads: the output, computed in
 *         f32 and multiplied by the row's weight where rows bring one, is always rounded to bf16
 *         and then brought to this format.
 *
 * The result of the down GEMM is rounded to bf16. */
typedef struct k3_recipe {
    const char *name;
    k3_format_t input;
    bool        round_gate_up; /* gate and up are rounded to bf16 before the activation */
    k3_format_t middle;
} k3_recipe_t;

/* One expert, or a slice of its intermediate dimension: w1 (gate) and w3 (up) are inter x latent,
 * w2 (down) is latent x inter, row major.
 *
 * MXFP4     values latent / 2 (inter / 2) bytes a row, scales latent / 32 (inter / 32) bytes a row
 * FP8_B128  values latent (inter) bytes a row, scales f32 [ceil(rows / 128)][ceil(columns / 128)]
 *
 * latent and inter are multiples of 32. inter may be 0 (an empty slice): the output is then all
 * zero. */
typedef struct k3_expert_weights {
    const uint8_t *w1, *w3, *w2;
    const void    *w1_scale, *w3_scale, *w2_scale;
} k3_expert_weights_t;

typedef struct k3_expert_shape {
    uint32_t           latent, inter;
    k3_weight_format_t weights;
    k3_activation_t    activation;
} k3_expert_shape_t;

/* Bytes of the packed weights of one expert (or slice), values and scales apart. */
uint64_t k3_expert_value_bytes(const k3_expert_shape_t *shape);
uint64_t k3_expert_scale_bytes(const k3_expert_shape_t *shape);
/* Points the six members into one block of value + scale bytes laid out w1 w3 w2 w1_scale w3_scale
 * w2_scale, each part aligned to 64 bytes; returns the block's size (block may be NULL to ask for
 * it). */
uint64_t k3_expert_layout(const k3_expert_shape_t *shape, const uint8_t *block,
                          k3_expert_weights_t *weights);

/* What a row of n values costs in bytes read + written, where memory is the limit:
 *
 *   encode, decode   2 n + the row in its format (k3_format_row_bytes); 4 n + it
 *   route            4 E read for the logits of E experts, 8 k written (the bias stays in a cache)
 *   combine          2 n (k + 1)
 *   rms_norm         4 n (the second reading of x is from a cache)
 *   activate, add    6 n
 *   sum              2 n (count + 1)
 */
typedef struct k3_kernels {
    const char *isa; /* a name of k3_kernels_isa_names */

    /* One row of n bf16 values to a format and back to f32. scales may be NULL for bf16. The same
     * bytes and values on every ISA, but for the payload of a NaN. */
    void (*encode)(k3_format_t format, const uint16_t *row, size_t n, void *values, void *scales);
    void (*decode)(k3_format_t format, const void *values, const void *scales, size_t n,
                   float *out);

    /* One row of n bf16 values, n a multiple of 128, as a LogFMT-10 message and back; both return its
     * bytes, at most k3_format_row_bytes. The message begins with a pair of bf16 magnitudes for each
     * 128 values, the largest and the smallest (a, b); a group qualifies when a is finite and above
     * b. With lo = max(log2 b, log2 a - 32) and step = (log2 a - lo) / 510, code 0 is zero and code c
     * is 2^(lo + (c - 1) step), 1 <= c <= 511; a magnitude gets the code with the nearest value,
     * where two are equally near the upper one; zeros get 0, other values at least 1. 16 bits of sign
     * for 16 values, then their 9-bit codes, the first in the lowest bits: 20 bytes for 16 values.
     * Groups that do not qualify are bf16 as they are. Decoding rounds to bf16. */
    size_t (*log_encode)(const uint16_t *row, size_t n, uint8_t *message);
    size_t (*log_decode)(const uint8_t *message, size_t n, uint16_t *row);

    /* Expert MLP over n rows: rows[i] points to the values, scales[i] to the scales of row i in
     * `format` (scales may be NULL for bf16; f32 scales need no alignment, bf16 values 2 bytes).
     * row_weights[i], when given, multiplies the activation's output of row i. out[i] receives
     * `latent` bf16 values and overlaps no row. `work` has k3_expert_work_bytes at any alignment. n
     * may be 0. A NaN in a row stays in that row. The order of a row's sums depends on n and on the
     * ISA, not on the number of threads. */
    void (*expert_mlp)(const k3_expert_shape_t *shape, const k3_recipe_t *recipe,
                       const k3_expert_weights_t *weights, size_t n, k3_format_t format,
                       const void *const *rows, const void *const *scales, const float *row_weights,
                       uint16_t *const *out, void *work);

    /* Selection for one row: s = sigmoid(logit); the k experts with the largest s + bias, in
     * falling order (ties: lower id first; NaN last); weight = s / (sum of the k raw s + 1e-20). */
    void (*route)(const float *logits, const float *bias, size_t experts, size_t k, int32_t *ids,
                  float *weights);
    /* The weights for given ids; -1 gets weight 0 and is left out of the sum. */
    void (*route_weights)(const float *logits, size_t k, const int32_t *ids, float *weights);

    /* out = bf16(sum over i in order of weight[i] * row[i]); rows[i] == NULL is left out; weights
     * NULL: all 1. k == 0 gives zeros. */
    void (*combine)(const uint16_t *const *rows, const float *weights, size_t k, size_t n,
                    uint16_t *out);

    /* out = bf16(x * (1 / sqrt(mean(x^2) + eps)) * gain), gain bf16. The order of the sum belongs
     * to the ISA, so that results may differ by one unit in the last place; those of all other row
     * functions and of route are the same bits on every ISA. */
    void (*rms_norm)(const uint16_t *x, const uint16_t *gain, size_t n, float eps, uint16_t *out);

    /* out = bf16(act(gate, up)), all bf16. */
    void (*activate)(k3_activation_t activation, const uint16_t *gate, const uint16_t *up, size_t n,
                     uint16_t *out);

    /* out = bf16(a + b). out may be a or b. */
    void (*add)(const uint16_t *a, const uint16_t *b, size_t n, uint16_t *out);

    /* out = bf16(sum in order of parts[i]), parts of n bf16 values each. */
    void (*sum)(const uint16_t *const *parts, size_t count, size_t n, uint16_t *out);
} k3_kernels_t;

/* Work space of expert_mlp for any n. */
size_t k3_expert_work_bytes(const k3_expert_shape_t *shape);

/* `isa`: NULL or "auto" for the best one of this CPU, else a name; NULL when not known or usable.
 */
const k3_kernels_t      *k3_kernels_cpu(const char *isa);
const char              *k3_kernels_usable(void); /* "avx2, scalar": what this CPU has */
extern const char *const k3_kernels_isa_names[];  /* "auto", the best first, NULL */

/* --- dense layers: y = x W^T, W bf16 [n][k] row major ---------------------------------------- */

typedef struct k3_dense k3_dense_t;

/* Prepares W for up to max_m rows, with all work space; `w` must outlive the object. On a CPU that
 * multiplies bf16, W is packed once into a copy for oneDNN's bf16 matmul; else panels of W are
 * widened to f32 in each run, and work space does not grow beyond 256 rows. The number of threads
 * (kernels/threads.h) is not to grow while the object lives. Returns NULL when memory is short. */
k3_dense_t *k3_dense_create(const uint16_t *w, size_t n, size_t k, size_t max_m);
void        k3_dense_destroy(k3_dense_t *dense);
/* Exactly one of y_f32 [m][n] and y_bf16 [m][n] is given. m may be 0. Allocates nothing,
 * but for what oneDNN may do inside. */
void k3_dense_run(k3_dense_t *dense, const uint16_t *x, size_t m, float *y_f32, uint16_t *y_bf16);
/* Bytes that create allocates beside W: the packed copy, if any, and work space of all threads. */
uint64_t    k3_dense_bytes(size_t n, size_t k, size_t max_m);
const char *k3_dense_library(void);   /* "oneDNN 2.6.3" */
const char *k3_dense_path_name(void); /* "bf16" or "f32": what this CPU multiplies */

#endif
