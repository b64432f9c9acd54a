/* How the bf16 units add: subnormal operands are zero, and so are subnormal results; one rounding to
 * the nearest f32 for a product and its sum. */
#ifndef K3_TESTS_KERNELS_BF16_SUMS_H
#define K3_TESTS_KERNELS_BF16_SUMS_H

#include "support.h"

static inline float unit_flush(float value)
{
    return fpclassify(value) == FP_SUBNORMAL ? copysignf(0.0f, value) : value;
}

static inline float bf16_unit_add(float sum, uint16_t a, uint16_t b)
{
    return unit_flush(
        fmaf(unit_flush(k3_bf16_to_f32(a)), unit_flush(k3_bf16_to_f32(b)), unit_flush(sum)));
}

#endif
