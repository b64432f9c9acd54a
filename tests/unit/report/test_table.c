#include "tests/unit/report/report_test.h"

#include "bench/report/cellview.h"
#include "bench/report/table.h"

/* A measured cell. */
typedef struct shape {
    const char *backend, *mode, *model, *state, *status;
    int         size, rows;
    double      us, ratio;
    bool        moves_nothing;
} shape_t;

static const shape_t usual = {.backend = "mooncake",
                              .mode = "",
                              .model = "tiny",
                              .state = "ok",
                              .status = "ok",
                              .size = 8,
                              .rows = 16,
                              .us = 12.0,
                              .ratio = 1.0};

static json_t *phase(const char *name, double us)
{
    return json_pack("{s:s, s:f, s:[f, f], s:i}", "name", name, "median", us, "ci95", us * 0.9,
                     us * 1.1, "slowest_rank", 3);
}

static json_t *cell_like(const shape_t *s)
{
    return json_pack(
        "{s:s, s:s, s:{s:s}, s:s, s:{s:i, s:i, s:i}, s:{s:b, s:b}, s:{s:i, s:i}, s:s, s:n, "
        "s:{s:f, s:s, s:{s:f, s:f, s:n}}, s:{s:s}, s:[o, o, o, o], s:[{s:s, s:s, s:f}]}",
        "backend", s->backend, "mode", s->mode, "model", "name", s->model, "component", "region",
        "layout", "tp", s->size, "dp", s->size, "ep", s->size, "path", "fast", 1, "moves_rows",
        !s->moves_nothing, "tokens", "max", s->rows, "asked", s->rows, "status", s->status,
        "reason", "work", "dispatch_ratio", s->ratio, "routing_hash", "h", "imbalance", "expert",
        1.5, "rank", 1.25, "qp", "check", "state", s->state, "phases", phase("dispatch", s->us),
        phase("expert_mlp", s->us), phase("combine", s->us), phase("region", s->us), "rates",
        "name", "dispatch", "basis", "wire", "GBps", s->us);
}

static json_t *document_of(json_t *cells)
{
    return json_pack("{s:o, s:{s:b}}", "cells", cells, "topology", "oversubscribed", 0);
}

/* Not inlined: the compiler takes what is found in the text for a pointer to the local variable. */
__attribute__((noinline)) static char *table_of(json_t *doc, bool colour)
{
    char *text = NULL;

    CAPTURE(text, k3_table_print(doc, out, colour));
    return text;
}

__attribute__((noinline)) static char *plan_of(json_t *cells)
{
    char *text = NULL;

    CAPTURE(text, k3_table_plan(cells, out));
    return text;
}

/* The widest of the first n lines; reasons below the table may be long. */
static void assert_fits(const char *text, size_t lines)
{
    for (size_t i = 0; i < lines && *text != '\0'; i++) {
        size_t length = strcspn(text, "\n");

        if (length > 120) {
            fail_msg("%zu columns: %.*s", length, (int)length, text);
        }
        text += length + 1;
    }
}

static const char *line_with(const char *text, const char *part)
{
    const char *found = strstr(text, part);
    size_t      begin;

    if (found == NULL) {
        fail_msg("no \"%s\" in:\n%s", part, text);
    }
    begin = (size_t)(found - text);
    while (begin > 0 && text[begin - 1] != '\n') {
        begin--;
    }
    return text + begin;
}

/* --- width ----------------------------------------------------------------------------------- */

static void test_usual_table_fits(void **state)
{
    json_t *doc = document_of(json_pack("[o]", cell_like(&usual)));
    char   *text = table_of(doc, false);

    (void)state;
    assert_fits(text, 4);
    free(text);
    json_decref(doc);
}

static void test_wide_table_fits(void **state)
{
    static const shape_t wide = {.backend = "flashinfer_megamoe",
                                 .mode = "",
                                 .model = "kimi-k3-mini:E=112,K=16,H=1024,L=512,I=384,S=768",
                                 .state = "not checked",
                                 .status = "ok",
                                 .size = 65536,
                                 .rows = 16777216,
                                 .us = 1.2e10,
                                 .ratio = 65536.0};
    json_t              *doc = document_of(json_pack("[o]", cell_like(&wide)));
    char                *text = table_of(doc, false);

    (void)state;
    assert_fits(text, 4);
    free(text);
    json_decref(doc);
}

