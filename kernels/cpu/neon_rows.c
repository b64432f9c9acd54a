/* Row operations and the selection: equal to kernels/cpu/scalar.c bit for bit, but for rms_norm, whose
 * sum has another order (the rounded results differ by one unit in the last place at most, and
 * seldom). */
#include "kernels/cpu/neon_functions.h"

#if defined(__aarch64__)

#include <math.h>

/* --- activations ----------------------------------------------------------------------------- */

K3_NEON_INLINE float32x4_t act4(k3_activation_t activation, float32x4_t gate, float32x4_t up)
{
    float32x4_t s = k3_sigmoid4(gate);
    float32x4_t a, b;

    if (activation == K3_ACT_SWIGLU) {
        return vmulq_f32(vmulq_f32(gate, s), up);
    }
    a = k3_tanh4(vmulq_f32(gate, vdupq_n_f32(1.0f / K3_SITU_BETA)));
    b = k3_tanh4(vmulq_f32(up, vdupq_n_f32(1.0f / K3_SITU_LAMBDA)));
    a = vmulq_f32(vmulq_f32(vdupq_n_f32(K3_SITU_BETA), a), s);
    return vmulq_f32(a, vmulq_f32(vdupq_n_f32(K3_SITU_LAMBDA), b));
}

K3_NEON_INLINE k3_f32x8_t act8(k3_activation_t activation, k3_f32x8_t gate, k3_f32x8_t up)
{
    k3_f32x8_t result = {act4(activation, gate.low, up.low), act4(activation, gate.high, up.high)};

    return result;
}

K3_NEON_INLINE k3_f32x8_t scale8(k3_f32x8_t a, float32x4_t factor)
{
    k3_f32x8_t result = {vmulq_f32(a.low, factor), vmulq_f32(a.high, factor)};

    return result;
}

K3_NEON_INLINE k3_f32x8_t add8(k3_f32x8_t a, k3_f32x8_t b)
{
    k3_f32x8_t result = {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)};

    return result;
}

void k3_neon_activate(k3_activation_t activation, const uint16_t *gate, const uint16_t *up,
                      size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i += 8) {
        k3_store_bf16(out + i, n - i,
                      act8(activation, k3_load_bf16(gate + i, n - i), k3_load_bf16(up + i, n - i)));
    }
}

void k3_neon_activate_f32(k3_activation_t activation, const float *gate, const float *up,
                          float weight, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i += 8) {
        k3_f32x8_t result =
            act8(activation, k3_load_f32(gate + i, n - i), k3_load_f32(up + i, n - i));

        k3_store_bf16(out + i, n - i, scale8(result, vdupq_n_f32(weight)));
    }
}

/* --- selection -------------------------------------------------------------------------------- */

static void route_values(const float *logits, const float *bias, size_t n, float *out)
{
    size_t i = 0;

    for (; i + 4 <= n; i += 4) {
        vst1q_f32(out + i, vaddq_f32(k3_sigmoid4(vld1q_f32(logits + i)), vld1q_f32(bias + i)));
    }
    for (; i < n; i++) {
        out[i] = k3_sigmoid(logits[i]) + bias[i];
    }
}

void k3_neon_route(const float *logits, const float *bias, size_t experts, size_t k, int32_t *ids,
                   float *weights)
{
    k3_route_by(route_values, logits, bias, experts, k, ids, weights);
}

/* --- sums of rows ----------------------------------------------------------------------------- */

enum {
    SUMS = 8 /* of 8 columns each, in registers while all rows are added: a cache line or two */
};

/* 8 * `count` (a constant) columns from i on, of which `left` are in the rows. */
K3_NEON_INLINE void combine_columns(size_t count, const uint16_t *const *rows, const float *weights,
                                    size_t k, size_t i, size_t left, uint16_t *out)
{
    k3_f32x8_t sum[SUMS];

    for (size_t c = 0; c < count; c++) {
        sum[c].low = sum[c].high = vdupq_n_f32(0.0f);
    }
    for (size_t r = 0; r < k; r++) {
        float32x4_t weight = vdupq_n_f32(weights == NULL ? 1.0f : weights[r]);

        for (size_t c = 0; rows[r] != NULL && c < count; c++) {
            sum[c] = add8(sum[c], scale8(k3_load_bf16(rows[r] + i + 8 * c, left), weight));
        }
    }
    for (size_t c = 0; c < count; c++) {
        k3_store_bf16(out + i + 8 * c, left, sum[c]);
    }
}

