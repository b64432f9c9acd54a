/* Pieces of the NEON kernels: Advanced SIMD with fused multiply-adds, which every aarch64 processor
 * has. */
#ifndef K3_KERNELS_CPU_NEON_H
#define K3_KERNELS_CPU_NEON_H

#include "kernels/cpu/cpu.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <string.h>

#define K3_NEON_INLINE __attribute__((always_inline)) static inline

void k3_neon_encode(k3_format_t format, const uint16_t *row, size_t n, void *values, void *scales);
void k3_neon_decode(k3_format_t format, const void *values, const void *scales, size_t n,
                    float *out);
void k3_neon_gemm(const k3_matrix_t *w, const void *x, size_t m, size_t first, size_t count,
                  float *y); /* after k3_mx_prepare */
void k3_neon_pack(k3_weight_format_t format, float *row, size_t n);
void k3_neon_route(const float *logits, const float *bias, size_t experts, size_t k, int32_t *ids,
                   float *weights);
void k3_neon_combine(const uint16_t *const *rows, const float *weights, size_t k, size_t n,
                     uint16_t *out);
void k3_neon_sum(const uint16_t *const *parts, size_t count, size_t n, uint16_t *out);
void k3_neon_add(const uint16_t *a, const uint16_t *b, size_t n, uint16_t *out);
void k3_neon_rms_norm(const uint16_t *x, const uint16_t *gain, size_t n, float eps, uint16_t *out);
void k3_neon_activate(k3_activation_t activation, const uint16_t *gate, const uint16_t *up,
                      size_t n, uint16_t *out);
void k3_neon_activate_f32(k3_activation_t activation, const float *gate, const float *up,
                          float weight, size_t n, uint16_t *out);
void k3_neon_round(const float *row, size_t n, uint16_t *out);

/* --- rows in steps of 8 values, a shorter step at the end ------------------------------------- */

/* 8 values in order. */
typedef struct k3_f32x8 {
    float32x4_t low, high;
} k3_f32x8_t;

K3_NEON_INLINE k3_f32x8_t k3_widen(uint16x8_t bf16)
{
    const uint16x8_t zero = vdupq_n_u16(0);
    k3_f32x8_t       wide = {vreinterpretq_f32_u16(vzip1q_u16(zero, bf16)),
                             vreinterpretq_f32_u16(vzip2q_u16(zero, bf16))};

    return wide;
}

K3_NEON_INLINE k3_f32x8_t k3_load_bf16(const uint16_t *row, size_t count)
{
    if (count < 8) {
        uint16_t part[8] = {0};

        memcpy(part, row, sizeof *row * count);
        return k3_widen(vld1q_u16(part));
    }
    return k3_widen(vld1q_u16(row));
}

K3_NEON_INLINE k3_f32x8_t k3_load_f32(const float *row, size_t count)
{
    k3_f32x8_t value;
    float      part[8] = {0};

    if (count < 8) {
        memcpy(part, row, sizeof *row * count);
        row = part;
    }
    value.low = vld1q_f32(row);
    value.high = vld1q_f32(row + 4);
    return value;
}

/* Rounds to bf16 in the upper half of each lane. */
K3_NEON_INLINE uint16x8_t k3_round_upper(float32x4_t value)
{
    uint32x4_t bits = vreinterpretq_u32_f32(value);
    uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    uint32x4_t nan = vorrq_u32(bits, vdupq_n_u32(0x400000));

    return vreinterpretq_u16_u32(vbslq_u32(vceqq_f32(value, value), rounded, nan));
}

K3_NEON_INLINE void k3_store_bf16(uint16_t *row, size_t count, k3_f32x8_t value)
{
    uint16x8_t bf16 = vuzp2q_u16(k3_round_upper(value.low), k3_round_upper(value.high));
    uint16_t   part[8];

    if (count < 8) {
        vst1q_u16(part, bf16);
        memcpy(row, part, sizeof *row * count);
        return;
    }
    vst1q_u16(row, bf16);
}

/* --- e4m3 ------------------------------------------------------------------------------------- */

/* 8 codes: moved into an f16, which is 2^8 smaller, as the exponent biases are 7 and 15. All ones are
 * a NaN there too. */
K3_NEON_INLINE k3_f32x8_t k3_e4m3_widen(uint8x8_t codes)
{
    const uint16x8_t  nan = vdupq_n_u16(0x7f << 7);
    const float32x4_t up = vdupq_n_f32(256.0f);
    uint16x8_t        half = vreinterpretq_u16_s16(vshll_n_s8(vreinterpret_s8_u8(codes), 7));
    float16x8_t       f16;
    k3_f32x8_t        wide;

    half = vandq_u16(half, vdupq_n_u16(0xbfff));
    half = vorrq_u16(half, vceqq_u16(vandq_u16(half, nan), nan));
    f16 = vreinterpretq_f16_u16(half);
    wide.low = vmulq_f32(vcvt_f32_f16(vget_low_f16(f16)), up);
    wide.high = vmulq_f32(vcvt_high_f32_f16(f16), up);
    return wide;
}

#endif
#endif
