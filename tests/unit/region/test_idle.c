/* Samples after idle gaps: hand values, and no gap that stands out. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/region/idle.h"

static void hand_values(void **state)
{
    const double gaps[] = {10, 12, 100, 11, 10, 60, 12, 11};
    const double samples[] = {100, 102, 130, 98, 100, 150, 101, 99};
    double       scratch[16];
    k3_idle_t    idle;

    (void)state;
    k3_idle_judge(samples, gaps, 8, scratch, &idle);
    assert_true(idle.valid && idle.has_difference);
    assert_true(idle.median_us == 11.5 && idle.max_us == 100.0);
    assert_int_equal(idle.long_gaps, 2);
    assert_float_equal(idle.pct, 40.0, 1e-12); /* 140 over 100 */
}

static void nothing_to_say(void **state)
{
    const double gaps[] = {10, 10, 10}, zeros[] = {0, 0, 0};
    double       scratch[6];
    k3_idle_t    idle;

    (void)state;
    k3_idle_judge(gaps, gaps, 0, scratch, &idle);
    assert_false(idle.valid || idle.has_difference);
    k3_idle_judge(gaps, gaps, 1, scratch, &idle);
    assert_true(idle.valid && !idle.has_difference && idle.long_gaps == 0);
    k3_idle_judge(gaps, gaps, 3, scratch, &idle);
    assert_false(idle.has_difference);
    k3_idle_judge(zeros, zeros, 3, scratch, &idle);
    assert_true(idle.valid && !idle.has_difference && isfinite(idle.pct));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hand_values),
        cmocka_unit_test(nothing_to_say),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
