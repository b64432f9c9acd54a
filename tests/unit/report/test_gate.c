/* What gates keep of a record, sides of several launches, baselines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/report/baseline.h"
#include "bench/report/facts.h"
#include "bench/report/sides.h"
#include "tests/unit/report/report_test.h"

static k3_error_t              err;
static const k3_facts_wanted_t wanted = {.lanes = true};

/* A record with one cell whose members are `cell`, and how it started. */
static json_t *record_of(const char *started, const char *run, const char *cell)
{
    char text[4096];

    snprintf(
        text, sizeof(text),
        "{\"schema\": \"k3bench.result/1\", \"run\": {\"id\": \"%s\", \"started_utc\": \"%s\", "
        "\"git_sha\": \"abc\"}, "
        "\"fingerprint\": "
        "{\"key\": \"m\", \"stable\": {\"cores\": 2}}, \"cells\": [{\"key\": \"a/x\", \"backend\": "
        "\"a\", \"mode\": \"\", \"component\": \"region\", \"model\": {}, \"layout\": {}, "
        "\"work\": {\"routing_hash\": \"r\"}, "
        "%s}]}",
        run, started, cell);
    return parse_json(text);
}

static json_t *facts_of(const char *run, const char *cell)
{
    json_t *record = record_of("2026-01-31T12:00:00Z", run, cell), *facts;

    k3_error_clear(&err);
    assert_int_equal(k3_facts_of("r.json", record, &wanted, &facts, &err), K3_OK);
    json_decref(record);
    return facts;
}

#define GOOD(us)                                                                                   \
    "\"status\": \"ok\", \"check\": {\"state\": \"ok\"}, \"phases\": [{\"name\": \"region\", "     \
    "\"median\": " us "}]"

static const json_t *first_cell(const json_t *facts)
{
    return json_array_get(json_object_get(facts, "cells"), 0);
}

static void expect_state(const char *cell, const char *state, const char *reason)
{
    json_t       *facts = facts_of("r", cell);
    const json_t *c = first_cell(facts);

    assert_string_equal(text_at(c, "state"), state);
    if (reason != NULL) {
        assert_string_equal(text_at(c, "reason"), reason);
        assert_true(json_is_null(at(c, "us")));
    }
    json_decref(facts);
}

static void test_states(void **state)
{
    (void)state;
    expect_state(GOOD("3.5"), "ok", NULL);
    expect_state("\"status\": \"failed\", \"reason\": \"no\", \"phases\": null", "broken",
                 "failed: no");
    expect_state("\"status\": \"ok\", \"check\": {\"state\": \"wrong\"}, \"phases\": []", "broken",
                 "check: no reason is given");
    expect_state("\"status\": \"unsupported\", \"reason\": \"wide\", \"phases\": null", "none",
                 "unsupported: wide");
    expect_state("\"status\": \"ok\", \"check\": {\"state\": \"ok\"}, \"phases\": []", "none",
                 "it has no time of phase region");
}

static bool is_control(const char *members)
{
    char    cell[512];
    json_t *facts;
    bool    control;

    snprintf(cell, sizeof(cell), "%s, \"status\": \"skipped\", \"phases\": null", members);
    facts = facts_of("r", cell);
    control = json_is_true(at(first_cell(facts), "control"));
    json_decref(facts);
    return control;
}

static void test_control(void **state)
{
    (void)state;
    assert_true(is_control("\"path\": {\"moves_rows\": false}"));
    assert_false(is_control("\"path\": {\"moves_rows\": true}"));
    assert_false(is_control("\"path\": {}"));
}

static void test_when_and_where(void **state)
{
    static const char *const wrong[] = {"", "2026-01-31", "2026-01-31T12:00:00",
                                        "2026-01-31 12:00:00Z", "2026-01-31T12:00:00Zz"};
    json_t                  *facts;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        json_t *record = record_of(wrong[i], "r", GOOD("1"));

        k3_error_clear(&err);
        assert_int_equal(k3_facts_of("r.json", record, &wanted, &facts, &err), K3_OK);
        assert_int_equal(k3_facts_placed("r.json", facts, &err), K3_ERR_IO);
        json_decref(facts);
        json_decref(record);
    }
}

