/* What kernels/cpu/gemm_body.h needs of AVX2: vectors of 8 and decoded blocks of 64 weights. */
#ifndef K3_KERNELS_CPU_SIMD_AVX2_H
#define K3_KERNELS_CPU_SIMD_AVX2_H

#include "kernels/cpu/avx2.h"
#include "kernels/cpu/mx_bytes.h"

#if defined(__x86_64__)

#define K3_SIMD            K3_AVX2
#define K3_SIMD_INLINE     K3_AVX2_INLINE
#define K3_SIMD_NAME(name) k3_avx2_##name

enum {
    K3_LANES = 8,
    K3_BLOCK = 64, /* weights decoded at a time, 8 vectors */
    K3_TILE = 3,   /* columns of a tile: 4 rows x 3 columns are 12 of 16 registers */
    K3_DEPTH = 448 /* of a panel: with 12 columns and 4 rows of x 28 KiB, below 32 */
};

typedef __m256 k3_vec_t;

K3_SIMD_INLINE k3_vec_t k3_vec_zero(void)
{
    return _mm256_setzero_ps();
}

K3_SIMD_INLINE k3_vec_t k3_vec_load(const float *from)
{
    return _mm256_load_ps(from);
}

K3_SIMD_INLINE void k3_vec_store(float *to, k3_vec_t value)
{
    _mm256_store_ps(to, value);
}

K3_SIMD_INLINE k3_vec_t k3_vec_add(k3_vec_t a, k3_vec_t b)
{
    return _mm256_add_ps(a, b);
}

K3_SIMD_INLINE k3_vec_t k3_vec_fma(k3_vec_t a, k3_vec_t b, k3_vec_t sum)
{
    return _mm256_fmadd_ps(a, b, sum);
}

K3_SIMD_INLINE float k3_vec_total(k3_vec_t value)
{
    return k3_total(value);
}

/* Adds the sums of 4 vectors to 4 floats. */
K3_SIMD_INLINE void k3_vec_add_totals(float *to, k3_vec_t a, k3_vec_t b, k3_vec_t c, k3_vec_t d)
{
    __m256 all = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));

    _mm_store_ps(to, _mm_add_ps(_mm_load_ps(to), four));
}

/* --- MXFP4: the bytes of scaled bf16 values by two tables, one for each half ------------------ */

typedef struct k3_mx_block {
    __m256i packed, low, high;
} k3_mx_block_t;

K3_SIMD_INLINE k3_mx_block_t k3_mx_open(const uint8_t *values, const uint8_t *scales)
{
    const k3_mx_bytes_t *first = &k3_mx_bytes[scales[0]], *second = &k3_mx_bytes[scales[1]];
    k3_mx_block_t        block = {
               _mm256_loadu_si256((const __m256i *)values),
               _mm256_set_m128i(_mm_load_si128((const __m128i *)second->low),
                                _mm_load_si128((const __m128i *)first->low)),
               _mm256_set_m128i(_mm_load_si128((const __m128i *)second->high),
                                _mm_load_si128((const __m128i *)first->high)),
    };

    return block;
}

/* Vectors 2 pair and 2 pair + 1 of the block: the nibbles of one parity, half of the bytes. */
K3_SIMD_INLINE void k3_mx_pair(k3_mx_block_t block, size_t pair, k3_vec_t out[2])
{
    const __m256i top = _mm256_set1_epi32((int)0xffff0000);
    __m256i       packed = pair < 2 ? block.packed : _mm256_srli_epi16(block.packed, 4);
    __m256i       codes = _mm256_and_si256(packed, _mm256_set1_epi8(15));
    __m256i       low = _mm256_shuffle_epi8(block.low, codes);
    __m256i       high = _mm256_shuffle_epi8(block.high, codes);
    __m256i       bf16 =
        pair % 2 == 0 ? _mm256_unpacklo_epi8(low, high) : _mm256_unpackhi_epi8(low, high);

    out[0] = _mm256_castsi256_ps(_mm256_slli_epi32(bf16, 16));
    out[1] = _mm256_castsi256_ps(_mm256_and_si256(bf16, top));
}

/* Which weight of the block is in a lane of a vector. */
K3_SIMD_INLINE size_t k3_mx_order(size_t vector, size_t lane)
{
    size_t pair = vector / 2, half = vector % 2;

    return lane / 4 * 32 + pair % 2 * 16 + lane % 4 * 4 + half * 2 + pair / 2;
}

/* --- e4m3, in the order of the row ------------------------------------------------------------ */

typedef struct k3_fp8_block {
    const uint8_t *values;
    __m256         scale;
} k3_fp8_block_t;

K3_SIMD_INLINE k3_fp8_block_t k3_fp8_open(const uint8_t *values, float scale)
{
    k3_fp8_block_t block = {values, _mm256_set1_ps(scale)};

    return block;
}

K3_SIMD_INLINE void k3_fp8_pair(k3_fp8_block_t block, size_t pair, k3_vec_t out[2])
{
    k3_e4m3_widen(_mm_loadu_si128((const __m128i *)(block.values + 16 * pair)), &out[0], &out[1]);
    out[0] = _mm256_mul_ps(out[0], block.scale);
    out[1] = _mm256_mul_ps(out[1], block.scale);
}

#endif
#endif
