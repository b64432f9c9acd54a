/* Measures of balance against their definitions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "harness/base/balance.h"
#include "harness/base/keyed.h"

static void test_edges(void **state)
{
    double equal[] = {3, 3, 3, 3}, one[] = {0, 0, 8, 0}, zeros[] = {0, 0}, single[] = {7};

    (void)state;
    assert_true(k3_max_over_mean(equal, 4) == 1.0 && k3_gini(equal, 4) == 0.0);
    assert_true(k3_max_over_mean(one, 4) == 4.0 && k3_gini(one, 4) == 0.75);
    assert_true(k3_max_over_mean(single, 1) == 1.0 && k3_gini(single, 1) == 0.0);
    assert_true(isnan(k3_max_over_mean(zeros, 2)) && isnan(k3_gini(zeros, 2)));
    assert_true(isnan(k3_max_over_mean(NULL, 0)) && isnan(k3_gini(NULL, 0)));
}

static void test_definition(void **state)
{
    double x[20], pairs = 0.0, sum = 0.0;

    (void)state;
    for (size_t i = 0; i < 20; i++) {
        x[i] = 100.0 * k3_unit(k3_mix(i));
        sum += x[i];
    }
    for (size_t i = 0; i < 20; i++) {
        for (size_t j = 0; j < 20; j++) {
            pairs += fabs(x[i] - x[j]);
        }
    }
    assert_true(fabs(k3_gini(x, 20) - pairs / (2.0 * 20.0 * sum)) < 1e-12);
    assert_true(fabs(k3_max_over_mean(x, 20) - x[19] * 20.0 / sum) < 1e-12); /* x is sorted now */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_edges),
                                       cmocka_unit_test(test_definition)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
