/* What kernels/cpu/gemm_body.h needs of NEON: vectors of 4 and decoded blocks of 32 weights. */
#ifndef K3_KERNELS_CPU_SIMD_NEON_H
#define K3_KERNELS_CPU_SIMD_NEON_H

#include "kernels/cpu/mx_bytes.h"
#include "kernels/cpu/neon.h"

#if defined(__aarch64__)

#define K3_SIMD
#define K3_SIMD_INLINE     K3_NEON_INLINE
#define K3_SIMD_NAME(name) k3_neon_##name

enum {
    K3_LANES = 4,
    K3_BLOCK = 32, /* weights decoded at a time, 8 vectors */
    K3_TILE = 6,   /* columns of a tile: 4 rows x 6 columns are 24 of 32 registers */
    K3_DEPTH = 448 /* of a panel: with 12 columns and 4 rows of x 28 KiB, below 32 */
};

typedef float32x4_t k3_vec_t;

K3_SIMD_INLINE k3_vec_t k3_vec_zero(void)
{
    return vdupq_n_f32(0.0f);
}

K3_SIMD_INLINE k3_vec_t k3_vec_load(const float *from)
{
    return vld1q_f32(from);
}

K3_SIMD_INLINE void k3_vec_store(float *to, k3_vec_t value)
{
    vst1q_f32(to, value);
}

K3_SIMD_INLINE k3_vec_t k3_vec_add(k3_vec_t a, k3_vec_t b)
{
    return vaddq_f32(a, b);
}

K3_SIMD_INLINE k3_vec_t k3_vec_fma(k3_vec_t a, k3_vec_t b, k3_vec_t sum)
{
    return vfmaq_f32(sum, a, b);
}

K3_SIMD_INLINE float k3_vec_total(k3_vec_t value)
{
    return vaddvq_f32(value);
}

/* Adds the sums of 4 vectors to 4 floats. */
K3_SIMD_INLINE void k3_vec_add_totals(float *to, k3_vec_t a, k3_vec_t b, k3_vec_t c, k3_vec_t d)
{
    float32x4_t all = vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d));

    vst1q_f32(to, vaddq_f32(vld1q_f32(to), all));
}

/* --- MXFP4: the bytes of scaled bf16 values by two tables, one for each half ------------------ */

typedef struct k3_mx_block {
    uint8x16_t packed, low, high;
} k3_mx_block_t;

K3_SIMD_INLINE k3_mx_block_t k3_mx_open(const uint8_t *values, const uint8_t *scales)
{
    const k3_mx_bytes_t *bytes = &k3_mx_bytes[scales[0]];
    k3_mx_block_t        block = {vld1q_u8(values), vld1q_u8(bytes->low), vld1q_u8(bytes->high)};

    return block;
}

/* Vectors 2 pair and 2 pair + 1 of the block: the nibbles of one parity, half of the bytes. */
K3_SIMD_INLINE void k3_mx_pair(k3_mx_block_t block, size_t pair, k3_vec_t out[2])
{
    uint8x16_t codes =
        pair < 2 ? vandq_u8(block.packed, vdupq_n_u8(15)) : vshrq_n_u8(block.packed, 4);
    uint8x16_t low = vqtbl1q_u8(block.low, codes), high = vqtbl1q_u8(block.high, codes);
    uint32x4_t bf16 =
        vreinterpretq_u32_u8(pair % 2 == 0 ? vzip1q_u8(low, high) : vzip2q_u8(low, high));

    out[0] = vreinterpretq_f32_u32(vshlq_n_u32(bf16, 16));
    out[1] = vreinterpretq_f32_u32(vandq_u32(bf16, vdupq_n_u32(0xffff0000)));
}

/* Which weight of the block is in a lane of a vector. */
K3_SIMD_INLINE size_t k3_mx_order(size_t vector, size_t lane)
{
    size_t pair = vector / 2, half = vector % 2;

    return pair % 2 * 16 + lane * 4 + half * 2 + pair / 2;
}

/* --- e4m3, in the order of the row ------------------------------------------------------------ */

typedef struct k3_fp8_block {
    const uint8_t *values;
    float32x4_t    scale;
} k3_fp8_block_t;

K3_SIMD_INLINE k3_fp8_block_t k3_fp8_open(const uint8_t *values, float scale)
{
    k3_fp8_block_t block = {values, vdupq_n_f32(scale)};

    return block;
}

K3_SIMD_INLINE void k3_fp8_pair(k3_fp8_block_t block, size_t pair, k3_vec_t out[2])
{
    k3_f32x8_t wide = k3_e4m3_widen(vld1_u8(block.values + 8 * pair));

    out[0] = vmulq_f32(wide.low, block.scale);
    out[1] = vmulq_f32(wide.high, block.scale);
}

#endif
#endif