void k3_neon_combine(const uint16_t *const *rows, const float *weights, size_t k, size_t n,
                     uint16_t *out)
{
    size_t i = 0;

    for (; i + 8 * SUMS <= n; i += 8 * SUMS) {
        combine_columns(SUMS, rows, weights, k, i, 8 * SUMS, out);
    }
    for (; i < n; i += 8) {
        combine_columns(1, rows, weights, k, i, n - i, out);
    }
}

void k3_neon_sum(const uint16_t *const *parts, size_t count, size_t n, uint16_t *out)
{
    k3_neon_combine(parts, NULL, count, n, out);
}

void k3_neon_add(const uint16_t *a, const uint16_t *b, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i += 8) {
        k3_store_bf16(out + i, n - i, add8(k3_load_bf16(a + i, n - i), k3_load_bf16(b + i, n - i)));
    }
}

/* --- rows by themselves ----------------------------------------------------------------------- */

void k3_neon_round(const float *row, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i += 8) {
        k3_store_bf16(out + i, n - i, k3_load_f32(row + i, n - i));
    }
}

/* Four chains of additions, so that their latency does not count. */
static float sum_of_squares(const uint16_t *x, size_t n)
{
    k3_f32x8_t sum[2];

    sum[0].low = sum[0].high = sum[1].low = sum[1].high = vdupq_n_f32(0.0f);
    for (size_t i = 0; i < n; i += 8) {
        k3_f32x8_t value = k3_load_bf16(x + i, n - i), *to = &sum[i / 8 % 2];

        to->low = vfmaq_f32(to->low, value.low, value.low);
        to->high = vfmaq_f32(to->high, value.high, value.high);
    }
    sum[0] = add8(sum[0], sum[1]);
    return vaddvq_f32(vaddq_f32(sum[0].low, sum[0].high));
}

void k3_neon_rms_norm(const uint16_t *x, const uint16_t *gain, size_t n, float eps, uint16_t *out)
{
    float       inverse = 1.0f / sqrtf(sum_of_squares(x, n) / (float)n + eps);
    float32x4_t factor = vdupq_n_f32(inverse);

    for (size_t i = 0; i < n; i += 8) {
        k3_f32x8_t value = scale8(k3_load_bf16(x + i, n - i), factor);
        k3_f32x8_t by = k3_load_bf16(gain + i, n - i);

        value.low = vmulq_f32(value.low, by.low);
        value.high = vmulq_f32(value.high, by.high);
        k3_store_bf16(out + i, n - i, value);
    }
}

/* --- dense, few rows ------------------------------------------------------------------------- */

/* One row of bf16 W against `m` (a constant) f32 rows. */
K3_NEON_INLINE void dot_bf16(size_t m, const uint16_t *w, size_t k, const float *x, float *sums)
{
    k3_f32x8_t sum[4];
    size_t     i = 0;

    for (size_t r = 0; r < m; r++) {
        sum[r].low = sum[r].high = vdupq_n_f32(0.0f);
    }
    for (; i + 8 <= k; i += 8) {
        k3_f32x8_t wide = k3_load_bf16(w + i, 8);

        for (size_t r = 0; r < m; r++) {
            sum[r].low = vfmaq_f32(sum[r].low, wide.low, vld1q_f32(x + r * k + i));
            sum[r].high = vfmaq_f32(sum[r].high, wide.high, vld1q_f32(x + r * k + i + 4));
        }
    }
    for (size_t r = 0; r < m; r++) {
        sums[r] = vaddvq_f32(vaddq_f32(sum[r].low, sum[r].high));
        for (size_t t = i; t < k; t++) {
            sums[r] += k3_bf16_to_f32(w[t]) * x[r * k + t];
        }
    }
}

K3_NEON_INLINE void dot_rows(size_t m, const uint16_t *w, size_t n, size_t k, const float *x,
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

static void dot(const uint16_t *w, size_t n, size_t k, const float *x, size_t m, float *y,
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

const k3_row_ops_t k3_row_ops_neon = {.round = k3_neon_round, .dot = dot};

#endif
