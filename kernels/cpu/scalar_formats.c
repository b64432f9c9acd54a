/* Rows to formats and back, one value at a time. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

static const float   scale_nan = NAN;
static const uint8_t scale_e8m0_nan = 255;

/* The largest magnitude of n bf16 values as bits; 0x7f80 and above: there is an Inf or NaN. */
static uint16_t largest(const uint16_t *row, size_t n)
{
    uint16_t max = 0;

    for (size_t i = 0; i < n; i++) {
        uint16_t magnitude = row[i] & 0x7fff;

        max = magnitude > max ? magnitude : max;
    }
    return max;
}

static void store_scale(void *scales, size_t i, float scale)
{
    memcpy((char *)scales + i * sizeof scale, &scale, sizeof scale);
}

static float load_scale(const void *scales, size_t i)
{
    float scale;

    memcpy(&scale, (const char *)scales + i * sizeof scale, sizeof scale);
    return scale;
}

static void encode_fp8(const uint16_t *row, size_t n, uint8_t *codes, void *scales, size_t group)
{
    uint16_t max = largest(row, n);
    float    amax = k3_bf16_to_f32(max);
    float    scale = (amax < 1e-4f ? 1e-4f : amax) / 448.0f;

    if (max >= 0x7f80) {
        memset(codes, 0x7f, n);
        store_scale(scales, group, scale_nan);
        return;
    }
    store_scale(scales, group, scale);
    for (size_t i = 0; i < n; i++) {
        codes[i] = k3_f32_to_e4m3(k3_bf16_to_f32(row[i]) / scale);
    }
}

static uint8_t limited(int exponent)
{
    return (uint8_t)(exponent < 0 ? 0 : exponent);
}

/* bf16 exponent and fraction sit in bits 7..14 and 0..6; 448 = 1.75 * 2^8. */
static void encode_mxfp8(const uint16_t *row, size_t n, uint8_t *codes, uint8_t *scale)
{
    uint16_t max = largest(row, n);
    float    inverse;

    if (max >= 0x7f80) {
        memset(codes, 0x7f, n);
        *scale = scale_e8m0_nan;
        return;
    }
    *scale = limited((max >> 7) - 8 + ((max & 0x7f) > 0x60));
    inverse = 1.0f / k3_e8m0_to_f32(*scale);
    for (size_t i = 0; i < n; i++) {
        codes[i] = k3_f32_to_e4m3(k3_bf16_to_f32(row[i]) * inverse);
    }
}

static void encode_mxfp4(const uint16_t *row, size_t n, uint8_t *codes, uint8_t *scale)
{
    uint16_t max = largest(row, n);
    float    inverse;

    if (max >= 0x7f80) {
        memset(codes, 0x77, (n + 1) / 2);
        *scale = scale_e8m0_nan;
        return;
    }
    *scale = limited((max >> 7) - 2);
    inverse = 1.0f / k3_e8m0_to_f32(*scale);
    for (size_t i = 0; i < n; i += 2) {
        uint8_t low = k3_f32_to_e2m1(k3_bf16_to_f32(row[i]) * inverse);
        uint8_t high = i + 1 < n ? k3_f32_to_e2m1(k3_bf16_to_f32(row[i + 1]) * inverse) : 0;

        codes[i / 2] = (uint8_t)(low | high << 4);
    }
}

static void encode_int8(const uint16_t *row, size_t n, int8_t *codes, void *scales)
{
    uint16_t max = largest(row, n);
    float    scale = max == 0 ? 1.0f : k3_bf16_to_f32(max) / 127.0f;

    if (max >= 0x7f80) {
        memset(codes, 0, n);
        store_scale(scales, 0, scale_nan);
        return;
    }
    store_scale(scales, 0, scale);
    for (size_t i = 0; i < n; i++) {
        float value = k3_bf16_to_f32(row[i]) / scale;

        codes[i] = (int8_t)lrintf(fminf(fmaxf(value, -127.0f), 127.0f));
    }
}

void k3_scalar_encode(k3_format_t format, const uint16_t *row, size_t n, void *values, void *scales)
{
    size_t step = k3_format_group(format);

    if (format == K3_FORMAT_BF16) {
        if (n != 0) {
            memcpy(values, row, 2 * n);
        }
        return;
    }
    if (format == K3_FORMAT_INT8) {
        encode_int8(row, n, values, scales);
        return;
    }
    for (size_t i = 0, group = 0; i < n; i += step, group++) {
        size_t   length = n - i < step ? n - i : step;
        uint8_t *codes = (uint8_t *)values + k3_format_value_bytes(format, i);

        if (format == K3_FORMAT_FP8) {
            encode_fp8(row + i, length, codes, scales, group);
        } else if (format == K3_FORMAT_MXFP8) {
            encode_mxfp8(row + i, length, codes, (uint8_t *)scales + group);
        } else {
            encode_mxfp4(row + i, length, codes, (uint8_t *)scales + group);
        }
    }
}

static float code_value(k3_format_t format, const uint8_t *values, size_t i)
{
    uint16_t bits;

    switch (format) {
    case K3_FORMAT_FP8:
    case K3_FORMAT_MXFP8:
        return k3_e4m3_to_f32(values[i]);
    case K3_FORMAT_MXFP4:
        return k3_e2m1_to_f32((uint8_t)(values[i / 2] >> (i % 2 * 4)));
    case K3_FORMAT_INT8:
        return (float)(int8_t)values[i];
    default:
        memcpy(&bits, values + 2 * i, sizeof bits);
        return k3_bf16_to_f32(bits);
    }
}

void k3_scalar_decode(k3_format_t format, const void *values, const void *scales, size_t n,
                      float *out)
{
    for (size_t i = 0; i < n; i++) {
        float value = code_value(format, values, i);

        switch (format) {
        case K3_FORMAT_FP8:
            value *= load_scale(scales, i / 128);
            break;
        case K3_FORMAT_MXFP8:
        case K3_FORMAT_MXFP4:
            value *= k3_e8m0_to_f32(((const uint8_t *)scales)[i / 32]);
            break;
        case K3_FORMAT_INT8:
            value *= load_scale(scales, 0);
            break;
        default:
            break;
        }
        out[i] = value;
    }
}
