/* The statistics against scipy (agree_with_scipy.py beside this file): series of many shapes are drawn here, and
 * they and what comes out are handed over with 17 digits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness/base/changepoint.h"
#include "harness/base/keyed.h"
#include "harness/base/ranktest.h"
#include "harness/base/stats.h"
#include "harness/base/trend.h"

enum { MOST = 120 };

static k3_error_t err = K3_ERROR_INIT;

/* Heavy to the right, with ties when `digits` is small. */
static void draw(uint64_t seed, size_t n, double factor, int digits, double *values)
{
    double unit = pow(10.0, digits);

    for (size_t i = 0; i < n; i++) {
        values[i] =
            round(factor * exp(2.0 + 0.4 * pow(k3_unit(k3_key(seed, i)), 3.0)) * unit) / unit;
    }
}

static void put(FILE *out, const char *name, double value)
{
    (void)fprintf(out, "\"%s\": %.17g, ", name, value);
}

static void put_list(FILE *out, const char *name, const double *values, size_t n)
{
    (void)fprintf(out, "\"%s\": [", name);
    for (size_t i = 0; i < n; i++) {
        (void)fprintf(out, "%s%.17g", i > 0 ? ", " : "", values[i]);
    }
    (void)fputs("], ", out);
}

static void put_range(FILE *out, const char *name, bool has, double low, double high)
{
    if (has) {
        (void)fprintf(out, "\"%s\": [%.17g, %.17g], ", name, low, high);
    } else {
        (void)fprintf(out, "\"%s\": null, ", name);
    }
}

static void put_pair(FILE *out, uint64_t seed, size_t na, size_t nb, int digits)
{
    double         a[MOST], b[MOST];
    k3_rank_test_t test;
    k3_shift_t     shift;

    draw(seed, na, 1.0, digits, a);
    draw(seed + 1000, nb, 1.0 + 0.02 * (double)(seed % 5), digits, b);
    (void)fputs("{\"kind\": \"pair\", ", out);
    put_list(out, "a", a, na);
    put_list(out, "b", b, nb);
    assert_int_equal(k3_mann_whitney(a, na, b, nb, &test, &err), K3_OK);
    assert_int_equal(k3_hodges_lehmann(a, na, b, nb, 0.95, &shift, &err), K3_OK);
    put(out, "u", test.u);
    put(out, "p", test.p);
    put(out, "shift", shift.shift);
    put_range(out, "range", shift.has_range, shift.low, shift.high);
    if (na == nb) {
        assert_int_equal(k3_signed_rank(a, b, na, &test, &err), K3_OK);
        assert_int_equal(k3_paired_shift(a, b, na, 0.95, &shift, &err), K3_OK);
        put(out, "paired_p", test.p);
        put(out, "paired_shift", shift.shift);
        put_range(out, "paired_range", shift.has_range, shift.low, shift.high);
    }
    (void)fputs("\"end\": 0}\n", out);
}

static void put_family(FILE *out, uint64_t seed, size_t m)
{
    double p[MOST];

    for (size_t i = 0; i < m; i++) {
        p[i] = i % 4 == 3 ? p[i - 1] : pow(k3_unit(k3_key(seed, i)), 4.0);
    }
    (void)fputs("{\"kind\": \"family\", ", out);
    put_list(out, "p", p, m);
    assert_int_equal(k3_holm(p, m, &err), K3_OK);
    put_list(out, "holm", p, m);
    (void)fputs("\"end\": 0}\n", out);
}

