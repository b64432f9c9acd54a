/* Verdicts on made-up launches: each kind, at its edges, and how often an A/A comparison errs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "harness/base/keyed.h"
#include "harness/record/verdict.h"

static const k3_verdict_rule_t rule = {.level = 0.95, .floor = 0.03};

static k3_verdict_t judge(const double *a, size_t na, const double *b, size_t nb, k3_judged_t *out)
{
    k3_judged_t item = {.a = a, .b = b, .na = na, .nb = nb};
    k3_error_t  err = K3_ERROR_INIT;

    assert_int_equal(k3_judge(&item, 1, &rule, &err), K3_OK);
    if (out != NULL) {
        *out = item;
    }
    return item.verdict;
}

static void test_kinds(void **state)
{
    static const double a[] = {100, 101, 102, 103, 104, 105};
    static const double slow[] = {110, 111, 112, 113, 114, 115};
    static const double near[] = {100.5, 101.5, 102, 103, 103.5, 104.5};
    static const double little[] = {106, 106.1, 106.2, 106.3, 106.4, 106.5};
    k3_judged_t         item;

    (void)state;
    assert_int_equal(judge(a, 6, slow, 6, &item), K3_VERDICT_WORSE);
    assert_true(fabs(item.shift.shift - (exp(log(112.5 / 102.5)) - 1)) < 0.002 &&
                item.p_family < 0.05);
    assert_int_equal(judge(slow, 6, a, 6, NULL), K3_VERDICT_BETTER);
    assert_int_equal(judge(a, 6, near, 6, NULL), K3_VERDICT_SAME);
    assert_int_equal(judge(a, 6, little, 6, NULL), K3_VERDICT_WORSE); /* 3.7 %, above the floor */
}

/* Significant, but below the floor: no finding. */
static void test_floor(void **state)
{
    static const double a[] = {100.0, 100.1, 100.2, 100.3, 100.4, 100.5};
    static const double b[] = {101.0, 101.1, 101.2, 101.3, 101.4, 101.5};

    (void)state;
    assert_int_equal(judge(a, 6, b, 6, NULL), K3_VERDICT_SAME);
}

static void test_few(void **state)
{
    static const double a[] = {100, 101, 102}, b[] = {150, 151, 152};
    k3_judged_t         item;

    (void)state;
    assert_int_equal(judge(a, 3, b, 3, &item), K3_VERDICT_INCONCLUSIVE);
    assert_int_equal(item.launches_needed, 4);
    assert_int_equal(judge(a, 1, b, 1, &item), K3_VERDICT_INCONCLUSIVE);
    assert_true(item.launches_needed >= 4 && isfinite(item.test.p) && item.test.p == 1.0);
}

/* S05, S06: nothing but equal values, and a base of zero. */
static void test_S05_S06_degenerate(void **state)
{
    static const double same[] = {5, 5, 5, 5, 5}, zero[] = {0, 0, 0, 0, 0},
                        some[] = {0.3, 0.3, 0.3, 0.3, 0.3};
    const k3_verdict_rule_t absolute = {.level = 0.95, .floor = 0.03, .floor_abs = 0.5};
    k3_judged_t             item = {.a = zero, .b = some, .na = 5, .nb = 5};
    k3_error_t              err = K3_ERROR_INIT;

    (void)state;
    assert_int_equal(judge(same, 5, same, 5, NULL), K3_VERDICT_SAME);
    assert_int_equal(judge(zero, 5, zero, 5, NULL), K3_VERDICT_SAME);
    assert_int_equal(judge(zero, 5, some, 5, NULL), K3_VERDICT_WORSE);
    assert_int_equal(k3_judge(&item, 1, &absolute, &err), K3_OK);
    assert_int_equal(item.verdict, K3_VERDICT_SAME);
}

static void near(double got, double want)
{
    if (!(fabs(got - want) < 1e-12)) {
        fail_msg("%.17g, not %.17g", got, want);
    }
}

/* By hand. Logarithms of a to the base 2: 0, 1, 2, 3; of b: one less each. The 16 differences b - a are -4, -3 (2), -2 (3),
 * -1 (4), 0 (3), 1 (2), 2: their middle is -1, so b takes half, -50 %. The interval of four a side is from the smallest to the
 * largest: 1/16 and 4. Of pairs every difference is -1. */
static void test_ratios(void **state)
{
    static const double a[] = {1, 2, 4, 8}, b[] = {0.5, 1, 2, 4};
    k3_judged_t         item;

    (void)state;
    judge(a, 4, b, 4, &item);
    near(item.shift.shift, -0.5);
    near(item.shift.low, 1.0 / 16.0 - 1.0);
    near(item.shift.high, 3.0);
    near(item.margin, 0.03);
    item = (k3_judged_t){.a = a, .b = b, .na = 4, .nb = 4, .paired = true};
    assert_int_equal(k3_judge(&item, 1, &rule, &(k3_error_t)K3_ERROR_INIT), K3_OK);
    near(item.shift.shift, -0.5);
    near(item.test.p, 2.0 / 16.0);
}

