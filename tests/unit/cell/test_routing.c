#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/cell/model.h"
#include "bench/cell/npy.h"
#include "bench/cell/routing.h"
#include "bench/cell/routing_weights.h"

enum { EXPERTS_MAX = 1024 };

static char folder[] = "/tmp/k3_test_routing.XXXXXX";
static char path[64], trace_text[80];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/trace.npy", folder);
    snprintf(trace_text, sizeof(trace_text), "trace:%s", path);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static k3_routing_request_t request_of(const char *text, uint64_t rows)
{
    return (k3_routing_request_t){
        .text = text, .seed = 17, .experts = 256, .topk = 8, .ranks = 16, .rows = rows};
}

static k3_routing_t *create(k3_routing_request_t request)
{
    k3_error_t    err = K3_ERROR_INIT;
    k3_routing_t *routing;

    if (k3_routing_create(&request, &routing, &err) != K3_OK) {
        fail_msg("%s: %s", request.text, err.text);
    }
    return routing;
}

static void assert_refused(k3_routing_request_t request, const char *part, const char *other)
{
    k3_error_t    err = K3_ERROR_INIT;
    k3_routing_t *routing;

    assert_int_equal(k3_routing_create(&request, &routing, &err), K3_ERR_USAGE);
    assert_null(routing);
    if (strstr(err.text, part) == NULL || strstr(err.text, other) == NULL) {
        fail_msg("%s: \"%s\" lacks \"%s\" or \"%s\"", request.text, err.text, part, other);
    }
}

/* Counts per expert; every row is checked for range and distinct ids. */
static void count_loads(k3_routing_request_t request, uint64_t loads[EXPERTS_MAX])
{
    k3_routing_t *routing = create(request);

    memset(loads, 0, EXPERTS_MAX * sizeof(loads[0]));
    for (uint64_t row = 0; row < request.rows; row++) {
        int32_t ids[K3_TOPK_MAX];
        bool    seen[EXPERTS_MAX] = {false};

        k3_routing_row(routing, row, ids);
        for (uint32_t k = 0; k < request.topk; k++) {
            assert_in_range(ids[k], 0, request.experts - 1);
            assert_false(seen[ids[k]]);
            seen[ids[k]] = true;
            loads[ids[k]]++;
        }
    }
    k3_routing_destroy(routing);
}

static uint64_t largest(const uint64_t *loads, uint32_t n)
{
    uint64_t most = 0;

    for (uint32_t e = 0; e < n; e++) {
        most = loads[e] > most ? loads[e] : most;
    }
    return most;
}

static int falling(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x < y) - (x > y);
}

static const char *const generators[] = {
    "uniform",       "zipf:0",         "zipf:1.2",     "zipf:8",         "khot:32:0.9",
    "khot:1:1",      "khot:256:0",     "khot:3:0.5",   "lognormal:0",    "lognormal:1",
    "lognormal:6.5", "hot-rank:2:0.5", "hot-rank:0:1", "hot-rank:15:0.0"};

enum { GENERATORS = sizeof(generators) / sizeof(generators[0]) };

/* count_loads asserts that ids are distinct and in range; here also where K is E, and 1. */
static void test_distinct_ids(void **state)
{
    uint64_t loads[EXPERTS_MAX];

    (void)state;
    for (size_t g = 0; g < GENERATORS; g++) {
        count_loads(request_of(generators[g], 500), loads);
    }
    for (size_t g = 0; g < GENERATORS; g++) {
        k3_routing_request_t request = request_of(generators[g], 50);

        if (strncmp(request.text, "khot:256", 8) == 0 || strncmp(request.text, "khot:32", 7) == 0 ||
            strncmp(request.text, "lognormal:1", 11) == 0 ||
            strcmp(request.text, "lognormal:6.5") == 0) {
            continue;
        }
        request.experts = 16;
        request.topk = 16;
        count_loads(request, loads);
        for (uint32_t e = 0; e < 16; e++) {
            assert_int_equal(loads[e], 50);
        }
        request.topk = 1;
        count_loads(request, loads);
    }
}

