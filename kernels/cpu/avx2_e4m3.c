/* Rows to fp8 and mxfp8, equal to kernels/cpu/scalar_formats.c bit for bit.
 *
 * The magnitude of a bf16 value is u = 128 e + f, an exponent and a 7-bit fraction. Within a group
 * the scale is fixed, so that twice the value has a code 8 higher, as long as codes are normal:
 *
 *     code = 8 (e - base) + h(f), h a step function.
 *
 * Two steps of h lie 8 fractions or more apart, as e4m3 has 8 codes for a binade and bf16 128. So
 * the fractions 8k to 8k + 7 hold one step at most, at 8k + t (t = 8: none), and with
 *
 *     d[k] = 16 h(8k) + 16 - t - 8k:   h(f) = (f + d[k]) >> 4,   code = (u + d[k] - 128 base) >> 4.
 *
 * The scale is the largest magnitude over 448, so h depends on the fraction of that magnitude only.
 * The d of each fraction are made once, from the scalar definition. A code below 8, where the codes
 * no longer get denser, is made again by division unless the value is zero. */
#include "kernels/cpu/avx2_groups.h"

#if defined(__x86_64__)

enum {
    GROUP_MAX = 128, /* values of the larger group */
    NORMAL = 8,      /* the first code of a normal number */
    BELOW = 15,      /* from `base` up to the exponent of the largest magnitude */
    MARGIN = 64,     /* added to every d, so that none is negative */
    POWER = 0x60,    /* the fraction of 448, whose scale is a power of two */
    FIXED = 128,     /* the index of the d for a largest magnitude below 1e-4 */
    FIXED_E = 113    /* the exponent of 1e-4 */
};

/* The d[k] of each fraction at 15 - k. */
static _Alignas(16) uint8_t step_table[FIXED + 1][16];

static void fill_steps(uint8_t *row, int exponent, float scale)
{
    for (int k = 0; k < 16; k++) {
        int first = 0, t = 0;

        for (; t < 8; t++) { /* one binade down, where nothing saturates */
            uint16_t value = (uint16_t)((exponent - 1) << 7 | (8 * k + t));
            int      code = k3_f32_to_e4m3(k3_bf16_to_f32(value) / scale);

            first = t == 0 ? code : first;
            if (code != first) {
                break;
            }
        }
        row[15 - k] = (uint8_t)(16 * (first - 8 * (BELOW - 1)) + 16 - t - 8 * k + MARGIN);
    }
}

void k3_avx2_prepare_e4m3(void)
{
    for (int fraction = 0; fraction < 128; fraction++) {
        uint16_t largest = (uint16_t)(127 << 7 | fraction);

        fill_steps(step_table[fraction], 127, k3_bf16_to_f32(largest) / 448.0f);
    }
    fill_steps(step_table[FIXED], FIXED_E, 1e-4f / 448.0f);
}

/* --- scales of four groups, in 32-bit lanes -------------------------------------------------- */

typedef struct k3_groups {
    int     row[K3_GROUPS];  /* of step_table */
    int32_t base[K3_GROUPS]; /* what is taken off u + d */
    int     rare;            /* bit i: group i is left to the scalar code */
} k3_groups_t;

K3_AVX2_INLINE k3_groups_t groups_of(__m128i row, __m128i base, __m128i rare)
{
    k3_groups_t groups;

    groups.rare = _mm_movemask_ps(_mm_castsi128_ps(rare));
    _mm_storeu_si128((__m128i *)groups.row, row);
    _mm_storeu_si128((__m128i *)groups.base, base);
    return groups;
}

K3_AVX2_INLINE __m128i is_not_finite(__m128i max)
{
    return _mm_cmpgt_epi32(max, _mm_set1_epi32(0x7f7f));
}

K3_AVX2_INLINE k3_groups_t scale_fp8(__m128i max, float *scales)
{
    __m128  limit = _mm_set1_ps(1e-4f), amax = _mm_castsi128_ps(_mm_slli_epi32(max, 16));
    __m128  scale = _mm_div_ps(_mm_max_ps(amax, limit), _mm_set1_ps(448.0f));
    __m128i fixed = _mm_castps_si128(_mm_cmplt_ps(amax, limit));
    __m128i fraction = _mm_and_si128(max, _mm_set1_epi32(127));
    __m128i exponent = _mm_max_epi32(_mm_sub_epi32(max, fraction), _mm_set1_epi32(FIXED_E << 7));

    _mm_storeu_ps(scales, scale);
    return groups_of(_mm_blendv_epi8(fraction, _mm_set1_epi32(FIXED), fixed),
                     _mm_add_epi32(exponent, _mm_set1_epi32(MARGIN - (BELOW << 7))),
                     is_not_finite(max));
}

