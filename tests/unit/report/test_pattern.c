/* Patterns planted into made-up lanes and waits, 20 times each with other noise: the right name and the
 * right culprit every time. */
#include "report_test.h"

#include <math.h>

#include "bench/report/pattern.h"
#include "harness/base/keyed.h"

enum { RANKS = 8, QPS = 4, TIMES = 20 };

static const int two_nodes[RANKS] = {0, 0, 0, 0, 1, 1, 1, 1};

typedef struct plant {
    int late_rank, late_node, slow_receiver, slow_src, slow_dst, slow_qp, hot_rank,
        slow_link; /* -1 */
    double late_us, lane_factor;
} plant_t;

static const plant_t nothing = {-1, -1, -1, -1, -1, -1, -1, -1, 0.0, 1.0};

/* Between 0 and 1. */
static double noise(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    return (double)(k3_key(k3_key(k3_key(k3_key(1, seed), a), b), c) >> 11) * 0x1p-53;
}

static double wait_of(const plant_t *p, uint64_t seed, int dst, int src)
{
    double us = 40.0 + 30.0 * noise(seed, (uint64_t)dst, (uint64_t)src, 1);

    if (dst == src) {
        return 0.5;
    }
    us += src == p->late_rank || src == p->hot_rank ? p->late_us : 0.0;
    us += p->late_node >= 0 && two_nodes[src] == p->late_node ? p->late_us : 0.0;
    us += dst == p->slow_receiver ? p->late_us : 0.0;
    us += p->slow_src == src ? p->lane_factor : 0.0; /* its rank is late because of it */
    return us;
}

static void add_lane(json_t *rows, const plant_t *p, uint64_t seed, int src, int dst, int qp)
{
    double p50 = 0.4 + 0.2 * noise(seed, (uint64_t)(src * RANKS + dst), (uint64_t)qp, 2);
    int    messages = 4, bytes = messages * 280 * (dst == p->hot_rank ? 6 : 1);

    if (src == p->slow_src && dst == p->slow_dst && qp == p->slow_qp) {
        p50 *= p->lane_factor;
    }
    if (p->slow_link >= 0 && two_nodes[src] == p->slow_link && two_nodes[dst] != p->slow_link) {
        p50 *= p->lane_factor;
    }
    json_array_append_new(rows,
                          json_pack("[s, i, i, i, s, i, i, i, i, i, f, f, f, f, f, f]", "dispatch",
                                    src, dst, qp, src == dst ? "self" : "qp", messages, 1, 2, bytes,
                                    bytes, 1.0, 90.0, p50 * messages, p50, 3.0 * p50, 9.0 * p50));
}

static json_t *cell_with(const plant_t *p, uint64_t seed)
{
    json_t *waits = json_array(), *lanes = json_array();

    for (int dst = 0; dst < RANKS; dst++) {
        for (int src = 0; src < RANKS; src++) {
            json_array_append_new(waits, json_pack("[s, i, i, f, f, i]", "dispatch", dst, src,
                                                   10.0 * wait_of(p, seed, dst, src), 900.0, 10));
            for (int qp = 0; qp < QPS; qp++) {
                add_lane(lanes, p, seed, src, dst, qp);
            }
        }
    }
    return json_pack("{s:{s:i}, s:[{s:s, s:f}], s:{s:o, s:o}, s:{s:o, s:o}}", "layout", "tp", RANKS,
                     "phases", "name", "dispatch", "median", 300.0, "waits", "columns",
                     wait_columns(), "rows", waits, "qps", "columns", lane_columns(), "rows",
                     lanes);
}

static void expect_pattern(const plant_t *p, const char *name, const char *member, int culprit)
{
    for (uint64_t seed = 1; seed <= TIMES; seed++) {
        json_t *cell = cell_with(p, seed), *found = k3_pattern_of(cell, two_nodes, false);

        if (strcmp(text_at(found, "name"), name) != 0) {
            fail_msg("seed %d: %s", (int)seed, text_at(found, "text"));
        }
        if (member != NULL) {
            assert_int_equal(int_at(found, member), culprit);
            assert_true(json_number_value(at(found, "share")) > 0.0);
        }
        json_decref(found);
        json_decref(cell);
    }
}

static void test_nothing(void **state)
{
    (void)state;
    expect_pattern(&nothing, "none", NULL, 0);
}

static void test_late_rank(void **state)
{
    plant_t p = nothing;

    (void)state;
    p.late_rank = 3;
    p.late_us = 120.0;
    expect_pattern(&p, "late rank", "rank", 3);
}

/* A few long iterations raise the mean of the waits, and of the phase: its median is no measure of them. */
static void test_share_of_the_mean(void **state)
{
    static const struct {
        double      late_us, mean_us;
        const char *name;
        double      share;
    } cases[] = {{120.0, 2000.0, "none", 0.0},
                 {2400.0, 3000.0, "late rank", 0.89},
                 {9000.0, 300.0, "late rank", 1.0}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        plant_t p = nothing;
        json_t *cell, *found;

        p.late_rank = 3;
        p.late_us = cases[i].late_us;
        cell = cell_with(&p, 1);
        json_object_set_new(json_array_get(json_object_get(cell, "phases"), 0), "mean",
                            json_real(cases[i].mean_us));
        found = k3_pattern_of(cell, two_nodes, false);
        assert_string_equal(text_at(found, "name"), cases[i].name);
        assert_true(fabs(json_number_value(at(found, "share")) - cases[i].share) < 0.03);
        json_decref(found);
        json_decref(cell);
    }
}

