/* Pieces of the AVX2 kernels. Every function carries its target, so that the rest of the program
 * stays runnable on any x86-64. */
#ifndef K3_KERNELS_CPU_AVX2_H
#define K3_KERNELS_CPU_AVX2_H

#include "kernels/cpu/cpu.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define K3_AVX2        __attribute__((target("avx2,fma,f16c")))
#define K3_AVX2_INLINE K3_AVX2 __attribute__((always_inline)) static inline

void k3_avx2_encode(k3_format_t format, const uint16_t *row, size_t n, void *values, void *scales);
void k3_avx2_prepare_e4m3(void); /* once, before the next two */
void k3_avx2_encode_fp8(const uint16_t *row, size_t n, void *values, void *scales);
void k3_avx2_encode_mxfp8(const uint16_t *row, size_t n, void *values, void *scales);
void k3_avx2_encode_mxfp4(const uint16_t *row, size_t n, void *values, void *scales);
void k3_avx2_decode(k3_format_t format, const void *values, const void *scales, size_t n,
                    float *out);
void k3_avx2_gemm(const k3_matrix_t *w, const void *x, size_t m, size_t first, size_t count,
                  float *y);
void k3_avx2_pack(k3_weight_format_t format, float *row, size_t n);
void k3_avx2_route(const float *logits, const float *bias, size_t experts, size_t k, int32_t *ids,
                   float *weights);
void k3_avx2_route_weights(const float *logits, size_t k, const int32_t *ids, float *weights);
void k3_avx2_combine(const uint16_t *const *rows, const float *weights, size_t k, size_t n,
                     uint16_t *out);
void k3_avx2_sum(const uint16_t *const *parts, size_t count, size_t n, uint16_t *out);
void k3_avx2_add(const uint16_t *a, const uint16_t *b, size_t n, uint16_t *out);
void k3_avx2_rms_norm(const uint16_t *x, const uint16_t *gain, size_t n, float eps, uint16_t *out);
void k3_avx2_activate(k3_activation_t activation, const uint16_t *gate, const uint16_t *up,
                      size_t n, uint16_t *out);
void k3_avx2_round(const float *row, size_t n, uint16_t *out);
void k3_avx2_activate_f32(k3_activation_t activation, const float *gate, const float *up,
                          float weight, size_t n, uint16_t *out);

/* Members of a table whose rows are done as AVX2 does them. */
#define K3_AVX2_ROW_FUNCTIONS                                                                      \
    .encode = k3_avx2_encode, .decode = k3_avx2_decode, .log_encode = k3_scalar_log_encode,        \
    .log_decode = k3_scalar_log_decode, .route = k3_avx2_route,                                    \
    .route_weights = k3_avx2_route_weights, .combine = k3_avx2_combine,                            \
    .rms_norm = k3_avx2_rms_norm, .activate = k3_avx2_activate, .add = k3_avx2_add,                \
    .sum = k3_avx2_sum

/* --- bf16 rows in steps of 16 values, a shorter step at the end ------------------------------ */

/* 16 f32 values of a row; `low` and `high` hold values 0-3 8-11 and 4-7 12-15, the order in which
 * the unpack and pack instructions work. */
typedef struct k3_f32x16 {
    __m256 low, high;
} k3_f32x16_t;

K3_AVX2_INLINE __m256i k3_load_u16(const uint16_t *row, size_t count)
{
    if (count < 16) {
        uint16_t part[16] = {0};

        memcpy(part, row, sizeof *row * count);
        return _mm256_loadu_si256((const __m256i *)part);
    }
    return _mm256_loadu_si256((const __m256i *)row);
}

K3_AVX2_INLINE void k3_store_u16(uint16_t *row, size_t count, __m256i value)
{
    if (count < 16) {
        uint16_t part[16];

        _mm256_storeu_si256((__m256i *)part, value);
        memcpy(row, part, sizeof *row * count);
        return;
    }
    _mm256_storeu_si256((__m256i *)row, value);
}

K3_AVX2_INLINE k3_f32x16_t k3_widen(__m256i bf16)
{
    __m256i     zero = _mm256_setzero_si256();
    k3_f32x16_t wide = {_mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, bf16)),
                        _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, bf16))};

    return wide;
}

K3_AVX2_INLINE k3_f32x16_t k3_load_bf16(const uint16_t *row, size_t count)
{
    return k3_widen(k3_load_u16(row, count));
}

/* f32 rows in the same order. */
K3_AVX2_INLINE k3_f32x16_t k3_reorder_f32(const float *row)
{
    __m256      a = _mm256_loadu_ps(row);
    __m256      b = _mm256_loadu_ps(row + 8);
    k3_f32x16_t wide = {_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31)};

    return wide;
}

