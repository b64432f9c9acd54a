#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <setjmp.h>

#include <cmocka.h>

#include "bench/region/oracle_codec.h"
#include "kernels/kernels.h"

typedef struct pair {
    double in, out;
} pair_t;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void check_pairs(double (*rounding)(double), const pair_t *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double got = rounding(pairs[i].in), mirrored = rounding(-pairs[i].in);

        if (got != pairs[i].out || mirrored != -pairs[i].out) {
            fail_msg("%.17g gives %.17g, not %.17g", pairs[i].in, got, pairs[i].out);
        }
        assert_true(signbit(mirrored) && !signbit(got));
    }
}

static void test_bf16(void **state)
{
    static const pair_t pairs[] = {
        {0.0, 0.0},
        {1.0, 1.0},
        {1.00390625, 1.0}, /* a tie, down to even */
        {1.00390625001, 1.0078125},
        {1.01171875, 1.015625}, /* a tie, up to even */
        {1.998046875, 2.0},     /* into the next binade */
        {3.1415926, 3.140625},
        {0x1.fep127, 0x1.fep127}, /* the largest */
        {0x1.ffp127, (double)INFINITY},
        {0x1p-133, 0x1p-133}, /* the smallest */
        {0x1.8p-133, 0x1p-132},
        {0x1p-134, 0.0},
    };

    (void)state;
    check_pairs(k3_oracle_round_bf16, pairs, COUNT(pairs));
    assert_int_equal(k3_oracle_bf16_bits(1.0), 0x3f80);
    assert_int_equal(k3_oracle_bf16_bits(-2.0), 0xc000);
    assert_int_equal(k3_oracle_bf16_bits(3.1415926), 0x4049);
    assert_int_equal(k3_oracle_bf16_bits(0x1p-133), 1);
    assert_true(isnan(k3_oracle_round_bf16((double)NAN)));
    assert_true(k3_oracle_bf16_value(0xbf40) == -0.75f);
}

static void test_e4m3(void **state)
{
    static const pair_t pairs[] = {
        {0.0, 0.0},         {448.0, 448.0},   {464.0, 448.0},   {1e9, 448.0},
        {17.0, 16.0},       {19.0, 20.0},     {0x1p-9, 0x1p-9}, {0x1p-10, 0.0},
        {0x1.8p-9, 0x1p-8}, {0x1p-6, 0x1p-6}, {0.3, 0.3125},    {0.1, 0.1015625},
        {240.0, 240.0},     {247.0, 240.0},   {248.0, 256.0},   {0.0151, 0.015625},
    };

    (void)state;
    check_pairs(k3_oracle_round_e4m3, pairs, COUNT(pairs));
    assert_true(k3_oracle_e4m3_value(0x38) == 1.0f);
    assert_true(k3_oracle_e4m3_value(0x7e) == 448.0f);
    assert_true(k3_oracle_e4m3_value(0xb8) == -1.0f);
    assert_true(k3_oracle_e4m3_value(0x01) == 0x1p-9f);
    assert_true(k3_oracle_e4m3_value(0x07) == 7 * 0x1p-9f);
    assert_true(k3_oracle_e4m3_value(0x08) == 0x1p-6f);
    assert_true(isnan(k3_oracle_e4m3_value(0x7f)) && isnan(k3_oracle_e4m3_value(0xff)));
}

static void test_every_e4m3_code_is_a_fixed_point(void **state)
{
    (void)state;
    for (unsigned code = 0; code < 256; code++) {
        float value = k3_oracle_e4m3_value((uint8_t)code);

        assert_true(isnan(value) || k3_oracle_round_e4m3((double)value) == (double)value);
    }
}

