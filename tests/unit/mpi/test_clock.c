/* The clock: conversion with hand values, and that it runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "harness/mpi/clock.h"
#include "harness/mpi/clock_internal.h"

static void hand_values(void **state)
{
    k3_clock_scale_t scale = k3_clock_scale(25, 10); /* 2.5 ticks a nanosecond */

    (void)state;
    assert_int_equal(k3_clock_scaled_ns(&scale, 0), 0);
    /* 0.4 is not exact in binary: truncated, never above. */
    assert_in_range(k3_clock_scaled_ns(&scale, 2500), 999, 1000);
    assert_in_range(k3_clock_scaled_ns(&scale, 2500000), 999999, 1000000);
    scale = k3_clock_scale(1000, 500);
    assert_int_equal(k3_clock_scaled_ns(&scale, 7), 3);
    assert_int_equal(k3_clock_scaled_ns(&scale, 4000000000), 2000000000);
    scale = k3_clock_scale(1, 1);
    assert_int_equal(k3_clock_scaled_ns(&scale, UINT64_MAX / 2), UINT64_MAX / 2);
}

/* Case N11: ten hours, and 100 days, at 4 GHz keep their place. */
static void test_N11_ten_hours(void **state)
{
    k3_clock_scale_t scale = k3_clock_scale(4000000, 1000000);
    uint64_t         hours = UINT64_C(36000) * 4000000000;
    uint64_t         days = UINT64_C(8640000) * 4000000000;

    (void)state;
    assert_int_equal(k3_clock_scaled_ns(&scale, hours), UINT64_C(36000) * 1000000000);
    assert_int_equal(k3_clock_scaled_ns(&scale, days), UINT64_C(8640000) * 1000000000);
    /* An uneven rate: wrong by less than a millionth. */
    scale = k3_clock_scale(29999999, 9999999);
    assert_in_range(k3_clock_scaled_ns(&scale, UINT64_C(36000) * 3000000000),
                    UINT64_C(35999964) * 1000000, UINT64_C(36000036) * 1000000);
}

static uint64_t monotonic_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Over 50 ms the clock agrees with the system's to a thousandth (and some microseconds for being
 * descheduled between two readings). */
static void real_rate(void **state)
{
    uint64_t start, end, ns_start, ns_end;

    (void)state;
    k3_clock_init();
    k3_clock_init();
    ns_start = monotonic_ns();
    start = k3_clock_now();
    while (monotonic_ns() - ns_start < 50000000) {
    }
    end = k3_clock_now();
    ns_end = monotonic_ns();
    assert_true(end > start);
    assert_true(k3_clock_ns(end - start) <= (ns_end - ns_start) + 50000);
    assert_true(k3_clock_us(end - start) > 49900.0);
    assert_in_range(k3_clock_ticks(k3_clock_us(end - start)), end - start - 1000,
                    end - start + 1000);
    assert_int_equal(k3_clock_ticks(-1.0), 0);
    assert_true(k3_clock_source()[0] == 't' || k3_clock_source()[0] == 'c');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hand_values),
        cmocka_unit_test(test_N11_ten_hours),
        cmocka_unit_test(real_rate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
