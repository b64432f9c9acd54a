/* Rank statistics against values by hand and against a count over all ways to share out the values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "harness/base/keyed.h"
#include "harness/base/ranktest.h"

static k3_error_t err = K3_ERROR_INIT;

static k3_rank_test_t test_of(const double *a, size_t na, const double *b, size_t nb)
{
    k3_rank_test_t test;

    assert_int_equal(k3_mann_whitney(a, na, b, nb, &test, &err), K3_OK);
    return test;
}

static void near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance)) {
        print_error("got %.17g, want %.17g\n", got, want);
        fail();
    }
}

/* U of b by definition: pairs in which b is larger, ties one half. */
static double pairs_won(const double *a, size_t na, const double *b, size_t nb)
{
    double u = 0.0;

    for (size_t i = 0; i < na; i++) {
        for (size_t j = 0; j < nb; j++) {
            u += b[j] > a[i] ? 1.0 : b[j] == a[i] ? 0.5 : 0.0;
        }
    }
    return u;
}

/* Two-sided p by going through every choice of nb out of n values. */
static double p_by_count(const double *all, size_t n, size_t nb, double u)
{
    double below = 0.0, above = 0.0, ways = 0.0;

    for (uint32_t mask = 0; mask < 1u << n; mask++) {
        double a[16], b[16], v;
        size_t x = 0, y = 0;

        if ((size_t)__builtin_popcount(mask) != nb) {
            continue;
        }
        for (size_t i = 0; i < n; i++) {
            if ((mask >> i & 1) != 0) {
                b[y++] = all[i];
            } else {
                a[x++] = all[i];
            }
        }
        v = pairs_won(a, x, b, y);
        ways += 1.0;
        below += v <= u + 1e-9;
        above += v >= u - 1e-9;
    }
    return fmin(1.0, 2.0 * fmin(below, above) / ways);
}

static void test_by_hand(void **state)
{
    static const double a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
    k3_rank_test_t      t = test_of(a, 4, b, 4);

    (void)state;
    near(t.u, 16.0, 0.0);
    near(t.p, 2.0 / 70.0, 1e-15);
    assert_true(t.exact);
    near(test_of(b, 4, a, 4).p, 2.0 / 70.0, 1e-15);
    near(test_of(a, 1, b, 1).p, 1.0, 0.0);
    near(test_of(a, 2, b, 1).p, 2.0 / 3.0, 1e-15);
}

static void test_every_sharing(void **state)
{
    /* With ties within and across. */
    static const double values[][10] = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
                                        {1, 1, 2, 2, 2, 3, 4, 4, 5, 5},
                                        {7, 7, 7, 7, 7, 7, 7, 7, 7, 7},
                                        {-2.5, 0, 0, 1e300, 3, -1e-300, 0, 2, 2, -7}};

    (void)state;
    for (size_t v = 0; v < 4; v++) {
        for (size_t na = 1; na < 10; na++) {
            const double  *a = values[v], *b = values[v] + na;
            size_t         nb = 10 - na;
            k3_rank_test_t t = test_of(a, na, b, nb);

            near(t.u, pairs_won(a, na, b, nb), 1e-12);
            near(t.p, p_by_count(values[v], 10, nb, t.u), 1e-12);
        }
    }
}

static void test_equal(void **state)
{
    static const double same[40] = {0};

    (void)state;
    near(test_of(same, 20, same + 20, 20).p, 1.0, 0.0);
    near(test_of(same, 40, same, 40).p, 1.0, 0.0); /* the approximation: no variance, no NaN */
}

/* Just below and above the bound of the enumeration the two agree. */
static void test_approximation(void **state)
{
    double a[40], b[40], exact, normal;

    (void)state;
    for (int i = 0; i < 40; i++) {
        a[i] = i * 1.7 + (i % 5) * 0.013;
        b[i] = i * 1.7 + 9.3 + (i % 7) * 0.011;
    }
    exact = test_of(a, 30, b, 30).p;
    a[30] = 29.3; /* in the middle of both */
    normal = test_of(a, 31, b, 30).p;
    assert_true(exact > 0.001 && exact < 0.2);
    assert_true(fabs(exact - normal) < 0.2 * exact);
}

