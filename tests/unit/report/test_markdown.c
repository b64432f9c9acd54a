#include "tests/unit/report/report_test.h"

#include "bench/report/markdown.h"

/* A record whose every text is `hostile`. */
static json_t *document(const char *hostile, const char *status)
{
    return json_pack(
        "{s:{s:s, s:s, s:s, s:s, s:{s:i}}, s:[{s:s, s:s, s:{s:s}, s:{s:i, s:i, s:i}, s:{s:i}, "
        "s:s, s:s, s:{s:s}, s:{s:f}, s:[{s:s, s:f}]}]}",
        "run", "id", hostile, "version", hostile, "git_sha", hostile, "started_utc", hostile,
        "launch", "ranks", 8, "cells", "backend", hostile, "mode", "", "model", "name", hostile,
        "layout", "tp", 8, "dp", 2, "ep", 8, "tokens", "asked", 16, "status", status, "reason",
        hostile, "check", "state", hostile, "work", "dispatch_ratio", 1.0, "phases", "name",
        "dispatch", "median", 12.345);
}

static char *markdown_of(json_t *doc)
{
    char *text = NULL;

    CAPTURE(text, k3_report_markdown(&doc, 1, out));
    return text;
}

/* Characters that are markup and have no backslash in front. */
static size_t bare(const char *line, size_t length, char c)
{
    size_t n = 0;

    for (size_t i = 0; i < length; i++) {
        if (line[i] == '\\') {
            i++;
        } else {
            n += line[i] == c;
        }
    }
    return n;
}

/* Every row of the table has the columns of its head, whatever the texts hold. */
static void test_rows_have_the_columns_of_the_head(void **state)
{
    static const char *const texts[] = {"plain", "a|b", "a\\|b", "a\nb", "a\r\nb",
                                        "\\",    "||",  "`|`",   "a\rb"};

    (void)state;
    for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        json_t *doc = document(texts[i], "ok");
        char   *text = markdown_of(doc);
        size_t  tables = 0, columns = 0;
        bool    inside = false;

        assert_null(strchr(text, '\r'));
        for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
            size_t length = strcspn(line, "\n");

            if (line[0] == '|') {
                columns = inside ? columns : bare(line, length, '|');
                tables += !inside;
                assert_true(columns >= 4);
                assert_int_equal(bare(line, length, '|'), columns);
                assert_int_equal(line[length - 1], '|');
            }
            inside = line[0] == '|';
        }
        assert_int_equal(tables, 4);
        free(text);
        json_decref(doc);
    }
}

/* No text of a record becomes markup: neither in the table nor around it. */
static void test_texts_are_escaped(void **state)
{
    static const char        marks[] = "<>`*_[]&~$";
    static const char *const texts[] = {"<script>",  "*bold*",        "_it_",
                                        "`code`",    "[l](http://x)", "a<b>c",
                                        "&lt;b&gt;", "~~gone~~",      "$x$"};

    json_t *plain_doc = document("plain", "plain");
    char   *plain = markdown_of(plain_doc); /* has the markup of the report alone */

    (void)state;
    for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        json_t *doc = document(texts[i], texts[i]);
        char   *text = markdown_of(doc);

        assert_null(strstr(text, "http://"));
        for (const char *mark = marks; *mark != '\0'; mark++) {
            if (bare(text, strlen(text), *mark) != bare(plain, strlen(plain), *mark)) {
                fail_msg("'%c' of %s stays markup in:\n%s", *mark, texts[i], text);
            }
        }
        free(text);
        json_decref(doc);
    }
    free(plain);
    json_decref(plain_doc);
}

/* 400 cells and 30 records: never more than a comment takes, and what is left out is said. */
static void test_fits_a_comment(void **state)
{
    json_t *docs[30], *cells = json_array();
    char   *text = NULL;

    (void)state;
    for (int i = 0; i < 400; i++) {
        json_t *one = document("a backend with a long name", "ok");

        json_array_append(cells, json_array_get(json_object_get(one, "cells"), 0));
        json_decref(one);
    }
    for (int d = 0; d < 30; d++) {
        docs[d] = document("x", "ok");
        json_object_set(docs[d], "cells", cells);
    }
    for (size_t count = 1; count <= 30; count += 29) {
        CAPTURE(text, k3_report_markdown(docs, count, out));
        assert_in_range(strlen(text), 1000, 65536);
        assert_non_null(strstr(text, "left out"));
        assert_non_null(strstr(text, "### run x"));
        free(text);
    }
    for (int d = 0; d < 30; d++) {
        json_decref(docs[d]);
    }
    json_decref(cells);
}

static void test_values(void **state)
{
    json_t *doc = document("x", "ok");
    char   *text;

    (void)state;
    json_object_set_new(json_array_get(json_object_get(doc, "cells"), 0), "choices",
                        parse_json("{\"dispatch_dtype\": \"fp8\", \"combine_dtype\": \"bf16\", "
                                   "\"recipe\": {\"runner\": \"marlin\"}}"));
    text = markdown_of(doc);
    assert_non_null(strstr(text, "### run x\n"));
    assert_non_null(strstr(
        text, "| x | x | 8/2/8 | 16 | 1.00 | 12.3 | | | | | fp8 | bf16 | marlin | ok | x |\n"));
    assert_non_null(strstr(text, "8 ranks"));
    free(text);
    json_decref(doc);
}