/* Lanes that leave their rank, by phase; a record that kept only some of them says nothing. */
static void test_lanes(void **state)
{
    static const char lanes[] =
        GOOD("1") ", \"qps\": {\"columns\": [\"phase\", \"lane\", \"bytes_wire\", \"busy_us\"], "
                  "%s\"rows\": ["
                  "[\"dispatch\", \"self\", 900, 90], [\"dispatch\", \"qp\", 100, 3], "
                  "[\"dispatch\", \"p2p\", 300, 1],"
                  "[\"notify\", \"qp\", 1, 50], [\"combine\", \"qp\", 5, null]]}";
    char    cell[1024];
    json_t *facts;

    (void)state;
    snprintf(cell, sizeof(cell), lanes, "");
    facts = facts_of("r", cell);
    const json_t *b = at(first_cell(facts), "balance");
    assert_true(json_number_value(json_object_get(b, "dispatch.bytes_max_over_mean")) == 1.5);
    assert_true(json_number_value(json_object_get(b, "dispatch.bytes_gini")) == 0.25);
    assert_true(json_number_value(json_object_get(b, "dispatch.busy_max_over_mean")) == 1.5);
    assert_true(json_number_value(json_object_get(b, "combine.bytes_gini")) == 0.0);
    assert_null(json_object_get(b, "combine.busy_gini"));
    json_decref(facts);

    snprintf(cell, sizeof(cell), lanes, "\"lanes_total\": 9, \"lanes_kept\": 5, ");
    facts = facts_of("r", cell);
    assert_int_equal(json_object_size(at(first_cell(facts), "balance")), 0);
    json_decref(facts);
}

/* The launch is the unit: a cell that it holds several times counts once, with the median of those with a time. */
static void test_attempts(void **state)
{
    static const char more[] = GOOD(
        "5") "}, {\"key\": \"a/x\", \"backend\": \"a\", \"component\": \"region\", "
             "\"model\": {}, \"layout\": {}, " GOOD(
                 "1") "}, {\"key\": \"a/x\", "
                      "\"backend\": \"a\", \"model\": {}, \"layout\": {}, \"status\": \"failed\", "
                      "\"reason\": \"no\", \"phases\": null}, {\"key\": \"a/x\", \"backend\": "
                      "\"a\", "
                      "\"component\": \"region\", \"model\": {}, \"layout\": {}, " GOOD("3");
    json_t *side = json_object(), *facts = facts_of("r1", more), *entry;

    (void)state;
    k3_side_add(side, facts);
    json_decref(facts);
    facts = facts_of("r2", GOOD("7"));
    k3_side_add(side, facts);
    json_decref(facts);
    entry = json_object_get(side, "a/x");
    assert_int_equal(json_array_size(at(entry, "us")), 2);
    assert_int_equal(json_array_size(at(entry, "runs")), 2);
    assert_true(json_number_value(json_array_get(at(entry, "us"), 0)) == 3.0);
    assert_true(json_number_value(json_array_get(at(entry, "us"), 1)) == 7.0);
    assert_string_equal(k3_side_wrong(entry), "failed: no");
    json_decref(side);
}

static void expect_differ(const char *base, const char *fresh, bool backends, const char *why)
{
    json_t *sides[2] = {json_object(), json_object()}, *facts;
    char    text[320] = "";

    facts = facts_of("r1", base);
    k3_side_add(sides[0], facts);
    json_decref(facts);
    facts = facts_of("r2", fresh);
    k3_side_add(sides[1], facts);
    assert_int_equal(k3_sides_differ(json_object_get(sides[0], "a/x"),
                                     json_object_get(sides[1], "a/x"), backends, text,
                                     sizeof(text)),
                     why != NULL);
    assert_string_equal(text, why != NULL ? why : "");

    /* Within one side it is the same fault. */
    k3_side_add(sides[0], facts);
    json_decref(facts);
    assert_int_equal(k3_side_mixed(json_object_get(sides[0], "a/x"), backends) != NULL,
                     why != NULL);
    json_decref(sides[0]);
    json_decref(sides[1]);
}

