/* Rows to formats and back, equal to kernels/cpu/scalar_formats.c bit for bit (but for the payload
 * of a NaN). */
#include "kernels/cpu/avx2.h"

#if defined(__x86_64__)

#include <math.h>

/* The two float formats that are rounded to here, as they differ for the code below. */
typedef struct k3_small_float {
    float largest;
    int   shift;    /* fraction bits of f32 that are rounded away */
    int   bias;     /* exponent of f32 that becomes 0 */
    float normal;   /* smallest normal number */
    float step_add; /* added to a smaller one: rounds to the step of the subnormals */
} k3_small_float_t;

static const k3_small_float_t e4m3 = {448.0f, 20, 120, 0x1p-6f, 0x1p14f};
static const k3_small_float_t e2m1 = {6.0f, 22, 126, 1.0f, 0x1p22f};

/* Codes, without sign, of magnitudes that are no NaN, in 32-bit lanes. */
K3_AVX2_INLINE __m256i round_magnitudes(k3_small_float_t to, __m256 magnitude)
{
    __m256  limited = _mm256_min_ps(magnitude, _mm256_set1_ps(to.largest));
    __m256  step = _mm256_set1_ps(to.step_add);
    __m256i bits = _mm256_castps_si256(limited);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, to.shift), _mm256_set1_epi32(1));
    int     offset = (1 << (to.shift - 1)) - 1 - (to.bias << 23);
    __m256i normal = _mm256_srli_epi32(
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(offset))), to.shift);
    __m256i small = _mm256_sub_epi32(_mm256_castps_si256(_mm256_add_ps(limited, step)),
                                     _mm256_castps_si256(step));
    __m256  is_small = _mm256_cmp_ps(limited, _mm256_set1_ps(to.normal), _CMP_LT_OQ);

    return _mm256_blendv_epi8(normal, small, _mm256_castps_si256(is_small));
}

/* What values are divided by. */
typedef struct k3_divisor {
    __m256 scale, inverse;
    bool   exact; /* a power of two: the product with the inverse is the quotient */
} k3_divisor_t;

/* The quotient of magnitudes to the last bit that matters: the product with the rounded inverse,
 * corrected once by the remainder. That no code differs from that of a true division is tested for
 * every pair of fractions. */
K3_AVX2_INLINE __m256 divide(__m256 magnitude, k3_divisor_t by)
{
    __m256 quotient = _mm256_mul_ps(magnitude, by.inverse), remainder;

    if (by.exact) {
        return quotient;
    }
    remainder = _mm256_fnmadd_ps(quotient, by.scale, magnitude);
    return _mm256_fmadd_ps(remainder, by.inverse, quotient);
}

K3_AVX2_INLINE k3_divisor_t divisor(float scale)
{
    k3_divisor_t by = {_mm256_set1_ps(scale), _mm256_set1_ps(1.0f / scale), false};

    return by;
}

/* The scale 2^(code - 127), code at most 253. */
K3_AVX2_INLINE k3_divisor_t power_divisor(int code)
{
    k3_divisor_t by = {.inverse = _mm256_castsi256_ps(_mm256_set1_epi32((254 - code) << 23)),
                       .exact = true};

    return by;
}

/* Codes of 16 bf16 values in 16-bit lanes, the sign in bit `sign`. */
K3_AVX2_INLINE __m256i round_values(k3_small_float_t to, int sign, __m256i bf16, k3_divisor_t by)
{
    __m256i     top = _mm256_and_si256(bf16, _mm256_set1_epi16((short)0x8000));
    k3_f32x16_t wide = k3_widen(_mm256_xor_si256(bf16, top));
    __m256i     low = round_magnitudes(to, divide(wide.low, by));
    __m256i     high = round_magnitudes(to, divide(wide.high, by));
    __m256i     codes = _mm256_packus_epi32(low, high);

    return _mm256_or_si256(codes, _mm256_srli_epi16(top, 15 - sign));
}

K3_AVX2_INLINE __m256i join_bytes(__m256i first, __m256i second)
{
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(first, second), 0xd8);
}

K3_AVX2_INLINE size_t rest(size_t n, size_t used)
{
    return n > used ? n - used : 0;
}

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

K3_AVX2_INLINE void encode_e4m3(const uint16_t *row, size_t n, k3_divisor_t by, uint8_t *codes)
{
    for (size_t i = 0; i < n; i += 32) {
        __m256i a = k3_load_u16(row + i, n - i);
        __m256i b = k3_load_u16(row + i + (n - i > 16 ? 16 : 0), rest(n, i + 16));

        store_bytes(codes + i, n - i,
                    join_bytes(round_values(e4m3, 7, a, by), round_values(e4m3, 7, b, by)));
    }
}

