/* Copies, sums and the norm over rows, 16 bytes a thread. */
#ifndef K3_KERNELS_GPU_ROWS_H
#define K3_KERNELS_GPU_ROWS_H

#include "kernels/gpu/gpu.h"
#include "kernels/gpu/numbers.h"

constexpr unsigned k3_combine_parts = 64; /* the most */
constexpr unsigned k3_norm_width = 8192;  /* the most */

K3_DEVICE float k3_octet_value(const k3_words &w, unsigned i)
{
    return k3_gpu_bf16(w.word[i / 2] >> (i % 2 * 16) & 0xffffu);
}

/* --- copy ------------------------------------------------------------------------------------ */

template <typename unit> K3_DEVICE void k3_copy_units(const k3_gpu_copy_task_t &t)
{
    for (uint64_t i = k3_lane(); i < t.bytes / sizeof(unit); i += k3_warp) {
        k3_store((unit *)t.to + i, k3_load((const unit *)t.from + i));
    }
}

/* A warp for each range. */
K3_KERNEL k3_copy_ranges(k3_gpu_copy_t a)
{
    uint64_t           number = (uint64_t)k3_block(0) * k3_warps + k3_thread() / k3_warp;
    k3_gpu_copy_task_t t;
    uint64_t           common;

    if (number >= a.tasks) {
        return;
    }
    t.from = k3_load(&a.task[number].from);
    t.to = k3_load(&a.task[number].to);
    t.bytes = k3_load(&a.task[number].bytes);
    common = (uint64_t)(uintptr_t)t.from | (uint64_t)(uintptr_t)t.to | t.bytes;
    if (common % 16 == 0) {
        k3_copy_units<k3_words>(t);
    } else if (common % 8 == 0) {
        k3_copy_units<uint64_t>(t);
    } else if (common % 4 == 0) {
        k3_copy_units<uint32_t>(t);
    } else {
        k3_copy_units<uint8_t>(t);
    }
}

/* --- combine --------------------------------------------------------------------------------- */

/* A block for each row. */
K3_KERNEL k3_combine_rows(k3_gpu_combine_t a)
{
    uint64_t  row = k3_block(0);
    uint16_t *to = a.row == nullptr ? a.out + row * a.width : k3_load(a.row + row);

    K3_SHARED(const uint16_t *, parts, k3_combine_parts);
    K3_SHARED(float, weights, k3_combine_parts);
    if (k3_thread() < a.k) {
        uint64_t at = row * a.k + k3_thread();

        k3_store(parts + k3_thread(), k3_load(a.parts + at));
        k3_store(weights + k3_thread(), a.weights == nullptr ? 1.0f : k3_load(a.weights + at));
    }
    k3_barrier();
    for (uint32_t first = k3_thread() * 8; first < a.width; first += k3_threads * 8) {
        float    sum[8] = {};
        k3_words out = {};

        for (unsigned i = 0; i < a.k; i++) {
            const uint16_t *part = k3_load(parts + i);

            if (part != nullptr) {
                k3_words w = k3_load_octet(part + first);
                float    weight = k3_load(weights + i);

                for (unsigned j = 0; j < 8; j++) {
                    sum[j] += weight * k3_octet_value(w, j);
                }
            }
        }
        for (unsigned j = 0; j < 8; j++) {
            out.word[j / 2] |= k3_gpu_to_bf16(sum[j]) << j % 2 * 16;
        }
        k3_store_octet(to + first, out);
    }
}

/* --- norm ------------------------------------------------------------------------------------ */

K3_DEVICE float k3_block_sum(float mine, float *of_warp)
{
    float sum = 0;

    for (unsigned mask = k3_warp / 2; mask != 0; mask /= 2) {
        mine += k3_shuffle_xor(mine, mask);
    }
    if (k3_lane() == 0) {
        k3_store(of_warp + k3_thread() / k3_warp, mine);
    }
    k3_barrier();
    for (unsigned i = 0; i < k3_warps; i++) {
        sum += k3_load(of_warp + i);
    }
    return sum;
}

