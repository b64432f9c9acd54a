/* The sentences below the table: when they stand there and what they say. */
#include "tests/unit/report/report_test.h"

#include "bench/report/doubts.h"
#include "bench/report/html.h"
#include "bench/report/markdown.h"
#include "bench/report/table.h"

static json_t *cell_with(json_t *trend, json_t *sync, json_t *instrument, const char *span_reason)
{
    json_t *cell =
        json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:[{s:s, s:i, s:f}]}", "backend", "mooncake",
                  "mode", "", "component", "region", "status", "ok", "trend", trend, "sync", sync,
                  "instrument", instrument, "phases", "name", "region", "n", 40, "median", 12.5);

    if (span_reason != NULL) {
        json_object_set_new(json_array_get(json_object_get(cell, "phases"), 0), "span_reason",
                            json_string(span_reason));
    }
    return cell;
}

static void none_without_cause(void **state)
{
    json_t *cell =
        cell_with(json_pack("{s:b, s:f, s:f}", "stationary", 1, "slope_pct", 0.5, "p", 0.4),
                  json_pack("{s:i, s:f}", "late", 0, "late_max_us", 0.0), json_null(), NULL);
    k3_doubts_t d;

    (void)state;
    k3_doubts(cell, &d);
    assert_int_equal(d.count, 0);
    json_decref(cell);
    cell = json_object(); /* a cell that was refused */
    k3_doubts(cell, &d);
    assert_int_equal(d.count, 0);
    json_decref(cell);
}

static json_t *doubtful_cell(void)
{
    return cell_with(
        json_pack("{s:b, s:f, s:f}", "stationary", 0, "slope_pct", -12.34, "p", 0.0012),
        json_pack("{s:i, s:f}", "late", 3, "late_max_us", 51.25),
        json_pack("{s:f, s:[f, f]}", "difference_pct", 1.26, "ci95_pct", -0.31, 2.44),
        "a clock jumped");
}

static void all_of_them(void **state)
{
    static const char *const want[] = {"not stationary: -12.3 % from begin to end (p 0.0012)",
                                       "late starts: 3 of 40, by 51.2 us at most",
                                       "no span: a clock jumped",
                                       "accounts cost +1.26 % [-0.31, +2.44]"};
    json_t                  *cell = doubtful_cell();
    k3_doubts_t              d;

    (void)state;
    k3_doubts(cell, &d);
    assert_int_equal(d.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(d.text[i], want[i]);
    }
    json_decref(cell);
}

/* Plain numbers; a cost of the accounts that nobody knows is not told. */
static void large_and_unknown(void **state)
{
    static const struct {
        double low, high;
        size_t count;
    } costs[] = {{-11.0, 8.9, 2}, {-11.0, 9.1, 1}, {-2360.0, 824.0, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++) {
        json_t *cell =
            cell_with(json_null(), json_pack("{s:i, s:f}", "late", 2, "late_max_us", 4020.4),
                      json_pack("{s:f, s:[f, f]}", "difference_pct", -1.234, "ci95_pct",
                                costs[i].low, costs[i].high),
                      NULL);
        k3_doubts_t d;

        k3_doubts(cell, &d);
        assert_int_equal(d.count, costs[i].count);
        assert_string_equal(d.text[0], "late starts: 2 of 40, by 4020 us at most");
        if (d.count > 1) {
            assert_string_equal(d.text[1], "accounts cost -1.23 % [-11, +8.9]");
        }
        json_decref(cell);
    }
}

/* A load of more than a quarter of the cores, of the minute before: in all three. */
static void busy_machine(void **state)
{
    static const char want[] = "busy machine: load 0.51 on 2 cores when the launch began";
    json_t           *document = json_pack("{s:[o], s:{s:{s:i}, s:{s:i, s:f, s:[f]}}}", "cells",
                                           doubtful_cell(), "fingerprint", "stable", "cores", 1, "volatile",
                                           "cores_online", 2, "load_at_start", 0.51, "load", 0.0);
    char             *text = NULL, doubt[160];

    (void)state;
    CAPTURE(text, k3_table_print(document, out, false));
    assert_non_null(strstr(text, want));
    free(text);
    CAPTURE(text, k3_report_markdown(&document, 1, out));
    assert_non_null(strstr(text, want));
    free(text);
    CAPTURE(text, k3_report_html(&document, 1, 1, out));
    assert_non_null(strstr(text, want));
    free(text);
    json_object_set_new(at(document, "fingerprint.volatile"), "load_at_start", json_real(0.5));
    assert_false(k3_busy_doubt(document, doubt, sizeof(doubt)));
    /* The load at the end is that of the ranks. */
    json_object_del(at(document, "fingerprint.volatile"), "load_at_start");
    json_object_set_new(at(document, "fingerprint.volatile"), "load", json_pack("[f]", 8.0));
    assert_false(k3_busy_doubt(document, doubt, sizeof(doubt)));
    json_decref(document);
}

static void in_table_and_markdown(void **state)
{
    json_t *document =
        json_pack("{s:[o], s:{s:b}}", "cells", doubtful_cell(), "topology", "oversubscribed", 0);
    char *table = NULL, *markdown = NULL;

    (void)state;
    CAPTURE(table, k3_table_print(document, out, false));
    CAPTURE(markdown, k3_report_markdown(&document, 1, out));
    assert_non_null(strstr(table, "not stationary: -12.3 %"));
    assert_non_null(strstr(table, "late starts: 3 of 40"));
    assert_non_null(strstr(markdown, "- mooncake: not stationary: -12.3 %"));
    assert_non_null(strstr(markdown, "accounts cost +1.26 % \\[-0.31, +2.44\\]"));
    free(markdown);
    free(table);
    json_decref(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_without_cause),    cmocka_unit_test(all_of_them),
        cmocka_unit_test(in_table_and_markdown), cmocka_unit_test(large_and_unknown),
        cmocka_unit_test(busy_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
