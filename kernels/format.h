/* Number formats of rows and weights, and their sizes in bytes.
 *
 * bf16 values are carried as uint16_t bit patterns. A row of n values in a format is its values
 * followed by its scales. A group of values has one scale; a last group may be shorter, so that a
 * row has ceil(n / group) scales. mxfp4 needs an even n for a row to be exactly n / 2 bytes of
 * values.
 *
 *   bf16       2 n bytes
 *   fp8        e4m3 values, one f32 scale for 128: scale = amax / 448, amax at least 1e-4
 *   mxfp8      e4m3 values, one E8M0 scale for 32: the smallest power of two that avoids saturation
 *   mxfp4      E2M1 values, two a byte, low nibble first, one E8M0 scale for 32:
 *              2^(floor(log2 amax) - 2); amax 0 gives the smallest exponent, values 0
 *   int8       one f32 scale a row: scale = amax / 127 (amax 0: scale 1), round to nearest even,
 *              limited to -127..127
 *   logfmt10   results only, by k3_kernels_t's log_encode and log_decode: 128 values have a pair of
 *              bf16 magnitudes in front (largest, smallest) and are 10-bit codes, or bf16 where they
 *              do not qualify, so that a row's length varies; the sizes here are its bound
 *
 * code = round(value / scale) with the division rounded to f32; value = code * scale, in f32. E8M0
 * code e stands for 2^(e - 127), 255 is NaN; exponents that encoding would take below code 0 are
 * limited to it. Rounding to e4m3 and E2M1 is to nearest, ties to even, saturating at 448 and 6;
 * the sign of a zero is kept. A NaN or infinite input makes NaN values of its group: the scale is
 * NaN (0x7fc00000 or 255) and the codes are 0x7f (e4m3), 7 (E2M1) or 0 (int8). */
#ifndef K3_KERNELS_FORMAT_H
#define K3_KERNELS_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum k3_format {
    K3_FORMAT_BF16,
    K3_FORMAT_FP8,
    K3_FORMAT_MXFP8,
    K3_FORMAT_MXFP4,
    K3_FORMAT_INT8,
    K3_FORMAT_LOGFMT10,
    K3_FORMAT_COUNT
} k3_format_t;

extern const char *const k3_format_names[]; /* "bf16", "fp8", ..., NULL */
extern const char *const k3_format_rules[]; /* how a row gets there, in words */

size_t
k3_format_group(k3_format_t format); /* 1, 128, 32, 32, 1 (int8: one scale for the row), 128 */
size_t k3_format_value_bytes(k3_format_t format, size_t n);
size_t k3_format_scale_bytes(k3_format_t format, size_t n); /* a short last group counts as one */
size_t k3_format_row_bytes(k3_format_t format, size_t n);   /* values + scales */
size_t k3_format_spare_bytes(k3_format_t format, size_t n); /* so many of them may be missing */

/* Scalar codecs, the definition that all vector code must agree with bit for bit. */
static inline float k3_bf16_to_f32(uint16_t bits)
{
    union {
        uint32_t u;
        float    f;
    } v = {(uint32_t)bits << 16};

    return v.f;
}

uint16_t k3_f32_to_bf16(float value); /* nearest, ties to even; NaN stays NaN */
float    k3_e4m3_to_f32(uint8_t code);
uint8_t  k3_f32_to_e4m3(float value);  /* saturates at 448; NaN: 0x7f */
float    k3_e2m1_to_f32(uint8_t code); /* low four bits */
uint8_t  k3_f32_to_e2m1(float value);  /* saturates at 6; NaN: 0x7 (has no NaN) */
float    k3_e8m0_to_f32(uint8_t code);

#endif
