/* Clocks that are simulated: drift, steps, late starts, wrap-around, thirty days. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "harness/base/stats.h"
#include "harness/mpi/sync.h"
#include "harness/mpi/sync_internal.h"

#define DAY_NS (24.0 * 3600.0 * 1e9)

static k3_clock_scale_t one_to_one;

/* True time in ns, and two clocks that count it: 1 + drift, from an offset. */
typedef struct scene {
    double   now;
    double   drift, jump;         /* of the own clock against the peer's */
    uint64_t first_tick;          /* of the own clock at time 0 */
    double   there, back, jitter; /* delays of an exchange */
    uint64_t seed;
    double   nap; /* one pause of the waiting loop */
    bool     asleep;
} scene_t;

static double noise(scene_t *s)
{
    s->seed = s->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(s->seed >> 11) * 0x1p-53;
}

static uint64_t own_ticks(void *arg)
{
    scene_t *s = arg;

    return s->first_tick + (uint64_t)(s->now * (1.0 + s->drift) + s->jump);
}

static void own_pause(void *arg)
{
    scene_t *s = arg;

    s->now += s->nap;
    if (s->asleep) { /* the core was taken away for 4 ms */
        s->now += 4e6;
        s->asleep = false;
    }
}

static double peer_ask(void *arg)
{
    scene_t *s = arg;
    double   time;

    s->now += s->there + s->jitter * noise(s);
    time = s->now;
    s->now += s->back + s->jitter * noise(s);
    return time;
}

static k3_clock_source_t source_of(scene_t *s)
{
    one_to_one = k3_clock_scale(1, 1);
    return (k3_clock_source_t){own_ticks, own_pause, s, &one_to_one, s->first_tick};
}

static void compare(scene_t *s, k3_clock_fit_t *fit)
{
    k3_clock_source_t own = source_of(s);
    k3_sync_peer_t    peer = {peer_ask, s};
    k3_clock_point_t  point = k3_sync_compare(&own, &peer, 10);

    k3_clock_fit_add(fit, &point);
}

/* How far the line is off at this moment. */
static double off_now(scene_t *s, const k3_clock_fit_t *fit)
{
    k3_clock_source_t own = source_of(s);

    return fabs(k3_clock_line_at(&fit->line, k3_clock_source_now(&own)) - s->now);
}

static void run_for(scene_t *s, k3_clock_fit_t *fit, double seconds, double every)
{
    for (double t = 0.0; t < seconds; t += every) {
        s->now += every * 1e9;
        compare(s, fit);
    }
}

/* --- lines ----------------------------------------------------------------------------------- */

static void test_drift(void **state)
{
    static const double drifts[] = {0.0, 1e-6, -20e-6, 100e-6, -400e-6};

    (void)state;
    for (size_t i = 0; i < sizeof(drifts) / sizeof(drifts[0]); i++) {
        scene_t s = {.drift = drifts[i], .there = 1000, .back = 1000, .jitter = 3000, .seed = i};
        k3_clock_fit_t fit = {0};

        run_for(&s, &fit, 40.0, 2.0);
        assert_int_equal(fit.steps, 0);
        assert_int_equal(fit.added, 20);
        assert_true(fabs(fit.line.drift + drifts[i]) < 0.2e-6);
        assert_true(off_now(&s, &fit) < k3_clock_fit_error(&fit));
        assert_true(k3_clock_fit_error(&fit) < 4000.0);
        s.now += 2e9; /* and the prediction up to the next comparison */
        assert_true(off_now(&s, &fit) < 1500.0);
    }
}

/* An asymmetric way cannot be seen; the error allows for it. */
static void test_asymmetry(void **state)
{
    scene_t        s = {.drift = 5e-6, .there = 9000, .back = 1000, .seed = 1};
    k3_clock_fit_t fit = {0};

    (void)state;
    run_for(&s, &fit, 20.0, 2.0);
    assert_true(off_now(&s, &fit) > 3000.0);
    assert_true(off_now(&s, &fit) <= k3_clock_fit_error(&fit));
}

/* Few comparisons close together: the drift is not made up from their noise. */
static void test_short_baseline(void **state)
{
    scene_t        s = {.there = 1000, .back = 1000, .jitter = 20000, .seed = 5};
    k3_clock_fit_t fit = {0};

    (void)state;
    run_for(&s, &fit, 0.008, 0.002);
    assert_true(fabs(fit.line.drift) < 50e-6);
}

