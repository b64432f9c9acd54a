#include "kernels/format.h"

#include <math.h>
#include <string.h>

const char *const k3_format_names[] = {"bf16", "fp8", "mxfp8", "mxfp4", "int8", "logfmt10", NULL};

const char *const k3_format_rules[] = {
    [K3_FORMAT_BF16] = "bf16, nearest even",
    [K3_FORMAT_FP8] = "e4m3, one f32 scale for 128: amax / 448, amax at least 1e-4",
    [K3_FORMAT_MXFP8] = "e4m3, one E8M0 scale for 32: the smallest that avoids saturation",
    [K3_FORMAT_MXFP4] = "E2M1, one E8M0 scale for 32: 2^(floor(log2 amax) - 2)",
    [K3_FORMAT_INT8] = "int8, one f32 scale for the row: amax / 127",
    NULL};

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

size_t k3_format_group(k3_format_t format)
{
    switch (format) {
    case K3_FORMAT_FP8:
    case K3_FORMAT_LOGFMT10:
        return 128;
    case K3_FORMAT_MXFP8:
    case K3_FORMAT_MXFP4:
        return 32;
    default:
        return 1;
    }
}

size_t k3_format_value_bytes(k3_format_t format, size_t n)
{
    switch (format) {
    case K3_FORMAT_BF16:
    case K3_FORMAT_LOGFMT10:
        return 2 * n;
    case K3_FORMAT_MXFP4:
        return (n + 1) / 2;
    default:
        return n;
    }
}

size_t k3_format_scale_bytes(k3_format_t format, size_t n)
{
    switch (format) {
    case K3_FORMAT_FP8:
    case K3_FORMAT_LOGFMT10:
        return 4 * ((n + 127) / 128);
    case K3_FORMAT_MXFP8:
    case K3_FORMAT_MXFP4:
        return (n + 31) / 32;
    case K3_FORMAT_INT8:
        return sizeof(float);
    default:
        return 0;
    }
}

size_t k3_format_row_bytes(k3_format_t format, size_t n)
{
    return k3_format_value_bytes(format, n) + k3_format_scale_bytes(format, n);
}

size_t k3_format_spare_bytes(k3_format_t format, size_t n)
{
    return format == K3_FORMAT_LOGFMT10 ? (n + 127) / 128 * (256 - 160) : 0;
}

uint16_t k3_f32_to_bf16(float value)
{
    uint32_t bits = bits_of(value);

    if (value != value) {
        return (uint16_t)(bits >> 16 | 0x40); /* quiet, so that no NaN becomes infinite */
    }
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float k3_e4m3_to_f32(uint8_t code)
{
    uint32_t sign = (uint32_t)(code & 0x80) << 24;
    uint32_t exponent = code >> 3 & 15;
    uint32_t fraction = code & 7;

    if ((code & 0x7f) == 0x7f) {
        return float_of(sign | 0x7fc00000);
    }
    if (exponent == 0) {
        return float_of(sign | bits_of((float)fraction * 0x1p-9f));
    }
    return float_of(sign | (exponent + 120) << 23 | fraction << 20);
}

uint8_t k3_f32_to_e4m3(float value)
{
    uint8_t  sign = (uint8_t)(bits_of(value) >> 24 & 0x80);
    float    magnitude = fabsf(value);
    uint32_t bits;

    if (value != value) {
        return 0x7f;
    }
    if (magnitude >= 448.0f) {
        return sign | 0x7e;
    }
    if (magnitude < 0x1p-6f) { /* steps of 2^-9; the addition rounds to them */
        bits = bits_of(magnitude + 0x1p14f) - bits_of(0x1p14f);
        return (uint8_t)(sign | bits);
    }
    bits = bits_of(magnitude);
    bits = (bits + 0x7ffff + (bits >> 20 & 1)) >> 20;
    return (uint8_t)(sign | (bits - (120 << 3)));
}

static const float e2m1_values[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};

float k3_e2m1_to_f32(uint8_t code)
{
    float magnitude = e2m1_values[code & 7];

    return (code & 8) != 0 ? -magnitude : magnitude;
}

uint8_t k3_f32_to_e2m1(float value)
{
    uint8_t sign = (uint8_t)(bits_of(value) >> 28 & 8);
    float   magnitude = fabsf(value);
    uint8_t code = 0;

    if (value != value) {
        return 7;
    }
    /* A tie goes to the even code: down at .25 1.25 2.5 5, up at .75 1.75 3.5. */
    code += magnitude > 0.25f;
    code += magnitude >= 0.75f;
    code += magnitude > 1.25f;
    code += magnitude >= 1.75f;
    code += magnitude > 2.5f;
    code += magnitude >= 3.5f;
    code += magnitude > 5.0f;
    return sign | code;
}

float k3_e8m0_to_f32(uint8_t code)
{
    if (code == 255) {
        return float_of(0x7fc00000);
    }
    return code == 0 ? 0x1p-127f : float_of((uint32_t)code << 23);
}