static void test_rows_do_not_depend_on_order(void **state)
{
    (void)state;
    for (size_t g = 0; g < GENERATORS; g++) {
        k3_routing_t *one = create(request_of(generators[g], 100));
        k3_routing_t *other = create(request_of(generators[g], 7));
        int32_t       a[8], b[8];

        for (uint64_t row = 100; row-- > 0;) {
            k3_routing_row(one, row, a);
            k3_routing_row(other, row, b);
            assert_memory_equal(a, b, sizeof(a));
        }
        k3_routing_destroy(one);
        k3_routing_destroy(other);
    }
}

static void hash_of(k3_routing_request_t request, char text[17])
{
    k3_routing_t *routing = create(request);

    k3_routing_hash(routing, text);
    assert_int_equal(strlen(text), 16);
    assert_int_equal(strspn(text, "0123456789abcdef"), 16);
    k3_routing_destroy(routing);
}

static void test_hash(void **state)
{
    (void)state;
    for (size_t g = 0; g < GENERATORS; g++) {
        k3_routing_request_t request = request_of(generators[g], 64);
        char                 first[17], again[17], other[17];

        hash_of(request, first);
        hash_of(request, again);
        assert_string_equal(first, again);
        request.seed++;
        hash_of(request, other);
        assert_string_not_equal(first, other);
        request.seed--;
        request.rows++;
        hash_of(request, other);
        assert_string_not_equal(first, other);
    }
}

/* Values that another machine must give too. */
static void test_hash_is_portable(void **state)
{
    char text[17];

    (void)state;
    hash_of(request_of("uniform", 1000), text);
    assert_string_equal(text, "449ee90860111742");
    hash_of(request_of("zipf:1.2", 1000), text);
    assert_string_equal(text, "6e3faa879a3c5643");
    hash_of(request_of("lognormal:1", 1000), text);
    assert_string_equal(text, "6cdb0172be52365a");
    hash_of(request_of("khot:32:0.9", 1000), text);
    assert_string_equal(text, "944f38e4d9982282");
    hash_of(request_of("hot-rank:2:0.5", 1000), text);
    assert_string_equal(text, "fc2d6ec2c016715b");
}

static void test_assignments(void **state)
{
    k3_routing_t *routing = create(request_of("uniform", 1000));

    (void)state;
    assert_int_equal(k3_routing_assignments(routing), 8000);
    k3_routing_destroy(routing);
    routing = create(request_of("uniform", 0));
    assert_int_equal(k3_routing_assignments(routing), 0);
    k3_routing_destroy(routing);
}

/* Loads of a draw without replacement vary less than multinomial ones, by (E - K) / (E - 1). The
 * bound is six standard deviations of chi-square, sqrt(2 (E - 1)). */
static void check_uniform(k3_routing_request_t request)
{
    uint64_t loads[EXPERTS_MAX];
    double   e = request.experts, k = request.topk;
    double   mean = (double)request.rows * k / e, chi = 0;

    count_loads(request, loads);
    for (uint32_t i = 0; i < request.experts; i++) {
        chi += ((double)loads[i] - mean) * ((double)loads[i] - mean) / mean;
    }
    chi *= (e - 1) / (e - k);
    if (fabs(chi - (e - 1)) > 6 * sqrt(2 * (e - 1))) {
        fail_msg("%s, K %u: chi-square %g for %g degrees", request.text, request.topk, chi, e - 1);
    }
}

static void test_uniform_is_uniform(void **state)
{
    static const char *const equal[] = {"uniform", "zipf:0", "khot:256:0.5", "lognormal:0"};
    k3_routing_request_t     k3 = request_of("uniform", 40000);

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        check_uniform(request_of(equal[i], 20000));
    }
    k3.experts = 896;
    k3.topk = 16;
    check_uniform(k3);
    k3.topk = 1;
    check_uniform(k3);
}

/* The first slot alone and pairs of a row: all 12 * 11 ordered pairs of 12 experts equally likely.
 */
