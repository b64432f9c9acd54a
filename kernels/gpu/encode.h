/* Rows to formats and back: a lane has 16 values, lanes of a group find its largest magnitude. */
#ifndef K3_KERNELS_GPU_ENCODE_H
#define K3_KERNELS_GPU_ENCODE_H

#include "kernels/gpu/gpu.h"
#include "kernels/gpu/numbers.h"

constexpr unsigned k3_lane_values = 16;
constexpr unsigned k3_segment = k3_warp * k3_lane_values; /* values of a warp */

K3_DEVICE uint32_t k3_half(const k3_words *w, unsigned i) /* of two: the i-th of 16 bf16 values */
{
    return w[i / 8].word[i % 8 / 2] >> (i % 2 * 16) & 0xffffu;
}

K3_DEVICE uint32_t k3_largest(const k3_words *w)
{
    uint32_t max = 0;

#pragma unroll
    for (unsigned i = 0; i < k3_lane_values; i++) {
        uint32_t magnitude = k3_half(w, i) & 0x7fffu;

        max = magnitude > max ? magnitude : max;
    }
    return max;
}

/* Row and first value of this lane; false when the warp has nothing to do. */
K3_DEVICE bool k3_segment_of(uint32_t rows, uint32_t width, uint32_t *row, uint32_t *first)
{
    uint32_t segments = (width + k3_segment - 1) / k3_segment;
    uint64_t unit = (uint64_t)k3_block(0) * k3_warps + k3_thread() / k3_warp;

    if (unit >= (uint64_t)rows * segments) {
        return false;
    }
    *row = (uint32_t)(unit / segments);
    *first = (uint32_t)(unit % segments) * k3_segment + k3_lane() * k3_lane_values;
    return true;
}

template <k3_format_t format>
K3_DEVICE uint32_t k3_scale_of(uint32_t max) /* E8M0 code or f32 bits */
{
    int exponent = (int)(max >> 7) - 2;

    if (format == K3_FORMAT_FP8) {
        float amax = k3_gpu_bf16(max);

        return max >= 0x7f80u ? 0x7fc00000u : k3_as_bits((amax < 1e-4f ? 1e-4f : amax) / 448.0f);
    }
    if (max >= 0x7f80u) {
        return 255u;
    }
    if (format == K3_FORMAT_MXFP8) {
        exponent = (int)(max >> 7) - 8 + ((max & 0x7fu) > 0x60u);
    }
    return (uint32_t)(exponent < 0 ? 0 : exponent);
}

template <k3_format_t format>
K3_DEVICE uint32_t k3_code_of(uint32_t bits, uint32_t max, float scale)
{
    float value = k3_gpu_bf16(bits);

    if (max >= 0x7f80u) {
        return format == K3_FORMAT_MXFP4 ? 7u : 0x7fu;
    }
    if (format == K3_FORMAT_FP8) {
        return k3_gpu_to_e4m3(value / scale);
    }
    return format == K3_FORMAT_MXFP8 ? k3_gpu_to_e4m3(value * scale)
                                     : k3_gpu_to_e2m1(value * scale);
}

K3_DEVICE void k3_write_header(const k3_gpu_encode_t &a, uint32_t row)
{
    if (a.headers != nullptr) {
        k3_words header = {{a.number + row, 0, 0, 0}};

        k3_store16(a.headers + row * a.headers_stride, header);
    }
}

/* bf16 as it is. */
K3_KERNEL k3_encode_bf16(k3_gpu_encode_t a)
{
    uint32_t row, first;

    if (!k3_segment_of(a.rows, a.width, &row, &first) || first >= a.width) {
        return;
    }
    const uint8_t *in = (const uint8_t *)a.in + row * a.in_stride + 2ull * first;
    uint8_t       *out = a.values + row * a.values_stride + 2ull * first;

    if (first == 0) {
        k3_write_header(a, row);
    }
    k3_store16(out, k3_load16(in));
    k3_store16(out + 16, k3_load16(in + 16));
}