static void test_plan_table_fits(void **state)
{
    k3_cell_request_t request = request_of("deepep:ll", "kimi-k3", 32);
    json_t           *cells = json_pack("[o]", planned_of(request));
    char             *text = plan_of(cells);

    (void)state;
    assert_fits(text, 3);
    free(text);
    json_decref(cells);
}

static void test_wide_plan_table_fits(void **state)
{
    json_t *cells = json_array(), *cell = planned_of(request_of("deepep:ll", "tiny", 8));
    char   *text;

    (void)state;
    json_object_set_new(cell, "backend", json_string("flashinfer_megamoe"));
    json_object_set_new(cell, "mode", json_string("somemode"));
    json_object_set_new(cell, "layout",
                        parse_json("{\"tp\": 65536, \"dp\": 65536, \"ep\": 65536, \"cp\": 65536}"));
    json_object_set_new(json_object_get(cell, "work"), "rows_global", json_integer(1099511627776));
    json_object_set_new(json_object_get(cell, "work"), "dispatch_ratio", json_real(65536.0));
    json_object_set_new(at(cell, "traffic.dispatch"), "messages", json_integer(70368744177664));
    json_object_set_new(at(cell, "traffic.dispatch"), "signals", json_integer(68719476736));
    json_array_append_new(cells, cell);
    text = plan_of(cells);
    assert_fits(text, 3);
    free(text);
    json_decref(cells);
}

/* --- content --------------------------------------------------------------------------------- */

/* Words of the line, or those that are `only`. */
static size_t words_of(const char *line, const char *only)
{
    char   copy[400];
    size_t words = 0;

    snprintf(copy, sizeof(copy), "%.*s", (int)strcspn(line, "\n"), line);
    for (char *w = strtok(copy, " "); w != NULL; w = strtok(NULL, " ")) {
        words += only == NULL || strcmp(w, only) == 0;
    }
    return words;
}

static size_t words_at(double us)
{
    shape_t s = usual;
    json_t *doc;
    char   *text;
    size_t  words;

    s.us = us;
    doc = document_of(json_pack("[o]", cell_like(&s)));
    text = table_of(doc, false);
    words = words_of(line_with(text, s.backend), NULL);
    free(text);
    json_decref(doc);
    return words;
}

/* Numbers stand apart from each other, whatever their size. */
static void test_columns_stay_apart(void **state)
{
    static const double times[] = {0.0, 0.004, 9.999, 99.994, 999.94, 1e4, 1e6, 99999999.0, 1e12};

    (void)state;
    for (unsigned i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        assert_int_equal(words_at(times[i]), words_at(12.0));
    }
}

static void test_Q17_fastest_by_its_median_is_marked(void **state)
{
    shape_t slow = usual, off = usual, bad = usual;
    json_t *doc;
    char   *text;

    (void)state;
    slow.us = 20.0;
    slow.backend = "slowone";
    off.us = 1.0;
    off.backend = "null";
    off.moves_nothing = true;
    bad.us = 2.0;
    bad.backend = "badone";
    bad.status = "failed";
    doc = document_of(json_pack("[o, o, o, o]", cell_like(&slow), cell_like(&usual),
                                cell_like(&off), cell_like(&bad)));
    text = table_of(doc, true);
    assert_true(strncmp(line_with(text, "mooncake"), "\033[32m", 5) == 0);
    assert_true(strncmp(line_with(text, "slowone"), "\033", 1) != 0);
    assert_true(strncmp(line_with(text, "badone"), "\033[31m", 5) == 0);
    assert_non_null(strstr(line_with(text, "badone"), "FAILED"));
    free(text);
    text = table_of(doc, false);
    assert_null(strchr(text, '\033'));
    free(text);
    json_decref(doc);
}

