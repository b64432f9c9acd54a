/* Codes of the formats of kernels/format.h and the functions of the activations on a device. Steps
 * and roundings are those of the scalar CPU kernels, so that results agree bit for bit; the files
 * that include this are compiled without contraction of products and sums. */
#ifndef K3_KERNELS_GPU_NUMBERS_H
#define K3_KERNELS_GPU_NUMBERS_H

#include "kernels/gpu/dialect.h"

/* --- codes ----------------------------------------------------------------------------------- */

K3_DEVICE float k3_gpu_bf16(uint32_t bits)
{
    return k3_as_float(bits << 16);
}

/* Nearest, ties to even; a NaN stays one. */
K3_DEVICE uint32_t k3_gpu_to_bf16(float value)
{
    uint32_t bits = k3_as_bits(value);

    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return bits >> 16 | 0x40u;
    }
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

K3_DEVICE float k3_gpu_e8m0(uint32_t code)
{
    if (code == 255u) {
        return k3_as_float(0x7fc00000u);
    }
    return k3_as_float(code == 0u ? 0x00400000u : code << 23);
}

/* bf16 bits of an e4m3 code; exact, as bf16 has more of both fields. 0x7f and 0xff are NaN. */
K3_DEVICE uint32_t k3_gpu_e4m3_bits(uint32_t code)
{
    uint32_t sign = (code & 0x80u) << 8, magnitude = code & 0x7fu;

    if (magnitude == 0x7fu) {
        return sign | 0x7fc0u;
    }
    if (magnitude >= 8u) {
        return sign | ((magnitude << 4) + (120u << 7));
    }
    /* Subnormal: magnitude * 2^-9. */
    return sign | k3_as_bits((float)magnitude * 0.001953125f) >> 16;
}

/* To nearest, ties to even, saturating at 448; NaN: 0x7f. */
K3_DEVICE uint32_t k3_gpu_to_e4m3(float value)
{
    uint32_t bits = k3_as_bits(value), sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;

    if (magnitude > 0x7f800000u) {
        return 0x7fu;
    }
    if (magnitude >= 0x43e00000u) { /* 448 and above */
        return sign | 0x7eu;
    }
    if (magnitude < 0x3c800000u) { /* below 2^-6: steps of 2^-9, rounded by the adder */
        return sign | (k3_as_bits(k3_as_float(magnitude) + 16384.0f) - 0x46800000u);
    }
    magnitude += 0x7ffffu + (magnitude >> 20 & 1u);
    return sign | ((magnitude >> 20) - (120u << 3));
}

/* bf16 bits of an E2M1 code in the low four bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6. */
K3_DEVICE uint32_t k3_gpu_e2m1_bits(uint32_t code)
{
    uint32_t magnitude = code & 7u;
    uint32_t bits = magnitude < 2u ? magnitude * 0x3f00u : (magnitude << 6) + 0x3f00u;

    return bits | (code & 8u) << 12;
}

/* To nearest, ties to even, saturating at 6; NaN: 7. */
K3_DEVICE uint32_t k3_gpu_to_e2m1(float value)
{
    uint32_t bits = k3_as_bits(value), sign = bits >> 28 & 8u;
    float    magnitude = k3_as_float(bits & 0x7fffffffu);

    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return 7u;
    }
    if (magnitude <= 2.0f) { /* steps of 0.5 */
        return sign | (k3_as_bits(magnitude + 4194304.0f) - 0x4a800000u);
    }
    return sign | (magnitude <= 2.5f ? 4u : magnitude < 3.5f ? 5u : magnitude <= 5.0f ? 6u : 7u);
}

/* --- functions, step by step as kernels/cpu/functions.h ---------------------------------------- */

K3_DEVICE float k3_gpu_exp(float x)
{
    float   t, k, r, p;
    int32_t n, half;

    x = x > 104.0f ? 104.0f : x;
    x = x < -104.0f ? -104.0f : x;
    t = x * 1.44269504f + 12582912.0f;
    k = t - 12582912.0f;
    r = x - k * 0.693359375f;
    r = r - k * -2.12194440e-4f;
    p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    n = (int32_t)(k3_as_bits(t) - k3_as_bits(12582912.0f));
    half = n >> 1;
    return p * k3_as_float((uint32_t)(half + 127) << 23) *
           k3_as_float((uint32_t)(n - half + 127) << 23);
}

K3_DEVICE float k3_gpu_sigmoid(float x)
{
    return 1.0f / (1.0f + k3_gpu_exp(-x));
}

K3_DEVICE float k3_gpu_tanh(float x)
{
    uint32_t bits = k3_as_bits(x);
    float    magnitude = k3_as_float(bits & 0x7fffffffu), square = x * x, p, large;

    if (magnitude < 0.5625f) {
        p = -0.00652557218f;
        p = p * square + 0.0212633535f;
        p = p * square + -0.0539017532f;
        p = p * square + 0.133330738f;
        p = p * square + -0.333333317f;
        return x + x * square * p;
    }
    large = 1.0f - 2.0f / (k3_gpu_exp(2.0f * magnitude) + 1.0f);
    return k3_as_float((k3_as_bits(large) & 0x7fffffffu) | (bits & 0x80000000u));
}

K3_DEVICE float k3_gpu_act(bool situ, float gate, float up)
{
    float s = k3_gpu_sigmoid(gate);

    if (!situ) {
        return gate * s * up;
    }
    return 4.0f * k3_gpu_tanh(gate * 0.25f) * s * (25.0f * k3_gpu_tanh(up * (1.0f / 25.0f)));
}

#endif
