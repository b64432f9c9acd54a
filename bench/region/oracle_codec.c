#include "bench/region/oracle_codec.h"

#include <math.h>
#include <string.h>

/* --- single values --------------------------------------------------------------------------- */

/* To a multiple of `step`; rint rounds ties to even in the default mode. */
static double round_to(double value, double step)
{
    return rint(value / step) * step;
}

/* Nearest value with `bits` significant bits and no step finer than 2^finest. */
static double round_float(double value, int bits, int finest)
{
    int exponent;

    if (value == 0.0 || !isfinite(value)) {
        return value;
    }
    frexp(value, &exponent);
    return round_to(value, ldexp(1.0, exponent - bits > finest ? exponent - bits : finest));
}

static double saturate(double value, double limit)
{
    return value > limit ? limit : (value < -limit ? -limit : value);
}

double k3_oracle_round_bf16(double value)
{
    static const uint64_t half = UINT64_C(1) << 44;
    uint64_t              bits;

    if (!isfinite(value) || fabs(value) < 0x1p-126 || fabs(value) >= 0x1p127) {
        double rounded = round_float(value, 8, -133);

        return fabs(rounded) >= 0x1p128 ? copysign(INFINITY, value) : rounded;
    }
    /* The usual case, worth a short cut: 45 of the 52 bits of the fraction go. */
    memcpy(&bits, &value, sizeof(bits));
    bits = (bits + half - 1 + (bits >> 45 & 1)) & ~(2 * half - 1);
    memcpy(&value, &bits, sizeof(bits));
    return value;
}

