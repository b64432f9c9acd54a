/* exp, sigmoid and tanh of 4 values, in the steps of kernels/cpu/functions.h. */
#ifndef K3_KERNELS_CPU_NEON_FUNCTIONS_H
#define K3_KERNELS_CPU_NEON_FUNCTIONS_H

#include "kernels/cpu/functions.h"
#include "kernels/cpu/neon.h"

#if defined(__aarch64__)

K3_NEON_INLINE float32x4_t k3_power_of_two4(int32x4_t exponent)
{
    exponent = vaddq_s32(exponent, vdupq_n_s32(127));
    return vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23));
}

K3_NEON_INLINE float32x4_t k3_polynomial(const float *terms, int count, float32x4_t x)
{
    float32x4_t p = vdupq_n_f32(terms[0]);

    for (int i = 1; i < count; i++) {
        p = vaddq_f32(vmulq_f32(p, x), vdupq_n_f32(terms[i]));
    }
    return p;
}

K3_NEON_INLINE float32x4_t k3_exp4(float32x4_t x)
{
    const float32x4_t round = vdupq_n_f32(K3_EXP_ROUND);
    float32x4_t       t, k, r, p;
    int32x4_t         n, half;

    /* min and max of a NaN are NaN. */
    x = vminq_f32(vdupq_n_f32(K3_EXP_LIMIT), x);
    x = vmaxq_f32(vdupq_n_f32(-K3_EXP_LIMIT), x);
    t = vaddq_f32(vmulq_f32(x, vdupq_n_f32(K3_LOG2_E)), round);
    k = vsubq_f32(t, round);
    r = vsubq_f32(x, vmulq_f32(k, vdupq_n_f32(K3_LN2_HIGH)));
    r = vsubq_f32(r, vmulq_f32(k, vdupq_n_f32(K3_LN2_LOW)));
    p = k3_polynomial(k3_exp_terms, 8, r);
    n = vsubq_s32(vreinterpretq_s32_f32(t), vreinterpretq_s32_f32(round));
    half = vshrq_n_s32(n, 1);
    p = vmulq_f32(p, k3_power_of_two4(half));
    return vmulq_f32(p, k3_power_of_two4(vsubq_s32(n, half)));
}

K3_NEON_INLINE float32x4_t k3_sigmoid4(float32x4_t x)
{
    const float32x4_t one = vdupq_n_f32(1.0f);

    return vdivq_f32(one, vaddq_f32(one, k3_exp4(vnegq_f32(x))));
}

K3_NEON_INLINE float32x4_t k3_tanh4(float32x4_t x)
{
    const float32x4_t one = vdupq_n_f32(1.0f), two = vdupq_n_f32(2.0f);
    const uint32x4_t  sign = vdupq_n_u32(0x80000000);
    float32x4_t       magnitude = vabsq_f32(x), square = vmulq_f32(x, x);
    float32x4_t       p = k3_polynomial(k3_tanh_terms, 5, square);
    float32x4_t       small = vaddq_f32(x, vmulq_f32(vmulq_f32(x, square), p));
    float32x4_t       large = vaddq_f32(k3_exp4(vmulq_f32(two, magnitude)), one);
    uint32x4_t        is_small = vcltq_f32(magnitude, vdupq_n_f32(K3_TANH_SMALL));

    large = vbslq_f32(sign, x, vsubq_f32(one, vdivq_f32(two, large)));
    return vbslq_f32(is_small, small, large);
}

#endif
#endif
