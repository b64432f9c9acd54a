/* The region's kernels on a device, called from C. One source for CUDA and HIP; results are those of
 * kernels/cpu/scalar.c bit for bit, but for sums over a row (rms_norm) and over matrix operations.
 *
 * All pointers are device memory; rows of bf16 and of codes begin at multiples of 16 bytes, scales
 * at multiples of their type, widths are multiples of 32. Results (of scale and down, the parts and rows of combine)
 * may begin at even addresses, which costs four to eight times the accesses. */
#ifndef K3_KERNELS_GPU_GPU_H
#define K3_KERNELS_GPU_GPU_H

#ifdef __cplusplus
extern "C" {
#endif

#include "kernels/kernels.h"

/* bf16 rows to a format: `rows` rows of `width` values, each row's values and scales contiguous at
 * the given strides in bytes. Moves 2 n + k3_format_row_bytes(n) bytes a row; one pass, but two
 * over the input for int8. */
typedef struct k3_gpu_encode {
    k3_format_t format; /* all but logfmt10, which has calls of its own; bf16 values are copied */
    uint32_t    rows, width;
    const uint16_t *in;
    uint64_t        in_stride;
    uint8_t        *values;
    uint64_t        values_stride;
    uint8_t        *scales;
    uint64_t        scales_stride;
    uint8_t        *headers; /* NULL, or where each row's 16 bytes go: its number, then zeros */
    uint64_t        headers_stride;
    uint32_t        number; /* of the first row */
} k3_gpu_encode_t;

/* Rows of a format to bf16 (values rounded once). Moves the bytes of encode. */
typedef struct k3_gpu_decode {
    k3_format_t           format;
    uint32_t              rows, width;
    const uint8_t *const *values; /* by row */
    const uint8_t *const *scales; /* by row; not read for bf16 */
    uint16_t             *out;
    uint64_t              out_stride;
} k3_gpu_decode_t;

/* Copies of byte ranges: pack into slots, unpack out of them. Moves 2 x bytes, in units of 16 where
 * both ends and the length allow it, else in the largest power of two that divides all three. */
typedef struct k3_gpu_copy_task {
    const uint8_t *from;
    uint8_t       *to;
    uint64_t       bytes;
} k3_gpu_copy_task_t;
typedef struct k3_gpu_copy {
    uint32_t                  tasks;
    const k3_gpu_copy_task_t *task;
} k3_gpu_copy_t;

/* The selection of k3_kernels_t.route for each row: at most 1024 experts, k at most 32. Reads 4 E
 * bytes of logits a row and the bias once a row, writes 8 k. */
typedef struct k3_gpu_route {
    uint32_t     rows, experts, k;
    const float *logits; /* [rows][experts] */
    const float *bias;   /* [experts] */
    int32_t     *ids;    /* [rows][k] */
    float       *weights;
} k3_gpu_route_t;

/* The weights of given ids, as k3_kernels_t.route_weights: k at most 32. */
typedef struct k3_gpu_weigh {
    uint32_t       rows, experts, k;
    const float   *logits; /* [rows][experts] */
    const int32_t *ids;    /* [rows][k] */
    float         *weights;
} k3_gpu_weigh_t;

/* out[r] = bf16(sum over i in order of weights[r][i] * parts[r][i]); NULL parts are left out,
 * weights NULL: all 1. Moves 2 (k + 1) bytes a value and 12 k a row. */
typedef struct k3_gpu_combine {
    uint32_t               rows, k, width;
    const uint16_t *const *parts; /* [rows][k] */
    const float           *weights;
    uint16_t              *out; /* [rows][width] */
    uint16_t *const       *row; /* NULL, or where each row goes instead */
} k3_gpu_combine_t;

/* Rows of bf16 as LogFMT-10 messages, as k3_kernels_t.log_encode, and how many bytes each became. Moves 2 n bytes
 * and those of the message a row. */
enum { K3_GPU_LOG_WIDTH = 8192 }; /* the most, a multiple of 128 */
typedef struct k3_gpu_log_encode {
    uint32_t               rows, width;
    const uint16_t *const *in;       /* by row */
    uint8_t *const        *messages; /* by row */
    uint32_t              *bytes;    /* by row */
} k3_gpu_log_encode_t;

/* The combine of such messages, decoded to bf16 on the way; k at most 64. Moves the messages, 2 bytes a value and
 * 12 k a row. */
typedef struct k3_gpu_log_combine {
    uint32_t              rows, k, width;
    const uint8_t *const *parts; /* [rows][k] */
    const float          *weights;
    uint16_t             *out; /* [rows][width] */
} k3_gpu_log_combine_t;

/* out = bf16(x / sqrt(mean(x^2) + eps) * gain). The sum of squares is taken over lanes, then warps.
 * Moves 6 bytes a value. Width at most 8192. */
typedef struct k3_gpu_norm {
    uint32_t        rows, width;
    float           eps;
    const uint16_t *x, *gain;
    uint16_t       *out;
} k3_gpu_norm_t;

/* out = bf16(sum in order of `parts` arrays of n values, `stride` bytes apart), n a multiple of 8. Moves
 * 2 (parts + 1) bytes a value. */
typedef struct k3_gpu_sum {
    uint64_t        n;
    uint32_t        parts;
    const uint16_t *first;
    int64_t         stride;
    uint16_t       *out;
} k3_gpu_sum_t;

/* out = bf16(act(gate, up)), n a multiple of 8. Moves 6 bytes a value. */
typedef struct k3_gpu_activate {
    uint64_t        n;
    k3_activation_t activation;
    const uint16_t *gate, *up;
    uint16_t       *out;
} k3_gpu_activate_t;

/* y = x W^T with f32 sums, k a multiple of 8, W [n][k]: a plain kernel, for devices without a library of
 * matrix products. Exactly one of the two results is given. */
typedef struct k3_gpu_dense {
    uint32_t        m, n, k;
    const uint16_t *x, *w;
    float          *y_f32;
    uint16_t       *y_bf16;
} k3_gpu_dense_t;

/* out[row] = bf16(row * factors[row] * weights[row]): the stand-in for an expert. Moves the bytes of
 * decode. */
typedef struct k3_gpu_scale {
    k3_format_t           format;
    uint32_t              rows, width;
    const uint8_t *const *values; /* by row */
    const uint8_t *const *scales; /* by row; not read for bf16 */
    const float          *factors;
    const float          *weights; /* by row, or NULL: all 1 */
    uint16_t *const      *out;     /* by row */
} k3_gpu_scale_t;

/* Rows of one expert for one block of threads. */
typedef struct k3_gpu_expert_task {
    uint32_t expert, first, rows; /* at most K3_GPU_TASK_ROWS */
} k3_gpu_expert_task_t;

enum { K3_GPU_TASK_ROWS = 32 };

/* y = x W^T for the rows of each task, f32 sums, one or two matrices of [out][in] in the layouts of
 * k3_expert_weights_t. Each task reads the weights of its expert once, and its rows once for each 64
 * of `out`. Operations: 2 x rows x in x out for each matrix. */
typedef struct k3_gpu_matrix {
    const uint8_t *values, *scales; /* of expert 0 */
    uint64_t       stride;          /* bytes from one expert to the next, of both */
} k3_gpu_matrix_t;
typedef struct k3_gpu_rows {
    k3_format_t           format;
    const uint8_t *const *values; /* by row */
    const uint8_t *const *scales; /* by row; not read for bf16 */
} k3_gpu_rows_t;

/* Gate and up, activation, the row's weight: out = bf16(act(gate, up) * weight). */
typedef struct k3_gpu_gate_up {
    uint32_t                    tasks, latent, inter;
    k3_weight_format_t          weights;
    k3_activation_t             activation;
    bool                        round_gate_up;
    const k3_gpu_expert_task_t *task;
    k3_gpu_matrix_t             gate, up;
    k3_gpu_rows_t               x;
    const float                *row_weights; /* by row, or NULL */
    uint16_t                   *out;         /* [row][inter] */
} k3_gpu_gate_up_t;

/* The second GEMM: out[row] = bf16(x W2^T), each row to where it is asked for. */
typedef struct k3_gpu_down {
    uint32_t                    tasks, latent, inter;
    k3_weight_format_t          weights;
    const k3_gpu_expert_task_t *task;
    k3_gpu_matrix_t             down;
    k3_gpu_rows_t               x;
    uint16_t *const            *out; /* by row */
} k3_gpu_down_t;

/* Starts one kernel on the given stream (cudaStream_t or hipStream_t) each, nothing for no rows; the
 * runtime's error code, 0 for none. */
typedef struct k3_gpu {
    const char *dialect; /* "cuda", "hip" */
    int (*encode)(const k3_gpu_encode_t *arguments, void *stream);
    int (*decode)(const k3_gpu_decode_t *arguments, void *stream);
    int (*copy)(const k3_gpu_copy_t *arguments, void *stream);
    int (*route)(const k3_gpu_route_t *arguments, void *stream);
    int (*weigh)(const k3_gpu_weigh_t *arguments, void *stream);
    int (*combine)(const k3_gpu_combine_t *arguments, void *stream);
    int (*norm)(const k3_gpu_norm_t *arguments, void *stream);
    int (*sum)(const k3_gpu_sum_t *arguments, void *stream);
    int (*activate)(const k3_gpu_activate_t *arguments, void *stream);
    int (*dense)(const k3_gpu_dense_t *arguments, void *stream);
    int (*scale)(const k3_gpu_scale_t *arguments, void *stream);
    int (*gate_up)(const k3_gpu_gate_up_t *arguments, void *stream);
    int (*down)(const k3_gpu_down_t *arguments, void *stream);
    int (*log_encode)(const k3_gpu_log_encode_t *arguments, void *stream);
    int (*log_combine)(const k3_gpu_log_combine_t *arguments, void *stream);
} k3_gpu_t;

extern const k3_gpu_t k3_gpu_cuda, k3_gpu_hip; /* where the build has them */

#ifdef __cplusplus
}
#endif

#endif