uint16_t k3_oracle_bf16_bits(double value)
{
    float    exact = (float)k3_oracle_round_bf16(value);
    uint32_t bits;

    memcpy(&bits, &exact, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

float k3_oracle_bf16_value(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float    value;

    memcpy(&value, &wide, sizeof(value));
    return value;
}

void k3_oracle_bf16_row(const uint16_t *bits, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = k3_oracle_bf16_value(bits[i]);
    }
}

double k3_oracle_round_e4m3(double value)
{
    return saturate(round_float(value, 4, -9), 448.0);
}

double k3_oracle_round_e2m1(double value)
{
    return saturate(round_float(value, 2, -1), 6.0);
}

/* --- codes ----------------------------------------------------------------------------------- */

/* Sign, exponent and fraction of a small float; exponent 0 holds multiples of the finest step. */
static double small_float(unsigned code, int exponent_bits, int fraction_bits, int bias)
{
    int    exponent = (int)(code >> fraction_bits & ((1u << exponent_bits) - 1));
    int    fraction = (int)(code & ((1u << fraction_bits) - 1));
    int    negative = (int)(code >> (exponent_bits + fraction_bits) & 1);
    int    one = 1 << fraction_bits;
    double size = exponent == 0 ? ldexp(fraction, 1 - bias - fraction_bits)
                                : ldexp(one + fraction, exponent - bias - fraction_bits);

    return negative ? -size : size;
}

float k3_oracle_e4m3_value(uint8_t code)
{
    return (code & 127) == 127 ? NAN : (float)small_float(code, 4, 3, 7);
}

float k3_oracle_e2m1_value(uint8_t code)
{
    return (float)small_float(code, 2, 1, 1);
}

float k3_oracle_e8m0_value(uint8_t code)
{
    return code == 255 ? NAN : (float)ldexp(1.0, (int)code - 127);
}

/* --- rows ------------------------------------------------------------------------------------ */

typedef double round_fn(double value);

static double round_integer(double value)
{
    return saturate(rint(value), 127.0);
}

/* The quotient and the product are f32, as the rule says. */
static void quantise_group(float *row, size_t n, float scale, round_fn *round_code)
{
    for (size_t i = 0; i < n; i++) {
        float quotient = row[i] / scale;

        row[i] = (float)round_code(quotient) * scale;
    }
}

/* Largest absolute value; NaN if a value is not finite. */
static float group_amax(const float *row, size_t n)
{
    float amax = 0.0f;

    for (size_t i = 0; i < n; i++) {
        if (!isfinite(row[i])) {
            return NAN;
        }
        amax = fabsf(row[i]) > amax ? fabsf(row[i]) : amax;
    }
    return amax;
}

/* 2^exponent, not below the smallest that E8M0 can say. */
static float power_of_two(int exponent)
{
    return (float)ldexp(1.0, exponent < -127 ? -127 : exponent);
}

/* Smallest power of two p with amax / p <= 448 = 0.875 * 2^9. */
static float mxfp8_scale(float amax)
{
    int    exponent;
    double fraction = frexp(amax, &exponent);

    return power_of_two(amax == 0.0f ? -127 : exponent - (fraction <= 0.875 ? 9 : 8));
}

/* floor(log2(amax)) - 2; frexp's exponent is one above the floor. */
static float mxfp4_scale(float amax)
{
    int exponent;

    frexp(amax, &exponent);
    return power_of_two(amax == 0.0f ? -127 : exponent - 3);
}

/* The codes of LogFMT-10 are 510 equal steps of the logarithm from the smallest to the largest
 * magnitude, or over 32 octaves at most; which of two neighbours a magnitude goes to is decided by the
 * middle between their values. Groups of one magnitude, or with values that are not finite, stay. */
static void quantise_log(float *row, size_t n)
{
    float  amax = group_amax(row, n), amin = INFINITY;
    double high, low, step;

    for (size_t i = 0; i < n; i++) {
        amin = fabsf(row[i]) < amin ? fabsf(row[i]) : amin;
    }
    if (isnan(amax) || amin >= amax) {
        return;
    }
    high = log2((double)amax);
    low = amin > 0.0f ? fmax(log2((double)amin), high - 32.0) : high - 32.0;
    step = (high - low) / 510.0;
    for (size_t i = 0; i < n; i++) {
        double magnitude = fabs((double)row[i]);
        double steps = fmax(floor((log2(magnitude) - low) / step), 0.0), below, above;

        if (magnitude == 0.0) {
            continue;
        }
        below = exp2(low + step * steps);
        above = exp2(low + step * (steps + 1.0));
        magnitude = k3_oracle_round_bf16(magnitude >= (below + above) / 2.0 ? above : below);
        row[i] = (float)copysign(magnitude, (double)row[i]);
    }
}

static float group_scale(k3_format_t format, float amax)
{
    switch (format) {
    case K3_FORMAT_FP8:
        return (amax < 1e-4f ? 1e-4f : amax) / 448.0f;
    case K3_FORMAT_MXFP8:
        return mxfp8_scale(amax);
    case K3_FORMAT_MXFP4:
        return mxfp4_scale(amax);
    default:
        return amax == 0.0f ? 1.0f : amax / 127.0f;
    }
}

void k3_oracle_quantise(k3_format_t format, size_t n, float *row)
{
    static round_fn *const rounds[K3_FORMAT_COUNT] = {
        [K3_FORMAT_FP8] = k3_oracle_round_e4m3,
        [K3_FORMAT_MXFP8] = k3_oracle_round_e4m3,
        [K3_FORMAT_MXFP4] = k3_oracle_round_e2m1,
        [K3_FORMAT_INT8] = round_integer,
    };
    bool   logarithmic = format == K3_FORMAT_LOGFMT10;
    size_t group =
        format == K3_FORMAT_FP8 || logarithmic ? 128 : (format == K3_FORMAT_INT8 ? n : 32);

    if (format == K3_FORMAT_BF16) {
        return;
    }
    for (size_t at = 0; at < n; at += group) {
        size_t count = n - at < group ? n - at : group;
        float  amax = group_amax(row + at, count);

        if (logarithmic) {
            quantise_log(row + at, count);
            continue;
        }
        if (isnan(amax)) {
            for (size_t i = 0; i < count; i++) {
                row[at + i] = NAN;
            }
            continue;
        }
        quantise_group(row + at, count, group_scale(format, amax), rounds[format]);
    }
}
