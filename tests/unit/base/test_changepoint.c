/* Change points: the statistic against its definition, steps of known place, how often noise is called
 * a change, and series of which the answers are known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness/base/changepoint.h"
#include "harness/base/keyed.h"

enum { MOST = 200 };

static k3_error_t             err = K3_ERROR_INIT;
static const k3_change_rule_t rule = {.least = 3, .level = 0.01, .permutations = 999, .seed = 1};
static k3_change_t            changes[MOST];

static size_t find(const double *values, size_t n)
{
    size_t count;

    assert_int_equal(k3_change_points(values, n, &rule, changes, &count, &err), K3_OK);
    return count;
}

/* Roughly normal: the sum of twelve uniform numbers. */
static double noise(uint64_t key, uint64_t i)
{
    double sum = -6.0;

    for (uint64_t k = 0; k < 12; k++) {
        sum += k3_unit(k3_key(k3_key(key, i), k));
    }
    return sum;
}

/* By the definition: mean distances between and within two parts of the series. */
static double energy(const double *x, size_t m, size_t k)
{
    double between = 0.0, first = 0.0, second = 0.0;

    for (size_t i = 0; i < m + k; i++) {
        for (size_t j = 0; j < m + k; j++) {
            double d = fabs(x[i] - x[j]);

            between += i < m && j >= m ? d : 0.0;
            first += i < m && j < m && i < j ? d : 0.0;
            second += i >= m && j >= m && i < j ? d : 0.0;
        }
    }
    return (double)(m * k) / (double)(m + k) *
           (2.0 * between / (double)(m * k) - 2.0 * first / (double)(m * (m - 1)) -
            2.0 * second / (double)(k * (k - 1)));
}

static void test_statistic(void **state)
{
    double x[40], scratch[81];

    (void)state;
    for (uint64_t trial = 0; trial < 50; trial++) {
        size_t n = 4 + (size_t)k3_below(k3_mix(trial), 30), least = 2 + trial % 3, at, want_at = 0;
        double want = 0.0, got;

        for (size_t i = 0; i < n; i++) {
            x[i] = noise(trial, i) + (i > n / 2 ? (double)(trial % 4) : 0.0);
        }
        for (size_t end = 1; end <= n; end++) {
            for (size_t t = least; t + least <= end; t++) {
                double q = energy(x, t, end - t);

                if (q > want) {
                    want = q;
                    want_at = t;
                }
            }
        }
        got = k3_change_best(x, n, least, scratch, &at);
        assert_true(fabs(got - want) <= 1e-12 * (1.0 + want));
        assert_int_equal(at, want_at);
    }
}

static void test_steps(void **state)
{
    double x[MOST];

    (void)state;
    for (size_t i = 0; i < 60; i++) {
        x[i] = 100.0 + noise(1, i) + (i >= 20 ? 10.0 : 0.0) + (i >= 45 ? -25.0 : 0.0);
    }
    assert_int_equal(find(x, 60), 2);
    assert_int_equal(changes[0].at, 20);
    assert_int_equal(changes[1].at, 45);
    assert_true(changes[0].p <= 0.001 && changes[0].q > 0.0);
}

/* Up and back again: the parts need not reach to the end. */
static void test_bump(void **state)
{
    double x[60];

    (void)state;
    for (size_t i = 0; i < 60; i++) {
        x[i] = 100.0 + noise(2, i) + (i >= 28 && i < 34 ? 12.0 : 0.0);
    }
    assert_int_equal(find(x, 60), 2);
    assert_int_equal(changes[0].at, 28);
    assert_int_equal(changes[1].at, 34);
}

/* A step in the last three launches of thirty is seen; in the last two it cannot be. */
static void test_end(void **state)
{
    double x[30];

    (void)state;
    for (size_t i = 0; i < 30; i++) {
        x[i] = 100.0 + noise(3, i) + (i >= 27 ? 15.0 : 0.0);
    }
    assert_int_equal(find(x, 30), 1);
    assert_int_equal(changes[0].at, 27);
    assert_int_equal(find(x, 29), 0);
}

static void test_small(void **state)
{
    static const double equal[12] = {5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5};
    static const double step[6] = {1, 1, 1, 9, 9, 9};

    (void)state;
    assert_int_equal(find(equal, 12), 0);
    for (size_t n = 0; n < 6; n++) {
        assert_int_equal(find(step, n), 0);
    }
    /* Twenty ways to share out six values: 2 of them as far apart, p is about 0.1. */
    assert_int_equal(find(step, 6), 0);
}

/* One wild launch is no change of level. */
static void test_outlier(void **state)
{
    double x[40];

    (void)state;
    for (size_t i = 0; i < 40; i++) {
        x[i] = 100.0 + noise(4, i) + (i == 25 ? 400.0 : 0.0);
    }
    assert_int_equal(find(x, 40), 0);
}

static void test_same_twice(void **state)
{
    double x[50];
    double p;

    (void)state;
    for (size_t i = 0; i < 50; i++) {
        x[i] = noise(5, i) + (i >= 25 ? 2.0 : 0.0);
    }
    assert_int_equal(find(x, 50), 1);
    p = changes[0].p;
    assert_int_equal(find(x, 50), 1);
    assert_true(changes[0].p == p);
}

/* Noise without a change: at a level of 5 % about 5 % of series, here of 400. */
static void test_false_alarms(void **state)
{
    k3_change_rule_t loose = {.least = 3, .level = 0.05, .permutations = 199, .seed = 9};
    size_t           alarms = 0, count;
    double           x[30];

    (void)state;
    for (uint64_t trial = 0; trial < 400; trial++) {
        for (size_t i = 0; i < 30; i++) {
            x[i] = noise(1000 + trial, i);
        }
        assert_int_equal(k3_change_points(x, 30, &loose, changes, &count, &err), K3_OK);
        alarms += count > 0;
    }
    assert_in_range(alarms, 8, 34); /* 20, five standard deviations of it below, three above */
}

/* Annual flow of the Nile at Aswan, 1871 to 1970 (10^8 m^3): the level fell in 1899. */
static void test_nile(void **state)
{
    static const double nile[] = {
        1120, 1160, 963, 1210, 1160, 1160, 813,  1230, 1370, 1140, 995,  935,  1110, 994,  1020,
        960,  1180, 799, 958,  1140, 1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774,  840,
        874,  694,  940, 833,  701,  916,  692,  1020, 1050, 969,  831,  726,  456,  824,  702,
        1120, 1100, 832, 764,  821,  768,  845,  864,  862,  698,  845,  744,  796,  1040, 759,
        781,  865,  845, 944,  984,  897,  822,  1010, 771,  676,  649,  846,  812,  742,  801,
        1040, 860,  874, 848,  890,  744,  749,  838,  1050, 918,  986,  797,  923,  975,  815,
        1020, 906,  901, 1170, 912,  746,  919,  718,  714,  740};

    (void)state;
    assert_int_equal(sizeof(nile) / sizeof(nile[0]), 100);
    assert_int_equal(find(nile, 100), 1);
    assert_int_equal(changes[0].at, 28);
    assert_true(changes[0].p == 0.001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistic),  cmocka_unit_test(test_steps),
        cmocka_unit_test(test_bump),       cmocka_unit_test(test_end),
        cmocka_unit_test(test_small),      cmocka_unit_test(test_outlier),
        cmocka_unit_test(test_same_twice), cmocka_unit_test(test_false_alarms),
        cmocka_unit_test(test_nile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
