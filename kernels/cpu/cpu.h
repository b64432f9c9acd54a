/* Inside of the CPU kernels: what the ISA versions share. */
#ifndef K3_KERNELS_CPU_H
#define K3_KERNELS_CPU_H

#include "kernels/kernels.h"

/* A product and a sum written apart stay apart, so that every ISA rounds alike; compilers merge them
 * where the target has the instruction. Intrinsics are never merged by Clang. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

extern const k3_kernels_t k3_kernels_scalar;
#if defined(__x86_64__)
extern const k3_kernels_t k3_kernels_avx2;
extern const k3_kernels_t k3_kernels_avx512;
extern const k3_kernels_t k3_kernels_avx512_bf16;
extern const k3_kernels_t k3_kernels_amx;
#endif
#if defined(__aarch64__)
extern const k3_kernels_t k3_kernels_neon;
#endif

/* A weight matrix, row major along the sum. */
typedef struct k3_matrix {
    k3_weight_format_t format;
    const uint8_t     *values;
    const void        *scales;
    size_t             rows, columns;
} k3_matrix_t;

/* f32 rows in work space have a length of k3_padded(n), a whole number of the largest blocks that an
 * ISA decodes at a time. */
static inline size_t k3_padded(size_t n)
{
    return (n + 127) / 128 * 128;
}

enum {
    K3_EXPERT_CHUNK = 64, /* rows of one pass over the weights */
    K3_GEMM_COLUMNS = 96, /* of the result that one thread does at a time */
    K3_SPREAD = 16        /* rows that are brought together into other orders */
};

/* What differs between ISAs in the expert MLP; kernels/cpu/expert.c holds the order of the steps.
 */
typedef struct k3_expert_ops {
    void (*encode)(k3_format_t format, const uint16_t *row, size_t n, void *values, void *scales);
    void (*decode)(k3_format_t format, const void *values, const void *scales, size_t n,
                   float *out);
    /* Brings n values into the order that gemm reads them, zeros up to k3_padded(n). */
    void (*pack)(k3_weight_format_t format, float *row, size_t n);
    /* NULL, or brings rows K3_SPREAD tile and on of m packed rows into what gemm reads in their
     * place: `to` has 2 bytes for each of K3_EXPERT_CHUNK rows of k3_padded(n) values. */
    void (*spread)(const float *x, size_t m, size_t n, size_t tile, void *to);
    /* y[i][j] = sum of w[j][.] x[i][.] for first <= j < first + count, of m <= K3_EXPERT_CHUNK
     * rows, count <= K3_GEMM_COLUMNS. x and y have padded rows of whole 64-byte lines. The order of
     * a sum does not depend on first and count. */
    void (*gemm)(const k3_matrix_t *w, const void *x, size_t m, size_t first, size_t count,
                 float *y);
    void (*round)(const float *row, size_t n, uint16_t *out);
    /* out = bf16(act(gate, up) * weight). */
    void (*activate)(k3_activation_t activation, const float *gate, const float *up, float weight,
                     size_t n, uint16_t *out);
} k3_expert_ops_t;

void k3_expert_run(const k3_expert_ops_t *ops, const k3_expert_shape_t *shape,
                   const k3_recipe_t *recipe, const k3_expert_weights_t *weights, size_t n,
                   k3_format_t format, const void *const *rows, const void *const *scales,
                   const float *row_weights, uint16_t *const *out, void *work);

/* What the dense layers need of an ISA. */
typedef struct k3_row_ops {
    void (*round)(const float *row, size_t n, uint16_t *out);
    /* y[i * stride + j] = x[i] . w[j] for 1 to 4 rows of x, n rows of bf16 w; NULL where it would be
     * slow. */
    void (*dot)(const uint16_t *w, size_t n, size_t k, const float *x, size_t m, float *y,
                size_t stride);
} k3_row_ops_t;

extern const k3_row_ops_t k3_row_ops_scalar;
#if defined(__x86_64__)
extern const k3_row_ops_t k3_row_ops_avx2;
#endif
#if defined(__aarch64__)
extern const k3_row_ops_t k3_row_ops_neon;
#endif
const k3_row_ops_t *k3_row_ops_cpu(void); /* for the ISA of k3_kernels_cpu(NULL) */

/* Functions of kernels/cpu/scalar*.c that other tables use as they are. */
void   k3_scalar_encode(k3_format_t format, const uint16_t *row, size_t n, void *values,
                        void *scales);
void   k3_scalar_decode(k3_format_t format, const void *values, const void *scales, size_t n,
                        float *out);
size_t k3_scalar_log_encode(const uint16_t *row, size_t n, uint8_t *message);
size_t k3_scalar_log_decode(const uint8_t *message, size_t n, uint16_t *row);
void   k3_scalar_route_weights(const float *logits, size_t k, const int32_t *ids, float *weights);

/* The selection, with a function that gives out[i] = sigmoid(logits[i]) + bias[i] for up to 64. */
typedef void (*k3_route_values_t)(const float *logits, const float *bias, size_t n, float *out);
void k3_route_by(k3_route_values_t values_of, const float *logits, const float *bias,
                 size_t experts, size_t k, int32_t *ids, float *weights);

#endif
