/* Summaries, percentiles, the interval of the median, the histogram. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness/base/keyed.h"
#include "harness/base/stats.h"

static k3_summary_t summary_of(const double *samples, size_t n)
{
    k3_summary_t summary;
    double       scratch[256];

    assert_true(n <= 256);
    k3_summarize(samples, n, scratch, &summary);
    return summary;
}

static void test_no_sample_is_no_number(void **state)
{
    k3_summary_t summary = summary_of(NULL, 0);

    (void)state;
    assert_false(summary.valid);
    assert_false(summary.has_ci);
    assert_int_equal(summary.n, 0);
    assert_true(summary.median == 0 && summary.max == 0 && summary.deviation == 0);
}

static void test_one_two_three_four_samples(void **state)
{
    const double samples[] = {30, 10, 20, 45};
    k3_summary_t one = summary_of(samples, 1), two = summary_of(samples, 2);
    k3_summary_t three = summary_of(samples, 3), four = summary_of(samples, 4);

    (void)state;
    assert_true(one.valid && one.median == 30 && one.mean == 30 && one.deviation == 0);
    assert_true(two.median == 20 && two.min == 10 && two.max == 30 && two.mean == 20);
    assert_float_equal(two.deviation, sqrt(200.0), 1e-12); /* (10^2 + 10^2) / 1 */
    assert_true(three.median == 20 && three.mean == 20 && three.deviation == 10);
    assert_true(four.median == 25 && four.mean == 26.25 && four.max == 45);
    assert_false(four.has_ci);
}

/* Nearest rank: ceil(0.5 n) is 1, 1, 2; every high percentile of three samples is the largest. */
static void test_S15_percentiles_of_few_samples(void **state)
{
    const double sorted[] = {10, 20, 30};

    (void)state;
    assert_true(k3_percentile(sorted, 1, 0.5) == 10);
    assert_true(k3_percentile(sorted, 2, 0.5) == 10);
    assert_true(k3_percentile(sorted, 3, 0.5) == 20);
    for (size_t n = 1; n <= 3; n++) {
        assert_true(k3_percentile(sorted, n, 0) == 10);
        assert_true(k3_percentile(sorted, n, 0.99) == sorted[n - 1]);
        assert_true(k3_percentile(sorted, n, 0.999) == sorted[n - 1]);
        assert_true(k3_percentile(sorted, n, 1) == sorted[n - 1]);
        assert_true(summary_of(sorted, n).p99_is_max);
    }
}

static void test_S15_percentiles_hit_whole_ranks(void **state)
{
    double sorted[101];

    (void)state;
    for (int i = 0; i < 101; i++) {
        sorted[i] = i + 1;
    }
    /* q * 100 is not exact in binary; rank must still be the whole percentage. */
    for (int percent = 1; percent <= 100; percent++) {
        assert_true(k3_percentile(sorted, 100, percent / 100.0) == percent);
    }
    assert_true(k3_percentile(sorted, 101, 0.99) == 100); /* ceil(99.99) */
    assert_true(summary_of(sorted, 99).p99_is_max);
    assert_true(summary_of(sorted, 99).p99 == 99);
    assert_false(summary_of(sorted, 100).p99_is_max);
    assert_true(summary_of(sorted, 100).p99 == 99);
    assert_true(summary_of(sorted, 20).p95 == 19);
}

/* Mean 0.466667; squares 0.004444 + 0.000278 + 0.006944 = 0.011667; half of it 0.005833. */
static void test_N12_deviation_of_close_samples(void **state)
{
    const double samples[] = {0.40, 0.45, 0.55};

    (void)state;
    assert_float_equal(summary_of(samples, 3).deviation, 0.0763763, 1e-6);
}

static void test_deviation_survives_a_large_offset(void **state)
{
    const double samples[] = {1e9 + 1, 1e9 + 2, 1e9 + 3};
    const double same[] = {0.1, 0.1, 0.1};

    (void)state;
    assert_float_equal(summary_of(samples, 3).deviation, 1, 1e-9);
    assert_true(summary_of(same, 3).mean == 0.1 && summary_of(same, 3).deviation == 0);
}