/* fp8, mxfp8, mxfp4. The scale of MX formats is a power of two, so its inverse is exact. */
template <k3_format_t format> K3_KERNEL k3_encode_groups(k3_gpu_encode_t a)
{
    constexpr unsigned lanes = format == K3_FORMAT_FP8 ? 8 : 2; /* of a group */
    constexpr unsigned bits = format == K3_FORMAT_MXFP4 ? 4 : 8;
    k3_words           w[2] = {}, codes = {};
    uint32_t           row, first, max, scale;
    float              factor;

    if (!k3_segment_of(a.rows, a.width, &row, &first)) {
        return;
    }
    if (first == 0) {
        k3_write_header(a, row);
    }
    if (first < a.width) {
        const uint8_t *in = (const uint8_t *)a.in + row * a.in_stride + 2ull * first;

        w[0] = k3_load16(in);
        w[1] = k3_load16(in + 16);
    }
    max = k3_max_over(k3_largest(w), lanes);
    if (first >= a.width) {
        return;
    }
    scale = k3_scale_of<format>(max);
    factor = format == K3_FORMAT_FP8 ? k3_as_float(scale) : 1.0f / k3_gpu_e8m0(scale);
#pragma unroll
    for (unsigned i = 0; i < k3_lane_values; i++) {
        codes.word[i * bits / 32] |= k3_code_of<format>(k3_half(w, i), max, factor)
                                     << i * bits % 32;
    }
    if (format == K3_FORMAT_MXFP4) {
        uint64_t both = codes.word[0] | (uint64_t)codes.word[1] << 32;

        k3_store((uint64_t *)(a.values + row * a.values_stride + first / 2), both);
    } else {
        k3_store16(a.values + row * a.values_stride + first, codes);
    }
    if (k3_lane() % lanes == 0) {
        uint8_t *scales = a.scales + row * a.scales_stride;

        if (format == K3_FORMAT_FP8) {
            k3_store((uint32_t *)scales + first / 128, scale);
        } else {
            k3_store(scales + first / 32, (uint8_t)scale);
        }
    }
}

/* The largest magnitude of a row that a whole block reads. */
K3_DEVICE uint32_t k3_row_largest(const uint8_t *in, uint32_t width, uint32_t *of_warp)
{
    uint32_t max = 0;

    for (uint32_t first = k3_thread() * 16; first < width; first += k3_threads * 16) {
        k3_words w[2] = {k3_load16(in + 2ull * first), k3_load16(in + 2ull * first + 16)};
        uint32_t mine = k3_largest(w);

        max = mine > max ? mine : max;
    }
    max = k3_max_over(max, k3_warp);
    if (k3_lane() == 0) {
        k3_store(of_warp + k3_thread() / k3_warp, max);
    }
    k3_barrier();
    for (unsigned i = 0; i < k3_warps; i++) {
        uint32_t other = k3_load(of_warp + i);

        max = other > max ? other : max;
    }
    return max;
}

K3_DEVICE uint32_t k3_to_int8(float value)
{
    value = value < -127.0f ? -127.0f : value > 127.0f ? 127.0f : value;
    /* Adding 1.5 * 2^23 rounds to an integer, ties to even. */
    return (k3_as_bits(value + 12582912.0f) - k3_as_bits(12582912.0f)) & 0xffu;
}

/* A block for a row. */
K3_KERNEL k3_encode_int8(k3_gpu_encode_t a)
{
    uint32_t       row = k3_block(0);
    const uint8_t *in = (const uint8_t *)a.in + row * a.in_stride;
    uint32_t       max;
    float          scale;

    K3_SHARED(uint32_t, of_warp, k3_warps);
    max = k3_row_largest(in, a.width, of_warp);
    scale = max == 0 ? 1.0f : k3_gpu_bf16(max) / 127.0f;
    for (uint32_t first = k3_thread() * 16; first < a.width; first += k3_threads * 16) {
        k3_words w[2] = {k3_load16(in + 2ull * first), k3_load16(in + 2ull * first + 16)};
        k3_words codes = {};

#pragma unroll
        for (unsigned i = 0; i < 16; i++) {
            uint32_t code = k3_to_int8(k3_gpu_bf16(k3_half(w, i)) / scale);

            codes.word[i / 4] |= (max < 0x7f80u ? code : 0u) << i % 4 * 8;
        }
        k3_store16(a.values + row * a.values_stride + first, codes);
    }
    if (k3_thread() == 0) {
        k3_write_header(a, row);
        k3_store((uint32_t *)(a.scales + row * a.scales_stride),
                 max >= 0x7f80u ? 0x7fc00000u : k3_as_bits(scale));
    }
}

/* --- back ------------------------------------------------------------------------------------ */

