/* Row operations: equal to kernels/cpu/scalar.c bit for bit, but for rms_norm, whose sum has
 * another order (the rounded results differ by one unit in the last place at most, and seldom). */
#include "kernels/cpu/avx2_functions.h"

#if defined(__x86_64__)

#include <math.h>

/* --- activations ----------------------------------------------------------------------------- */

K3_AVX2_INLINE __m256 act8(k3_activation_t activation, __m256 gate, __m256 up)
{
    __m256 s = k3_sigmoid8(gate);
    __m256 a, b;

    if (activation == K3_ACT_SWIGLU) {
        return _mm256_mul_ps(_mm256_mul_ps(gate, s), up);
    }
    a = k3_tanh8(_mm256_mul_ps(gate, _mm256_set1_ps(1.0f / K3_SITU_BETA)));
    b = k3_tanh8(_mm256_mul_ps(up, _mm256_set1_ps(1.0f / K3_SITU_LAMBDA)));
    a = _mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(K3_SITU_BETA), a), s);
    return _mm256_mul_ps(a, _mm256_mul_ps(_mm256_set1_ps(K3_SITU_LAMBDA), b));
}

K3_AVX2_INLINE k3_f32x16_t act16(k3_activation_t activation, k3_f32x16_t gate, k3_f32x16_t up)
{
    k3_f32x16_t result = {act8(activation, gate.low, up.low), act8(activation, gate.high, up.high)};

    return result;
}

K3_AVX2 void k3_avx2_activate(k3_activation_t activation, const uint16_t *gate, const uint16_t *up,
                              size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i += 16) {
        k3_store_bf16(
            out + i, n - i,
            act16(activation, k3_load_bf16(gate + i, n - i), k3_load_bf16(up + i, n - i)));
    }
}

K3_AVX2 void k3_avx2_activate_f32(k3_activation_t activation, const float *gate, const float *up,
                                  float weight, size_t n, uint16_t *out)
{
    const __m256 factor = _mm256_set1_ps(weight);

    for (size_t i = 0; i < n; i += 16) {
        k3_f32x16_t result =
            act16(activation, k3_load_f32(gate + i, n - i), k3_load_f32(up + i, n - i));

        result.low = _mm256_mul_ps(result.low, factor);
        result.high = _mm256_mul_ps(result.high, factor);
        k3_store_bf16(out + i, n - i, result);
    }
}

/* --- rows ------------------------------------------------------------------------------------ */

K3_AVX2 void k3_avx2_round(const float *row, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i += 16) {
        k3_store_bf16(out + i, n - i, k3_load_f32(row + i, n - i));
    }
}

K3_AVX2_INLINE k3_f32x16_t add16(k3_f32x16_t a, k3_f32x16_t b)
{
    k3_f32x16_t result = {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};

    return result;
}

K3_AVX2_INLINE k3_f32x16_t scale16(k3_f32x16_t a, __m256 factor)
{
    k3_f32x16_t result = {_mm256_mul_ps(a.low, factor), _mm256_mul_ps(a.high, factor)};

    return result;
}

K3_AVX2 void k3_avx2_add(const uint16_t *a, const uint16_t *b, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i += 16) {
        k3_store_bf16(out + i, n - i,
                      add16(k3_load_bf16(a + i, n - i), k3_load_bf16(b + i, n - i)));
    }
}

/* 16 bf16 values as those at even places and those at odd ones: fewer shuffles than halves need. */
K3_AVX2_INLINE k3_f32x16_t split16(__m256i bf16)
{
    __m256i     odd = _mm256_and_si256(bf16, _mm256_set1_epi32((int)0xffff0000));
    k3_f32x16_t wide = {_mm256_castsi256_ps(_mm256_slli_epi32(bf16, 16)), _mm256_castsi256_ps(odd)};

    return wide;
}

/* Rounds what is no NaN to bf16 in the upper half of each lane: halves go up, then one that lay in
 * the middle back to even. The upper word compared with is that of a NaN and equals none. */
K3_AVX2_INLINE __m256i round_upper(__m256 value)
{
    __m256i bits = _mm256_castps_si256(value);
    __m256i half = _mm256_cmpeq_epi16(bits, _mm256_set1_epi32(0x7fff8000));
    __m256i up = _mm256_add_epi32(bits, _mm256_set1_epi32(0x8000));

    return _mm256_andnot_si256(_mm256_add_epi32(half, half), up); /* from 0xffff to bit 16 */
}

K3_AVX2_INLINE __m256i join16(k3_f32x16_t value)
{
    __m256i even = _mm256_srli_epi32(round_upper(value.low), 16);

    return _mm256_blend_epi16(even, round_upper(value.high), 0xaa);
}