static void test_pairs_are_uniform(void **state)
{
    k3_routing_request_t request = request_of("uniform", 132000);
    k3_routing_t        *routing;
    uint32_t             pairs[12][12] = {{0}};
    double               chi = 0;

    (void)state;
    request.experts = 12;
    request.topk = 2;
    routing = create(request);
    for (uint64_t row = 0; row < request.rows; row++) {
        int32_t ids[2];

        k3_routing_row(routing, row, ids);
        pairs[ids[0]][ids[1]]++;
    }
    k3_routing_destroy(routing);
    for (int i = 0; i < 12; i++) {
        for (int j = 0; j < 12; j++) {
            chi += i == j ? 0 : (pairs[i][j] - 1000.0) * (pairs[i][j] - 1000.0) / 1000;
        }
    }
    assert_true(fabs(chi - 131) < 6 * sqrt(2 * 131.0));
}

/* Drawing 2 of weights 1, 1/2, 1/4 one after the other, by hand: the first is missing with
 * probability (2/7)(1/5) + (1/7)(1/3), the second with (4/7)(1/3) + (1/7)(2/3), the rest the third.
 */
static void test_weighted_draw_is_exact(void **state)
{
    const double weights[3] = {1, 0.5, 0.25};

    (void)state;
    assert_true(fabs(k3_weights_top_share(weights, 3, 2) - (1 - 2.0 / 35 - 1.0 / 21)) < 2e-3);
    assert_true(fabs(k3_weights_top_share(weights, 3, 1) - 4.0 / 7) < 2e-3);
}

/* 1 / position: shares of single draws are known exactly. */
static void test_zipf_shares(void **state)
{
    k3_routing_request_t request = request_of("zipf:1", 200000);
    uint64_t             loads[EXPERTS_MAX];
    double               harmonic = 0;

    (void)state;
    request.topk = 1;
    for (int i = 1; i <= 256; i++) {
        harmonic += 1.0 / i;
    }
    count_loads(request, loads);
    qsort(loads, 256, sizeof(loads[0]), falling);
    for (int i = 0; i < 10; i++) {
        double expected = 200000 / harmonic / (i + 1);

        assert_true(fabs((double)loads[i] - expected) < 6 * sqrt(expected));
    }
}

/* A larger exponent loads the top expert more, and the seed moves it. */
static void test_S13_zipf_grows(void **state)
{
    static const char *const texts[] = {"zipf:0", "zipf:0.5", "zipf:1.0", "zipf:1.2", "zipf:8"};
    uint64_t                 last = 0, loads[EXPERTS_MAX];

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        count_loads(request_of(texts[i], 4000), loads);
        assert_true(largest(loads, 256) > last);
        last = largest(loads, 256);
    }
    assert_true(last > 3990);
    qsort(loads, 256, sizeof(loads[0]), falling);
    assert_true(loads[1] > 3900);
}

static double hot_share(uint64_t *loads, uint32_t hot, double total)
{
    double sum = 0;

    qsort(loads, 256, sizeof(loads[0]), falling);
    for (uint32_t e = 0; e < hot; e++) {
        sum += (double)loads[e];
    }
    return sum / total;
}

/* 5 standard deviations of a share over n independent slots. */
static double tolerance(double share, double n)
{
    return 5 * sqrt(share * (1 - share) / n) + 1e-9;
}

static void test_S13_khot_share(void **state)
{
    uint64_t loads[EXPERTS_MAX];

    (void)state;
    count_loads(request_of("khot:32:0.9", 20000), loads);
    assert_true(fabs(hot_share(loads, 32, 160000) - 0.9) < tolerance(0.9, 160000));
    count_loads(request_of("khot:8:1", 1000), loads);
    assert_int_equal((int)(hot_share(loads, 8, 8000) * 1000), 1000);
    count_loads(request_of("khot:8:0", 1000), loads);
    assert_int_equal(hot_share(loads, 248, 8000) * 1000, 1000);

    /* One hot expert in every row leaves 7 of 8 slots to the others. */
    count_loads(request_of("khot:1:1", 1000), loads);
    assert_int_equal(largest(loads, 256), 1000);
    /* All but 4 hot and never chosen: the other 4 slots move to the hot class. */
    count_loads(request_of("khot:252:0", 1000), loads);
    qsort(loads, 256, sizeof(loads[0]), falling);
    assert_int_equal(loads[0] + loads[1] + loads[2] + loads[3], 4000);
}