/* The i-th code of a lane's values as f32, before its scale. */
template <k3_format_t format> K3_DEVICE float k3_code_value(const k3_words *w, unsigned i)
{
    if (format == K3_FORMAT_BF16) {
        return k3_gpu_bf16(k3_half(w, i));
    }
    if (format == K3_FORMAT_MXFP4) {
        return k3_gpu_bf16(k3_gpu_e2m1_bits(w->word[i / 8] >> (i % 8 * 4) & 15u));
    }
    if (format == K3_FORMAT_INT8) {
        return (float)(int8_t)(w->word[i / 4] >> (i % 4 * 8));
    }
    return k3_gpu_bf16(k3_gpu_e4m3_bits(w->word[i / 4] >> (i % 4 * 8) & 0xffu));
}

/* The scale of the group with value `first`. */
template <k3_format_t format> K3_DEVICE float k3_scale_at(const uint8_t *scales, uint32_t first)
{
    switch (format) {
    case K3_FORMAT_FP8:
        return k3_load((const float *)scales + first / 128);
    case K3_FORMAT_INT8:
        return k3_load((const float *)scales);
    case K3_FORMAT_MXFP8:
    case K3_FORMAT_MXFP4:
        return k3_gpu_e8m0(k3_load(scales + first / 32));
    default:
        return 1.0f;
    }
}

/* 16 values from `first`: two times 16 bytes of bf16, one of 8-bit codes, 8 bytes of 4-bit codes. */
template <k3_format_t format>
K3_DEVICE void k3_load_values(const uint8_t *values, uint32_t first, k3_words *w)
{
    if (format == K3_FORMAT_MXFP4) {
        uint64_t both = k3_load((const uint64_t *)(values + first / 2));

        w->word[0] = (uint32_t)both;
        w->word[1] = (uint32_t)(both >> 32);
    } else if (format == K3_FORMAT_BF16) {
        w[0] = k3_load16(values + 2ull * first);
        w[1] = k3_load16(values + 2ull * first + 16);
    } else {
        *w = k3_load16(values + first);
    }
}

template <k3_format_t format> K3_KERNEL k3_decode_rows(k3_gpu_decode_t a)
{
    k3_words w[2] = {}, out[2] = {};
    uint32_t row, first;
    float    scale;

    if (!k3_segment_of(a.rows, a.width, &row, &first) || first >= a.width) {
        return;
    }
    k3_load_values<format>(k3_load(a.values + row), first, w);
    scale = format == K3_FORMAT_BF16 ? 1.0f : k3_scale_at<format>(k3_load(a.scales + row), first);
#pragma unroll
    for (unsigned i = 0; i < k3_lane_values; i++) {
        float value = k3_code_value<format>(w, i);

        out[i / 8].word[i % 8 / 2] |=
            (format == K3_FORMAT_BF16 ? k3_half(w, i) : k3_gpu_to_bf16(value * scale))
            << i % 2 * 16;
    }
    k3_store16((uint8_t *)a.out + row * a.out_stride + 2ull * first, out[0]);
    k3_store16((uint8_t *)a.out + row * a.out_stride + 2ull * first + 16, out[1]);
}

/* The stand-in for an expert: decoded values times a factor of the row, and its weight. */
template <k3_format_t format> K3_KERNEL k3_scale_rows(k3_gpu_scale_t a)
{
    k3_words w[2] = {}, out[2] = {};
    uint32_t row, first;
    float    scale, factor, weight;

    if (!k3_segment_of(a.rows, a.width, &row, &first) || first >= a.width) {
        return;
    }
    k3_load_values<format>(k3_load(a.values + row), first, w);
    scale = format == K3_FORMAT_BF16 ? 1.0f : k3_scale_at<format>(k3_load(a.scales + row), first);
    factor = k3_load(a.factors + row);
    weight = a.weights == nullptr ? 1.0f : k3_load(a.weights + row);
#pragma unroll
    for (unsigned i = 0; i < k3_lane_values; i++) {
        float value = k3_code_value<format>(w, i) * scale;

        out[i / 8].word[i % 8 / 2] |= k3_gpu_to_bf16(value * factor * weight) << i % 2 * 16;
    }
    uint8_t *to = (uint8_t *)k3_load(a.out + row) + 2ull * first;

    k3_store_octet(to, out[0]);
    k3_store_octet(to + 16, out[1]);
}

#endif