static void expect_interval(size_t n, double level, size_t low, size_t high)
{
    size_t got_low = 999, got_high = 999;

    assert_true(k3_median_interval(n, level, &got_low, &got_high));
    assert_int_equal(got_low, low);
    assert_int_equal(got_high, high);
}

/* 1-based ranks k and n + 1 - k with the largest k for which 1 - 2 P(B <= k - 1) >= 0.95:
 * n = 6: 1 - 2/64 = 0.96875; n = 9: 1 - 20/512 = 0.9609; n = 10: 1 - 22/1024 = 0.9785;
 * n = 20: 0.9586; n = 100: 0.9648. Checked against exact sums of binomials. */
static void test_interval_of_the_median(void **state)
{
    size_t low = 0, high = 0;

    (void)state;
    for (size_t n = 0; n <= 5; n++) {
        assert_false(k3_median_interval(n, 0.95, &low, &high));
    }
    expect_interval(6, 0.95, 0, 5);
    expect_interval(7, 0.95, 0, 6);
    expect_interval(8, 0.95, 0, 7);
    expect_interval(9, 0.95, 1, 7);
    expect_interval(10, 0.95, 1, 8);
    expect_interval(11, 0.95, 1, 9);
    expect_interval(20, 0.95, 5, 14);
    expect_interval(50, 0.95, 17, 32);
    expect_interval(100, 0.95, 39, 60);
    expect_interval(399, 0.95, 179, 219);
    expect_interval(400, 0.95, 179, 220);
    expect_interval(401, 0.95, 180, 220); /* here the sum no longer starts at 0 */
    expect_interval(1000, 0.95, 468, 531);
    expect_interval(8, 0.99, 0, 7);
    assert_false(k3_median_interval(6, 0.99, &low, &high));
}

static void test_interval_of_very_many_samples(void **state)
{
    size_t low = 0, high = 0;
    double n = 1e6;

    (void)state;
    assert_true(k3_median_interval((size_t)n, 0.95, &low, &high));
    assert_int_equal(low + high, (size_t)n - 1);
    /* normal approximation: n / 2 - 1.96 sqrt(n) / 2 = 499020 */
    assert_in_range(low, 499015, 499025);
}

static void test_summary_uses_the_interval(void **state)
{
    const double samples[] = {6, 2, 5, 1, 4, 3, 10, 8, 9, 7};
    k3_summary_t six = summary_of(samples, 6), ten = summary_of(samples, 10);

    (void)state;
    assert_true(six.has_ci && six.ci_low == 1 && six.ci_high == 6 && six.median == 3.5);
    assert_true(ten.has_ci && ten.ci_low == 2 && ten.ci_high == 9 && ten.median == 5.5);
    assert_false(summary_of(samples, 5).has_ci);
}

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static void test_S16_order_of_min_median_max(void **state)
{
    double samples[200], sorted[200];

    (void)state;
    for (size_t n = 1; n <= 200; n++) {
        for (size_t i = 0; i < n; i++) {
            /* coarse values, so that there are ties */
            samples[i] = (double)k3_below(k3_key(n, i), 50) / 7;
        }
        memcpy(sorted, samples, n * sizeof(*samples));
        qsort(sorted, n, sizeof(*sorted), compare_doubles);

        k3_summary_t s = summary_of(samples, n);

        assert_true(s.min == sorted[0] && s.max == sorted[n - 1]);
        assert_true(s.median == (n % 2 == 1 ? sorted[n / 2] : s.median));
        assert_true(s.min <= s.median && s.median <= s.max);
        assert_true(s.median <= s.p95 && s.p95 <= s.p99 && s.p99 <= s.max);
        assert_true(s.min <= s.mean && s.mean <= s.max);
        assert_true(!s.has_ci || (s.ci_low <= s.median && s.median <= s.ci_high));
    }
}

/* --- the histogram --------------------------------------------------------------------------- */

static k3_hist_t hist;