/* One comparison in four is slow by milliseconds: it hardly counts. */
static void test_busy_machine(void **state)
{
    scene_t        s = {.drift = 10e-6, .there = 1000, .back = 1000, .jitter = 2000, .seed = 2};
    k3_clock_fit_t fit = {0};

    (void)state;
    for (int i = 0; i < 32; i++) {
        s.there = i % 4 == 3 ? 3e6 : 1000;
        run_for(&s, &fit, 2.0, 2.0);
    }
    assert_int_equal(fit.steps, 0);
    s.there = 1000;
    assert_true(off_now(&s, &fit) < 5000.0);
}

static void test_step(void **state)
{
    scene_t        s = {.drift = 3e-6, .there = 1000, .back = 1000, .jitter = 1000, .seed = 3};
    k3_clock_fit_t fit = {0};

    (void)state;
    run_for(&s, &fit, 20.0, 2.0);
    s.jump = 50e6;
    run_for(&s, &fit, 2.0, 2.0);
    assert_int_equal(fit.steps, 1);
    assert_int_equal(fit.count, 1);
    assert_true(fabs(fit.predicted) > 49e6);
    assert_true(off_now(&s, &fit) < 5000.0);
    run_for(&s, &fit, 20.0, 2.0);
    assert_int_equal(fit.steps, 1);
    assert_true(fabs(fit.line.drift + 3e-6) < 1e-6);
    s.jump -= 30e6; /* backwards */
    run_for(&s, &fit, 2.0, 2.0);
    assert_int_equal(fit.steps, 2);
    assert_true(off_now(&s, &fit) < 5000.0);
}

/* The counter overflows in the middle. */
static void test_wrap_around(void **state)
{
    scene_t        s = {.drift = 2e-6, .there = 500, .back = 500, .seed = 4};
    k3_clock_fit_t fit = {0};

    (void)state;
    s.first_tick = UINT64_MAX - UINT64_C(9000000000);
    run_for(&s, &fit, 30.0, 2.0);
    assert_true(own_ticks(&s) < s.first_tick);
    assert_int_equal(fit.steps, 0);
    assert_true(off_now(&s, &fit) < 1000.0);
}

/* Thirty days, the drift swinging by the day as temperature does. */
static void test_thirty_days(void **state)
{
    scene_t        s = {.there = 800, .back = 800, .jitter = 2000, .seed = 6};
    k3_clock_fit_t fit = {0};
    double         counted = 0.0, worst = 0.0;
    uint64_t       fits = 0;

    (void)state;
    while (s.now < 30.0 * DAY_NS) {
        double drift = 10e-6 + 1e-6 * sin(2.0 * 3.14159265358979 * s.now / DAY_NS);

        s.now += 10e9;
        counted += 10e9 * drift;
        s.drift = 0.0;
        s.jump = counted;
        compare(&s, &fit);
        fits++;
        worst = fmax(worst, fits > K3_CLOCK_WINDOW ? off_now(&s, &fit) : 0.0);
    }
    assert_int_equal(fit.added, fits);
    assert_int_equal(fit.steps, 0);
    assert_true(worst < 3000.0);
    assert_true(isfinite(fit.line.offset) && isfinite(fit.line.drift));
}

static void test_chain(void **state)
{
    k3_clock_line_t inner = {1e9, 5000.0, 10e-6}, outer = {2e9, -300.0, -4e-6};
    k3_clock_line_t both = k3_clock_line_chain(&inner, &outer);

    (void)state;
    for (double t = 0.0; t < 100e9; t += 7e9) {
        double middle = k3_clock_line_at(&inner, t);

        assert_float_equal(k3_clock_line_at(&both, t), k3_clock_line_at(&outer, middle), 1e-3);
        assert_float_equal(k3_clock_line_back(&both, k3_clock_line_at(&both, t)), t, 1e-3);
    }
}

/* Every leader but the first has a parent before it, at most log2 steps away. */
static void test_tree(void **state)
{
    (void)state;
    assert_int_equal(k3_sync_tree_parent(0), -1);
    for (int i = 1; i < 1000; i++) {
        int steps = 0;

        for (int at = i; at != 0; at = k3_sync_tree_parent(at)) {
            assert_true(k3_sync_tree_parent(at) >= 0 && k3_sync_tree_parent(at) < at);
            steps++;
        }
        assert_in_range(steps, 1, 10);
    }
}