/* U08: a phase that a path does not have is a dash, not 0. */
static void test_U08_absent_is_a_dash(void **state)
{
    json_t     *cell = cell_like(&usual);
    json_t     *doc;
    char       *text;
    const char *line;

    (void)state;
    json_array_remove(json_object_get(cell, "phases"), 0); /* dispatch */
    json_object_set_new(cell, "rates", json_array());
    json_object_set_new(json_object_get(cell, "work"), "dispatch_ratio", json_null());
    doc = document_of(json_pack("[o]", cell));
    text = table_of(doc, false);
    line = line_with(text, "mooncake");
    assert_int_equal(words_of(line, "-"), 3); /* ratio, dispatch, rate */
    assert_int_equal(words_of(line, "0"), 0);
    free(text);
    json_decref(doc);
}

/* Without a dispatch there are no messages to count: dashes, not 0. */
static void test_plan_without_dispatch(void **state)
{
    json_t     *cells = json_pack("[o]", planned_of(request_of("none", "tiny", 8)));
    char       *text = plan_of(cells);
    const char *line = line_with(text, "none");

    (void)state;
    assert_int_equal(words_of(line, "0"), 0);
    assert_int_equal(words_of(line, "-"), 5); /* path, ratio, messages, signals, wire */
    free(text);
    json_decref(cells);
}

static void test_S12_imbalance_below(void **state)
{
    json_t *doc = document_of(json_pack("[o]", cell_like(&usual)));
    char   *text = table_of(doc, false);

    (void)state;
    assert_non_null(strstr(text, "expert 1.50, rank 1.25"));
    assert_non_null(strstr(text, "slowest rank 3"));
    free(text);
    json_decref(doc);
}

/* No cell disappears, and a table of nothing but refusals has no head. */
static void test_refused_below(void **state)
{
    json_t *doc = document_of(json_pack("[o]", refused_of(refused_request("tiny", 8))));
    char   *text = table_of(doc, false);

    (void)state;
    assert_true(strncmp(text, "unsupported: mori:v1 tiny: ", 27) == 0);
    free(text);
    json_decref(doc);
}

static void test_plan_numbers(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "kimi-k3", 8);
    json_t           *cells;
    char             *text, buffers[32];
    const char       *line;

    (void)state;
    request.max_tokens = 128;
    cells = json_pack("[o, o]", planned_of(request), refused_of(refused_request("tiny", 8)));
    text = plan_of(cells);
    line = line_with(text, "mooncake");
    k3_table_bytes((double)int_at(json_array_get(cells, 0), "memory.buffers_bytes"), buffers,
                   sizeof(buffers));
    assert_non_null(strstr(line, "kimi-k3"));
    assert_non_null(strstr(line, "1.00"));
    assert_non_null(strstr(line, "2048")); /* 8 x 16 x 16 messages */
    assert_non_null(strstr(line, "7168")); /* 8 x 896 signals */
    assert_non_null(strstr(line, buffers));
    assert_non_null(strstr(line, "1.97 GB")); /* 112 experts */
    assert_non_null(strstr(text, "unsupported: mori:v1"));
    free(text);
    json_decref(cells);
}

static void test_empty_documents(void **state)
{
    static const char *const texts[] = {"{}", "{\"cells\": []}", "{\"cells\": [{}, 3, null]}",
                                        "{\"cells\": [{\"phases\": [3], \"qps\": {\"rows\": "
                                        "[[1, \"x\"], 4]}}]}"};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        json_t *doc = parse_json(texts[i]);
        char   *text = table_of(doc, true);

        free(text);
        text = plan_of(json_object_get(doc, "cells"));
        free(text);
        json_decref(doc);
    }
}

/* --- small parts ----------------------------------------------------------------------------- */

static void test_N09_bytes(void **state)
{
    static const struct {
        double      bytes;
        const char *text;
    } rows[] = {
        {0, "0 B"},        {999, "999 B"},          {1000, "1.00 kB"},       {1536, "1.54 kB"},
        {2e9, "2.00 GB"},  {2147483648, "2.15 GB"}, {3339721856, "3.34 GB"}, {1.05e11, "105.00 GB"},
        {1e15, "1.00 PB"}, {1.8e19, "18.00 EB"},    {17547264, "17.55 MB"},
    };
    char text[32];

    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_string_equal(k3_table_bytes(rows[i].bytes, text, sizeof(text)), rows[i].text);
    }
}

