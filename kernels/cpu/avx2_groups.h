/* What the encoders to e4m3 and to E2M1 share: they take four groups at a time, as the largest
 * magnitudes of four are found in hardly more steps than that of one. */
#ifndef K3_KERNELS_CPU_AVX2_GROUPS_H
#define K3_KERNELS_CPU_AVX2_GROUPS_H

#include "kernels/cpu/avx2.h"

#if defined(__x86_64__)

enum {
    K3_GROUPS = 4,  /* done at a time */
    K3_AHEAD = 2048 /* bytes asked of memory before they are read */
};

K3_AVX2_INLINE __m256i k3_magnitudes(const uint16_t *row)
{
    return _mm256_and_si256(_mm256_loadu_si256((const __m256i *)row), _mm256_set1_epi16(0x7fff));
}

/* The largest magnitude of each group. */
K3_AVX2_INLINE __m128i k3_largest(const uint16_t *row, size_t group)
{
    __m256i max[K3_GROUPS], even, odd;
    __m128i half;

    for (size_t g = 0; g < K3_GROUPS; g++) {
        max[g] = k3_magnitudes(row + g * group);
        for (size_t i = 16; i < group; i += 16) {
            max[g] = _mm256_max_epu16(max[g], k3_magnitudes(row + g * group + i));
        }
    }
    even = _mm256_max_epu16(_mm256_unpacklo_epi16(max[0], max[1]),
                            _mm256_unpackhi_epi16(max[0], max[1]));
    odd = _mm256_max_epu16(_mm256_unpacklo_epi16(max[2], max[3]),
                           _mm256_unpackhi_epi16(max[2], max[3]));
    even = _mm256_max_epu16(_mm256_unpacklo_epi32(even, odd), _mm256_unpackhi_epi32(even, odd));
    half = _mm_max_epu16(_mm256_castsi256_si128(even), _mm256_extracti128_si256(even, 1));
    return _mm_cvtepu16_epi32(_mm_max_epu16(half, _mm_unpackhi_epi64(half, half)));
}

/* Rows are often read one after the other, once: what comes K3_AHEAD bytes on, be it of the next
 * row, is asked for. An address that is nobody's does no harm. */
K3_AVX2_INLINE void k3_fetch_ahead(const uint16_t *row, size_t n)
{
    for (size_t i = 0; i < n; i += 32) {
        _mm_prefetch((const char *)((uintptr_t)(row + i) + K3_AHEAD), _MM_HINT_T0);
    }
}

#endif
#endif
