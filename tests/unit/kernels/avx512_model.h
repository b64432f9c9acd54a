/* AVX-512 on a processor with AVX2: the kernels' instructions as SIMDe emulates them, so that the
 * sources of the kernels can be compiled into a test as they are. Include it first. */
#ifndef K3_TESTS_KERNELS_AVX512_MODEL_H
#define K3_TESTS_KERNELS_AVX512_MODEL_H

#if defined(__x86_64__) && defined(__has_include)
#if __has_include(<simde/x86/avx512.h>)
#define K3_AVX512_MODEL 1
#endif
#endif

#ifdef K3_AVX512_MODEL

#pragma GCC            target("avx2,fma,f16c")
#pragma GCC diagnostic ignored "-Wpsabi" /* vectors of 64 bytes stay within this file */

#include "bf16_sums.h"

#include <immintrin.h>
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>

#define K3_AVX512
#define K3_AVX512_BF16

/* VDPBF16PS: the odd product of a pair first. */
static inline __m512 k3_model_dpbf16(__m512 sum, __m512i a, __m512i b)
{
    float    sums[16];
    uint16_t left[32], right[32];

    memcpy(sums, &sum, sizeof sums);
    memcpy(left, &a, sizeof left);
    memcpy(right, &b, sizeof right);
    for (size_t i = 0; i < 16; i++) {
        sums[i] = bf16_unit_add(sums[i], left[2 * i + 1], right[2 * i + 1]);
        sums[i] = bf16_unit_add(sums[i], left[2 * i], right[2 * i]);
    }
    memcpy(&sum, sums, sizeof sums);
    return sum;
}

/* What SIMDe 0.7.4 lacks. */
static inline __m512i k3_model_cvtepu8(__m128i bytes)
{
    uint8_t  from[16];
    uint32_t to[16];
    __m512i  value;

    memcpy(from, &bytes, sizeof from);
    for (size_t i = 0; i < 16; i++) {
        to[i] = from[i];
    }
    memcpy(&value, to, sizeof to);
    return value;
}

static inline __m512 k3_model_cvtph(__m256i halves)
{
    __m256 low = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    __m256 high = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
    __m512 value;

    memcpy(&value, &low, sizeof low);
    memcpy((char *)&value + sizeof low, &high, sizeof high);
    return value;
}

#define __m512bh                  __m512i
#define _mm512_add_ps             simde_mm512_add_ps
#define _mm512_broadcast_i64x4(a) simde_mm512_broadcast_i64x4(a)
#define _mm512_castpd_ps          simde_mm512_castpd_ps
#define _mm512_castps512_ps256    simde_mm512_castps512_ps256
#define _mm512_castps_pd          simde_mm512_castps_pd
#define _mm512_castsi512_ps       simde_mm512_castsi512_ps
#define _mm512_cmpeq_epi32_mask   simde_mm512_cmpeq_epi32_mask
#define _mm512_cvtepu8_epi32      k3_model_cvtepu8
#define _mm512_cvtph_ps           k3_model_cvtph
#define _mm512_dpbf16_ps          k3_model_dpbf16
#undef _mm512_extractf64x4_pd
#define _mm512_extractf64x4_pd   simde_mm512_extractf64x4_pd
#define _mm512_fmadd_ps          simde_mm512_fmadd_ps
#define _mm512_load_ps           simde_mm512_load_ps
#define _mm512_loadu_si512       simde_mm512_loadu_si512
#define _mm512_mask_or_epi32     simde_mm512_mask_or_epi32
#define _mm512_mul_ps            simde_mm512_mul_ps
#define _mm512_or_si512          simde_mm512_or_si512
#define _mm512_permutexvar_epi16 simde_mm512_permutexvar_epi16
#define _mm512_permutexvar_ps    simde_mm512_permutexvar_ps
#define _mm512_set1_epi32        simde_mm512_set1_epi32
#define _mm512_set1_ps           simde_mm512_set1_ps
#undef _mm512_setr_ps
#define _mm512_setr_ps       simde_mm512_setr_ps
#define _mm512_setzero_ps    simde_mm512_setzero_ps
#define _mm512_setzero_si512 simde_mm512_setzero_si512
#define _mm512_slli_epi32    simde_mm512_slli_epi32
#define _mm512_srlv_epi32    simde_mm512_srlv_epi32
#define _mm512_store_ps      simde_mm512_store_ps
#define _mm512_storeu_si512  simde_mm512_storeu_si512

#endif
#endif