K3_AVX2_INLINE k3_f32x16_t k3_load_f32(const float *row, size_t count)
{
    if (count < 16) {
        float part[16] = {0};

        memcpy(part, row, sizeof *row * count);
        return k3_reorder_f32(part);
    }
    return k3_reorder_f32(row);
}

/* Rounds to bf16 bits in 32-bit lanes. */
K3_AVX2_INLINE __m256i k3_round_lanes(__m256 value)
{
    __m256i bits = _mm256_castps_si256(value);
    __m256i top = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i nan = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));

    return _mm256_blendv_epi8(_mm256_srli_epi32(rounded, 16), nan, is_nan);
}

K3_AVX2_INLINE void k3_store_bf16(uint16_t *row, size_t count, k3_f32x16_t value)
{
    k3_store_u16(row, count,
                 _mm256_packus_epi32(k3_round_lanes(value.low), k3_round_lanes(value.high)));
}

K3_AVX2_INLINE float k3_total(__m256 value)
{
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));

    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

/* --- E2M1 and e4m3 --------------------------------------------------------------------------- */

/* The bytes of the bf16 values of E2M1 codes 0 to 15, by table. */
K3_AVX2_INLINE __m256i k3_e2m1_high(__m256i codes)
{
    const __m256i table =
        _mm256_setr_epi8(0, 0x3f, 0x3f, 0x3f, 0x40, 0x40, 0x40, 0x40, (char)0x80, (char)0xbf,
                         (char)0xbf, (char)0xbf, (char)0xc0, (char)0xc0, (char)0xc0, (char)0xc0, 0,
                         0x3f, 0x3f, 0x3f, 0x40, 0x40, 0x40, 0x40, (char)0x80, (char)0xbf,
                         (char)0xbf, (char)0xbf, (char)0xc0, (char)0xc0, (char)0xc0, (char)0xc0);

    return _mm256_shuffle_epi8(table, codes);
}

K3_AVX2_INLINE __m256i k3_e2m1_low(__m256i codes)
{
    const __m256i table = _mm256_setr_epi8(
        0, 0, (char)0x80, (char)0xc0, 0, 0x40, (char)0x80, (char)0xc0, 0, 0, (char)0x80, (char)0xc0,
        0, 0x40, (char)0x80, (char)0xc0, 0, 0, (char)0x80, (char)0xc0, 0, 0x40, (char)0x80,
        (char)0xc0, 0, 0, (char)0x80, (char)0xc0, 0, 0x40, (char)0x80, (char)0xc0);

    return _mm256_shuffle_epi8(table, codes);
}

/* k3_e8m0_to_f32 without a call: a call would save and clear vector registers. */
K3_AVX2_INLINE float k3_e8m0_inline(uint8_t code)
{
    uint32_t bits = code == 0 ? 0x00400000 : code == 255 ? 0x7fc00000 : (uint32_t)code << 23;

    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128((int)bits)));
}

/* 8 e4m3 codes, each the upper byte of 16 bits, as f32 that are 2^8 smaller: moved into an f16, as
 * the exponent biases are 7 and 15. What is a NaN is not looked at. */
K3_AVX2_INLINE __m256 k3_e4m3_spread(__m128i upper)
{
    __m128i half = _mm_and_si128(_mm_srai_epi16(upper, 1), _mm_set1_epi16((short)0xbfff));

    return _mm256_cvtph_ps(half);
}

/* Which of 16 e4m3 codes are NaN. */
K3_AVX2_INLINE __m128i k3_e4m3_nan(__m128i codes)
{
    const __m128i nan = _mm_set1_epi8(0x7f);

    return _mm_cmpeq_epi8(_mm_and_si128(codes, nan), nan);
}

/* 16 e4m3 codes. */
K3_AVX2_INLINE void k3_e4m3_widen(__m128i codes, __m256 *low, __m256 *high)
{
    const __m128i zero = _mm_setzero_si128();
    const __m256  up = _mm256_set1_ps(256.0f);
    __m128i       nan = k3_e4m3_nan(codes);
    __m256        a = k3_e4m3_spread(_mm_unpacklo_epi8(zero, codes));
    __m256        b = k3_e4m3_spread(_mm_unpackhi_epi8(zero, codes));

    /* all ones: an f32 NaN */
    *low = _mm256_or_ps(_mm256_mul_ps(a, up), _mm256_castsi256_ps(_mm256_cvtepi8_epi32(nan)));
    *high = _mm256_or_ps(_mm256_mul_ps(b, up),
                         _mm256_castsi256_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(nan, 8))));
}

#endif
#endif
