/* What kernels/cpu/gemm_body.h needs of AVX-512: vectors of 16 and decoded blocks of 128 weights. */
#ifndef K3_KERNELS_CPU_SIMD_AVX512_H
#define K3_KERNELS_CPU_SIMD_AVX512_H

#include "kernels/cpu/avx512.h"

#if defined(__x86_64__)

#define K3_SIMD            K3_AVX512
#define K3_SIMD_INLINE     K3_AVX512 __attribute__((always_inline)) static inline
#define K3_SIMD_NAME(name) k3_avx512_##name

enum {
    K3_LANES = 16,
    K3_BLOCK = 128, /* weights decoded at a time, 8 vectors */
    K3_TILE = 6,    /* columns of a tile: 4 rows x 6 columns are 24 of 32 registers */
    K3_DEPTH = 384  /* of a panel: with 12 columns and 4 rows of x 24 KiB */
};

typedef __m512 k3_vec_t;

K3_SIMD_INLINE k3_vec_t k3_vec_zero(void)
{
    return _mm512_setzero_ps();
}

K3_SIMD_INLINE k3_vec_t k3_vec_load(const float *from)
{
    return _mm512_load_ps(from);
}

K3_SIMD_INLINE void k3_vec_store(float *to, k3_vec_t value)
{
    _mm512_store_ps(to, value);
}

K3_SIMD_INLINE k3_vec_t k3_vec_add(k3_vec_t a, k3_vec_t b)
{
    return _mm512_add_ps(a, b);
}

K3_SIMD_INLINE k3_vec_t k3_vec_fma(k3_vec_t a, k3_vec_t b, k3_vec_t sum)
{
    return _mm512_fmadd_ps(a, b, sum);
}

/* The two halves added. */
K3_SIMD_INLINE __m256 k3_vec_half(k3_vec_t value)
{
    __m256d upper = _mm512_extractf64x4_pd(_mm512_castps_pd(value), 1);

    return _mm256_add_ps(_mm512_castps512_ps256(value), _mm256_castpd_ps(upper));
}

K3_SIMD_INLINE float k3_vec_total(k3_vec_t value)
{
    __m256 eight = k3_vec_half(value);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));

    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

/* Adds the sums of 4 vectors to 4 floats. */
K3_SIMD_INLINE void k3_vec_add_totals(float *to, k3_vec_t a, k3_vec_t b, k3_vec_t c, k3_vec_t d)
{
    __m256 all = _mm256_hadd_ps(_mm256_hadd_ps(k3_vec_half(a), k3_vec_half(b)),
                                _mm256_hadd_ps(k3_vec_half(c), k3_vec_half(d)));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));

    _mm_store_ps(to, _mm_add_ps(_mm_load_ps(to), four));
}

/* --- MXFP4: vector v holds nibble v of each 32-bit word ---------------------------------------- */

typedef struct k3_mx_block {
    __m512i packed;
    __m512  scale; /* of 4 groups, 4 lanes each */
} k3_mx_block_t;

K3_SIMD_INLINE k3_mx_block_t k3_mx_open(const uint8_t *values, const uint8_t *scales)
{
    const __m128i spread = _mm_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m512i half = _mm512_set1_epi32(0x00400000); /* the subnormal 2^-127, or makes a NaN */
    k3_mx_block_t block;
    int           four;
    __m512i       codes, bits;
    __mmask16     odd_one;

    memcpy(&four, scales, sizeof four);
    codes = _mm512_cvtepu8_epi32(_mm_shuffle_epi8(_mm_cvtsi32_si128(four), spread));
    odd_one = _mm512_cmpeq_epi32_mask(codes, _mm512_setzero_si512()) |
              _mm512_cmpeq_epi32_mask(codes, _mm512_set1_epi32(255));
    bits = _mm512_slli_epi32(codes, 23);
    block.scale = _mm512_castsi512_ps(_mm512_mask_or_epi32(bits, odd_one, bits, half));
    block.packed = _mm512_loadu_si512(values);
    return block;
}

K3_SIMD_INLINE void k3_mx_pair(k3_mx_block_t block, size_t pair, k3_vec_t out[2])
{
    const __m512 table = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f,
                                        -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);

    for (size_t i = 0; i < 2; i++) {
        __m512i shift = _mm512_set1_epi32((int)(4 * (2 * pair + i)));
        __m512i codes = _mm512_srlv_epi32(block.packed, shift); /* of which 4 bits count */

        out[i] = _mm512_mul_ps(_mm512_permutexvar_ps(codes, table), block.scale);
    }
}

K3_SIMD_INLINE size_t k3_mx_order(size_t vector, size_t lane)
{
    return 8 * lane + vector;
}

/* --- e4m3, in the order of the row ------------------------------------------------------------ */

typedef struct k3_fp8_block {
    const uint8_t *values;
    __m512         scale;
} k3_fp8_block_t;

K3_SIMD_INLINE k3_fp8_block_t k3_fp8_open(const uint8_t *values, float scale)
{
    k3_fp8_block_t block = {values, _mm512_set1_ps(scale)};

    return block;
}

/* Shifted to an f16 that is 2^8 smaller, as the exponent biases are 7 and 15. */
K3_SIMD_INLINE void k3_fp8_pair(k3_fp8_block_t block, size_t pair, k3_vec_t out[2])
{
    for (size_t i = 0; i < 2; i++) {
        const uint8_t *from = block.values + 32 * pair + 16 * i;
        __m256i        wide = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)from));
        __m256i        magnitude = _mm256_and_si256(wide, _mm256_set1_epi16(0x7f));
        __m256i        sign = _mm256_slli_epi16(_mm256_xor_si256(wide, magnitude), 8);
        __m256i        nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7f));
        __m256i        half = _mm256_or_si256(_mm256_slli_epi16(magnitude, 7), sign);
        __m512         value = _mm512_cvtph_ps(_mm256_or_si256(half, nan)); /* all ones: NaN */

        value = _mm512_mul_ps(value, _mm512_set1_ps(256.0f));
        out[i] = _mm512_mul_ps(value, block.scale);
    }
}

#endif
#endif