static void test_histogram_is_empty_at_first(void **state)
{
    (void)state;
    memset(&hist, 0, sizeof(hist));
    assert_true(k3_hist_percentile(&hist, 0.5) == 0);
}

static void test_histogram_error_bound(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200000; i++) {
        uint64_t random = k3_key(7, i);
        uint64_t ns = random >> (28 + random % 36); /* all sizes below 2^36 */

        memset(&hist, 0, sizeof(hist));
        k3_hist_add(&hist, ns);
        hist.max = UINT64_MAX; /* without the help of the exact maximum */

        double back = k3_hist_percentile(&hist, 0.5);

        assert_true(fabs(back - (double)ns) <= (double)ns / 16);
        assert_true(ns >= 8 || back == (double)ns);
        i += i > 1000 ? 20 : 0;
    }
}

static void test_histogram_edges(void **state)
{
    static const uint64_t edges[] = {0, 7, 8, 15, 16, 17, (UINT64_C(1) << 36) - 1};

    (void)state;
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
        memset(&hist, 0, sizeof(hist));
        k3_hist_add(&hist, edges[i]);
        assert_true(fabs(k3_hist_percentile(&hist, 1) - (double)edges[i]) <= (double)edges[i] / 16);
    }
    assert_int_equal(k3_hist_bucket((UINT64_C(1) << 36) - 1), K3_HIST_BUCKETS - 1);
    assert_int_equal(k3_hist_bucket(UINT64_MAX), K3_HIST_BUCKETS - 1);
    for (uint64_t ns = 0; ns < 100000; ns++) { /* no gap and no step back */
        unsigned step = k3_hist_bucket(ns + 1) - k3_hist_bucket(ns);

        assert_true(step <= 1);
    }
}

/* 100 values of 5, one of 1000: nearest rank ceil(0.99 * 101) = 100 is still 5. */
static void test_histogram_percentiles(void **state)
{
    (void)state;
    memset(&hist, 0, sizeof(hist));
    for (int i = 0; i < 100; i++) {
        k3_hist_add(&hist, 5);
    }
    k3_hist_add(&hist, 1000);
    assert_true(k3_hist_percentile(&hist, 0) == 5);
    assert_true(k3_hist_percentile(&hist, 0.5) == 5);
    assert_true(k3_hist_percentile(&hist, 0.99) == 5);
    /* bucket 960 to 1023, middle 991.5 */
    assert_true(k3_hist_percentile(&hist, 1) == 991.5);
    assert_int_equal(hist.max, 1000);
    memset(&hist, 0, sizeof(hist));
    k3_hist_add(&hist, 961); /* the middle would be above the exact maximum */
    assert_true(k3_hist_percentile(&hist, 0.5) == 961);
}

static void test_histogram_saturates(void **state)
{
    (void)state;
    memset(&hist, 0, sizeof(hist));
    hist.count[5] = UINT32_MAX;
    hist.total = UINT32_MAX;
    hist.max = 5;
    k3_hist_add(&hist, 5);
    assert_int_equal(hist.count[5], UINT32_MAX);
    assert_true(k3_hist_percentile(&hist, 1) == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_sample_is_no_number),
        cmocka_unit_test(test_one_two_three_four_samples),
        cmocka_unit_test(test_S15_percentiles_of_few_samples),
        cmocka_unit_test(test_S15_percentiles_hit_whole_ranks),
        cmocka_unit_test(test_N12_deviation_of_close_samples),
        cmocka_unit_test(test_deviation_survives_a_large_offset),
        cmocka_unit_test(test_interval_of_the_median),
        cmocka_unit_test(test_interval_of_very_many_samples),
        cmocka_unit_test(test_summary_uses_the_interval),
        cmocka_unit_test(test_S16_order_of_min_median_max),
        cmocka_unit_test(test_histogram_is_empty_at_first),
        cmocka_unit_test(test_histogram_error_bound),
        cmocka_unit_test(test_histogram_edges),
        cmocka_unit_test(test_histogram_percentiles),
        cmocka_unit_test(test_histogram_saturates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