static void test_backend_names(void **state)
{
    json_t *cell = parse_json("{\"backend\": \"deepep\", \"mode\": \"ll\"}");
    char    text[32], small[8];
    double  us;

    (void)state;
    assert_string_equal(k3_cell_backend(cell, text, sizeof(text)), "deepep:ll");
    assert_string_equal(k3_cell_backend(cell, small, sizeof(small)), "deepep:");
    assert_false(k3_cell_median(cell, "dispatch", &us));
    json_decref(cell);
    cell = parse_json("{\"backend\": \"none\", \"mode\": \"\", \"phases\": [{\"name\": "
                      "\"region\", \"median\": 5}, {\"name\": \"router\", \"median\": null}]}");
    assert_string_equal(k3_cell_backend(cell, text, sizeof(text)), "none");
    assert_true(k3_cell_median(cell, "region", &us));
    assert_true(us == 5.0);
    assert_false(k3_cell_median(cell, "router", &us));
    json_decref(cell);
}

/* Many cells of every width, and a model's name that takes what the others leave. */
static void test_mixed_table_fits(void **state)
{
    static const char *const backends[] = {"mooncake", "deepep_v2", "flashinfer_megamoe"};
    json_t                  *cells = json_array(), *doc;
    char                    *text;

    (void)state;
    for (int i = 0; i < 9; i++) {
        shape_t s = usual;

        s.backend = backends[i % 3];
        s.mode = i % 3 == 1 ? "hybrid" : "";
        s.model = "kimi-k3-mini:E=112,K=16";
        s.size = i < 3 ? 8 : 1024;
        s.rows = i < 6 ? 16 : 8191;
        s.us = 10000.0 * i;
        s.state = i == 4 ? "not checked" : "ok";
        json_array_append_new(cells, cell_like(&s));
    }
    doc = document_of(cells);
    text = table_of(doc, false);
    assert_fits(text, 13);
    assert_non_null(strstr(text, "deepep_v2:hybrid "));
    assert_non_null(strstr(text, "flashinfer_megamoe "));
    assert_non_null(strstr(text, " 1024/1024/1024 F "));
    assert_non_null(strstr(text, "not checked"));
    free(text);
    json_decref(doc);
}

/* Sizes are shortened only where nothing is lost. */
static void test_sizes_stay_exact(void **state)
{
    static const struct {
        int         size;
        const char *text;
    } rows[] = {{8, "8/8/8 F"},
                {1024, "1024/1024/1024 F"},
                {65536, "64Ki/64Ki/64Ki F"},
                {65535, "65535/65535/65535 F"}};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        shape_t s = usual;
        json_t *doc;
        char   *text;

        s.size = rows[i].size;
        doc = document_of(json_pack("[o]", cell_like(&s)));
        text = table_of(doc, false);
        assert_non_null(strstr(line_with(text, "mooncake"), rows[i].text));
        free(text);
        json_decref(doc);
    }
}

static void test_no_imbalance_below(void **state)
{
    json_t *cell = cell_like(&usual), *doc;
    char   *text;

    (void)state;
    json_object_set_new(json_object_get(cell, "work"), "imbalance",
                        parse_json("{\"expert\": null, \"rank\": null, \"qp\": null}"));
    doc = document_of(json_pack("[o]", cell));
    text = table_of(doc, false);
    assert_non_null(strstr(text, "imbalance (max/mean): none"));
    free(text);
    json_decref(doc);
}