/* Scale codes below 7 take in subnormal values, whose magnitude is no exponent and fraction. */
K3_AVX2_INLINE k3_groups_t scale_mxfp8(__m128i max, uint8_t *scales)
{
    __m128i up = _mm_add_epi32(max, _mm_set1_epi32(127 - POWER));
    __m128i code = _mm_sub_epi32(_mm_srli_epi32(up, 7), _mm_set1_epi32(8));
    __m128i base = _mm_add_epi32(_mm_slli_epi32(code, 7), _mm_set1_epi32(MARGIN - (7 << 7)));
    __m128i zero = _mm_setzero_si128();
    __m128i tiny =
        _mm_and_si128(_mm_cmpgt_epi32(_mm_set1_epi32(7), code), _mm_cmpgt_epi32(max, zero));
    __m128i bytes = _mm_packus_epi32(_mm_max_epi32(code, zero), zero);

    bytes = _mm_packus_epi16(bytes, zero);
    memcpy(scales, &bytes, K3_GROUPS);
    return groups_of(_mm_set1_epi32(POWER), base, _mm_or_si128(tiny, is_not_finite(max)));
}

/* --- codes ----------------------------------------------------------------------------------- */

/* Codes of 16 magnitudes in 16-bit lanes. */
K3_AVX2_INLINE __m256i codes_of(__m256i u, __m256i steps, __m256i base)
{
    /* 15 - k; the top bit makes the upper byte of what is looked up 0. */
    __m256i index = _mm256_andnot_si256(_mm256_srli_epi16(u, 3), _mm256_set1_epi16((short)0x800f));
    __m256i sum = _mm256_add_epi16(u, _mm256_shuffle_epi8(steps, index));

    return _mm256_srli_epi16(_mm256_subs_epu16(sum, base), 4);
}

K3_AVX2_INLINE __m256i in_order(__m256i packed)
{
    return _mm256_permute4x64_epi64(packed, 0xd8);
}

/* Gives the smallest codes without sign, of values that are not +0, whose code is right. */
K3_AVX2_INLINE __m256i encode_groups(const uint16_t *row, size_t group, const k3_groups_t *groups,
                                     uint8_t *codes)
{
    __m256i smallest = _mm256_set1_epi8(0x7f);

    for (size_t g = 0; g < K3_GROUPS; g++) {
        __m256i steps = _mm256_broadcastsi128_si256(
            _mm_load_si128((const __m128i *)step_table[groups->row[g]]));
        __m256i base = _mm256_set1_epi16((short)groups->base[g]);

        for (size_t i = g * group; i < (g + 1) * group; i += 32) {
            __m256i a = _mm256_loadu_si256((const __m256i *)(row + i));
            __m256i b = _mm256_loadu_si256((const __m256i *)(row + i + 16));
            __m256i code = _mm256_packus_epi16(codes_of(k3_magnitudes(row + i), steps, base),
                                               codes_of(k3_magnitudes(row + i + 16), steps, base));
            __m256i packed = _mm256_packs_epi16(a, b); /* 0 only where the value is +0 */
            __m256i sign = _mm256_and_si256(packed, _mm256_set1_epi8((char)0x80));
            __m256i zero = _mm256_cmpeq_epi8(packed, _mm256_setzero_si256());

            smallest = _mm256_min_epu8(smallest, _mm256_or_si256(code, zero));
            _mm256_storeu_si256((__m256i *)(codes + i), in_order(_mm256_or_si256(code, sign)));
        }
    }
    return smallest;
}

K3_AVX2_INLINE __m256i is_small(__m256i codes)
{
    return _mm256_cmpgt_epi8(_mm256_set1_epi8(NORMAL), codes);
}

/* Codes of 16 magnitudes below 8, in 16-bit lanes: adding 2^14 rounds to steps of 2^-9. */
K3_AVX2_INLINE __m256i small_codes(__m256i u, __m256 scale)
{
    k3_f32x16_t wide = k3_widen(u);
    __m256      step = _mm256_set1_ps(0x1p14f);
    __m256      low = _mm256_add_ps(_mm256_div_ps(wide.low, scale), step);
    __m256      high = _mm256_add_ps(_mm256_div_ps(wide.high, scale), step);

    return _mm256_packus_epi32(
        _mm256_sub_epi32(_mm256_castps_si256(low), _mm256_castps_si256(step)),
        _mm256_sub_epi32(_mm256_castps_si256(high), _mm256_castps_si256(step)));
}

