/* Rows to mxfp4, equal to kernels/cpu/scalar_formats.c bit for bit.
 *
 * The scale is a power of two, so that the code of a magnitude, as bf16 bits, depends on how far it
 * is above those of a quarter of the scale: u, 128 for a factor of 2. Codes change at
 *
 *     u    0     192    288    352    416    480    544
 *     to   1      2      3      4      5      6      7
 *
 * behind the value where the code before is even, else at it; bit 6 of u says which. So
 *
 *     k = (u + bit 6 + 31) >> 5
 *
 * has one code for each value: 0 for 0, 1 up to 6, and so on, to 7 from 18. */
#include "kernels/cpu/avx2_groups.h"

#if defined(__x86_64__)

enum {
    GROUP = 32,
    STEP = GROUP * K3_GROUPS,
    FIRST = 3,        /* the k of the first code in the table */
    QUARTER = 2 << 7, /* from the bits of a quarter of the scale to those of the scale */
    SCALE = 2 << 7,   /* from those of the scale to a magnitude of its binade times 4 */
    NORMAL = 5 << 7   /* below, a quarter of the scale is no normal number */
};

/* k of 16 values in 16-bit lanes. */
K3_AVX2_INLINE __m256i steps_of(const uint16_t *row, __m256i quarter)
{
    __m256i u = _mm256_subs_epu16(k3_magnitudes(row), quarter);
    __m256i bit = _mm256_and_si256(_mm256_srli_epi16(u, 6), _mm256_set1_epi16(1));

    u = _mm256_add_epi16(_mm256_add_epi16(u, _mm256_set1_epi16(31)), bit);
    return _mm256_srli_epi16(u, 5);
}

/* The codes of k, in bytes. No code is larger than its k, and 0 only has 0. */
K3_AVX2_INLINE __m256i codes_of(__m256i k)
{
    const __m256i table = _mm256_setr_epi8(1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 1, 1, 1,
                                           1, 2, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7);
    __m256i       index = _mm256_subs_epu8(k, _mm256_set1_epi8(FIRST));

    index = _mm256_adds_epi8(index, _mm256_set1_epi8(112)); /* 127 at most, so 15 in its low bits */
    return _mm256_min_epu8(_mm256_shuffle_epi8(table, index), k);
}

/* The bytes of a group in 16-bit lanes: of its values 0-7 16-23, 8-15 24-31. */
K3_AVX2_INLINE __m256i encode_group(const uint16_t *row, uint16_t quarter)
{
    __m256i a = _mm256_loadu_si256((const __m256i *)row);
    __m256i b = _mm256_loadu_si256((const __m256i *)(row + 16));
    __m256i from = _mm256_set1_epi16((short)quarter);
    __m256i sign = _mm256_srli_epi16(_mm256_packs_epi16(a, b), 4);
    __m256i codes = codes_of(_mm256_packus_epi16(steps_of(row, from), steps_of(row + 16, from)));

    codes = _mm256_or_si256(codes, _mm256_and_si256(sign, _mm256_set1_epi8(8)));
    return _mm256_maddubs_epi16(codes, _mm256_set1_epi16(0x1001));
}

K3_AVX2_INLINE void encode_two(const uint16_t *row, const uint16_t *quarters, uint8_t *codes)
{
    __m256i bytes =
        _mm256_packus_epi16(encode_group(row, quarters[0]), encode_group(row + GROUP, quarters[2]));
    __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);

    _mm_storeu_si128((__m128i *)codes, _mm_unpacklo_epi32(low, high));
    _mm_storeu_si128((__m128i *)(codes + GROUP / 2), _mm_unpackhi_epi32(low, high));
}

/* Groups whose magnitudes are no exponents and fractions are left to the scalar code; those of
 * zeros, for which a quarter of the scale is beyond all magnitudes, are not. */
K3_AVX2_INLINE void encode_four(const uint16_t *row, uint8_t *codes, uint8_t *scales)
{
    __m128i max = k3_largest(row, GROUP), zero = _mm_setzero_si128();
    __m128i binade = _mm_andnot_si128(_mm_set1_epi32(127), max);
    __m128i bytes = _mm_srli_epi32(_mm_subs_epu16(binade, _mm_set1_epi32(SCALE)), 7);
    __m128i tiny =
        _mm_andnot_si128(_mm_cmpeq_epi32(max, zero), _mm_cmpgt_epi32(_mm_set1_epi32(NORMAL), max));
    int rare = _mm_movemask_ps(
        _mm_castsi128_ps(_mm_or_si128(tiny, _mm_cmpgt_epi32(max, _mm_set1_epi32(0x7f7f)))));
    uint16_t quarters[2 * K3_GROUPS]; /* each in two */

    _mm_storeu_si128((__m128i *)quarters, _mm_sub_epi32(binade, _mm_set1_epi32(SCALE + QUARTER)));
    bytes = _mm_packus_epi16(_mm_packus_epi32(bytes, zero), zero);
    memcpy(scales, &bytes, K3_GROUPS);
    encode_two(row, quarters, codes);
    encode_two(row + 2 * GROUP, quarters + 4, codes + GROUP);
    for (size_t g = 0; rare >> g != 0; g++) {
        if ((rare >> g & 1) != 0) {
            k3_scalar_encode(K3_FORMAT_MXFP4, row + g * GROUP, GROUP, codes + g * (GROUP / 2),
                             scales + g);
        }
    }
}

/* Fewer than four whole groups, in a copy with zeros behind. */
K3_AVX2 __attribute__((noinline)) static void encode_rest(const uint16_t *row, size_t n,
                                                          uint8_t *codes, uint8_t *scales)
{
    uint16_t values[STEP] = {0};
    uint8_t  all_codes[STEP / 2], all_scales[K3_GROUPS];

    memcpy(values, row, sizeof *row * n);
    encode_four(values, all_codes, all_scales);
    memcpy(codes, all_codes, (n + 1) / 2);
    memcpy(scales, all_scales, k3_format_scale_bytes(K3_FORMAT_MXFP4, n));
}

K3_AVX2 void k3_avx2_encode_mxfp4(const uint16_t *row, size_t n, void *values, void *scales)
{
    uint8_t *codes = values, *scale = scales;
    size_t   i = 0;

    for (; i + STEP <= n; i += STEP) {
        k3_fetch_ahead(row + i, STEP);
        encode_four(row + i, codes + i / 2, scale + i / GROUP);
    }
    if (i < n) {
        encode_rest(row + i, n - i, codes + i / 2, scale + i / GROUP);
    }
}

#endif