/* What the record has of the slowest QP: its longest message beside the percentiles, and how many carry rows. */
static void test_slowest_lane(void **state)
{
    json_t *cell = cell_like(&usual), *doc, *rows;
    char   *text;

    (void)state;
    json_object_set_new(cell, "choices", parse_json("{\"qps_per_peer\": 4}"));
    rows =
        parse_json("[[\"dispatch\", 0, 1, 0, \"p2p\", 1, 1, 0, 64, 64, 1, 2, 3, 0.2, 0.5, 0.5],"
                   " [\"dispatch\", 0, 1, 2, \"p2p\", 6, 1, 0, 64, 64, 1, 2, 658.8, 0.2, 0.54, "
                   "11178.25], [\"combine\", 0, 1, 3, \"p2p\", 0, 1, 0, 0, 4, 1, 2, 0, null, null, "
                   "null]]");
    json_object_set_new(cell, "qps",
                        json_pack("{s:o, s:o, s:i, s:i}", "columns", lane_columns(), "rows", rows,
                                  "lanes_total", 3, "lanes_kept", 3));
    json_object_set_new(json_array_get(json_object_get(cell, "phases"), 0), "n", json_integer(17));
    doc = document_of(json_pack("[o]", cell));
    text = table_of(doc, false);
    assert_non_null(strstr(text, "QP 2 (p2p), mean busy 658.8 us with 6 messages"));
    assert_non_null(strstr(text, "a message p50 0.2 p99 0.54 max 11178 us"));
    assert_non_null(strstr(text, "the longest alone is 100 % of its busy time in all iterations"));
    assert_non_null(strstr(text, "QPs 4, 2 carry rows"));
    free(text);
    json_object_set_new(json_object_get(cell, "qps"), "lanes_total", json_integer(9));
    text = table_of(doc, false);
    assert_non_null(strstr(text, "QPs 4;")); /* not all lanes are there to be counted */
    free(text);
    json_decref(doc);
}

/* Where a backend has several cells, what is said of each says which. */
static void test_notes_name_their_cell(void **state)
{
    shape_t more = usual, other = usual;
    json_t *doc;
    char   *text;

    (void)state;
    more.rows = 64;
    other.backend = "nixl";
    doc =
        document_of(json_pack("[o, o, o]", cell_like(&usual), cell_like(&more), cell_like(&other)));
    text = table_of(doc, false);
    assert_non_null(strstr(text, "\n  mooncake tp8 dp8 T16\n"));
    assert_non_null(strstr(text, "\n  mooncake tp8 dp8 T64\n"));
    assert_non_null(strstr(text, "\n  nixl           slowest"));
    free(text);
    json_decref(doc);
}

static void test_head_of_a_launch(void **state)
{
    json_t *doc =
        parse_json("{\"run\": {\"id\": \"ab\", \"started_utc\": \"2026-01-31T12:00:00Z\", "
                   "\"launch\": {\"ranks\": 4}, \"options\": [{\"name\": \"out\", "
                   "\"value\": \"x/y/plain.np4.1f.r2.json\"}]}}");
    char *text = NULL;

    (void)state;
    CAPTURE(text, k3_table_head(doc, out));
    assert_string_equal(text,
                        "== plain.np4.1f.r2: run ab, 4 ranks, started 2026-01-31T12:00:00Z\n");
    free(text);
    json_object_set_new(json_object_get(doc, "run"), "options", json_array());
    CAPTURE(text, k3_table_head(doc, out));
    assert_string_equal(text, "== run ab, 4 ranks, started 2026-01-31T12:00:00Z\n");
    free(text);
    json_decref(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usual_table_fits),
        cmocka_unit_test(test_wide_table_fits),
        cmocka_unit_test(test_plan_table_fits),
        cmocka_unit_test(test_wide_plan_table_fits),
        cmocka_unit_test(test_columns_stay_apart),
        cmocka_unit_test(test_Q17_fastest_by_its_median_is_marked),
        cmocka_unit_test(test_U08_absent_is_a_dash),
        cmocka_unit_test(test_plan_without_dispatch),
        cmocka_unit_test(test_S12_imbalance_below),
        cmocka_unit_test(test_refused_below),
        cmocka_unit_test(test_plan_numbers),
        cmocka_unit_test(test_empty_documents),
        cmocka_unit_test(test_N09_bytes),
        cmocka_unit_test(test_slowest_lane),
        cmocka_unit_test(test_notes_name_their_cell),
        cmocka_unit_test(test_head_of_a_launch),
        cmocka_unit_test(test_backend_names),
        cmocka_unit_test(test_mixed_table_fits),
        cmocka_unit_test(test_sizes_stay_exact),
        cmocka_unit_test(test_no_imbalance_below),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
