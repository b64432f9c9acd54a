/* The product of packed expert weights with rows, on matrix units.
 *
 * A block of threads has 64 rows of the weights, 16 a warp, and the rows of one task. It walks over
 * the sum in chunks of 128: rows are brought to bf16 in shared memory, weights are decoded in
 * registers, each lane's from 16 bytes (MXFP4) that it alone reads. While a chunk is multiplied the
 * next one is on its way from memory.
 *
 * Codes are exact in bf16, MX scales are powers of two and are multiplied in; f32 scales (fp8 and
 * int8 rows, FP8_B128 weights) are multiplied to the f32 sum of their chunk. */
#ifndef K3_KERNELS_GPU_GEMM_H
#define K3_KERNELS_GPU_GEMM_H

#include "kernels/gpu/encode.h"
#include "kernels/gpu/mma.h"

constexpr unsigned k3_chunk = 128;
constexpr unsigned k3_steps = k3_chunk / 16;
constexpr unsigned k3_tile_rows = k3_warps * k3_mma_rows; /* of weights in a block */
constexpr unsigned k3_task_rows = K3_GPU_TASK_ROWS;
constexpr unsigned k3_task_tiles = k3_task_rows / k3_mma_columns;

/* Values of a row of x in shared memory: groups of 8 in the order (octet of the group of 32, group),
 * so that the four lanes of a column read 64 contiguous bytes; padded so that columns fall into
 * different banks. */
constexpr unsigned k3_x_stride = k3_chunk + (k3_warp == 32 ? 32 : 8);
constexpr unsigned k3_x_values = k3_task_rows * k3_x_stride;

/* Results on their way out: 64 of each row, padded. */
constexpr unsigned k3_out_stride = k3_tile_rows + 8;
static_assert(k3_task_rows * k3_out_stride <= 2 * k3_x_values, "results fit where x was");

/* --- rows ------------------------------------------------------------------------------------ */

template <k3_format_t format> struct k3_x_load {
    /* Values of 16 bytes, loads of a chunk for all rows of a task and of one thread. */
    static constexpr unsigned values = format == K3_FORMAT_BF16    ? 8
                                       : format == K3_FORMAT_MXFP4 ? 32
                                                                   : 16;
    static constexpr unsigned of_row = k3_chunk / values;
    static constexpr unsigned of_thread = (k3_task_rows * of_row + k3_threads - 1) / k3_threads;
    static constexpr bool     scaled = format == K3_FORMAT_FP8 || format == K3_FORMAT_INT8;
};

/* What a thread has on its way from global memory. */
template <k3_format_t format> struct k3_x_raw {
    k3_words words[k3_x_load<format>::of_thread];
    float    scale[k3_x_load<format>::of_thread];
};

template <k3_format_t format>
K3_DEVICE void k3_x_fetch(const k3_gpu_rows_t &x, const k3_gpu_expert_task_t &t, unsigned rows,
                          uint32_t width, uint32_t k0, k3_x_raw<format> *raw)
{
    typedef k3_x_load<format> load;

#pragma unroll
    for (unsigned i = 0; i < load::of_thread; i++) {
        unsigned number = i * k3_threads + k3_thread();
        unsigned row = number / load::of_row;
        uint32_t k = k0 + number % load::of_row * load::values;

        raw->words[i] = k3_words();
        raw->scale[i] = 1.0f;
        if (row < rows && row < t.rows && k < width) {
            const uint8_t *values = k3_load(x.values + t.first + row);

            raw->words[i] = k3_load16(values + (format == K3_FORMAT_BF16    ? 2ull * k
                                                : format == K3_FORMAT_MXFP4 ? k / 2
                                                                            : k));
            if (format != K3_FORMAT_BF16) {
                raw->scale[i] = k3_scale_at<format>(k3_load(x.scales + t.first + row), k);
            }
        }
    }
}

/* Eight values from the i-th on, as four pairs of bf16. */
template <k3_format_t format>
K3_DEVICE k3_words k3_x_octet(const k3_words &raw, float scale, unsigned i)
{
    if constexpr (format == K3_FORMAT_BF16) {
        return raw;
    } else {
        k3_words out = {};

#pragma unroll
        for (unsigned j = 0; j < 8; j++) {
            float value = k3_code_value<format>(&raw, i + j);

            value = k3_x_load<format>::scaled ? value : value * scale;
            out.word[j / 2] |= k3_gpu_to_bf16(value) << j % 2 * 16;
        }
        return out;
    }
}