static void test_shift(void **state)
{
    static const double a[] = {10, 11, 12, 13}, b[] = {15, 16, 17, 18}, one[] = {1}, two[] = {4};
    k3_shift_t          s;

    (void)state;
    assert_int_equal(k3_hodges_lehmann(a, 4, b, 4, 0.95, &s, &err), K3_OK);
    /* P(U < 1) = 1/70 <= 0.025, P(U < 2) = 2/70 > 0.025: the smallest and the largest difference. */
    near(s.shift, 5.0, 0.0);
    assert_true(s.has_range);
    near(s.low, 2.0, 0.0);
    near(s.high, 8.0, 0.0);
    assert_int_equal(k3_hodges_lehmann(a, 3, b, 3, 0.95, &s, &err), K3_OK);
    assert_false(s.has_range); /* 1/20 > 0.025 */
    assert_int_equal(k3_hodges_lehmann(one, 1, two, 1, 0.95, &s, &err), K3_OK);
    near(s.shift, 3.0, 0.0);
    assert_false(s.has_range);
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

/* Against the sorted list of all differences, to the bit: ties, signs, sizes odd and even. */
static void test_shift_of_all(void **state)
{
    static double d[70 * 50];

    (void)state;
    for (uint64_t trial = 0; trial < 60; trial++) {
        size_t     na = 1 + (size_t)k3_below(k3_mix(trial), 70), m = 0;
        size_t     nb = 1 + (size_t)k3_below(k3_mix(trial + 1000), 50);
        double     a[70], b[50], scale = trial % 3 == 0 ? 4.0 : 1e6;
        k3_shift_t s;

        for (size_t i = 0; i < na; i++) {
            a[i] = floor(scale * (k3_unit(k3_key(trial, i)) - 0.5)) / (trial % 2 == 0 ? 1.0 : 7.0);
        }
        for (size_t j = 0; j < nb; j++) {
            b[j] = floor(scale * (k3_unit(k3_key(trial, 100 + j)) - 0.5)) / 3.0;
            for (size_t i = 0; i < na; i++) {
                d[m++] = b[j] - a[i];
            }
        }
        qsort(d, m, sizeof(double), by_value);
        assert_int_equal(k3_hodges_lehmann(a, na, b, nb, 0.95, &s, &err), K3_OK);
        assert_true(s.shift == (m % 2 == 1 ? d[m / 2] : (d[m / 2 - 1] + d[m / 2]) / 2.0));
        if (s.has_range) {
            size_t k = 0;

            while (d[k] < s.low) {
                k++;
            }
            assert_true(d[k] == s.low && s.low <= s.shift && s.shift <= s.high);
        }
    }
}

static void test_holm(void **state)
{
    double p[] = {0.01, 0.04, 0.03, 0.005}, none[1] = {0};

    (void)state;
    assert_int_equal(k3_holm(p, 4, &err), K3_OK);
    near(p[3], 0.02, 1e-15);
    near(p[0], 0.03, 1e-15);
    near(p[2], 0.06, 1e-15);
    near(p[1], 0.06, 1e-15); /* not below the one before it */
    assert_int_equal(k3_holm(none, 0, &err), K3_OK);
    near(k3_smallest_p(4, 4), 2.0 / 70.0, 1e-15);
    near(k3_smallest_p(8, 8), 2.0 / 12870.0, 1e-15);
    near(k3_smallest_p(0, 0), 1.0, 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand), cmocka_unit_test(test_every_sharing),
        cmocka_unit_test(test_equal),   cmocka_unit_test(test_approximation),
        cmocka_unit_test(test_shift),   cmocka_unit_test(test_shift_of_all),
        cmocka_unit_test(test_holm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
