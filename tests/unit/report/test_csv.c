#include "tests/unit/report/report_test.h"

#include "bench/report/csv.h"

enum { COLUMNS_MAX = 160, ROWS_MAX = 16 };

/* A strict reader of RFC 4180: fields[row][column], quotes undone. */
typedef struct csv {
    char  *text; /* of all fields, cut by zeros */
    char  *field[ROWS_MAX][COLUMNS_MAX];
    size_t rows, columns[ROWS_MAX];
} csv_t;

/* Reads a field at `from`, writes it to *to; returns what follows. */
static const char *read_field(const char *from, char **to)
{
    if (*from != '"') {
        for (; *from != ',' && *from != '\r' && *from != '\0'; from++) {
            assert_true(*from != '"' && *from != '\n');
            *(*to)++ = *from;
        }
        return from;
    }
    for (from++; *from != '"' || from[1] == '"'; from++) {
        assert_true(*from != '\0');
        from += *from == '"';
        *(*to)++ = *from;
    }
    return from + 1;
}

static csv_t read_csv(const char *text)
{
    csv_t csv = {.text = calloc(strlen(text) + COLUMNS_MAX * ROWS_MAX, 1)};
    char *to = csv.text;

    assert_non_null(to);
    while (*text != '\0') {
        size_t row = csv.rows++;

        assert_true(row < ROWS_MAX);
        for (bool more = true; more; text += more) {
            assert_true(csv.columns[row] < COLUMNS_MAX);
            csv.field[row][csv.columns[row]++] = to;
            text = read_field(text, &to);
            *to++ = '\0';
            more = *text == ',';
        }
        assert_true(text[0] == '\r' && text[1] == '\n');
        text += 2;
    }
    return csv;
}

static const char *value(const csv_t *csv, size_t row, const char *column)
{
    for (size_t c = 0; c < csv->columns[0]; c++) {
        if (strcmp(csv->field[0][c], column) == 0) {
            return csv->field[row][c];
        }
    }
    fail_msg("no column %s", column);
    return "";
}

/* A document with a planned cell, a measured one and a refused one with a hard reason. */
static json_t *document(const char *reason)
{
    k3_cell_request_t request = request_of("mooncake", "tiny:E=32,K=4", 8);
    json_t           *cells = json_array(), *measured = planned_of(request), *refused;
    json_t *run = parse_json("{\"id\": \"run,1\", \"launch\": {\"hosts\": [\"n\\\"1\"]}}");

    json_array_append_new(cells, planned_of(request_of("none", "tiny", 8)));
    json_object_set_new(
        measured, "phases",
        parse_json("[{\"name\": \"dispatch\", \"median\": 12.5, \"ci95\": [12, 13]},"
                   " {\"name\": \"region\", \"median\": 99, \"ci95\": null}]"));
    json_object_set_new(measured, "limits",
                        parse_json("{\"machine\": \"m\", \"phases\": [{\"name\": \"dispatch\", "
                                   "\"limit_us\": 5, \"limited_by\": \"link\", "
                                   "\"efficiency\": 0.4}]}"));
    k3_record_status(measured, "ok", NULL);
    json_array_append_new(cells, measured);
    refused = refused_of(refused_request("tiny", 8));
    k3_record_status(refused, "unsupported", reason);
    json_array_append_new(cells, refused);
    return json_pack("{s:s, s:o, s:o}", "schema", K3_SCHEMA, "run", run, "cells", cells);
}

static char *csv_of(json_t *doc)
{
    char *text = NULL;

    CAPTURE(text, k3_report_csv(&doc, 1, out));
    return text;
}

static void test_U01_fields_match_the_head(void **state)
{
    static const char *const reasons[] = {"plain",        "a, b",   "say \"no\"", "two\nlines",
                                          "cr\rlf\r\n",   "\"",     ",",          "",
                                          "ends with \"", "\"\"\"", "=1+1"};

    (void)state;
    for (unsigned i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        json_t *doc = document(reasons[i]);
        char   *text = csv_of(doc);
        csv_t   csv = read_csv(text);

        assert_int_equal(csv.rows, 5);
        for (size_t r = 1; r < csv.rows; r++) {
            assert_int_equal(csv.columns[r], csv.columns[0]);
        }
        /* What a spreadsheet would compute is a text. */
        assert_string_equal(value(&csv, 4, "reason") + (reasons[i][0] == '='), reasons[i]);
        assert_true(value(&csv, 4, "reason")[0] != '=');
        assert_string_equal(value(&csv, 1, "run_id"), "run,1");
        assert_string_equal(value(&csv, 1, "host"), "n\"1");
        assert_string_equal(value(&csv, 2, "model"), "tiny:E=32,K=4");
        free(csv.text);
        free(text);
        json_decref(doc);
    }
}

static void test_columns_are_unique(void **state)
{
    json_t *doc = document("plain");
    char   *text = csv_of(doc);
    csv_t   csv = read_csv(text);

    (void)state;
    for (size_t a = 0; a < csv.columns[0]; a++) {
        assert_true(strlen(csv.field[0][a]) > 0);
        for (size_t b = 0; b < a; b++) {
            assert_string_not_equal(csv.field[0][a], csv.field[0][b]);
        }
    }
    free(csv.text);
    free(text);
    json_decref(doc);
}