static void test_khot_seed_moves_the_hot(void **state)
{
    k3_routing_request_t request = request_of("khot:1:1", 10);
    uint64_t             loads[EXPERTS_MAX];
    int                  places[4], different = 0;

    (void)state;
    for (int i = 0; i < 4; i++) {
        request.seed = (uint64_t)i;
        count_loads(request, loads);
        places[i] = 0;
        while (loads[places[i]] != 10) {
            places[i]++;
        }
        different += i > 0 && places[i] != places[0];
    }
    assert_true(different >= 2);
}

static void test_hot_rank_share(void **state)
{
    uint64_t loads[EXPERTS_MAX], sum = 0;

    (void)state;
    count_loads(request_of("hot-rank:2:0.5", 20000), loads);
    for (uint32_t e = 32; e < 48; e++) {
        sum += loads[e];
    }
    assert_true(fabs((double)sum / 160000 - 0.5) < tolerance(0.5, 160000));

    count_loads(request_of("hot-rank:15:1.0", 1000), loads);
    sum = 0;
    for (uint32_t e = 240; e < 256; e++) {
        sum += loads[e];
    }
    assert_int_equal(sum, 8000);
}

/* N05: K=16 with fewer than 16 experts on the rank: its experts are exhausted, others fill up. */
static void test_N05_hot_rank_exhausted(void **state)
{
    k3_routing_request_t request = request_of("hot-rank:0:1", 100);
    uint64_t             loads[EXPERTS_MAX];

    (void)state;
    request.topk = 20;
    count_loads(request, loads);
    for (uint32_t e = 0; e < 16; e++) {
        assert_int_equal(loads[e], 100);
    }
}

/* The load of the most popular expert is within 2 % and sampling error of what was asked for. */
static void test_S12_lognormal_reaches(void **state)
{
    static const struct {
        const char *text;
        double      violation;
    } cases[] = {
        {"lognormal:0.2", 0.2}, {"lognormal:1", 1}, {"lognormal:4", 4}, {"lognormal:20", 20}};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        k3_routing_request_t request = request_of(cases[i].text, 100000);
        uint64_t             loads[EXPERTS_MAX];
        double               reached;

        request.experts = 896;
        request.topk = 16;
        count_loads(request, loads);
        reached = (double)largest(loads, 896) / (100000.0 * 16 / 896) - 1;
        if (fabs(reached - cases[i].violation) > 0.02 * (1 + cases[i].violation) + 0.05) {
            fail_msg("%s reached %g", cases[i].text, reached);
        }
    }
}

static void test_lognormal_small_topk(void **state)
{
    k3_routing_request_t request = request_of("lognormal:3", 200000);
    uint64_t             loads[EXPERTS_MAX];

    (void)state;
    for (request.topk = 1; request.topk <= 4; request.topk++) {
        double mean = (double)request.rows * request.topk / 256;

        count_loads(request, loads);
        assert_true(fabs((double)largest(loads, 256) / mean - 4) < 0.15);
    }
}

/* A stride generator leaves every second rank empty here; a fair one does so by chance alone: 64
 * assignments over 16 ranks leave a given rank empty in about 1.5 % of the cases. */
static void test_S14_no_rank_is_left_out(void **state)
{
    unsigned empty[16] = {0}, sum = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++) {
        k3_routing_request_t request = request_of("uniform", 8);
        uint64_t             loads[EXPERTS_MAX];

        request.seed = seed;
        count_loads(request, loads);
        for (uint32_t rank = 0; rank < 16; rank++) {
            empty[rank] += largest(loads + rank * 16, 16) == 0;
        }
    }
    for (uint32_t rank = 0; rank < 16; rank++) {
        assert_true(empty[rank] < 25);
        sum += empty[rank];
    }
    assert_in_range(sum, 40, 160);
}

