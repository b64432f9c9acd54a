/* LogFMT-10 rows: kernels.h has the definition. Positions on the scale are computed in f64, so that a
 * code is wrong only for a value that lies within 1e-13 of the border between two. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

enum {
    GROUP = 128,
    PACK = 16, /* values that share whole bytes */
    PACK_BYTES = 20,
    GROUP_BYTES = GROUP / PACK * PACK_BYTES,
    STEPS = 510,
    CODE_MAX = STEPS + 1,
    CODE_BITS = 9,
    LOW_CODES = 32 /* powers are taken from two tables: of 32 steps, of single ones */
};

typedef struct scale {
    double low, step, inverse;
    double bias; /* position of a value + bias, rounded down, is its code */
} scale_t;

static double log2_fraction[128]; /* of 1 + i / 128 */

__attribute__((constructor)) static void fill_fractions(void)
{
    for (int i = 0; i < 128; i++) {
        log2_fraction[i] = log2(1.0 + i / 128.0);
    }
}

/* Of a finite magnitude above 0. */
static double log2_of(uint16_t bits)
{
    int exponent = bits >> 7;

    return exponent == 0 ? log2((double)bits) - 133.0
                         : (double)(exponent - 127) + log2_fraction[bits & 127];
}

static bool qualifies(uint16_t largest, uint16_t smallest)
{
    return largest < 0x7f80 && smallest < largest;
}

static scale_t scale_of(uint16_t largest, uint16_t smallest)
{
    double  high = log2_of(largest), low = high - 32.0;
    scale_t s;

    if (smallest > 0 && log2_of(smallest) > low) {
        low = log2_of(smallest);
    }
    s.low = low;
    s.step = (high - low) / STEPS;
    s.inverse = 1.0 / s.step;
    s.bias = 2.0 - log2((1.0 + exp2(s.step)) * 0.5) * s.inverse;
    return s;
}

static uint32_t code_of(const scale_t *s, uint16_t magnitude)
{
    double position;

    if (magnitude == 0) {
        return 0;
    }
    position = (log2_of(magnitude) - s->low) * s->inverse + s->bias;
    if (position < 1.0) {
        return 1;
    }
    return position >= CODE_MAX ? CODE_MAX : (uint32_t)position;
}

static void store16(uint8_t *at, uint16_t value)
{
    memcpy(at, &value, sizeof value);
}

static uint16_t load16(const uint8_t *at)
{
    uint16_t value;

    memcpy(&value, at, sizeof value);
    return value;
}

static void encode_pack(const scale_t *s, const uint16_t *row, uint8_t *out)
{
    uint16_t signs = 0;
    uint64_t bits = 0;
    unsigned held = 0;

    for (unsigned i = 0; i < PACK; i++) {
        signs = (uint16_t)(signs | (row[i] >> 15) << i);
    }
    store16(out, signs);
    out += sizeof signs;
    for (unsigned i = 0; i < PACK; i++) {
        bits |= (uint64_t)code_of(s, row[i] & 0x7fff) << held;
        for (held += CODE_BITS; held >= 8; held -= 8) {
            *out++ = (uint8_t)bits;
            bits >>= 8;
        }
    }
}

size_t k3_scalar_log_encode(const uint16_t *row, size_t n, uint8_t *message)
{
    uint8_t *out = message + n / GROUP * 4;

    for (size_t at = 0; at < n; at += GROUP) {
        uint16_t largest = 0, smallest = 0x7fff;

        for (size_t i = at; i < at + GROUP; i++) {
            uint16_t magnitude = row[i] & 0x7fff;

            largest = magnitude > largest ? magnitude : largest;
            smallest = magnitude < smallest ? magnitude : smallest;
        }
        store16(message + at / GROUP * 4, largest);
        store16(message + at / GROUP * 4 + 2, smallest);
        if (qualifies(largest, smallest)) {
            scale_t s = scale_of(largest, smallest);

            for (size_t i = at; i < at + GROUP; i += PACK, out += PACK_BYTES) {
                encode_pack(&s, row + i, out);
            }
        } else {
            memcpy(out, row + at, 2 * GROUP);
            out += 2 * GROUP;
        }
    }
    return (size_t)(out - message);
}

/* Nearest bf16 magnitude of a positive number, ties to even, without a stop at f32 between. */
static uint16_t round_magnitude(double value)
{
    uint64_t bits;

    if (value < 0x1p-126) {
        return (uint16_t)rint(value *
                              0x1p133); /* multiples of the smallest; 128 is 2^-126 itself */
    }
    memcpy(&bits, &value, sizeof bits);
    bits += (UINT64_C(1) << 44) - 1 + (bits >> 45 & 1);
    return (uint16_t)((bits >> 45) - ((uint64_t)(1023 - 127) << 7));
}

static void decode_group(const scale_t *s, const uint8_t *in, uint16_t *row)
{
    double coarse[(CODE_MAX + LOW_CODES) / LOW_CODES], fine[LOW_CODES];

    for (int i = 0; i < (CODE_MAX + LOW_CODES) / LOW_CODES; i++) {
        coarse[i] = exp2(s->low + i * LOW_CODES * s->step);
    }
    for (int i = 0; i < LOW_CODES; i++) {
        fine[i] = exp2(i * s->step);
    }
    for (size_t at = 0; at < GROUP; at += PACK, in += PACK_BYTES) {
        uint16_t signs = load16(in);

        for (unsigned i = 0; i < PACK; i++) {
            unsigned bit = i * CODE_BITS;
            unsigned code = load16(in + 2 + bit / 8) >> bit % 8 & CODE_MAX;
            unsigned steps = code - 1;
            uint16_t magnitude =
                code == 0 ? 0
                          : round_magnitude(coarse[steps / LOW_CODES] * fine[steps % LOW_CODES]);

            row[at + i] = (uint16_t)(magnitude | (signs >> i & 1) << 15);
        }
    }
}

size_t k3_scalar_log_decode(const uint8_t *message, size_t n, uint16_t *row)
{
    const uint8_t *in = message + n / GROUP * 4;

    for (size_t at = 0; at < n; at += GROUP) {
        uint16_t largest = load16(message + at / GROUP * 4);
        uint16_t smallest = load16(message + at / GROUP * 4 + 2);

        if (qualifies(largest, smallest)) {
            scale_t s = scale_of(largest, smallest);

            decode_group(&s, in, row + at);
            in += GROUP_BYTES;
        } else {
            memcpy(row + at, in, 2 * GROUP);
            in += 2 * GROUP;
        }
    }
    return (size_t)(in - message);
}