/* --- starts ---------------------------------------------------------------------------------- */

static void test_start(void **state)
{
    scene_t           s = {.nap = 100.0};
    k3_clock_source_t own = source_of(&s);
    double            late;

    (void)state;
    late = k3_sync_wait_until(&own, 1e6);
    assert_true(late >= 0.0 && late <= 100.0);
    assert_true(s.now >= 1e6);
    /* It came when the start was over. */
    s.now = 3e6;
    late = k3_sync_wait_until(&own, 2e6);
    assert_true(late == 1e6 && s.now == 3e6);
    assert_true(late / 1e3 > K3_SYNC_LATE_US);
    /* It was waiting, and the core was taken away. */
    s.asleep = true;
    late = k3_sync_wait_until(&own, 4e6);
    assert_true(late > 3e6 - 1.0 && late < 4e6);
}

static void test_slack(void **state)
{
    scene_t  s = {.seed = 9};
    double   slack = 100e3;
    unsigned lates = 0;

    (void)state;
    assert_true(k3_sync_next_slack(slack, 50e3) > slack);
    assert_true(k3_sync_next_slack(slack, 0.0) < slack);
    for (int i = 0; i < 100; i++) {
        slack = k3_sync_next_slack(slack, 1e9);
    }
    assert_true(slack == 1e6); /* bounded on both sides */
    for (int i = 0; i < 10000; i++) {
        slack = k3_sync_next_slack(slack, 0.0);
    }
    assert_true(slack == 50e3);
    /* An announcement takes 30 to 430 us: a few starts in a hundred are late. */
    for (int i = 0; i < 20000; i++) {
        double way = 30e3 + 400e3 * noise(&s);

        lates += i >= 1000 && way > slack;
        slack = k3_sync_next_slack(slack, way > slack ? way - slack : 0.0);
    }
    assert_in_range(lates, 190, 760);
}

/* --- counters -------------------------------------------------------------------------------- */

/* Thirty days at 4 GHz, 50 GB/s and ten million messages a second: nothing wraps. */
static void test_counters_of_thirty_days(void **state)
{
    const uint64_t   seconds = UINT64_C(30) * 24 * 3600;
    k3_clock_scale_t scale = k3_clock_scale(4, 1);
    static k3_hist_t hist;
    uint64_t         bytes = 0, ns = 0;

    (void)state;
    for (uint64_t t = 0; t < seconds; t++) {
        bytes += UINT64_C(50000000000);
        ns += k3_clock_scaled_ns(&scale, UINT64_C(4000000000));
        k3_hist_add(&hist, 1000 + t % 1000);
    }
    assert_int_equal(ns, seconds * UINT64_C(1000000000));
    assert_int_equal(k3_clock_scaled_ns(&scale, seconds * UINT64_C(4000000000)), ns);
    assert_float_equal((double)bytes / (double)ns, 50.0, 1e-9);
    assert_int_equal(hist.total, seconds);
    /* A bucket that is full stays full, and the total goes on. */
    hist.count[k3_hist_bucket(500)] = UINT32_MAX;
    k3_hist_add(&hist, 500);
    assert_int_equal(hist.count[k3_hist_bucket(500)], UINT32_MAX);
    assert_int_equal(hist.total, seconds + 1);
    assert_true(k3_hist_percentile(&hist, 0.5) < 2000.0);
}

/* What lies between two readings is not rounded: a span of one rank is as long as the rank's own time. */
static void test_times_between_nanoseconds(void **state)
{
    k3_clock_scale_t  scale = k3_clock_scale(1000, 427);
    k3_clock_source_t source = {.scale = &scale, .origin = 1000};

    (void)state;
    assert_float_equal(k3_clock_source_at(&source, 1007) - k3_clock_source_at(&source, 1002),
                       5 * 0.427, 1e-9);
    assert_float_equal(k3_clock_source_at(&source, 1000), 0.0, 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_asymmetry),
        cmocka_unit_test(test_short_baseline),
        cmocka_unit_test(test_busy_machine),
        cmocka_unit_test(test_step),
        cmocka_unit_test(test_wrap_around),
        cmocka_unit_test(test_thirty_days),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_slack),
        cmocka_unit_test(test_counters_of_thirty_days),
        cmocka_unit_test(test_times_between_nanoseconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
