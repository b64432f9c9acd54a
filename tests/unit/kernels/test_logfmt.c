#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"

enum { GROUP = 128 };

static uint16_t bf16(double value)
{
    return k3_f32_to_bf16((float)value);
}

static const k3_kernels_t *table(unsigned i)
{
    return k3_kernels_cpu(i == 0 ? "scalar" : NULL);
}

/* Powers of two from 1 to 2^-10 by 510 steps: codes and values that can be said by hand. */
static void test_codes_by_hand(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        uint16_t row[GROUP], back[GROUP];
        uint8_t  message[4 + 256];

        for (int j = 0; j < GROUP; j++) {
            row[j] = bf16(ldexp(j % 2 ? -1.0 : 1.0, -(j % 11))); /* 1, -1/2, 1/4, ... */
        }
        row[16] = 0;
        row[17] = 0x8000;
        row[18] = bf16(0x1p-20);
        row[19] = bf16(-0x1p-40); /* beyond 32 octaves: the lowest code, 2^-32 */
        assert_int_equal(table(i)->log_encode(row, GROUP, message), 4 + 160);
        /* The pair: 1.0 and the zero. */
        assert_int_equal(message[0] | message[1] << 8, 0x3f80);
        assert_int_equal(message[2] | message[3] << 8, 0);
        assert_int_equal(table(i)->log_decode(message, GROUP, back), 4 + 160);
        assert_int_equal(back[0], row[0]); /* the largest is exact */
        assert_int_equal(back[16], 0);
        assert_int_equal(back[17], 0x8000);
        assert_int_equal(back[19], bf16(-0x1p-32));
        for (int j = 0; j < GROUP; j++) {
            double want = k3_bf16_to_f32(row[j]), got = k3_bf16_to_f32(back[j]);

            if (j < 16 || j > 19) {
                assert_true(fabs(got - want) <= 0.022 * fabs(want) + 0.004 * fabs(want));
            }
        }
    }
}

/* Two values: codes 1 and 511 of every pack, signs apart. */
static void test_bits(void **state)
{
    uint16_t row[GROUP], back[GROUP];
    uint8_t  message[4 + 256];

    (void)state;
    for (int j = 0; j < GROUP; j++) {
        row[j] = bf16(j % 16 == 0 ? -4.0 : 0.25);
    }
    assert_int_equal(table(0)->log_encode(row, GROUP, message), 164);
    for (int pack = 0; pack < 8; pack++) {
        const uint8_t *at = message + 4 + pack * 20;

        assert_int_equal(at[0], 1); /* signs */
        assert_int_equal(at[1], 0);
        assert_int_equal(at[2], 0xff);       /* 511 in bits 0..8 */
        assert_int_equal(at[3], 1 | 1 << 1); /* and a 1 from bit 9 */
        assert_int_equal(at[4], 1 << 2);     /* and from bit 18 */
    }
    table(0)->log_decode(message, GROUP, back);
    assert_memory_equal(back, row, sizeof(row));
}

/* Groups that do not qualify stay bf16: one magnitude, nothing but zeros, no numbers. */
static void test_raw_groups(void **state)
{
    static const uint16_t fills[] = {0, 0x3f80, 0xbf80, 0x7f80, 0x7fc1, 0x8000, 0x0001};

    (void)state;
    for (unsigned i = 0; i < sizeof(fills) / sizeof(fills[0]); i++) {
        uint16_t row[3 * GROUP], back[3 * GROUP];
        uint8_t  message[3 * (4 + 256)];

        for (int j = 0; j < 3 * GROUP; j++) {
            row[j] = j / GROUP == 1 ? fills[i] : bf16(j % 2 ? 8.0 : 0.125);
        }
        assert_int_equal(table(0)->log_encode(row, 3 * GROUP, message), 12 + 160 + 256 + 160);
        assert_int_equal(table(0)->log_decode(message, 3 * GROUP, back), 12 + 160 + 256 + 160);
        assert_memory_equal(back, row, sizeof(row));
    }
}

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

/* A value moves by half a step at most, and by what bf16 rounds; both ISAs give the same bytes. */
static void test_values_of_many_spreads(void **state)
{
    uint32_t seed = 7;

    (void)state;
    for (int turn = 0; turn < 200; turn++) {
        uint16_t row[GROUP], once[GROUP];
        uint8_t  message[4 + 256], other[4 + 256];
        size_t   bytes;
        double   octaves = turn % 40;

        for (int j = 0; j < GROUP; j++) {
            double value = exp2(-octaves * (next(&seed) % 1000) / 1000.0 + turn % 7);

            row[j] = bf16(next(&seed) % 2 ? -value : value);
        }
        bytes = table(1)->log_encode(row, GROUP, message);
        assert_int_equal(table(0)->log_encode(row, GROUP, other), bytes);
        assert_memory_equal(message, other, bytes);
        assert_int_equal(table(1)->log_decode(message, GROUP, once), bytes);
        for (int j = 0; j < GROUP; j++) {
            double want = k3_bf16_to_f32(row[j]), got = k3_bf16_to_f32(once[j]);
            double step = exp2(fmin(octaves, 32.0) / 510.0) - 1.0;

            assert_int_equal(row[j] >> 15, once[j] >> 15);
            if (fabs(want) >= exp2(turn % 7 - 31.0)) {
                assert_true(fabs(got - want) <= (0.51 * step + 0.0041) * fabs(want));
            }
        }
    }
}

static void test_sizes(void **state)
{
    (void)state;
    assert_int_equal(k3_format_row_bytes(K3_FORMAT_LOGFMT10, 7168), 14336 + 224);
    assert_int_equal(k3_format_spare_bytes(K3_FORMAT_LOGFMT10, 7168), 56 * 96);
    assert_int_equal(k3_format_spare_bytes(K3_FORMAT_BF16, 7168), 0);
    assert_int_equal(k3_format_group(K3_FORMAT_LOGFMT10), 128);
    assert_string_equal(k3_format_names[K3_FORMAT_LOGFMT10], "logfmt10");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_by_hand), cmocka_unit_test(test_bits),
        cmocka_unit_test(test_raw_groups),    cmocka_unit_test(test_values_of_many_spreads),
        cmocka_unit_test(test_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