template <k3_format_t format>
K3_DEVICE void k3_x_place(const k3_x_raw<format> &raw, unsigned rows, uint16_t *x, float *x_scale)
{
    typedef k3_x_load<format> load;

#pragma unroll
    for (unsigned i = 0; i < load::of_thread; i++) {
        unsigned number = i * k3_threads + k3_thread();
        unsigned row = number / load::of_row, first = number % load::of_row * load::values;

        if (row >= rows) {
            continue;
        }
#pragma unroll
        for (unsigned j = 0; j < load::values; j += 8) {
            unsigned k = first + j;

            k3_store16(x + row * k3_x_stride + k % 32 / 8 * 32 + k / 32 * 8,
                       k3_x_octet<format>(raw.words[i], raw.scale[i], j));
        }
        if (load::scaled && first == 0) {
            k3_store(x_scale + row, raw.scale[i]);
        }
    }
}

/* --- weights --------------------------------------------------------------------------------- */

/* What a lane holds of one row: a group of 32 values and its scale. */
template <k3_weight_format_t format> struct k3_w_raw {
    k3_words words[format == K3_WEIGHT_MXFP4 ? 1 : 2];
    uint32_t exponent; /* E8M0 code */
};

template <k3_weight_format_t format>
K3_DEVICE void k3_w_fetch(const k3_gpu_matrix_t &w, uint32_t expert, uint32_t row, uint32_t out,
                          uint32_t width, uint32_t k, k3_w_raw<format> *raw)
{
    uint64_t at = (uint64_t)row * width + k;

    *raw = k3_w_raw<format>();
    raw->exponent = 127;
    if (row >= out || k >= width) {
        return;
    }
    if (format == K3_WEIGHT_MXFP4) {
        raw->words[0] = k3_load16(w.values + expert * w.stride + at / 2);
        raw->exponent = k3_load(w.scales + expert * w.stride + at / 32);
    } else {
        raw->words[0] = k3_load16(w.values + expert * w.stride + at);
        raw->words[format == K3_WEIGHT_MXFP4 ? 0 : 1] =
            k3_load16(w.values + expert * w.stride + at + 16);
    }
}

/* bf16 bits of an E2M1 code times 2^(e - 127). Exponents at the ends go through f32. */
K3_DEVICE uint32_t k3_mxfp4_bits(uint32_t code, uint32_t e)
{
    uint32_t bits = k3_gpu_e2m1_bits(code);

    if (e - 2u <= 250u) {
        return (bits & 0x7fffu) == 0 ? bits : bits + (e << 7) - (127u << 7);
    }
    return k3_gpu_to_bf16(k3_gpu_bf16(bits) * k3_gpu_e8m0(e));
}

/* The lane's four values of step s, as two pairs. */
template <k3_weight_format_t format>
K3_DEVICE void k3_w_pairs(const k3_w_raw<format> &raw, unsigned s, uint32_t *pairs)
{
#pragma unroll
    for (unsigned p = 0; p < 2; p++) {
        uint32_t low, high;

        if (format == K3_WEIGHT_MXFP4) {
            uint32_t byte = raw.words[0].word[s / 2] >> ((s % 2 * 2 + p) * 8);

            low = k3_mxfp4_bits(byte & 15u, raw.exponent);
            high = k3_mxfp4_bits(byte >> 4 & 15u, raw.exponent);
        } else {
            uint32_t two = raw.words[s / 4 % (sizeof raw.words / 16)].word[s % 4] >> (p * 16);

            low = k3_gpu_e4m3_bits(two & 0xffu);
            high = k3_gpu_e4m3_bits(two >> 8 & 0xffu);
        }
        pairs[p] = low | high << 16;
    }
}

/* The f32 scale of a block of 128 x 128. */
K3_DEVICE float k3_block_scale(const k3_gpu_matrix_t &w, uint32_t expert, uint32_t row,
                               uint32_t width, uint32_t k)
{
    const float *scales = (const float *)(w.scales + expert * w.stride);

    return k3_load(scales + row / 128 * ((width + 127) / 128) + k / 128);
}

/* --- the product ------------------------------------------------------------------------------ */

template <unsigned matrices> struct k3_product {
    k3_gpu_matrix_t      w[matrices];
    k3_gpu_rows_t        x;
    k3_gpu_expert_task_t task;
    uint32_t             out, width; /* rows of the weights, length of the sum */
    uint32_t             first;      /* the warp's first row of the weights */
};

