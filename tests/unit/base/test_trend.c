/* Trends of a series: hand values, ties, long series, numbers that say nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "harness/base/trend.h"

enum { LONG = 20000 };

static double values[LONG], scratch[LONG];

static k3_trend_t trend_of(size_t n)
{
    k3_trend_t trend;

    k3_trend(values, n, scratch, &trend);
    assert_true(isfinite(trend.halves) && isfinite(trend.slope) && isfinite(trend.p));
    assert_true(trend.p >= 0.0 && trend.p <= 1.0);
    return trend;
}

static double noise(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) * 0x1p-53;
}

/* Ten rising values: S = 45, variance 10 * 9 * 25 / 18 = 125, z = 44 / sqrt(125). */
static void hand_values(void **state)
{
    k3_trend_t t;

    (void)state;
    for (int i = 0; i < 10; i++) {
        values[i] = 100.0 + 2.0 * i;
    }
    t = trend_of(10);
    assert_true(t.valid);
    assert_float_equal(t.p, erfc(44.0 / sqrt(250.0)), 1e-14);
    assert_float_equal(t.p, 8.303e-5, 1e-8);
    assert_float_equal(t.slope, 18.0 / 109.0, 1e-14);
    assert_float_equal(t.halves, 114.0 / 104.0 - 1.0, 1e-14);
    assert_true(k3_trend_moves(&t));
}

/* 1 1 2 2 3 3 4 4: S = 24, variance (8*7*21 - 4 * 2*1*9) / 18 = 61.33. */
static void ties(void **state)
{
    k3_trend_t t;

    (void)state;
    for (int i = 0; i < 8; i++) {
        values[i] = 1.0 + i / 2;
    }
    t = trend_of(8);
    assert_float_equal(t.p, erfc(23.0 / sqrt(2.0 * (8.0 * 7.0 * 21.0 - 72.0) / 18.0)), 1e-14);
    for (int i = 0; i < 8; i++) {
        values[i] = 5.0;
    }
    t = trend_of(8);
    assert_true(t.valid && t.p == 1.0 && t.slope == 0.0 && t.halves == 0.0);
    assert_false(k3_trend_moves(&t));
}

static void too_few_or_nothing(void **state)
{
    k3_trend_t t;

    (void)state;
    for (size_t n = 0; n < K3_TREND_LEAST; n++) {
        t = trend_of(n);
        assert_false(t.valid || k3_trend_moves(&t));
    }
    for (int i = 0; i < 20; i++) {
        values[i] = 0.0;
    }
    t = trend_of(20);
    assert_false(t.valid);
}

/* A drift of 5 % below noise of 20 % is found in a long series, and noise alone is not called one. */
static void long_series(void **state)
{
    uint64_t   seed = 7;
    unsigned   called = 0;
    k3_trend_t t;

    (void)state;
    for (int i = 0; i < LONG; i++) {
        values[i] = 100.0 * (1.0 + 0.05 * i / LONG) + 20.0 * noise(&seed);
    }
    t = trend_of(LONG);
    assert_true(k3_trend_moves(&t));
    assert_true(t.slope > 0.03 && t.slope < 0.06);
    for (int series = 0; series < 400; series++) {
        for (int i = 0; i < 50; i++) {
            values[i] = 100.0 + 20.0 * noise(&seed);
        }
        t = trend_of(50);
        called += k3_trend_moves(&t);
    }
    assert_in_range(called, 0, 12); /* 1 % of 400 are 4 */
}

/* One iteration that takes a hundred times as long is no trend. */
static void outlier(void **state)
{
    uint64_t   seed = 3;
    k3_trend_t t;

    (void)state;
    for (int i = 0; i < 500; i++) {
        values[i] = 100.0 + noise(&seed);
    }
    values[499] = 1e4;
    t = trend_of(500);
    assert_false(k3_trend_moves(&t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hand_values),
        cmocka_unit_test(ties),
        cmocka_unit_test(too_few_or_nothing),
        cmocka_unit_test(long_series),
        cmocka_unit_test(outlier),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