/* A block for each row, which is read once. */
K3_KERNEL k3_norm_rows(k3_gpu_norm_t a)
{
    constexpr unsigned octets = k3_norm_width / 8 / k3_threads;
    uint64_t           row = k3_block(0);
    k3_words           w[octets] = {};
    float              sum = 0, inverse;

    K3_SHARED(float, of_warp, k3_warps);
#pragma unroll
    for (unsigned i = 0; i < octets; i++) {
        uint32_t first = (i * k3_threads + k3_thread()) * 8;

        if (first < a.width) {
            w[i] = k3_load16(a.x + row * a.width + first);
        }
        for (unsigned j = 0; j < 8; j++) {
            sum += k3_octet_value(w[i], j) * k3_octet_value(w[i], j);
        }
    }
    sum = k3_block_sum(sum, of_warp);
    inverse = 1.0f / k3_sqrt(sum / (float)a.width + a.eps);
#pragma unroll
    for (unsigned i = 0; i < octets; i++) {
        uint32_t first = (i * k3_threads + k3_thread()) * 8;
        k3_words out = {}, gain;

        if (first >= a.width) {
            continue;
        }
        gain = k3_load16(a.gain + first);
        for (unsigned j = 0; j < 8; j++) {
            float value = k3_octet_value(w[i], j) * inverse * k3_octet_value(gain, j);

            out.word[j / 2] |= k3_gpu_to_bf16(value) << j % 2 * 16;
        }
        k3_store16(a.out + row * a.width + first, out);
    }
}

/* --- sums, activation, dense layers: eight values a thread ------------------------------------ */

/* The first of this thread's eight values. */
K3_DEVICE uint64_t k3_octet_of_thread()
{
    return ((uint64_t)k3_block(0) * k3_threads + k3_thread()) * 8;
}

K3_KERNEL k3_sum_parts(k3_gpu_sum_t a)
{
    uint64_t first = k3_octet_of_thread();
    float    sum[8] = {};
    k3_words out = {};

    if (first >= a.n) {
        return;
    }
    for (uint32_t i = 0; i < a.parts; i++) {
        k3_words w = k3_load16((const uint8_t *)a.first + (int64_t)i * a.stride + 2 * first);

        for (unsigned j = 0; j < 8; j++) {
            sum[j] += k3_octet_value(w, j);
        }
    }
    for (unsigned j = 0; j < 8; j++) {
        out.word[j / 2] |= k3_gpu_to_bf16(sum[j]) << j % 2 * 16;
    }
    k3_store16(a.out + first, out);
}

K3_KERNEL k3_activate_values(k3_gpu_activate_t a)
{
    uint64_t first = k3_octet_of_thread();
    k3_words gate, up, out = {};

    if (first >= a.n) {
        return;
    }
    gate = k3_load16(a.gate + first);
    up = k3_load16(a.up + first);
    for (unsigned j = 0; j < 8; j++) {
        float value =
            k3_gpu_act(a.activation == K3_ACT_SITU, k3_octet_value(gate, j), k3_octet_value(up, j));

        out.word[j / 2] |= k3_gpu_to_bf16(value) << j % 2 * 16;
    }
    k3_store16(a.out + first, out);
}

/* A warp for each value of the result. */
K3_KERNEL k3_dense_values(k3_gpu_dense_t a)
{
    uint64_t number = (uint64_t)k3_block(0) * k3_warps + k3_thread() / k3_warp;
    uint64_t row = number / a.n, column = number % a.n;
    float    sum = 0;

    if (row >= a.m) {
        return;
    }
    for (uint32_t first = k3_lane() * 8; first < a.k; first += k3_warp * 8) {
        k3_words x = k3_load16(a.x + row * a.k + first), w = k3_load16(a.w + column * a.k + first);

        for (unsigned j = 0; j < 8; j++) {
            sum += k3_octet_value(x, j) * k3_octet_value(w, j);
        }
    }
    for (unsigned mask = k3_warp / 2; mask != 0; mask /= 2) {
        sum += k3_shuffle_xor(sum, mask);
    }
    if (k3_lane() != 0) {
        return;
    }
    if (a.y_f32 != nullptr) {
        k3_store(a.y_f32 + number, sum);
    } else {
        k3_store(a.y_bf16 + number, (uint16_t)k3_gpu_to_bf16(sum));
    }
}

#endif
