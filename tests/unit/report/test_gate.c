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
        cmocka_unit_test(test_promotion),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