/* One chunk: sum[m][tile] += w[m] x. */
template <k3_weight_format_t weights, unsigned matrices, unsigned tiles>
K3_DEVICE void k3_multiply(const k3_w_raw<weights> (&raw)[matrices][k3_lane_rows],
                           const uint16_t *x, float (&sum)[matrices][tiles][4])
{
#pragma unroll
    for (unsigned s = 0; s < k3_steps; s += 2) {
        uint32_t a[2][matrices][2 * k3_lane_rows];

#pragma unroll
        for (unsigned i = 0; i < 2; i++) {
#pragma unroll
            for (unsigned m = 0; m < matrices; m++) {
#pragma unroll
                for (unsigned r = 0; r < k3_lane_rows; r++) {
                    k3_w_pairs<weights>(raw[m][r], s + i, &a[i][m][2 * r]);
                }
            }
        }
#pragma unroll
        for (unsigned tile = 0; tile < tiles; tile++) {
            unsigned column = tile * k3_mma_columns + k3_b_column();
            k3_words b = k3_load16(x + column * k3_x_stride + s / 2 * 32 + k3_group() * 8);

#pragma unroll
            for (unsigned m = 0; m < matrices; m++) {
                k3_mma(sum[m][tile], a[0][m], b.word);
                k3_mma(sum[m][tile], a[1][m], b.word + 2);
            }
        }
    }
}

/* acc += part * scales, for what was summed without them. */
template <k3_format_t format, k3_weight_format_t weights, unsigned matrices, unsigned tiles>
K3_DEVICE void k3_add_scaled(const k3_product<matrices> &p, uint32_t k0, const float *x_scale,
                             const float (&part)[matrices][tiles][4],
                             float (&acc)[matrices][tiles][4])
{
#pragma unroll
    for (unsigned m = 0; m < matrices; m++) {
        float w_scale = 1.0f;

        if (weights == K3_WEIGHT_FP8_B128 && p.first < p.out) {
            w_scale = k3_block_scale(p.w[m], p.task.expert, p.first, p.width, k0);
        }
#pragma unroll
        for (unsigned tile = 0; tile < tiles; tile++) {
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                unsigned column = tile * k3_mma_columns + k3_c_column(i);
                float    scale = k3_x_load<format>::scaled ? k3_load(x_scale + column) : 1.0f;

                acc[m][tile][i] += part[m][tile][i] * scale * w_scale;
            }
        }
    }
}

template <k3_weight_format_t weights, unsigned matrices>
K3_DEVICE void k3_w_fetch_all(const k3_product<matrices> &p, uint32_t k0,
                              k3_w_raw<weights> (&raw)[matrices][k3_lane_rows])
{
#pragma unroll
    for (unsigned m = 0; m < matrices; m++) {
#pragma unroll
        for (unsigned r = 0; r < k3_lane_rows; r++) {
            k3_w_fetch<weights>(p.w[m], p.task.expert, p.first + k3_a_row(r), p.out, p.width,
                                k0 + 32 * k3_group(), &raw[m][r]);
        }
    }
}

/* acc[m][tile] = the warp's 16 rows of w[m] times the rows of the task. x and x_scale have room for
 * two chunks. */
template <k3_format_t format, k3_weight_format_t weights, unsigned matrices, unsigned tiles>
K3_DEVICE void k3_gemm(const k3_product<matrices> &p, uint16_t *x, float *x_scale,
                       float (&acc)[matrices][tiles][4])
{
    constexpr bool     scaled = k3_x_load<format>::scaled || weights == K3_WEIGHT_FP8_B128;
    constexpr unsigned rows = tiles * k3_mma_columns;
    k3_x_raw<format>   x_raw;
    k3_w_raw<weights>  w_raw[matrices][k3_lane_rows], w_next[matrices][k3_lane_rows];
    unsigned           side = 0;

    k3_x_fetch<format>(p.x, p.task, rows, p.width, 0, &x_raw);
    k3_w_fetch_all<weights, matrices>(p, 0, w_next);
    k3_x_place<format>(x_raw, rows, x, x_scale);
    k3_barrier();
    for (uint32_t k0 = 0; k0 < p.width; k0 += k3_chunk, side ^= 1) {
        bool more = k0 + k3_chunk < p.width;

#pragma unroll
        for (unsigned m = 0; m < matrices; m++) {
#pragma unroll
            for (unsigned r = 0; r < k3_lane_rows; r++) {
                w_raw[m][r] = w_next[m][r];
            }
        }
        if (more) {
            k3_x_fetch<format>(p.x, p.task, rows, p.width, k0 + k3_chunk, &x_raw);
            k3_w_fetch_all<weights, matrices>(p, k0 + k3_chunk, w_next);
        }
        if (scaled) {
            float part[matrices][tiles][4] = {};

            k3_multiply<weights, matrices, tiles>(w_raw, x + side * k3_x_values, part);
            k3_add_scaled<format, weights, matrices, tiles>(p, k0, x_scale + side * k3_task_rows,
                                                            part, acc);
        } else {
            k3_multiply<weights, matrices, tiles>(w_raw, x + side * k3_x_values, acc);
        }
        if (more) {
            k3_x_place<format>(x_raw, rows, x + (side ^ 1) * k3_x_values,
                               x_scale + (side ^ 1) * k3_task_rows);
        }
        k3_barrier();
    }
}

#endif