static void test_value_refusals(void **state)
{
    (void)state;
    assert_refused(request_of("unifrom", 1), "unifrom", "uniform");
    assert_refused(request_of("zipf:-0.1", 1), "-0.1", "8");
    assert_refused(request_of("zipf:8.01", 1), "8.01", "8");
    assert_refused(request_of("zipf:nan", 1), "nan", "zipf");
    assert_refused(request_of("zipf", 1), "0 values where 1", "zipf:A");
    assert_refused(request_of("zipf:1:2", 1), "2 values where 1", "zipf:A");
    assert_refused(request_of("uniform:1", 1), "1 values where 0", "uniform");
    assert_refused(request_of("khot:0:0.5", 1), "khot N", "256");
    assert_refused(request_of("khot:257:0.5", 1), "257", "256");
    assert_refused(request_of("khot:4:1.1", 1), "1.1", "khot F");
    assert_refused(request_of("khot:4:-0.5", 1), "-0.5", "khot F");
    assert_refused(request_of("khot:4", 1), "1 values where 2", "khot:N:F");
    assert_refused(request_of("hot-rank:16:0.5", 1), "16", "15");
    assert_refused(request_of("hot-rank:-1:0.5", 1), "-1", "hot-rank R");
    assert_refused(request_of("hot-rank:1:2", 1), "hot-rank F", "2");
    assert_refused(request_of("lognormal:-1", 1), "-1", "MAXVIO");
    assert_refused(request_of("lognormal:31.5", 1), "31.5", "31");
    assert_refused(request_of("lognormal:inf", 1), "inf", "MAXVIO");
    assert_refused(request_of("", 1), "routing", "");
    assert_refused(request_of("trace:", 1), "names no file", "trace:FILE.npy");
    assert_refused(request_of("trace", 1), "names no file", "trace:FILE.npy");
}

static void test_size_refusals(void **state)
{
    k3_routing_request_t request = request_of("uniform", 1);

    (void)state;
    request.topk = 0;
    assert_refused(request, "top-k 0", "256 experts");
    request.topk = 257;
    assert_refused(request, "top-k 257", "256 experts");
    request.topk = K3_TOPK_MAX + 1;
    assert_refused(request, "top-k 65", "64");
    request = request_of("hot-rank:0:0.5", 1);
    request.ranks = 0;
    assert_refused(request, "256 experts", "0 ranks");
    request.ranks = 7;
    assert_refused(request, "256 experts", "7 ranks");
}

/* --- traces ---------------------------------------------------------------------------------- */

static void write_trace(k3_npy_type_t type, unsigned dims, uint64_t a, uint64_t b, uint64_t c,
                        const void *data)
{
    uint64_t   shape[3] = {a, b, c};
    k3_error_t err = K3_ERROR_INIT;

    assert_int_equal(k3_npy_write(path, type, dims, shape, data, &err), K3_OK);
}

static k3_routing_request_t trace_request(uint32_t topk, uint64_t rows)
{
    k3_routing_request_t request = request_of(trace_text, rows);

    request.topk = topk;
    return request;
}

static void test_P02_trace_is_replayed(void **state)
{
    static const int32_t data[4][2] = {{0, 255}, {9, 3}, {1, 0}, {7, 8}};
    k3_routing_t        *routing;
    char                 hash32[17], hash64[17];
    int64_t              wide[4][2];

    (void)state;
    write_trace(K3_NPY_I32, 2, 4, 2, 0, data);
    routing = create(trace_request(2, 4));
    for (uint64_t row = 0; row < 4; row++) {
        int32_t ids[2];

        k3_routing_row(routing, row, ids);
        assert_memory_equal(ids, data[row], sizeof(ids));
    }
    assert_int_equal(k3_routing_assignments(routing), 8);
    k3_routing_hash(routing, hash32);
    k3_routing_destroy(routing);

    for (int i = 0; i < 8; i++) {
        wide[i / 2][i % 2] = data[i / 2][i % 2];
    }
    write_trace(K3_NPY_I64, 3, 1, 4, 2, wide);
    routing = create(trace_request(2, 4));
    k3_routing_hash(routing, hash64);
    k3_routing_destroy(routing);
    assert_string_equal(hash32, hash64);
}

