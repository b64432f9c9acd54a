/* Which kernel runs for which arguments, written once for the devices and for the emulator. A
 * launcher has a member `start(grid x, grid y, kernel, arguments)` that returns its result. */
#ifndef K3_KERNELS_GPU_LAUNCH_H
#define K3_KERNELS_GPU_LAUNCH_H

#include "kernels/gpu/encode.h"
#include "kernels/gpu/expert.h"
#include "kernels/gpu/logfmt.h"
#include "kernels/gpu/route.h"
#include "kernels/gpu/rows.h"

inline unsigned k3_blocks_for(uint64_t warps)
{
    return (unsigned)((warps + k3_warps - 1) / k3_warps);
}

inline uint64_t k3_segments_of(uint32_t rows, uint32_t width)
{
    return (uint64_t)rows * ((width + k3_segment - 1) / k3_segment);
}

template <typename L> auto k3_start(L &l, const k3_gpu_encode_t &a)
{
    unsigned blocks = k3_blocks_for(k3_segments_of(a.rows, a.width));

    switch (a.format) {
    case K3_FORMAT_BF16:
        return l.start(blocks, 1, k3_encode_bf16, a);
    case K3_FORMAT_FP8:
        return l.start(blocks, 1, k3_encode_groups<K3_FORMAT_FP8>, a);
    case K3_FORMAT_MXFP8:
        return l.start(blocks, 1, k3_encode_groups<K3_FORMAT_MXFP8>, a);
    case K3_FORMAT_MXFP4:
        return l.start(blocks, 1, k3_encode_groups<K3_FORMAT_MXFP4>, a);
    default:
        return l.start(a.rows, 1, k3_encode_int8, a);
    }
}

template <typename L> auto k3_start(L &l, const k3_gpu_decode_t &a)
{
    unsigned blocks = k3_blocks_for(k3_segments_of(a.rows, a.width));

    switch (a.format) {
    case K3_FORMAT_FP8:
        return l.start(blocks, 1, k3_decode_rows<K3_FORMAT_FP8>, a);
    case K3_FORMAT_MXFP8:
        return l.start(blocks, 1, k3_decode_rows<K3_FORMAT_MXFP8>, a);
    case K3_FORMAT_MXFP4:
        return l.start(blocks, 1, k3_decode_rows<K3_FORMAT_MXFP4>, a);
    case K3_FORMAT_INT8:
        return l.start(blocks, 1, k3_decode_rows<K3_FORMAT_INT8>, a);
    default:
        return l.start(blocks, 1, k3_decode_rows<K3_FORMAT_BF16>, a);
    }
}

template <typename L> auto k3_start(L &l, const k3_gpu_scale_t &a)
{
    unsigned blocks = k3_blocks_for(k3_segments_of(a.rows, a.width));

    switch (a.format) {
    case K3_FORMAT_FP8:
        return l.start(blocks, 1, k3_scale_rows<K3_FORMAT_FP8>, a);
    case K3_FORMAT_MXFP8:
        return l.start(blocks, 1, k3_scale_rows<K3_FORMAT_MXFP8>, a);
    case K3_FORMAT_MXFP4:
        return l.start(blocks, 1, k3_scale_rows<K3_FORMAT_MXFP4>, a);
    case K3_FORMAT_INT8:
        return l.start(blocks, 1, k3_scale_rows<K3_FORMAT_INT8>, a);
    default:
        return l.start(blocks, 1, k3_scale_rows<K3_FORMAT_BF16>, a);
    }
}

template <typename L> auto k3_start(L &l, const k3_gpu_copy_t &a)
{
    return l.start(k3_blocks_for(a.tasks), 1, k3_copy_ranges, a);
}

template <typename L> auto k3_start(L &l, const k3_gpu_route_t &a)
{
    return l.start(k3_blocks_for(a.rows), 1, k3_route_rows, a);
}

template <typename L> auto k3_start(L &l, const k3_gpu_combine_t &a)
{
    return l.start(a.rows, 1, k3_combine_rows, a);
}

template <typename L> auto k3_start(L &l, const k3_gpu_log_encode_t &a)
{
    return l.start(a.rows, 1, k3_encode_log, a);
}

template <typename L> auto k3_start(L &l, const k3_gpu_log_combine_t &a)
{
    return l.start(a.rows, 1, k3_combine_log, a);
}

template <typename L> auto k3_start(L &l, const k3_gpu_norm_t &a)
{
    return l.start(a.rows, 1, k3_norm_rows, a);
}

template <typename L> auto k3_start(L &l, const k3_gpu_weigh_t &a)
{
    return l.start(k3_blocks_for(a.rows), 1, k3_weigh_ids, a);
}

inline unsigned k3_blocks_of_octets(uint64_t n)
{
    return (unsigned)((n / 8 + k3_threads - 1) / k3_threads);
}

template <typename L> auto k3_start(L &l, const k3_gpu_sum_t &a)
{
    return l.start(k3_blocks_of_octets(a.n), 1, k3_sum_parts, a);
}

template <typename L> auto k3_start(L &l, const k3_gpu_activate_t &a)
{
    return l.start(k3_blocks_of_octets(a.n), 1, k3_activate_values, a);
}

template <typename L> auto k3_start(L &l, const k3_gpu_dense_t &a)
{
    return l.start(k3_blocks_for((uint64_t)a.m * a.n), 1, k3_dense_values, a);
}

/* A kernel for each format of rows, for one of weights. */
#define K3_START_BY_FORMAT(kernel, weights)                                                        \
    switch (a.x.format) {                                                                          \
    case K3_FORMAT_FP8:                                                                            \
        return l.start(tiles, a.tasks, kernel<K3_FORMAT_FP8, weights>, a);                         \
    case K3_FORMAT_MXFP8:                                                                          \
        return l.start(tiles, a.tasks, kernel<K3_FORMAT_MXFP8, weights>, a);                       \
    case K3_FORMAT_MXFP4:                                                                          \
        return l.start(tiles, a.tasks, kernel<K3_FORMAT_MXFP4, weights>, a);                       \
    case K3_FORMAT_INT8:                                                                           \
        return l.start(tiles, a.tasks, kernel<K3_FORMAT_INT8, weights>, a);                        \
    default:                                                                                       \
        return l.start(tiles, a.tasks, kernel<K3_FORMAT_BF16, weights>, a);                        \
    }

template <typename L> auto k3_start(L &l, const k3_gpu_gate_up_t &a)
{
    unsigned tiles = (a.inter + k3_tile_rows - 1) / k3_tile_rows;

    if (a.weights == K3_WEIGHT_MXFP4) {
        K3_START_BY_FORMAT(k3_gate_up, K3_WEIGHT_MXFP4)
    }
    K3_START_BY_FORMAT(k3_gate_up, K3_WEIGHT_FP8_B128)
}

template <typename L> auto k3_start(L &l, const k3_gpu_down_t &a)
{
    unsigned tiles = (a.latent + k3_tile_rows - 1) / k3_tile_rows;

    if (a.weights == K3_WEIGHT_MXFP4) {
        K3_START_BY_FORMAT(k3_down, K3_WEIGHT_MXFP4)
    }
    K3_START_BY_FORMAT(k3_down, K3_WEIGHT_FP8_B128)
}

#endif