/* Ranks of a core are let in one after the other: what would be lateness elsewhere is no finding there. */
static void test_late_rank_of_a_shared_core(void **state)
{
    static const struct {
        double      late_us;
        const char *name;
    } cases[] = {{120.0, "none"}, {240.0, "late rank"}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        plant_t p = nothing;
        json_t *cell, *found;

        p.late_rank = 3;
        p.late_us = cases[i].late_us;
        cell = cell_with(&p, 1);
        found = k3_pattern_of(cell, two_nodes, true);
        assert_string_equal(text_at(found, "name"), cases[i].name);
        json_decref(found);
        json_decref(cell);
    }
}

static void test_slow_node(void **state)
{
    plant_t p = nothing;

    (void)state;
    p.late_node = 1;
    p.late_us = 120.0;
    expect_pattern(&p, "slow node", "node", 1);
}

/* Seen in the lanes, also of two nodes; the ranks that are late because of it are no finding of their own. */
static void test_slow_link(void **state)
{
    plant_t p = nothing;

    (void)state;
    p.slow_link = 1;
    p.lane_factor = 20.0;
    p.late_rank = 5;
    p.late_us = 120.0;
    expect_pattern(&p, "slow node", "node", 1);
}

static void test_slow_receiver(void **state)
{
    plant_t p = nothing;

    (void)state;
    p.slow_receiver = 6;
    p.late_us = 120.0;
    expect_pattern(&p, "slow receiver", "rank", 6);
}

static void test_slow_lane(void **state)
{
    plant_t p = nothing;

    (void)state;
    p.slow_src = 0;
    p.slow_dst = 5;
    p.slow_qp = 2;
    p.lane_factor = 60.0;
    for (uint64_t seed = 1; seed <= TIMES; seed++) {
        json_t *cell = cell_with(&p, seed), *found = k3_pattern_of(cell, two_nodes, false);
        json_t *lane = at(found, "lane");

        assert_string_equal(text_at(found, "name"), "slow lane");
        assert_int_equal(json_integer_value(json_array_get(lane, 0)), 0);
        assert_int_equal(json_integer_value(json_array_get(lane, 1)), 5);
        assert_int_equal(json_integer_value(json_array_get(lane, 2)), 2);
        json_decref(found);
        json_decref(cell);
    }
}

static void test_S12_skewed_routing(void **state)
{
    plant_t p = nothing;

    (void)state;
    p.hot_rank = 2;
    p.late_us = 150.0;
    expect_pattern(&p, "skewed routing", "rank", 2);
}

/* The name of what is found between two ranks, the mean waits of each for the other given. */
static void expect_between_two(double first_us, double second_us, const char *name)
{
    json_t *rows = json_pack("[[s, i, i, f, f, i], [s, i, i, f, f, i]]", "dispatch", 0, 1,
                             900.0 + 9.0 * first_us, 900.0, 10, "dispatch", 1, 0,
                             900.0 + 9.0 * second_us, 900.0, 10);
    json_t *cell =
        json_pack("{s:{s:i}, s:[{s:s, s:f}], s:{s:o, s:o}}", "layout", "tp", 2, "phases", "name",
                  "dispatch", "median", 300.0, "waits", "columns", wait_columns(), "rows", rows);
    json_t *found = k3_pattern_of(cell, NULL, false);

    assert_string_equal(text_at(found, "name"), name);
    json_decref(found);
    json_decref(cell);
}

/* With one other rank there is no spread to stand out from. */
static void test_two_ranks(void **state)
{
    (void)state;
    expect_between_two(120.0, 40.0, "none");
    expect_between_two(40.0, 200.0, "none");
    expect_between_two(20.0, 160.0, "late rank");
}

/* Without lanes and waits there is nothing to tell; what is empty or of another shape does no harm. */
static void test_absent(void **state)
{
    static const char *const cells[] = {
        "{\"layout\": {\"tp\": 4}, \"waits\": null, \"qps\": null}",
        "{\"layout\": {}, \"waits\": {\"rows\": []}}",
        "{\"layout\": {\"tp\": -3}, \"waits\": {\"rows\": []}}",
        "{\"layout\": {\"tp\": 99999999}, \"waits\": {\"rows\": []}}",
    };
    json_t *cell, *found;

    (void)state;
    for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
        cell = parse_json(cells[i]);
        assert_null(k3_pattern_of(cell, NULL, false));
        json_decref(cell);
    }
    cell = parse_json(
        "{\"layout\": {\"tp\": 2}, \"phases\": [{\"name\": \"dispatch\", \"median\": 5}],"
        "\"waits\": {\"columns\": [\"phase\", \"dst\", \"src\", \"sum_us\", \"max_us\", "
        "\"count\"], "
        "\"rows\": [[\"dispatch\", 7, -1, 3.0, 1.0, 4], 5, [null]]},"
        "\"qps\": {\"columns\": [\"phase\", \"src\", \"dst\"], \"rows\": [[\"dispatch\", 9, 9], "
        "{}]}}");
    found = k3_pattern_of(cell, NULL, false);
    assert_string_equal(text_at(found, "name"), "none");
    json_decref(found);
    json_decref(cell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_late_rank),
        cmocka_unit_test(test_share_of_the_mean),
        cmocka_unit_test(test_late_rank_of_a_shared_core),
        cmocka_unit_test(test_slow_node),
        cmocka_unit_test(test_slow_link),
        cmocka_unit_test(test_slow_receiver),
        cmocka_unit_test(test_slow_lane),
        cmocka_unit_test(test_S12_skewed_routing),
        cmocka_unit_test(test_two_ranks),
        cmocka_unit_test(test_absent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
