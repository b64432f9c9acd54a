/* The page: hostile texts stay texts, nothing is fetched, numbers are numbers, the same bytes twice. */
#include "report_test.h"

#include "bench/report/html.h"
#include "bench/report/html_internal.h"

static char *page_of(json_t *document)
{
    char  *text = NULL;
    size_t size;
    FILE  *file = open_memstream(&text, &size);

    k3_report_html(&document, 1, 1, file);
    fclose(file);
    return text;
}

static json_t *record_with(const char *name)
{
    json_t *samples = json_pack("[f, f, f]", 10.0, 11.0, 12.0);
    json_t *cell = json_pack("{s:s, s:s, s:s, s:s, s:n, s:s, s:{s:s}, s:{s:i, s:i, s:i}, s:{s:b}, "
                             "s:{s:i}, s:{s:s}, s:{s:s}}",
                             "key", name, "backend", name, "mode", "", "status", "ok", "reason",
                             "component", "region", "model", "name", name, "layout", "tp", 2, "dp",
                             1, "ep", 2, "path", "fast", 1, "tokens", "asked", 4, "check", "state",
                             "ok", "pattern", "name", "none");

    json_object_set_new(cell, "phases",
                        json_pack("[{s:s, s:f, s:n}, {s:s, s:f, s:[f, f], s:o}]", "name",
                                  "dispatch", "median", 4.0, "ci95", "name", "region", "median",
                                  11.0, "ci95", 10.0, 12.0, "samples", samples));
    json_object_set_new(cell, "choices", json_pack("{s:i}", "qps_per_peer", 1));
    json_object_set_new(cell, "waits",
                        json_pack("{s:o, s:[[s, i, i, f, f, i]]}", "columns", wait_columns(),
                                  "rows", "dispatch", 0, 1, 5.0, 3.0, 2));
    json_object_set_new(cell, "qps",
                        json_pack("{s:o, s:[[s, i, i, i, s, i, i, i, i, i, f, f, f, n, n, n]]}",
                                  "columns", lane_columns(), "rows", "dispatch", 0, 1, 0, name, 3,
                                  1, 0, 100, 120, 1.0, 2.0, 0.5));
    return json_pack("{s:{s:s, s:s, s:[{s:s, s:s, s:s}]}, s:{}, s:[o, {s:s, s:s, s:s, s:s, s:n}]}",
                     "run", "id", name, "version", name, "options", "name", "model", "value", name,
                     "origin", name, "topology", "cells", cell, "backend", name, "mode", "",
                     "status", "unsupported", "reason", name, "phases");
}

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;

    while ((text = strstr(text, what)) != NULL) {
        n++;
        text += strlen(what);
    }
    return n;
}

/* Five digits are read; whole numbers stay whole. */
static void test_digits(void **state)
{
    static const struct {
        double      value;
        const char *text;
    } rows[] = {{123.456789, "123.46"}, {0.00012345678, "0.00012346"}, {98765.4321, "98765"},
                {1234567.8, "1234568"}, {2.5e12, "2.5e+12"},           {-41.000049, "-41"}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char  *text = NULL;
        size_t size;
        FILE  *file = open_memstream(&text, &size);

        k3_html_real(rows[i].value, file);
        fclose(file);
        assert_string_equal(text, rows[i].text);
        free(text);
    }
}

static void test_hostile(void **state)
{
    static const char evil[] = "<script>alert('x')</script>\"' onload=\"y\" & </td>";
    json_t           *record = record_with(evil);
    char             *page = page_of(record);

    (void)state;
    assert_null(strstr(page, "<script>alert"));
    assert_null(strstr(page, "onload=\"y\""));
    assert_non_null(strstr(page, "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"));
    assert_int_equal(count_of(page, "<script>"), 1);
    free(page);
    json_decref(record);
}

static void test_content(void **state)
{
    json_t *record = record_with("mooncake");
    char   *page = page_of(record), *again = page_of(record);

    (void)state;
    assert_string_equal(page, again);
    assert_null(strstr(page, "http:"));
    assert_null(strstr(page, "https:"));
    assert_null(strstr(page, "src="));
    assert_null(strstr(page, ">nan"));
    assert_null(strstr(page, "=nan"));
    assert_null(strstr(page, "=inf"));
    assert_non_null(strstr(page, "95 % interval of the median: 10 to 12 us"));
    assert_non_null(strstr(page, "unsupported: "));
    assert_int_equal(count_of(page, "<section>"), count_of(page, "</section>"));
    assert_int_equal(count_of(page, "<div"), count_of(page, "</div>"));
    assert_int_equal(count_of(page, "<svg"), count_of(page, "</svg>"));
    assert_int_equal(count_of(page, "<table"), count_of(page, "</table>"));
    free(again);
    free(page);
    json_decref(record);
}

/* Percentiles of so few iterations that they are the largest are marked; lanes have their longest message. */
static void test_percentiles_that_are_the_largest(void **state)
{
    json_t *record = record_with("mooncake"), *cell, *phase;
    char   *page;

    (void)state;
    cell = json_array_get(json_object_get(record, "cells"), 0);
    phase = json_array_get(json_object_get(cell, "phases"), 1);
    json_object_set_new(phase, "n", json_integer(19));
    json_object_set_new(phase, "p95", json_real(12.5));
    json_object_set_new(phase, "p99", json_real(12.5));
    json_object_set_new(phase, "p99_is_max", json_true());
    json_object_set_new(phase, "max", json_real(12.5));
    page = page_of(record);
    assert_non_null(strstr(page, "\t12.5 (max)\t12.5 (max)\t12.5\n")); /* iterations */
    assert_non_null(strstr(page, "\t12.5 (max)\t\n"));                 /* phases */
    assert_non_null(strstr(page, "<button>max us</button>"));
    free(page);
    json_object_set_new(phase, "n", json_integer(100));
    json_object_set_new(phase, "p99_is_max", json_false());
    page = page_of(record);
    assert_null(strstr(page, "(max)"));
    free(page);
    json_decref(record);
}

static void test_nothing_measured(void **state)
{
    json_t *record = parse_json("{\"run\": {\"id\": \"0\"}, \"cells\": []}");
    char   *page = page_of(record);

    (void)state;
    assert_non_null(strstr(page, "no winner"));
    assert_int_equal(count_of(page, "<svg"), 0);
    free(page);
    json_decref(record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digits),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_content),
        cmocka_unit_test(test_percentiles_that_are_the_largest),
        cmocka_unit_test(test_nothing_measured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