static void put_series(FILE *out, const double *values, size_t n)
{
    const k3_change_rule_t rule = {.least = 3, .level = 0.05, .permutations = 199, .seed = 1};
    double                 scratch[2 * MOST + 1];
    k3_summary_t           s;
    k3_trend_t             trend;
    k3_change_t            changes[MOST];
    size_t                 count, at;
    double                 best;

    k3_summarize(values, n, scratch, &s);
    k3_trend(values, n, scratch, &trend);
    best = k3_change_best(values, n, 3, scratch, &at);
    assert_int_equal(k3_change_points(values, n, &rule, changes, &count, &err), K3_OK);
    (void)fputs("{\"kind\": \"series\", ", out);
    put_list(out, "values", values, n);
    put(out, "median", s.median);
    put_range(out, "ci", s.has_ci, s.ci_low, s.ci_high);
    put(out, "mean", s.mean);
    put(out, "deviation", s.deviation);
    put(out, "slope", trend.valid && n <= K3_TREND_BLOCKS ? trend.slope : NAN);
    put(out, "trend_p", trend.valid && n <= K3_TREND_BLOCKS ? trend.p : NAN);
    put(out, "change_q", best);
    put(out, "change_at", (double)at);
    put(out, "first_change", count > 0 ? (double)changes[0].at : -1.0);
    (void)fputs("\"end\": 0}\n", out);
}

/* Medians of the region in us of 60 launches of one build on a shared virtual machine, and of the Nile at Aswan
 * (1871 to 1970), whose change of 1899 is known. */
static const double launches[] = {
    5243, 5414, 5338, 4848, 5216,  5380, 5432, 5409, 6083, 12408, 5252, 5201,  5230, 5262, 5289,
    5664, 5403, 5075, 5346, 5155,  5290, 5363, 5252, 5360, 5444,  5329, 11292, 5163, 5297, 5493,
    5351, 5391, 6058, 5024, 13316, 5342, 5336, 5273, 5041, 5434,  5974, 5198,  5284, 5431, 5095,
    5595, 5393, 5177, 5417, 5494,  5270, 4929, 5173, 5237, 5319,  5304, 5294,  5128, 5274, 4900};
static const double nile[] = {
    1120, 1160, 963, 1210, 1160, 1160, 813,  1230, 1370, 1140, 995,  935,  1110, 994,  1020,
    960,  1180, 799, 958,  1140, 1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774,  840,
    874,  694,  940, 833,  701,  916,  692,  1020, 1050, 969,  831,  726,  456,  824,  702,
    1120, 1100, 832, 764,  821,  768,  845,  864,  862,  698,  845,  744,  796,  1040, 759,
    781,  865,  845, 944,  984,  897,  822,  1010, 771,  676,  649,  846,  812,  742,  801,
    1040, 860,  874, 848,  890,  744,  749,  838,  1050, 918,  986,  797,  923,  975,  815,
    1020, 906,  901, 1170, 912,  746,  919,  718,  714,  740};

static void write_all(FILE *out)
{
    static const size_t sizes[][2] = {{1, 1},  {2, 2},   {3, 3},   {4, 4},   {5, 7},
                                      {8, 8},  {8, 5},   {12, 12}, {20, 20}, {30, 30},
                                      {40, 9}, {31, 31}, {80, 80}, {100, 61}};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int digits = 0; digits <= 9; digits += digits == 1 ? 8 : 1) {
            put_pair(out, 10 * i + (uint64_t)digits, sizes[i][0], sizes[i][1], digits);
        }
    }
    for (size_t m = 1; m <= 100; m += 11) {
        put_family(out, m, m);
    }
    put_series(out, launches, sizeof(launches) / sizeof(launches[0]));
    put_series(out, nile, sizeof(nile) / sizeof(nile[0]));
    for (size_t n = 1; n <= 64; n += 7) {
        double values[MOST];

        draw(n, n, 1.0, n % 2 == 0 ? 1 : 9, values);
        put_series(out, values, n);
    }
}

static void test_all(void **state)
{
    char  path[] = "/tmp/k3bench-scipy.XXXXXX", command[512];
    int   fd = mkstemp(path), status;
    FILE *out;

    (void)state;
    assert_true(fd >= 0);
    out = fdopen(fd, "w");
    assert_non_null(out);
    write_all(out);
    assert_int_equal(fclose(out), 0);
    (void)snprintf(command, sizeof(command), "python3 %s/tests/unit/base/agree_with_scipy.py %s",
                   K3_SOURCE_DIR, path);
    status = system(command);
    (void)unlink(path);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        exit(77);
    }
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
