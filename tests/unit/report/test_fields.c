/* Members and columns of a record are found by name; what is not there reads as nothing. */
#include "report_test.h"

#include "bench/report/fields.h"

static void test_members(void **state)
{
    json_t *o = parse_json("{\"text\": \"a\", \"count\": 7, \"us\": 2.5, \"none\": null}");

    (void)state;
    assert_string_equal(k3_get_text(o, "text"), "a");
    assert_int_equal(k3_get_int(o, "count"), 7);
    assert_true(k3_get_number(o, "us") == 2.5 && k3_get_number(o, "count") == 7.0);
    assert_string_equal(k3_get_text(o, "count"), "");
    assert_string_equal(k3_get_text(o, "none"), "");
    assert_int_equal(k3_get_int(o, "text"), 0);
    assert_string_equal(k3_get_text(NULL, "text"), "");
    json_decref(o);
}

/* Another order than the writer's, an unknown column, one that is missing. */
static void test_columns(void **state)
{
    json_t *cell =
        parse_json("{\"qps\": {\"columns\": [\"qp\", \"new\", 5, \"phase\", \"busy_us\"], "
                   "\"rows\": [[3, 0, 0, \"combine\", 1.5], [null], 4]}}");
    k3_lanes_t l;

    (void)state;
    k3_lanes_of(cell, &l);
    assert_int_equal(json_array_size(l.rows), 3);
    assert_int_equal(l.qp, 0);
    assert_int_equal(l.busy_us, 4);
    assert_int_equal(l.src, -1);
    for (size_t i = 0; i < 3; i++) {
        const json_t *row = json_array_get(l.rows, i);

        assert_int_equal(k3_field_is(row, l.phase, "combine"), i == 0);
        assert_int_equal(k3_field_int(row, l.qp), i == 0 ? 3 : -1);
        assert_true(k3_field_number(row, l.busy_us) == (i == 0 ? 1.5 : 0.0));
        assert_null(k3_field(row, l.src));
        assert_string_equal(k3_field_text(row, l.src), "");
    }
    json_decref(cell);
}

static void test_no_table(void **state)
{
    static const char *const cells[] = {"{}", "{\"waits\": null}", "{\"waits\": {\"rows\": 3}}",
                                        "{\"waits\": [1]}"};

    (void)state;
    for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
        json_t    *cell = parse_json(cells[i]);
        k3_waits_t w;

        k3_waits_of(cell, &w);
        assert_null(w.rows);
        assert_int_equal(w.dst, -1);
        json_decref(cell);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_no_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