/* Four chains of additions, so that their latency does not count. */
K3_AVX2_INLINE float sum_of_squares(const uint16_t *x, size_t n)
{
    __m256 sum[4];
    size_t i = 0;

    for (size_t c = 0; c < 4; c++) {
        sum[c] = _mm256_setzero_ps();
    }
    for (; i + 32 <= n; i += 32) {
        k3_f32x16_t a = split16(k3_load_u16(x + i, 16));
        k3_f32x16_t b = split16(k3_load_u16(x + i + 16, 16));

        sum[0] = _mm256_fmadd_ps(a.low, a.low, sum[0]);
        sum[1] = _mm256_fmadd_ps(a.high, a.high, sum[1]);
        sum[2] = _mm256_fmadd_ps(b.low, b.low, sum[2]);
        sum[3] = _mm256_fmadd_ps(b.high, b.high, sum[3]);
    }
    for (; i < n; i += 16) {
        k3_f32x16_t a = split16(k3_load_u16(x + i, n - i));

        sum[0] = _mm256_fmadd_ps(a.low, a.low, sum[0]);
        sum[1] = _mm256_fmadd_ps(a.high, a.high, sum[1]);
    }
    sum[0] = _mm256_add_ps(sum[0], sum[1]);
    sum[2] = _mm256_add_ps(sum[2], sum[3]);
    return k3_total(_mm256_add_ps(sum[0], sum[2]));
}

/* The product of 16 values; a NaN among them leaves one in *trace. */
K3_AVX2_INLINE k3_f32x16_t norm16(const uint16_t *x, const uint16_t *gain, size_t left,
                                  __m256 inverse, __m256 *trace)
{
    k3_f32x16_t value = scale16(split16(k3_load_u16(x, left)), inverse);
    k3_f32x16_t by = split16(k3_load_u16(gain, left));

    value.low = _mm256_mul_ps(value.low, by.low);
    value.high = _mm256_mul_ps(value.high, by.high);
    *trace = _mm256_fmadd_ps(value.low, value.high, *trace);
    return value;
}

/* Rows with a NaN, or of which one comes, and some with infinity. */
K3_AVX2 __attribute__((noinline)) static void norm_with_nan(const uint16_t *x, const uint16_t *gain,
                                                            size_t n, float inverse, uint16_t *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = k3_f32_to_bf16(k3_bf16_to_f32(x[i]) * inverse * k3_bf16_to_f32(gain[i]));
    }
}

K3_AVX2 void k3_avx2_rms_norm(const uint16_t *x, const uint16_t *gain, size_t n, float eps,
                              uint16_t *out)
{
    float  inverse = 1.0f / sqrtf(sum_of_squares(x, n) / (float)n + eps);
    __m256 factor = _mm256_set1_ps(inverse), trace = _mm256_setzero_ps();
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        k3_store_u16(out + i, 16, join16(norm16(x + i, gain + i, 16, factor, &trace)));
    }
    if (i < n) {
        k3_store_u16(out + i, n - i, join16(norm16(x + i, gain + i, n - i, factor, &trace)));
    }
    if (isnan(k3_total(trace))) {
        norm_with_nan(x, gain, n, inverse, out);
    }
}

/* --- dense, few rows ------------------------------------------------------------------------- */

/* One row of bf16 W against `m` (a constant) f32 rows; k is a multiple of 8 but for the last
 * values. */
K3_AVX2_INLINE void dot_bf16(size_t m, const uint16_t *w, size_t k, const float *x, float *sums)
{
    __m256 sum[4][2];
    size_t i = 0;

    for (size_t r = 0; r < m; r++) {
        sum[r][0] = sum[r][1] = _mm256_setzero_ps();
    }
    for (; i + 16 <= k; i += 16) {
        const __m128i *from = (const __m128i *)(w + i);
        __m256i        low = _mm256_cvtepu16_epi32(_mm_loadu_si128(from));
        __m256i        high = _mm256_cvtepu16_epi32(_mm_loadu_si128(from + 1));
        __m256         a = _mm256_castsi256_ps(_mm256_slli_epi32(low, 16));
        __m256         b = _mm256_castsi256_ps(_mm256_slli_epi32(high, 16));

        for (size_t r = 0; r < m; r++) {
            sum[r][0] = _mm256_fmadd_ps(a, _mm256_loadu_ps(x + r * k + i), sum[r][0]);
            sum[r][1] = _mm256_fmadd_ps(b, _mm256_loadu_ps(x + r * k + i + 8), sum[r][1]);
        }
    }
    for (size_t r = 0; r < m; r++) {
        sums[r] = k3_total(_mm256_add_ps(sum[r][0], sum[r][1]));
        for (size_t t = i; t < k; t++) {
            sums[r] += k3_bf16_to_f32(w[t]) * x[r * k + t];
        }
    }
}

K3_AVX2_INLINE void dot_rows(size_t m, const uint16_t *w, size_t n, size_t k, const float *x,
                             float *y, size_t stride)
{
    for (size_t j = 0; j < n; j++) {
        float sums[4];

        dot_bf16(m, w + j * k, k, x, sums);
        for (size_t r = 0; r < m; r++) {
            y[r * stride + j] = sums[r];
        }
    }
}

K3_AVX2 static void dot(const uint16_t *w, size_t n, size_t k, const float *x, size_t m, float *y,
                        size_t stride)
{
    switch (m) {
    case 1:
        dot_rows(1, w, n, k, x, y, stride);
        break;
    case 2:
        dot_rows(2, w, n, k, x, y, stride);
        break;
    case 3:
        dot_rows(3, w, n, k, x, y, stride);
        break;
    default:
        dot_rows(4, w, n, k, x, y, stride);
        break;
    }
}

const k3_row_ops_t k3_row_ops_avx2 = {.round = k3_avx2_round, .dot = dot};

#endif