static void test_P03_minus_one_is_not_sent(void **state)
{
    static const int32_t data[3][3] = {{-1, 4, -1}, {-1, -1, -1}, {1, 2, 3}};
    k3_routing_t        *routing;
    int32_t              ids[3];

    (void)state;
    write_trace(K3_NPY_I32, 2, 3, 3, 0, data);
    routing = create(trace_request(3, 3));
    assert_int_equal(k3_routing_assignments(routing), 4);
    k3_routing_row(routing, 1, ids);
    assert_memory_equal(ids, data[1], sizeof(ids));
    k3_routing_destroy(routing);
}

static void test_O14_steps_are_used_one_after_the_other(void **state)
{
    static const int32_t data[2][3][2] = {{{0, 1}, {2, 3}, {4, 5}}, {{6, 7}, {-1, 0}, {1, 2}}};
    k3_routing_t        *routing;
    int32_t              ids[2];
    char                 both[17], one[17];

    (void)state;
    write_trace(K3_NPY_I32, 3, 2, 3, 2, data);
    routing = create(trace_request(2, 2)); /* the third row of each step is nobody's */
    assert_int_equal(k3_routing_steps(routing), 2);
    assert_true(k3_routing_is_given(routing));
    assert_int_equal(k3_routing_assignments(routing), 7);
    k3_routing_row(routing, 1, ids);
    assert_memory_equal(ids, data[0][1], sizeof(ids));
    k3_routing_hash(routing, both);
    k3_routing_select(routing, 1);
    k3_routing_row(routing, 1, ids);
    assert_memory_equal(ids, data[1][1], sizeof(ids));
    k3_routing_row(routing, 2, ids);
    assert_int_equal(ids[0], -1);
    k3_routing_hash(routing, one); /* of all steps, whichever is in force */
    assert_string_equal(one, both);
    k3_routing_destroy(routing);
    write_trace(K3_NPY_I32, 2, 3, 2, 0, data);
    routing = create(trace_request(2, 2));
    assert_int_equal(k3_routing_steps(routing), 1);
    k3_routing_hash(routing, one);
    assert_string_not_equal(one, both);
    k3_routing_destroy(routing);
    routing = create(request_of("uniform", 4));
    assert_int_equal(k3_routing_steps(routing), 1);
    assert_false(k3_routing_is_given(routing));
    k3_routing_destroy(routing);
}

/* N01: only rank 0 has tokens, all other rows are -1. */
static void test_N01_one_rank_has_tokens(void **state)
{
    static int32_t data[2048][2];
    k3_routing_t  *routing;

    (void)state;
    for (int row = 0; row < 2048; row++) {
        data[row][0] = row < 256 ? 0 : -1;
        data[row][1] = row < 256 ? 1 : -1;
    }
    write_trace(K3_NPY_I32, 2, 2048, 2, 0, data);
    routing = create(trace_request(2, 2048));
    assert_int_equal(k3_routing_assignments(routing), 512);
    k3_routing_destroy(routing);
}

static void test_P04_bad_ids(void **state)
{
    static const int32_t bad[] = {256, 261, -7, INT32_MIN, INT32_MAX};
    char                 number[32];

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        int32_t data[3][2] = {{0, 1}, {2, 3}, {4, 0}};

        data[2][1] = bad[i];
        write_trace(K3_NPY_I32, 2, 3, 2, 0, data);
        snprintf(number, sizeof(number), "row 2, slot 1: id %d ", bad[i]);
        assert_refused(trace_request(2, 3), number, path);
        /* The whole file is checked, used or not. */
        assert_refused(trace_request(2, 1), number, "0 to 255");
    }
}

/* Low halves that would be valid after a careless narrowing. */
static void test_P04_wide_ids(void **state)
{
    int64_t data[2][1][2] = {{{0, 1}}, {{5, (INT64_C(1) << 32) + 3}}};

    (void)state;
    write_trace(K3_NPY_I64, 3, 2, 1, 2, data);
    assert_refused(trace_request(2, 1), "step 1, row 0, slot 1: id 4294967299", path);
    data[1][0][1] = INT64_MIN;
    write_trace(K3_NPY_I64, 3, 2, 1, 2, data);
    assert_refused(trace_request(2, 1), "id -9223372036854775808", path);
}