/* S07: how a cell was measured must agree; what an older record does not say is not held against it. */
static void test_how(void **state)
{
    (void)state;
    expect_differ(GOOD("1"), GOOD("2"), false, NULL);
    expect_differ(GOOD("1") ", \"sync\": {\"method\": \"round\"}",
                  GOOD("1") ", \"sync\": {\"method\": \"barrier\"}", false,
                  "measured differently: sync.method is round and barrier");
    expect_differ(GOOD("1") ", \"sync\": {\"method\": \"round\"}", GOOD("1") ", \"sync\": null",
                  false, NULL);
    expect_differ(GOOD("1") ", \"qps\": {\"transport\": \"tcp\"}",
                  GOOD("1") ", \"qps\": {\"transport\": \"shm\"}", false,
                  "measured differently: qps.transport is tcp and shm");
    expect_differ(GOOD("1") ", \"qps\": {\"transport\": \"tcp\"}",
                  GOOD("1") ", \"qps\": {\"transport\": \"shm\"}", true, NULL);
}

static void add(k3_launches_t *l, const char *run, const char *cell)
{
    json_t *facts = facts_of(run, cell);

    assert_int_equal(k3_launches_add(l, run, facts, &err), K3_OK);
    json_decref(facts);
}

static void test_promotion(void **state)
{
    static const k3_promotion_t p = {"me", "2026-02-01T00:00:00Z", "it is good"};
    k3_launches_t               good, bad, none;
    json_t                     *baseline = NULL;
    const json_t               *found;

    (void)state;
    k3_error_clear(&err);
    assert_int_equal(k3_launches_open(&good, &err), K3_OK);
    assert_int_equal(k3_launches_open(&bad, &err), K3_OK);
    assert_int_equal(k3_launches_open(&none, &err), K3_OK);
    add(&good, "r2", GOOD("3"));
    add(&good, "r1", GOOD("5"));
    assert_int_equal(k3_baseline_promote(&baseline, &good, &p, &err), K3_OK);
    assert_int_equal(k3_baseline_promote(&baseline, &good, &p, &err), K3_OK);
    found = k3_baseline_find(baseline, "m");
    assert_int_equal(int_at(found, "number"), 2);
    assert_int_equal(json_array_size(json_object_get(found, "added")), 0);
    assert_string_equal(text_at(json_array_get(json_object_get(found, "launches"), 0), "run"),
                        "r1");
    assert_int_equal(
        json_array_size(at(json_object_get(json_object_get(found, "cells"), "a/x"), "us")), 2);
    assert_null(k3_baseline_find(baseline, "n"));
    assert_null(k3_baseline_find(NULL, "m"));

    add(&bad, "r3", "\"status\": \"failed\", \"reason\": \"no\", \"phases\": null");
    assert_int_equal(k3_baseline_promote(&baseline, &bad, &p, &err), K3_ERR_CHECK);
    assert_non_null(strstr(err.text, "a/x"));
    k3_error_clear(&err);
    add(&none, "r4", "\"status\": \"skipped\", \"phases\": null");
    assert_int_equal(k3_baseline_promote(&baseline, &none, &p, &err), K3_ERR_USAGE);
    assert_int_equal(json_array_size(json_object_get(baseline, "promotions")), 2);
    json_decref(baseline);
    k3_launches_close(&good);
    k3_launches_close(&bad);
    k3_launches_close(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states),         cmocka_unit_test(test_control),
        cmocka_unit_test(test_when_and_where), cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_attempts),       cmocka_unit_test(test_how),
        cmocka_unit_test(test_promotion),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