K3_AVX2_INLINE void encode_fp8(const uint16_t *row, size_t n, uint8_t *codes, void *scales,
                               size_t group)
{
    uint16_t max = largest(row, n);
    float    amax = k3_bf16_to_f32(max);
    float    scale = max >= 0x7f80 ? NAN : (amax < 1e-4f ? 1e-4f : amax) / 448.0f;

    memcpy((char *)scales + group * sizeof scale, &scale, sizeof scale);
    if (max >= 0x7f80) {
        memset(codes, 0x7f, n);
    } else {
        encode_e4m3(row, n, divisor(scale), codes);
    }
}

K3_AVX2_INLINE void encode_mxfp8(const uint16_t *row, size_t n, uint8_t *codes, uint8_t *scale)
{
    uint16_t max = largest(row, n);
    int      exponent = (max >> 7) - 8 + ((max & 0x7f) > 0x60);

    if (max >= 0x7f80) {
        memset(codes, 0x7f, n);
        *scale = 255;
        return;
    }
    exponent = exponent < 0 ? 0 : exponent;
    *scale = (uint8_t)exponent;
    encode_e4m3(row, n, power_divisor(exponent), codes);
}

K3_AVX2_INLINE void encode_mxfp4(const uint16_t *row, size_t n, uint8_t *codes, uint8_t *scale)
{
    uint16_t     max = largest(row, n);
    int          exponent = (max >> 7) - 2;
    __m256i      a, b, nibbles;
    k3_divisor_t by;

    if (max >= 0x7f80) {
        memset(codes, 0x77, (n + 1) / 2);
        *scale = 255;
        return;
    }
    exponent = exponent < 0 ? 0 : exponent;
    *scale = (uint8_t)exponent;
    by = power_divisor(exponent);
    a = round_values(e2m1, 3, k3_load_u16(row, n), by);
    b = round_values(e2m1, 3, k3_load_u16(row + (n > 16 ? 16 : 0), rest(n, 16)), by);
    nibbles = _mm256_maddubs_epi16(join_bytes(a, b), _mm256_set1_epi16(0x1001));
    nibbles = _mm256_permute4x64_epi64(_mm256_packus_epi16(nibbles, nibbles), 0x08);
    store_bytes(codes, (n + 1) / 2, nibbles);
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

K3_AVX2_INLINE void encode_group(k3_format_t format, const uint16_t *row, size_t n, uint8_t *codes,
                                 void *scales, size_t group)
{
    if (format == K3_FORMAT_FP8) {
        encode_fp8(row, n, codes, scales, group);
    } else if (format == K3_FORMAT_MXFP8) {
        encode_mxfp8(row, n, codes, (uint8_t *)scales + group);
    } else {
        encode_mxfp4(row, n, codes, (uint8_t *)scales + group);
    }
}

/* `format` and `step` are constants, so that whole groups have no branches inside. */
K3_AVX2_INLINE void encode_groups(k3_format_t format, size_t step, const uint16_t *row, size_t n,
                                  uint8_t *codes, void *scales)
{
    size_t packed = format == K3_FORMAT_MXFP4 ? 2 : 1, group = 0, i = 0;

    for (; i + step <= n; i += step, group++) {
        encode_group(format, row + i, step, codes + i / packed, scales, group);
    }
    if (i < n) {
        encode_group(format, row + i, n - i, codes + i / packed, scales, group);
    }
}

K3_AVX2 void k3_avx2_encode(k3_format_t format, const uint16_t *row, size_t n, void *values,
                            void *scales)
{
    switch (format) {
    case K3_FORMAT_FP8:
        encode_groups(K3_FORMAT_FP8, 128, row, n, values, scales);
        break;
    case K3_FORMAT_MXFP8:
        encode_groups(K3_FORMAT_MXFP8, 32, row, n, values, scales);
        break;
    case K3_FORMAT_MXFP4:
        encode_groups(K3_FORMAT_MXFP4, 32, row, n, values, scales);
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

K3_AVX2_INLINE size_t decode_fp8(const uint8_t *values, const char *scales, size_t n, float *out)
{
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        float scale;

        memcpy(&scale, scales + i / 128 * sizeof scale, sizeof scale);
        scale_e4m3(values + i, _mm256_set1_ps(scale), out + i);
    }
    return i;
}

K3_AVX2_INLINE size_t decode_mxfp8(const uint8_t *values, const uint8_t *scales, size_t n,
                                   float *out)
{
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        scale_e4m3(values + i, _mm256_set1_ps(k3_e8m0_inline(scales[i / 32])), out + i);
    }
    return i;
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