static void test_trace_duplicates(void **state)
{
    static const int32_t data[2][4] = {{1, 2, 3, 4}, {9, -1, -1, 9}};

    (void)state;
    write_trace(K3_NPY_I32, 2, 2, 4, 0, data);
    assert_refused(trace_request(4, 2), "row 1: expert 9 twice, slots 0 and 3", path);
}

static void test_trace_shapes(void **state)
{
    static const int32_t data[64] = {0};

    (void)state;
    write_trace(K3_NPY_I32, 2, 4, 2, 0, data);
    assert_refused(trace_request(3, 4), "rows of 2 ids", "top-k is 3");
    assert_refused(trace_request(2, 5), "4 rows", "5 are needed");
    write_trace(K3_NPY_I32, 1, 8, 0, 0, data);
    assert_refused(trace_request(2, 4), "1 dimensions", "[rows, K]");
    write_trace(K3_NPY_I32, 3, 0, 4, 2, data);
    assert_refused(trace_request(2, 1), "0 rows", "1 are needed");
    k3_routing_destroy(create(trace_request(2, 0)));
}

static void test_O14_trace_types(void **state)
{
    static const char data[64] = {0};

    (void)state;
    write_trace(K3_NPY_F32, 2, 4, 2, 0, data);
    assert_refused(trace_request(2, 4), "float32", "int32 or int64");
    write_trace(K3_NPY_U8, 2, 4, 2, 0, data);
    assert_refused(trace_request(2, 4), "uint8", "int32 or int64");
    write_trace(K3_NPY_U16, 2, 4, 2, 0, data);
    assert_refused(trace_request(2, 4), "uint16", "int32 or int64");
}

static void test_trace_file_missing(void **state)
{
    k3_routing_request_t request = request_of("trace:/proc/nonexistent/a:b.npy", 4);
    k3_error_t           err = K3_ERROR_INIT;
    k3_routing_t        *routing;

    (void)state;
    assert_int_equal(k3_routing_create(&request, &routing, &err), K3_ERR_IO);
    assert_null(routing);
    assert_non_null(strstr(err.text, "/proc/nonexistent/a:b.npy"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distinct_ids),
        cmocka_unit_test(test_rows_do_not_depend_on_order),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_hash_is_portable),
        cmocka_unit_test(test_assignments),
        cmocka_unit_test(test_uniform_is_uniform),
        cmocka_unit_test(test_pairs_are_uniform),
        cmocka_unit_test(test_weighted_draw_is_exact),
        cmocka_unit_test(test_zipf_shares),
        cmocka_unit_test(test_S13_zipf_grows),
        cmocka_unit_test(test_S13_khot_share),
        cmocka_unit_test(test_khot_seed_moves_the_hot),
        cmocka_unit_test(test_hot_rank_share),
        cmocka_unit_test(test_N05_hot_rank_exhausted),
        cmocka_unit_test(test_S12_lognormal_reaches),
        cmocka_unit_test(test_lognormal_small_topk),
        cmocka_unit_test(test_S14_no_rank_is_left_out),
        cmocka_unit_test(test_value_refusals),
        cmocka_unit_test(test_size_refusals),
        cmocka_unit_test(test_P02_trace_is_replayed),
        cmocka_unit_test(test_P03_minus_one_is_not_sent),
        cmocka_unit_test(test_O14_steps_are_used_one_after_the_other),
        cmocka_unit_test(test_N01_one_rank_has_tokens),
        cmocka_unit_test(test_P04_bad_ids),
        cmocka_unit_test(test_P04_wide_ids),
        cmocka_unit_test(test_trace_duplicates),
        cmocka_unit_test(test_trace_shapes),
        cmocka_unit_test(test_O14_trace_types),
        cmocka_unit_test(test_trace_file_missing),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
