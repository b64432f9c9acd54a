/* Which iterations are remembered, and which of them is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "bench/region/timeline.h"

enum { MANY = 5000 };

/* Nothing is read through the clock: phases that were not entered have no times. */
static k3_timeline_t noted(uint64_t n)
{
    static char   clock; /* any place that is not NULL */
    k3_timeline_t t;
    k3_spans_t    spans;
    k3_error_t    err = K3_ERROR_INIT;

    memset(&spans, 0, sizeof(spans));
    assert_int_equal(k3_timeline_open(&t, (k3_sync_t *)&clock, &err), K3_OK);
    for (uint64_t i = 0; i < n; i++) {
        k3_timeline_note(&t, &spans, i);
    }
    return t;
}

static void test_evenly_spread(void **unused)
{
    (void)unused;
    for (uint64_t n = 1; n < MANY; n = n * 3 / 2 + 1) {
        k3_timeline_t t = noted(n);

        assert_in_range(t.count, n < K3_TIMELINE_TAKEN / 2 ? n : K3_TIMELINE_TAKEN / 2,
                        K3_TIMELINE_TAKEN);
        for (uint64_t i = 0; i < t.count; i++) {
            assert_int_equal(t.taken[i].number, i * t.every);
        }
        assert_true(t.taken[t.count - 1].number + t.every >= n); /* up to the end */
        k3_timeline_close(&t);
    }
}

static void test_nearest_to_the_median(void **unused)
{
    k3_timeline_t t = noted(10);
    double        us[10] = {90, 10, 20, 30, 40, 51, 49, 60, 70, 80};

    (void)unused;
    assert_int_equal(t.taken[k3_timeline_choose(&t, us, 52.0)].number, 5);
    assert_int_equal(t.taken[k3_timeline_choose(&t, us, 50.0)].number, 5); /* the first of equals */
    assert_int_equal(t.taken[k3_timeline_choose(&t, us, 0.0)].number, 1);
    assert_int_equal(t.taken[k3_timeline_choose(&t, us, 1e9)].number, 0);
    k3_timeline_close(&t);
}

static void test_without_a_clock(void **unused)
{
    k3_timeline_t t;
    k3_spans_t    spans = {.step = 0};
    k3_error_t    err = K3_ERROR_INIT;

    (void)unused;
    assert_int_equal(k3_timeline_open(&t, NULL, &err), K3_OK);
    k3_timeline_note(&t, &spans, 0);
    k3_timeline_place(&t);
    assert_int_equal(t.count, 0);
    k3_timeline_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_evenly_spread),
        cmocka_unit_test(test_nearest_to_the_median),
        cmocka_unit_test(test_without_a_clock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
