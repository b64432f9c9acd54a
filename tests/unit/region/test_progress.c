/* What the progress line says, and how long it thinks that a cell takes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "bench/region/progress.h"

static k3_progress_state_t state_of(double low, double high)
{
    return (k3_progress_state_t){.name = "b",
                                 .n = 100,
                                 .elapsed_us = 2e6,
                                 .timed_us = 1e6,
                                 .limit_us = 3e6,
                                 .target = 0.02,
                                 .summary = {.valid = true,
                                             .n = 100,
                                             .median = 1e4,
                                             .has_ci = true,
                                             .ci_low = low,
                                             .ci_high = high}};
}

static void expect_left(const k3_progress_state_t *s, double us)
{
    assert_true(fabs(k3_progress_left(s) - us) <= 1e-6 * fabs(us) + 1e-6);
}

static void test_left(void **unused)
{
    k3_progress_state_t s = state_of(9600, 10400); /* +-4 %: four times as many are needed */

    (void)unused;
    s.limit_us = 1e9;
    expect_left(&s, 6e6);
    s.limit_us = 3e6; /* 2 s of iterations are left, and each second of them takes 2 s */
    expect_left(&s, 4e6);
    s.summary.has_ci = false;
    expect_left(&s, 4e6);
    s = state_of(9900, 10100); /* reached */
    expect_left(&s, 0.0);
    s.iters = 150;
    expect_left(&s, 1e6);
    s.iters = 100;
    expect_left(&s, 0.0);
    s.n = 0;
    assert_true(k3_progress_left(&s) < 0.0);
}

static void test_text(void **unused)
{
    k3_progress_t       p = {.shown = true, .cell = 2, .cells = 5};
    k3_progress_state_t s = state_of(9600, 10400), warm = {.name = "b", .warm_up = true, .n = 3};
    char                text[120], small[20];

    (void)unused;
    assert_string_equal(k3_progress_text(&p, &s, text, sizeof(text)),
                        "cell 2/5 b: iteration 100, median 10.00 ms +-4.0 %, about 4 s left");
    assert_string_equal(k3_progress_text(&p, &warm, text, sizeof(text)), "cell 2/5 b: warm-up 3");
    s.summary.has_ci = false;
    s.summary.median = 0.0;
    s.timed_us = 0.0;
    assert_string_equal(k3_progress_text(&p, &s, text, sizeof(text)),
                        "cell 2/5 b: iteration 100, median 0.0 us");
    assert_int_equal(strlen(k3_progress_text(&p, &s, small, sizeof(small))), sizeof(small) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_left), cmocka_unit_test(test_text)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
