/* exp, sigmoid and tanh of 8 values, in the steps of kernels/cpu/functions.h. */
#ifndef K3_KERNELS_CPU_AVX2_FUNCTIONS_H
#define K3_KERNELS_CPU_AVX2_FUNCTIONS_H

#include "kernels/cpu/avx2.h"
#include "kernels/cpu/functions.h"

#if defined(__x86_64__)

K3_AVX2_INLINE __m256 k3_power_of_two8(__m256i exponent)
{
    exponent = _mm256_add_epi32(exponent, _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}

K3_AVX2_INLINE __m256 k3_polynomial(const float *terms, int count, __m256 x)
{
    __m256 p = _mm256_set1_ps(terms[0]);

    for (int i = 1; i < count; i++) {
        p = _mm256_add_ps(_mm256_mul_ps(p, x), _mm256_set1_ps(terms[i]));
    }
    return p;
}

K3_AVX2_INLINE __m256 k3_exp8(__m256 x)
{
    const __m256 round = _mm256_set1_ps(K3_EXP_ROUND);
    __m256       t, k, r, p;
    __m256i      n, half;

    /* min and max return their second operand where one is NaN. */
    x = _mm256_min_ps(_mm256_set1_ps(K3_EXP_LIMIT), x);
    x = _mm256_max_ps(_mm256_set1_ps(-K3_EXP_LIMIT), x);
    t = _mm256_add_ps(_mm256_mul_ps(x, _mm256_set1_ps(K3_LOG2_E)), round);
    k = _mm256_sub_ps(t, round);
    r = _mm256_sub_ps(x, _mm256_mul_ps(k, _mm256_set1_ps(K3_LN2_HIGH)));
    r = _mm256_sub_ps(r, _mm256_mul_ps(k, _mm256_set1_ps(K3_LN2_LOW)));
    p = k3_polynomial(k3_exp_terms, 8, r);
    n = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_castps_si256(round));
    half = _mm256_srai_epi32(n, 1);
    p = _mm256_mul_ps(p, k3_power_of_two8(half));
    return _mm256_mul_ps(p, k3_power_of_two8(_mm256_sub_epi32(n, half)));
}

K3_AVX2_INLINE __m256 k3_sigmoid8(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    const __m256 sign = _mm256_set1_ps(-0.0f);

    return _mm256_div_ps(one, _mm256_add_ps(one, k3_exp8(_mm256_xor_ps(x, sign))));
}

K3_AVX2_INLINE __m256 k3_tanh8(__m256 x)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    const __m256 one = _mm256_set1_ps(1.0f);
    const __m256 two = _mm256_set1_ps(2.0f);
    __m256       magnitude = _mm256_andnot_ps(sign, x);
    __m256       square = _mm256_mul_ps(x, x);
    __m256       p = k3_polynomial(k3_tanh_terms, 5, square);
    __m256       small = _mm256_add_ps(x, _mm256_mul_ps(_mm256_mul_ps(x, square), p));
    __m256       large = _mm256_add_ps(k3_exp8(_mm256_mul_ps(two, magnitude)), one);
    __m256       is_small = _mm256_cmp_ps(magnitude, _mm256_set1_ps(K3_TANH_SMALL), _CMP_LT_OQ);

    large = _mm256_sub_ps(one, _mm256_div_ps(two, large));
    large = _mm256_or_ps(_mm256_andnot_ps(sign, large), _mm256_and_ps(sign, x));
    return _mm256_blendv_ps(large, small, is_small);
}

#endif
#endif