/* Null is an empty field, 0 is 0. */
static void test_U08_null_is_blank(void **state)
{
    json_t *doc = document("plain");
    char   *text = csv_of(doc);
    csv_t   csv = read_csv(text);

    (void)state;
    assert_string_equal(value(&csv, 1, "rows_dispatched"), "");
    assert_string_equal(value(&csv, 1, "phase"), "");
    assert_string_equal(value(&csv, 1, "rows_global"), "128");
    assert_string_equal(value(&csv, 2, "rows_dispatched"), "128");
    assert_string_equal(value(&csv, 2, "median_us"), "12.5");
    assert_string_equal(value(&csv, 2, "ci_low_us"), "12");
    assert_string_equal(value(&csv, 2, "ci_high_us"), "13");
    assert_string_equal(value(&csv, 3, "median_us"), "99");
    assert_string_equal(value(&csv, 3, "ci_low_us"), "");
    assert_string_equal(value(&csv, 2, "phase"), "dispatch");
    assert_string_equal(value(&csv, 3, "phase"), "region");
    assert_string_equal(value(&csv, 3, "key"), value(&csv, 2, "key"));
    assert_string_equal(value(&csv, 2, "status"), "ok");
    assert_string_equal(value(&csv, 2, "reason"), "");
    assert_string_equal(value(&csv, 2, "path_fast"), "true");
    assert_string_equal(value(&csv, 4, "rows_global"), "");
    assert_string_equal(value(&csv, 4, "key"), "");
    free(csv.text);
    free(text);
    json_decref(doc);
}

/* What makes two rows different work is a column: a reader needs no key. */
static void test_U01_independent_variables(void **state)
{
    static const char *const columns[] = {"backend",
                                          "mode",
                                          "generation",
                                          "component",
                                          "model",
                                          "tp",
                                          "dp",
                                          "cp",
                                          "ep",
                                          "nodes",
                                          "path_rule",
                                          "path_fast",
                                          "tokens",
                                          "max_tokens",
                                          "routing",
                                          "seed",
                                          "runner",
                                          "dispatch_dtype",
                                          "combine_dtype",
                                          "qps_per_peer",
                                          "fabric",
                                          "p2p",
                                          "tokens_skew"};
    json_t                  *doc = document("plain");
    char                    *text = csv_of(doc);
    csv_t                    csv = read_csv(text);

    (void)state;
    for (unsigned i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        assert_true(strlen(value(&csv, 2, columns[i])) > 0 || strcmp(columns[i], "mode") == 0);
    }
    assert_string_equal(value(&csv, 2, "max_tokens"), "16");
    assert_string_equal(value(&csv, 2, "runner"), "deep_gemm");
    assert_string_equal(value(&csv, 2, "tokens_skew"), "equal");
    /* The refused cell: what was asked for. */
    assert_string_equal(value(&csv, 4, "tp"), "8");
    assert_string_equal(value(&csv, 4, "routing"), "uniform");
    assert_string_equal(value(&csv, 4, "seed"), "1");
    assert_string_equal(value(&csv, 4, "fabric"), "ib");
    assert_string_equal(value(&csv, 4, "path_rule"), "registry");
    assert_string_equal(value(&csv, 4, "ep"), "");
    free(csv.text);
    free(text);
    json_decref(doc);
}

/* The limit beside the phase that has one, blank beside the others. */
static void test_limits(void **state)
{
    json_t *doc = document("x");
    char   *text = csv_of(doc);
    csv_t   csv = read_csv(text);

    (void)state;
    assert_string_equal(value(&csv, 2, "phase"), "dispatch");
    assert_string_equal(value(&csv, 2, "limit_us"), "5");
    assert_string_equal(value(&csv, 2, "limited_by"), "link");
    assert_string_equal(value(&csv, 2, "efficiency"), "0.4");
    assert_string_equal(value(&csv, 2, "limits_machine"), "m");
    assert_string_equal(value(&csv, 3, "phase"), "region");
    assert_string_equal(value(&csv, 3, "efficiency"), "");
    assert_string_equal(value(&csv, 3, "limits_machine"), "");
    free(csv.text);
    free(text);
    json_decref(doc);
}

static void test_U11_same_bytes_twice(void **state)
{
    json_t *doc = document("a, \"b\"");
    char   *a = csv_of(doc), *b = csv_of(doc);

    (void)state;
    assert_string_equal(a, b);
    free(a);
    free(b);
    json_decref(doc);
}

/* U04: both runs are kept, with their ids; a record from a stranger may lack anything. */
static void test_U04_several_records(void **state)
{
    json_t *docs[3] = {document("one"), document("two"), parse_json("{\"cells\": [{}, 3, null]}")};
    char   *text = NULL;
    csv_t   csv;

    (void)state;
    json_array_remove(json_object_get(docs[0], "cells"), 0);
    json_array_remove(json_object_get(docs[1], "cells"), 0);
    json_object_set_new(json_object_get(docs[1], "run"), "id", json_string("run 2"));
    CAPTURE(text, k3_report_csv(docs, 3, out));
    csv = read_csv(text);
    assert_int_equal(csv.rows, 10);
    assert_string_equal(value(&csv, 1, "run_id"), "run,1");
    assert_string_equal(value(&csv, 4, "run_id"), "run 2");
    for (size_t r = 1; r < csv.rows; r++) {
        assert_int_equal(csv.columns[r], csv.columns[0]);
    }
    free(csv.text);
    free(text);
    for (int i = 0; i < 3; i++) {
        json_decref(docs[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_U01_fields_match_the_head),
        cmocka_unit_test(test_columns_are_unique),
        cmocka_unit_test(test_U08_null_is_blank),
        cmocka_unit_test(test_U01_independent_variables),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_U11_same_bytes_twice),
        cmocka_unit_test(test_U04_several_records),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
