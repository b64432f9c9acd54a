/* What the tests of the number formats share. */
#ifndef K3_TESTS_KERNELS_FORMATS_H
#define K3_TESTS_KERNELS_FORMATS_H

#include "support.h"

static inline double e4m3_value(unsigned code)
{
    double fraction = code & 7, sign = (code & 0x80) != 0 ? -1 : 1;
    int    exponent = (int)(code >> 3 & 15);

    return sign * (exponent == 0 ? ldexp(fraction, -9) : ldexp(8 + fraction, exponent - 10));
}

static inline uint16_t bf16(float value)
{
    return k3_f32_to_bf16(value);
}

/* Encodes by both and compares every byte; decodes by both and compares every bit but NaN payloads.
 */
static inline void compare(const k3_kernels_t *vector, k3_format_t format, const uint16_t *row,
                           size_t n)
{
    const k3_kernels_t *scalar = k3_kernels_cpu("scalar");
    size_t              bytes = k3_format_value_bytes(format, n);
    size_t              scales = k3_format_scale_bytes(format, n);
    uint8_t            *codes[2] = {block(bytes), block(bytes)};
    void               *scale[2] = {block(scales), block(scales)};
    float              *out[2] = {block(sizeof(float) * n), block(sizeof(float) * n)};

    scalar->encode(format, row, n, codes[0], scale[0]);
    vector->encode(format, row, n, codes[1], scale[1]);
    assert_memory_equal(codes[0], codes[1], bytes);
    assert_memory_equal(scale[0], scale[1], scales);
    scalar->decode(format, codes[0], scale[0], n, out[0]);
    vector->decode(format, codes[0], scale[0], n, out[1]);
    for (size_t i = 0; i < n; i++) {
        assert_true((isnan(out[0][i]) && isnan(out[1][i])) ||
                    memcmp(&out[0][i], &out[1][i], sizeof(float)) == 0);
    }
    for (int i = 0; i < 2; i++) {
        free(codes[i]);
        free(scale[i]);
        free(out[i]);
    }
}

#endif
