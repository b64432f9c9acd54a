/* Rows to formats and back, equal to kernels/cpu/scalar_formats.c bit for bit (but for the payload
 * of a NaN). */
#include "kernels/cpu/avx2.h"

#if defined(__x86_64__)

#include <math.h>

K3_AVX2_INLINE void store_bytes(uint8_t *out, size_t count, __m256i value)
{
    uint8_t part[32];

    if (count >= 32) {
        _mm256_storeu_si256((__m256i *)out, value);
        return;
    }
    _mm256_storeu_si256((__m256i *)part, value);
    memcpy(out, part, count);
}

/* The largest magnitude as bits; 0x7f80 and above: there is an Inf or NaN. */
K3_AVX2_INLINE uint16_t largest(const uint16_t *row, size_t n)
{
    __m256i max = _mm256_setzero_si256();
    __m128i inverted;

    for (size_t i = 0; i < n; i += 16) {
        __m256i magnitude =
            _mm256_and_si256(k3_load_u16(row + i, n - i), _mm256_set1_epi16(0x7fff));

        max = _mm256_max_epu16(max, magnitude);
    }
    inverted = _mm_max_epu16(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));
    inverted = _mm_xor_si128(inverted, _mm_set1_epi16(-1));
    return (uint16_t)~_mm_extract_epi16(_mm_minpos_epu16(inverted), 0);
}

K3_AVX2_INLINE __m256i to_int8_range(__m256 value, __m256 scale)
{
    value = _mm256_div_ps(value, scale);
    value = _mm256_max_ps(value, _mm256_set1_ps(-127.0f));
    return _mm256_cvtps_epi32(_mm256_min_ps(value, _mm256_set1_ps(127.0f)));
}

K3_AVX2_INLINE void encode_int8(const uint16_t *row, size_t n, uint8_t *codes, void *scales)
{
    uint16_t max = largest(row, n);
    float    amax = k3_bf16_to_f32(max);
    float    scale = max >= 0x7f80 ? NAN : max == 0 ? 1.0f : amax / 127.0f;
    __m256   factor = _mm256_set1_ps(scale);

    memcpy(scales, &scale, sizeof scale);
    if (max >= 0x7f80) {
        memset(codes, 0, n);
        return;
    }
    for (size_t i = 0; i < n; i += 16) {
        k3_f32x16_t wide = k3_load_bf16(row + i, n - i);
        __m256i     words =
            _mm256_packs_epi32(to_int8_range(wide.low, factor), to_int8_range(wide.high, factor));
        __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(words, words), 0x08);

        store_bytes(codes + i, n - i < 16 ? n - i : 16, bytes);
    }
}

K3_AVX2 void k3_avx2_encode(k3_format_t format, const uint16_t *row, size_t n, void *values,
                            void *scales)
{
    switch (format) {
    case K3_FORMAT_FP8:
        k3_avx2_encode_fp8(row, n, values, scales);
        break;
    case K3_FORMAT_MXFP8:
        k3_avx2_encode_mxfp8(row, n, values, scales);
        break;
    case K3_FORMAT_MXFP4:
        k3_avx2_encode_mxfp4(row, n, values, scales);
        break;
    case K3_FORMAT_INT8:
        encode_int8(row, n, values, scales);
        break;
    default:
        k3_scalar_encode(format, row, n, values, scales);
        break;
    }
}

/* --- decode ---------------------------------------------------------------------------------- */

/* Each takes whole steps of the row and returns how many values it did. */
K3_AVX2_INLINE size_t decode_bf16(const char *values, size_t n, float *out)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m128i bits = _mm_loadu_si128((const __m128i *)(values + 2 * i));

        _mm256_storeu_si256((__m256i *)(out + i),
                            _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
    }
    return i;
}

K3_AVX2_INLINE void scale_e4m3(const uint8_t *codes, __m256 scale, float *out)
{
    __m256 low, high;

    k3_e4m3_widen(_mm_loadu_si128((const __m128i *)codes), &low, &high);
    _mm256_storeu_ps(out, _mm256_mul_ps(low, scale));
    _mm256_storeu_ps(out + 8, _mm256_mul_ps(high, scale));
}

K3_AVX2_INLINE bool has_nan(const uint8_t *codes, size_t n)
{
    __m128i nan = _mm_setzero_si128();

    for (size_t i = 0; i < n; i += 16) {
        nan = _mm_or_si128(nan, k3_e4m3_nan(_mm_loadu_si128((const __m128i *)(codes + i))));
    }
    return _mm_testz_si128(nan, nan) == 0;
}

/* A group of n codes, a multiple of 16. Where 2^8 times the scale is a number the product with it is
 * what the product with 2^8 and then the scale is. */