/* Corrects the codes below 8 of one group. */
K3_AVX2 __attribute__((noinline)) static void correct_small(const uint16_t *row, size_t group,
                                                            float scale, uint8_t *codes)
{
    const __m256i sign = _mm256_set1_epi8((char)0x80);

    for (size_t i = 0; i < group; i += 32) {
        __m256i code = _mm256_loadu_si256((const __m256i *)(codes + i));
        __m256i a = k3_magnitudes(row + i);
        __m256i b = k3_magnitudes(row + i + 16);
        __m256i small = is_small(_mm256_andnot_si256(sign, code));
        __m256i zero =
            _mm256_cmpeq_epi8(in_order(_mm256_packus_epi16(a, b)), _mm256_setzero_si256());
        __m256i by_division;

        if (_mm256_testc_si256(zero, small)) { /* no others */
            continue;
        }
        by_division = in_order(_mm256_packus_epi16(small_codes(a, _mm256_set1_ps(scale)),
                                                   small_codes(b, _mm256_set1_ps(scale))));
        by_division = _mm256_or_si256(by_division, _mm256_and_si256(code, sign));
        _mm256_storeu_si256((__m256i *)(codes + i), _mm256_blendv_epi8(code, by_division, small));
    }
}

/* --- rows ------------------------------------------------------------------------------------ */

K3_AVX2_INLINE float scale_at(k3_format_t format, const void *scales, size_t g)
{
    float scale;

    if (format == K3_FORMAT_MXFP8) {
        return k3_e8m0_inline(((const uint8_t *)scales)[g]);
    }
    memcpy(&scale, (const char *)scales + g * sizeof scale, sizeof scale);
    return scale;
}

K3_AVX2_INLINE void encode_four(k3_format_t format, size_t group, const uint16_t *row,
                                uint8_t *codes, void *scales)
{
    __m128i     max = k3_largest(row, group);
    k3_groups_t groups =
        format == K3_FORMAT_FP8 ? scale_fp8(max, scales) : scale_mxfp8(max, scales);
    __m256i smallest = encode_groups(row, group, &groups, codes);

    if (_mm256_movemask_epi8(is_small(smallest)) != 0) {
        for (size_t g = 0; g < K3_GROUPS; g++) {
            correct_small(row + g * group, group, scale_at(format, scales, g), codes + g * group);
        }
    }
    for (size_t g = 0; groups.rare >> g != 0; g++) {
        if ((groups.rare >> g & 1) != 0) {
            k3_scalar_encode(format, row + g * group, group, codes + g * group,
                             (char *)scales + k3_format_scale_bytes(format, g * group));
        }
    }
}

/* Fewer than four whole groups, in a copy with zeros behind. */
K3_AVX2_INLINE void encode_rest(k3_format_t format, size_t group, const uint16_t *row, size_t n,
                                uint8_t *codes, void *scales)
{
    uint16_t values[K3_GROUPS * GROUP_MAX] = {0};
    uint8_t  all_codes[K3_GROUPS * GROUP_MAX];
    float    all_scales[K3_GROUPS];

    memcpy(values, row, sizeof *row * n);
    encode_four(format, group, values, all_codes, all_scales);
    memcpy(codes, all_codes, n);
    memcpy(scales, all_scales, k3_format_scale_bytes(format, n));
}

K3_AVX2 __attribute__((noinline)) static void encode_rest_fp8(const uint16_t *row, size_t n,
                                                              uint8_t *codes, void *scales)
{
    encode_rest(K3_FORMAT_FP8, 128, row, n, codes, scales);
}

K3_AVX2 __attribute__((noinline)) static void encode_rest_mxfp8(const uint16_t *row, size_t n,
                                                                uint8_t *codes, void *scales)
{
    encode_rest(K3_FORMAT_MXFP8, 32, row, n, codes, scales);
}

K3_AVX2 void k3_avx2_encode_fp8(const uint16_t *row, size_t n, void *values, void *scales)
{
    const size_t step = 128 * K3_GROUPS;
    uint8_t     *codes = values;
    float       *scale = scales;
    size_t       i = 0;

    for (; i + step <= n; i += step) {
        k3_fetch_ahead(row + i, step);
        encode_four(K3_FORMAT_FP8, 128, row + i, codes + i, scale + i / 128);
    }
    if (i < n) {
        encode_rest_fp8(row + i, n - i, codes + i, scale + i / 128);
    }
}

K3_AVX2 void k3_avx2_encode_mxfp8(const uint16_t *row, size_t n, void *values, void *scales)
{
    const size_t step = 32 * K3_GROUPS;
    uint8_t     *codes = values, *scale = scales;
    size_t       i = 0;

    for (; i + step <= n; i += step) {
        k3_fetch_ahead(row + i, step);
        encode_four(K3_FORMAT_MXFP8, 32, row + i, codes + i, scale + i / 32);
    }
    if (i < n) {
        encode_rest_mxfp8(row + i, n - i, codes + i, scale + i / 32);
    }
}

#endif