static void test_e2m1(void **state)
{
    static const float  values[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    static const pair_t pairs[] = {
        {0.25, 0.0}, {0.26, 0.5}, {0.75, 1.0}, {1.25, 1.0}, {1.75, 2.0}, {2.5, 2.0},
        {2.51, 3.0}, {3.5, 4.0},  {5.0, 4.0},  {5.01, 6.0}, {6.9, 6.0},  {1e5, 6.0},
    };

    (void)state;
    check_pairs(k3_oracle_round_e2m1, pairs, COUNT(pairs));
    for (unsigned code = 0; code < 8; code++) {
        assert_true(k3_oracle_e2m1_value((uint8_t)code) == values[code]);
        assert_true(k3_oracle_e2m1_value((uint8_t)(code | 8)) == -values[code]);
    }
}

static void test_e8m0(void **state)
{
    (void)state;
    assert_true(k3_oracle_e8m0_value(127) == 1.0f);
    assert_true(k3_oracle_e8m0_value(0) == 0x1p-127f);
    assert_true(k3_oracle_e8m0_value(254) == 0x1p127f);
    assert_true(isnan(k3_oracle_e8m0_value(255)));
}

static void check_row(k3_format_t format, size_t n, float *row, const float *want)
{
    k3_oracle_quantise(format, n, row);
    for (size_t i = 0; i < n; i++) {
        if (fabsf(row[i] - want[i]) > 1e-6f * fabsf(want[i])) {
            fail_msg("format %d, element %zu: %.9g, not %.9g", (int)format, i, (double)row[i],
                     (double)want[i]);
        }
    }
}

static void test_fp8_rows(void **state)
{
    float row[] = {448.0f, 1.0f, 0.3f, -17.0f}, want[] = {448.0f, 1.0f, 0.3125f, -16.0f};
    float small[] = {1e-5f, 0.0f}; /* scale 1e-4 / 448: 44.8 steps, e4m3 has 44 */
    float small_want[] = {44.0f * 1e-4f / 448.0f, 0.0f};
    float two[] = {2.0f, 1.0f, 0.7f}; /* 448, 224, 156.8 -> 160 */
    float two_want[] = {2.0f, 1.0f, 160.0f * 2.0f / 448.0f};

    (void)state;
    check_row(K3_FORMAT_FP8, 4, row, want);
    check_row(K3_FORMAT_FP8, 2, small, small_want);
    check_row(K3_FORMAT_FP8, 3, two, two_want);
}

static void test_fp8_last_group_may_be_short(void **state)
{
    float row[160] = {[0] = 448.0f, [1] = 0.3f, [128] = 2.0f, [159] = 0.7f};
    float want[160] = {[0] = 448.0f, [1] = 0.3125f, [128] = 2.0f, [159] = 160.0f * 2.0f / 448.0f};

    (void)state;
    check_row(K3_FORMAT_FP8, 160, row, want);
}

static void test_mxfp8_rows(void **state)
{
    float fits[] = {448.0f, 1.03f}, fits_want[] = {448.0f, 1.0f};
    float over[] = {449.0f, 3.3f}, over_want[] = {448.0f, 3.25f}; /* scale 2 */
    float one[] = {1.0f, 0.3f}, one_want[] = {1.0f, 0.3125f};     /* scale 2^-8 */
    float zero[] = {0.0f, -0.0f}, zero_want[] = {0.0f, 0.0f};

    (void)state;
    check_row(K3_FORMAT_MXFP8, 2, fits, fits_want);
    check_row(K3_FORMAT_MXFP8, 2, over, over_want);
    check_row(K3_FORMAT_MXFP8, 2, one, one_want);
    check_row(K3_FORMAT_MXFP8, 2, zero, zero_want);
}

static void test_mxfp4_rows(void **state)
{
    float six[] = {6.0f, 5.0f, 0.3f}, six_want[] = {6.0f, 4.0f, 0.5f};
    float seven[] = {7.0f, 1.0f}, seven_want[] = {6.0f, 1.0f}; /* floor rule: saturates */
    float eight[] = {8.0f, 3.0f, 0.3f}, eight_want[] = {8.0f, 3.0f, 0.0f};
    float groups[33] = {[0] = 8.0f, [1] = 0.3f, [32] = 0.3f};
    float groups_want[33] = {[0] = 8.0f, [32] = 0.25f}; /* 0.3 / 2^-4 = 4.8 -> 4 */

    (void)state;
    check_row(K3_FORMAT_MXFP4, 3, six, six_want);
    check_row(K3_FORMAT_MXFP4, 2, seven, seven_want);
    check_row(K3_FORMAT_MXFP4, 3, eight, eight_want);
    check_row(K3_FORMAT_MXFP4, 33, groups, groups_want);
}

static void test_int8_rows(void **state)
{
    float row[] = {127.0f, 1.5f, 2.5f, -0.4f, -126.6f};
    float want[] = {127.0f, 2.0f, 2.0f, 0.0f, -127.0f};
    float unit[] = {-1.0f, 0.3f}, unit_want[] = {-1.0f, 38.0f / 127.0f};
    float zero[] = {0.0f, 0.0f}, zero_want[] = {0.0f, 0.0f};

    (void)state;
    check_row(K3_FORMAT_INT8, 5, row, want);
    check_row(K3_FORMAT_INT8, 2, unit, unit_want);
    check_row(K3_FORMAT_INT8, 2, zero, zero_want);
}

static void test_a_group_with_nan_is_nan(void **state)
{
    static const k3_format_t formats[] = {K3_FORMAT_FP8, K3_FORMAT_MXFP8, K3_FORMAT_MXFP4,
                                          K3_FORMAT_INT8};

    (void)state;
    for (size_t f = 0; f < COUNT(formats); f++) {
        float row[160] = {[0] = NAN, [1] = 1.0f, [128] = 1.0f};

        k3_oracle_quantise(formats[f], 160, row);
        assert_true(isnan(row[0]) && isnan(row[1]));
        assert_true(formats[f] == K3_FORMAT_INT8 ? isnan(row[128]) : row[128] == 1.0f);
        row[1] = INFINITY;
        k3_oracle_quantise(formats[f], 160, row);
        assert_true(isnan(row[2]));
    }
}

static void test_bf16_rows_stay(void **state)
{
    float row[] = {1.0f, -3.140625f}, want[] = {1.0f, -3.140625f};

    (void)state;
    check_row(K3_FORMAT_BF16, 2, row, want);
}

/* The two codecs know nothing of one another: code for code they agree, over spreads of 0 to 60
 * octaves, with zeros, equal magnitudes and values that are no numbers among them. */
static void test_logfmt10_rows_agree_with_the_kernels(void **state)
{
    const k3_kernels_t *kernels = k3_kernels_cpu(NULL);
    uint32_t            seed = 3;

    (void)state;
    for (int turn = 0; turn < 3000; turn++) {
        uint16_t bits[128], back[128];
        uint8_t  message[4 + 256];
        float    row[128];

        for (int i = 0; i < 128; i++) {
            seed = seed * 1664525u + 1013904223u;
            bits[i] = k3_oracle_bf16_bits(
                exp2(turn % 61 * ((seed >> 8) % 4096 / -4096.0) + turn % 90 - 70.0));
            bits[i] = (uint16_t)(bits[i] | (seed >> 31) << 15);
            bits[i] = turn % 3 == 0 && i % 50 == 7 ? 0x8000 : bits[i];
            bits[i] = turn % 100 == 99 && i == 5 ? 0x7fc0 : bits[i];
        }
        kernels->log_encode(bits, 128, message);
        kernels->log_decode(message, 128, back);
        k3_oracle_bf16_row(bits, 128, row);
        k3_oracle_quantise(K3_FORMAT_LOGFMT10, 128, row);
        for (int i = 0; i < 128; i++) {
            float got = k3_oracle_bf16_value(back[i]);

            if (!(got == row[i] || (isnan(got) && isnan(row[i]))) ||
                signbit(got) != signbit(row[i])) {
                fail_msg("turn %d, value %d of %g: kernel %.9g, oracle %.9g", turn, i,
                         (double)k3_oracle_bf16_value(bits[i]), (double)got, (double)row[i]);
            }
        }
    }
}

/* 2^-10 to 1 in 510 steps: the ends stay, 0.7 goes to the nearer of two codes. */
static void test_logfmt10_by_hand(void **state)
{
    float  row[128] = {[0] = 1.0f, [1] = -0x1p-10f, [2] = 0.69921875f};
    double step = 10.0 / 510.0, code = rint(log2(0.69921875) / step);

    (void)state;
    for (int i = 3; i < 128; i++) {
        row[i] = 0.5f;
    }
    k3_oracle_quantise(K3_FORMAT_LOGFMT10, 128, row);
    assert_true(row[0] == 1.0f && row[1] == -0x1p-10f && row[3] == 0.5f);
    assert_true(row[2] == (float)k3_oracle_round_bf16(exp2(code * step)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_e4m3),
        cmocka_unit_test(test_every_e4m3_code_is_a_fixed_point),
        cmocka_unit_test(test_e2m1),
        cmocka_unit_test(test_e8m0),
        cmocka_unit_test(test_fp8_rows),
        cmocka_unit_test(test_fp8_last_group_may_be_short),
        cmocka_unit_test(test_mxfp8_rows),
        cmocka_unit_test(test_mxfp4_rows),
        cmocka_unit_test(test_int8_rows),
        cmocka_unit_test(test_a_group_with_nan_is_nan),
        cmocka_unit_test(test_bf16_rows_stay),
        cmocka_unit_test(test_logfmt10_rows_agree_with_the_kernels),
        cmocka_unit_test(test_logfmt10_by_hand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