/* The floor stands at the same percentage on both sides, and nothing falls by more than all of it. */
static void test_bounds_of_ratios(void **state)
{
    double a[8], up[8], down[8], less[8], tiny[8];

    (void)state;
    for (int i = 0; i < 8; i++) {
        a[i] = 100.0 + 1e-6 * i;
        up[i] = a[i] * 1.0301;
        down[i] = a[i] * 0.9699;
        less[i] = a[i] * (i % 2 == 0 ? 1.0299 : 0.9701);
        tiny[i] = 1e-9 * a[i];
    }
    assert_int_equal(judge(a, 8, up, 8, NULL), K3_VERDICT_WORSE);
    assert_int_equal(judge(a, 8, down, 8, NULL), K3_VERDICT_BETTER);
    assert_int_equal(judge(a, 8, less, 8, NULL), K3_VERDICT_SAME);

    k3_judged_t item;

    assert_int_equal(judge(a, 8, tiny, 8, &item), K3_VERDICT_BETTER);
    assert_true(item.shift.low >= -1.0 && item.shift.high < -0.99);
}

/* What stands apart costs the others nothing, and is corrected by itself. */
static void test_families(void **state)
{
    static const double a[] = {100, 101, 102, 103}, b[] = {110, 111, 112, 113};
    k3_judged_t         items[3];
    k3_error_t          err = K3_ERROR_INIT;

    (void)state;
    for (int i = 0; i < 3; i++) {
        items[i] = (k3_judged_t){.a = a, .b = b, .na = 4, .nb = 4, .apart = i > 0};
    }
    assert_int_equal(k3_judge(items, 3, &rule, &err), K3_OK);
    assert_true(items[0].family == 1 && items[1].family == 2 && items[2].family == 2);
    assert_int_equal(items[0].verdict, K3_VERDICT_WORSE);
    assert_int_equal(items[1].verdict, K3_VERDICT_INCONCLUSIVE);
    assert_true(items[1].by_family && !items[0].by_family);
}

/* Launches that can decide: 2 / C(2n, n), or 2 / 2^n of pairs, times the family, within 5 %. */
static void test_least(void **state)
{
    (void)state;
    assert_int_equal(k3_launches_least(false, 1, 0.95), 4);
    assert_int_equal(k3_launches_least(false, 12, 0.95), 6);
    assert_int_equal(k3_launches_least(true, 1, 0.95), 6);
    assert_int_equal(k3_launches_least(true, 8, 0.95), 9);
    near(k3_smallest_p(10, 1), 2.0 / 11.0);
    near(k3_smallest_paired_p(6), 1.0 / 32.0);
}

/* In a family of many a single small p is no finding. */
static void test_family(void **state)
{
    static const double a[] = {100, 101, 102, 103}, b[] = {110, 111, 112, 113};
    k3_judged_t         items[20];
    k3_error_t          err = K3_ERROR_INIT;

    (void)state;
    for (int i = 0; i < 20; i++) {
        items[i] = (k3_judged_t){.a = a, .b = i == 0 ? b : a, .na = 4, .nb = 4};
    }
    assert_int_equal(k3_judge(items, 20, &rule, &err), K3_OK);
    assert_int_equal(items[0].verdict, K3_VERDICT_INCONCLUSIVE);
    assert_true(items[0].launches_needed >= 6); /* 2 / C(12, 6) * 20 < 0.05 < 2 / C(10, 5) * 20 */
    assert_int_equal(k3_judge(items, 1, &rule, &err), K3_OK);
    assert_int_equal(items[0].verdict, K3_VERDICT_WORSE);
}

/* A launch: a bias of its own about 100, heavy to the right. */
static double launch_of(uint64_t seed, uint64_t i)
{
    double u = (double)(k3_key(k3_key(UINT64_C(7), seed), i) >> 11) * 0x1p-53;

    return 100.0 * exp(0.08 * u * u * u);
}

/* 400 comparisons of a thing with itself, eight launches a side: at most 5 % false findings (the 99 %
 * bound of a true 5 % over 400 is 31), none where the floor is above the spread. */
static void test_false_findings(void **state)
{
    int false_findings = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        const k3_verdict_rule_t sharp = {.level = 0.95};
        double                  a[8], b[8];
        k3_judged_t             item = {.a = a, .b = b, .na = 8, .nb = 8};
        k3_error_t              err = K3_ERROR_INIT;

        for (uint64_t i = 0; i < 8; i++) {
            a[i] = launch_of(seed, i);
            b[i] = launch_of(seed, 8 + i);
        }
        assert_int_equal(k3_judge(&item, 1, &sharp, &err), K3_OK);
        false_findings += item.verdict == K3_VERDICT_WORSE || item.verdict == K3_VERDICT_BETTER;
    }
    assert_true(false_findings <= 31);
    assert_true(false_findings > 0); /* a test that never errs has no power */
}

/* 15 % added is found, eight launches a side. */
static void test_power(void **state)
{
    int found = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        double a[8], b[8];

        for (uint64_t i = 0; i < 8; i++) {
            a[i] = launch_of(seed, i);
            b[i] = 1.15 * launch_of(seed, 8 + i);
        }
        found += judge(a, 8, b, 8, NULL) == K3_VERDICT_WORSE;
    }
    assert_true(found >= 95);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_floor),
        cmocka_unit_test(test_few),
        cmocka_unit_test(test_S05_S06_degenerate),
        cmocka_unit_test(test_family),
        cmocka_unit_test(test_false_findings),
        cmocka_unit_test(test_power),
        cmocka_unit_test(test_ratios),
        cmocka_unit_test(test_bounds_of_ratios),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_least),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