K3_AVX2_INLINE void decode_e4m3(const uint8_t *codes, size_t n, float scale, float *out)
{
    const __m128i zero = _mm_setzero_si128();
    const __m256  factor = _mm256_set1_ps(scale * 256.0f);

    if (has_nan(codes, n) || !(fabsf(scale) < 0x1p119f)) {
        for (size_t i = 0; i < n; i += 16) {
            scale_e4m3(codes + i, _mm256_set1_ps(scale), out + i);
        }
        return;
    }
    for (size_t i = 0; i < n; i += 16) {
        __m128i some = _mm_loadu_si128((const __m128i *)(codes + i));
        __m256  low = k3_e4m3_spread(_mm_unpacklo_epi8(zero, some));
        __m256  high = k3_e4m3_spread(_mm_unpackhi_epi8(zero, some));

        _mm256_storeu_ps(out + i, _mm256_mul_ps(low, factor));
        _mm256_storeu_ps(out + i + 8, _mm256_mul_ps(high, factor));
    }
}

/* Whole groups, of a constant length, have no branches inside. */
K3_AVX2_INLINE size_t decode_fp8(const uint8_t *values, const char *scales, size_t n, float *out)
{
    for (size_t i = 0; i < n; i += 128) {
        float scale;

        memcpy(&scale, scales + i / 128 * sizeof scale, sizeof scale);
        if (n - i < 128) {
            decode_e4m3(values + i, (n - i) / 16 * 16, scale, out + i);
        } else {
            decode_e4m3(values + i, 128, scale, out + i);
        }
    }
    return n / 16 * 16;
}

K3_AVX2_INLINE size_t decode_mxfp8(const uint8_t *values, const uint8_t *scales, size_t n,
                                   float *out)
{
    for (size_t i = 0; i < n; i += 32) {
        float scale = k3_e8m0_inline(scales[i / 32]);

        if (n - i < 32) {
            decode_e4m3(values + i, (n - i) / 16 * 16, scale, out + i);
        } else {
            decode_e4m3(values + i, 32, scale, out + i);
        }
    }
    return n / 16 * 16;
}

K3_AVX2_INLINE size_t decode_int8(const uint8_t *values, const void *scales, size_t n, float *out)
{
    float  scale;
    size_t i = 0;

    memcpy(&scale, scales, sizeof scale);
    for (; i + 8 <= n; i += 8) {
        __m256i wide = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(values + i)));

        _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_cvtepi32_ps(wide), _mm256_set1_ps(scale)));
    }
    return i;
}

/* 16 bf16 values in two halves of 8. */
K3_AVX2_INLINE void scale_bf16(__m256i bf16, __m256 scale, float *out)
{
    __m256i low = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(bf16));
    __m256i high = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(bf16, 1));

    low = _mm256_slli_epi32(low, 16);
    high = _mm256_slli_epi32(high, 16);
    _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_castsi256_ps(low), scale));
    _mm256_storeu_ps(out + 8, _mm256_mul_ps(_mm256_castsi256_ps(high), scale));
}

K3_AVX2_INLINE size_t decode_mxfp4(const uint8_t *values, const uint8_t *scales, size_t n,
                                   float *out)
{
    const __m128i nibble = _mm_set1_epi8(15);
    size_t        i = 0;

    for (; i + 32 <= n; i += 32) {
        __m128i packed = _mm_loadu_si128((const __m128i *)(values + i / 2));
        __m128i even = _mm_and_si128(packed, nibble);
        __m128i odd = _mm_and_si128(_mm_srli_epi16(packed, 4), nibble);
        __m256i codes =
            _mm256_set_m128i(_mm_unpackhi_epi8(even, odd), _mm_unpacklo_epi8(even, odd));
        __m256i low = k3_e2m1_low(codes);
        __m256i high = k3_e2m1_high(codes);
        __m256i first = _mm256_unpacklo_epi8(low, high);  /* values 0-7 16-23 */
        __m256i second = _mm256_unpackhi_epi8(low, high); /* values 8-15 24-31 */
        __m256  scale = _mm256_set1_ps(k3_e8m0_inline(scales[i / 32]));

        scale_bf16(_mm256_permute2x128_si256(first, second, 0x20), scale, out + i);
        scale_bf16(_mm256_permute2x128_si256(first, second, 0x31), scale, out + i + 16);
    }
    return i;
}

K3_AVX2 void k3_avx2_decode(k3_format_t format, const void *values, const void *scales, size_t n,
                            float *out)
{
    size_t done = 0;
    float  tail[128];

    switch (format) {
    case K3_FORMAT_FP8:
        done = decode_fp8(values, scales, n, out);
        break;
    case K3_FORMAT_MXFP8:
        done = decode_mxfp8(values, scales, n, out);
        break;
    case K3_FORMAT_MXFP4:
        done = decode_mxfp4(values, scales, n, out);
        break;
    case K3_FORMAT_INT8:
        done = decode_int8(values, scales, n, out);
        break;
    default:
        done = decode_bf16(values, n, out);
        break;
    }
    if (done < n) { /* from the start of its group, as scales belong to groups */
        size_t step = format == K3_FORMAT_FP8 ? 128 : 32;
        size_t first = done / step * step;
        size_t group = format == K3_FORMAT_INT8 ? 0 : k3_format_scale_bytes(format, first);

        k3_scalar_decode(format, (const char *)values + k3_format_value_bytes(format, first),
                         scales == NULL ? NULL : (const char *)scales + group, n - first, tail);
        memcpy(out + done, tail + (done - first), sizeof *out * (n - done));
    }
}

#endif