/* Beside each phase what the machine allows, and a sentence below the table. */
static void test_limits(void **state)
{
    json_t *doc = document("x", "ok"), *cell = json_array_get(json_object_get(doc, "cells"), 0);
    char   *text;

    (void)state;
    json_object_set_new(
        cell, "limits",
        parse_json("{\"machine\": \"m\", \"phases\": [{\"name\": \"dispatch\", "
                   "\"limit_us\": 6.15, \"limited_by\": \"link\", "
                   "\"efficiency\": 0.5}, {\"name\": \"combine\", "
                   "\"limit_us\": 6.15, \"limited_by\": \"link\", "
                   "\"efficiency\": 0.0099}, {\"name\": \"region\", \"limit_us\": 2.0, "
                   "\"limited_by\": \"link\", \"efficiency\": 0.01}]}"));
    text = markdown_of(doc);
    assert_non_null(
        strstr(text, "- x: dispatch at 50 % of the limit of m (6.2 us, link); region at 1 % of "
                     "the limit of m (2.0 us, link)\n"));
    assert_null(strstr(text, "combine at"));
    assert_non_null(strstr(text, "| 6.15 | 50 | link |\n"));
    free(text);
    json_decref(doc);
}

/* Four digits, and marked where so few iterations have no percentile of their own. */
static void test_digits(void **state)
{
    json_t *doc = document("x", "ok");
    char   *text;

    (void)state;
    json_object_set_new(
        json_array_get(json_object_get(doc, "cells"), 0), "phases",
        parse_json("[{\"name\": \"dispatch\", \"median\": 26084.4412, \"ci95\": [0.0200375801, "
                   "40000.5], \"p99\": 123.456, \"p99_is_max\": true, \"slowest_rank\": 1}]"));
    text = markdown_of(doc);
    assert_non_null(strstr(text, "| 26084 | 0.02004 | 40000 | 123.5 (max) | 1 |"));
    free(text);
    json_decref(doc);
}

/* Several launches: each by the name of its file, what the tables mean once. */
static void test_several_launches(void **state)
{
    json_t *docs[2] = {document("x", "ok"), document("y", "ok")};
    char   *text = NULL;

    (void)state;
    for (int d = 0; d < 2; d++) {
        json_object_set_new(json_object_get(docs[d], "run"), "options",
                            json_pack("[{s:s, s:s, s:s}]", "name", "out", "value",
                                      d == 0 ? "a/plain.np2.1f.r1.json" : "a/plain.np2.1f.r2.json",
                                      "origin", "command line"));
    }
    CAPTURE(text, k3_report_markdown(docs, 2, out));
    assert_non_null(strstr(text, "### plain.np2.1f.r1: run x\n"));
    assert_non_null(strstr(text, "### plain.np2.1f.r2: run y\n"));
    assert_non_null(strstr(text, "Times in us"));
    assert_null(strstr(strstr(text, "Times in us") + 1, "Times in us"));
    free(text);
    json_decref(docs[0]);
    json_decref(docs[1]);
}

/* No cell disappears: what was refused is below with its reason. */
static void test_refused_below(void **state)
{
    json_t *doc = document("why not", "unsupported");
    char   *text = markdown_of(doc);

    (void)state;
    assert_non_null(strstr(text, "\n- why not unsupported: why not\n"));
    free(text);
    json_decref(doc);
}

/* A refused cell of which the layout is not known has blanks, not 0. */
static void test_refused_has_no_zeros(void **state)
{
    k3_cell_request_t request = {.backend = "mori:v1", .combine_dtype = "mxfp4", .tokens = 16};
    json_t *doc = json_pack("{s:{s:s}, s:[o]}", "run", "id", "x", "cells", refused_of(request));
    char   *text = markdown_of(doc);

    (void)state;
    assert_null(strstr(text, "| 0/"));
    assert_null(strstr(text, "/0 |"));
    free(text);
    json_decref(doc);
}

static void test_U11_same_bytes_twice(void **state)
{
    json_t *docs[2] = {document("a|b", "ok"), document("c", "failed")};
    char   *a = NULL, *b = NULL;

    (void)state;
    CAPTURE(a, k3_report_markdown(docs, 2, out));
    CAPTURE(b, k3_report_markdown(docs, 2, out));
    assert_string_equal(a, b);
    assert_non_null(strstr(a, "### run c"));
    free(a);
    free(b);
    json_decref(docs[0]);
    json_decref(docs[1]);
}

/* A record from a stranger may lack anything. */
static void test_empty_documents(void **state)
{
    static const char *const texts[] = {"{}", "{\"cells\": []}", "{\"cells\": [{}, 3, null]}",
                                        "{\"run\": 3, \"cells\": {}}"};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        json_t *doc = parse_json(texts[i]);
        char   *text = markdown_of(doc);

        assert_true(strlen(text) > 0);
        free(text);
        json_decref(doc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_have_the_columns_of_the_head),
        cmocka_unit_test(test_texts_are_escaped),
        cmocka_unit_test(test_fits_a_comment),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_digits),
        cmocka_unit_test(test_several_launches),
        cmocka_unit_test(test_refused_below),
        cmocka_unit_test(test_refused_has_no_zeros),
        cmocka_unit_test(test_U11_same_bytes_twice),
        cmocka_unit_test(test_empty_documents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
