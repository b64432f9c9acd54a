/* The expert MLP in two kernels: gate and up with the activation, then down. Between them the middle
 * rows are brought to the recipe's format by k3_gpu_encode. */
#ifndef K3_KERNELS_GPU_EXPERT_H
#define K3_KERNELS_GPU_EXPERT_H

#include "kernels/gpu/gemm.h"

/* The block's results lie in shared memory, [row of the task][64]; each thread stores 16 bytes. */
template <typename target>
K3_DEVICE void k3_store_tile(const uint16_t *staged, uint32_t rows, uint32_t out, uint32_t tile,
                             target to)
{
    k3_barrier();
    for (unsigned i = k3_thread(); i < rows * (k3_tile_rows / 8); i += k3_threads) {
        unsigned row = i / (k3_tile_rows / 8), first = i % (k3_tile_rows / 8) * 8;

        if (tile + first < out) {
            k3_store_octet(to(row) + tile + first, k3_load16(staged + row * k3_out_stride + first));
        }
    }
}

K3_DEVICE k3_gpu_expert_task_t k3_task_of_block(const k3_gpu_expert_task_t *task)
{
    task += k3_block(1);
    return {k3_load(&task->expert), k3_load(&task->first), k3_load(&task->rows)};
}

K3_DEVICE float k3_rounded(float value)
{
    return k3_gpu_bf16(k3_gpu_to_bf16(value));
}

K3_DEVICE uint16_t *k3_staged_at(uint16_t *staged, unsigned tile, unsigned i)
{
    unsigned column = tile * k3_mma_columns + k3_c_column(i);

    return staged + column * k3_out_stride + k3_thread() / k3_warp * k3_mma_rows + k3_c_row(i);
}

/* --- gate and up ------------------------------------------------------------------------------ */

template <unsigned tiles>
K3_DEVICE void k3_activate_tile(const k3_gpu_gate_up_t &a, const k3_gpu_expert_task_t &t,
                                const float (&acc)[2][tiles][4], uint16_t             *staged)
{
#pragma unroll
    for (unsigned tile = 0; tile < tiles; tile++) {
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            unsigned column = tile * k3_mma_columns + k3_c_column(i);
            float    gate = acc[0][tile][i], up = acc[1][tile][i], weight = 1.0f;

            if (column >= t.rows) {
                continue;
            }
            if (a.row_weights != nullptr) {
                weight = k3_load(a.row_weights + t.first + column);
            }
            if (a.round_gate_up) {
                gate = k3_rounded(gate);
                up = k3_rounded(up);
            }
            gate = k3_gpu_act(a.activation == K3_ACT_SITU, gate, up) * weight;
            k3_store(k3_staged_at(staged, tile, i), (uint16_t)k3_gpu_to_bf16(gate));
        }
    }
}

template <k3_format_t format, k3_weight_format_t weights, unsigned tiles>
K3_DEVICE void k3_gate_up_run(const k3_gpu_gate_up_t &a, const k3_gpu_expert_task_t &t, uint16_t *x,
                              float *x_scale)
{
    uint32_t      tile = k3_block(0) * k3_tile_rows, inter = a.inter;
    uint16_t     *out = a.out;
    float         acc[2][tiles][4] = {};
    k3_product<2> p = {{a.gate, a.up}, a.x,      t,
                       inter,          a.latent, tile + k3_thread() / k3_warp * k3_mma_rows};

    k3_gemm<format, weights, 2, tiles>(p, x, x_scale, acc);
    k3_activate_tile<tiles>(a, t, acc, x);
    k3_store_tile(x, t.rows, inter, tile,
                  [=](unsigned row) { return out + (uint64_t)(t.first + row) * inter; });
}

template <k3_format_t format, k3_weight_format_t weights> K3_KERNEL k3_gate_up(k3_gpu_gate_up_t a)
{
    k3_gpu_expert_task_t t = k3_task_of_block(a.task);

    K3_SHARED(uint16_t, x, 2 * k3_x_values);
    K3_SHARED(float, x_scale, 2 * k3_task_rows);
    if (t.rows <= k3_mma_columns) {
        k3_gate_up_run<format, weights, 1>(a, t, x, x_scale);
    } else {
        k3_gate_up_run<format, weights, k3_task_tiles>(a, t, x, x_scale);
    }
}

/* --- down ------------------------------------------------------------------------------------- */

template <k3_format_t format, k3_weight_format_t weights, unsigned tiles>
K3_DEVICE void k3_down_run(const k3_gpu_down_t &a, const k3_gpu_expert_task_t &t, uint16_t *x,
                           float *x_scale)
{
    uint32_t         tile = k3_block(0) * k3_tile_rows;
    uint16_t *const *out = a.out;
    float            acc[1][tiles][4] = {};
    k3_product<1>    p = {{a.down}, a.x,     t,
                          a.latent, a.inter, tile + k3_thread() / k3_warp * k3_mma_rows};

    k3_gemm<format, weights, 1, tiles>(p, x, x_scale, acc);
#pragma unroll
    for (unsigned j = 0; j < tiles; j++) {
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            if (j * k3_mma_columns + k3_c_column(i) < t.rows) {
                k3_store(k3_staged_at(x, j, i), (uint16_t)k3_gpu_to_bf16(acc[0][j][i]));
            }
        }
    }
    k3_store_tile(x, t.rows, a.latent, tile,
                  [=](unsigned row) { return k3_load(out + t.first + row); });
}

template <k3_format_t format, k3_weight_format_t weights> K3_KERNEL k3_down(k3_gpu_down_t a)
{
    k3_gpu_expert_task_t t = k3_task_of_block(a.task);

    K3_SHARED(uint16_t, x, 2 * k3_x_values);
    K3_SHARED(float, x_scale, 2 * k3_task_rows);
    if (t.rows <= k3_mma_columns) {
        k3_down_run<format, weights, 1>(a, t, x, x_scale);
    } else {
        k3_down_run<format, weights, k3_task_tiles>(a, t, x, x_scale);
    }
}

#endif
