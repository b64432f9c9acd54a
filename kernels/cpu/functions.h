/* exp, sigmoid, tanh and the activations in f32, in plain steps of one rounding each. The vector
 * versions take the same steps, so that results agree bit for bit. Relative error below 1e-6 where
 * the result is a normal number. */
#ifndef K3_KERNELS_CPU_FUNCTIONS_H
#define K3_KERNELS_CPU_FUNCTIONS_H

#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

#define K3_EXP_LIMIT   104.0f      /* beyond it the result is 0 or infinite */
#define K3_EXP_ROUND   12582912.0f /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
#define K3_LOG2_E      1.44269504f
#define K3_LN2_HIGH    0.693359375f /* few bits: its product with the exponent is exact */
#define K3_LN2_LOW     -2.12194440e-4f
#define K3_TANH_SMALL  0.5625f /* below: polynomial in x^2, above: by exp */
#define K3_SITU_BETA   4.0f
#define K3_SITU_LAMBDA 25.0f

/* Taylor coefficients 1/7! ... 1/0!; the rest is below 1e-8 for |x| <= ln 2 / 2. */
static const float k3_exp_terms[] = {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24,
                                     1.0f / 6,    0.5f,       1.0f,       1.0f};
/* (tanh(x) / x - 1) / x^2 interpolated at Chebyshev points of x^2, error 5e-9. */
static const float k3_tanh_terms[] = {-0.00652557218f, 0.0212633535f, -0.0539017532f, 0.133330738f,
                                      -0.333333317f};

static inline float k3_power_of_two(int32_t exponent)
{
    uint32_t bits = (uint32_t)(exponent + 127) << 23;
    float    value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float k3_exp(float x)
{
    uint32_t bits, zero;
    int32_t  n, half;
    float    t, k, r, p, base = K3_EXP_ROUND;

    /* Written so that NaN goes through. */
    x = x > K3_EXP_LIMIT ? K3_EXP_LIMIT : x;
    x = x < -K3_EXP_LIMIT ? -K3_EXP_LIMIT : x;
    t = x * K3_LOG2_E + K3_EXP_ROUND;
    k = t - K3_EXP_ROUND;
    r = x - k * K3_LN2_HIGH;
    r = r - k * K3_LN2_LOW;
    p = k3_exp_terms[0];
    for (int i = 1; i < 8; i++) {
        p = p * r + k3_exp_terms[i];
    }
    memcpy(&bits, &t, sizeof bits);
    memcpy(&zero, &base, sizeof zero);
    n = (int32_t)(bits - zero);
    half = n >> 1; /* in two steps, as 2^n alone may be out of range */
    return p * k3_power_of_two(half) * k3_power_of_two(n - half);
}

static inline float k3_sigmoid(float x)
{
    return 1.0f / (1.0f + k3_exp(-x));
}

static inline float k3_tanh(float x)
{
    float magnitude = fabsf(x);
    float square = x * x, p = k3_tanh_terms[0], large;

    if (magnitude < K3_TANH_SMALL) {
        for (int i = 1; i < 5; i++) {
            p = p * square + k3_tanh_terms[i];
        }
        return x + x * square * p;
    }
    large = 1.0f - 2.0f / (k3_exp(2.0f * magnitude) + 1.0f);
    return copysignf(large, x);
}

static inline float k3_act(k3_activation_t activation, float gate, float up)
{
    float s = k3_sigmoid(gate);

    if (activation == K3_ACT_SWIGLU) {
        return gate * s * up;
    }
    return K3_SITU_BETA * k3_tanh(gate * (1.0f / K3_SITU_BETA)) * s *
           (K3_SITU_LAMBDA * k3_tanh(up * (1.0f / K3_SITU_LAMBDA)));
}

#endif
