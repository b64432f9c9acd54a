/* Findings of several hosts as one list: equal lines once, differences with the hosts' names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/commands/doctor.h"

static const char *const hosts[] = {"one", "two", "three"};

static k3_findings_t of[3], merged;

static int clear(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        k3_findings_free(&of[i]);
    }
    k3_findings_free(&merged);
    return 0;
}

static void test_equal_lines_stand_once(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        k3_find(&of[i], "cpu", "governor", "performance");
    }
    k3_doctor_merge(of, hosts, 3, &merged);
    assert_int_equal(merged.count, 1);
    assert_string_equal(merged.items[0].value, "performance");
    assert_int_equal(merged.items[0].level, K3_LEVEL_OK);
}

static void test_E07_differences_name_the_hosts(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        k3_find(&of[i], "cpu", "governor", "%s", i == 1 ? "powersave" : "performance");
    }
    k3_find(&of[2], "network", "mlx5_0:1", "4: ACTIVE");
    k3_doctor_merge(of, hosts, 3, &merged);
    assert_int_equal(merged.count, 2);
    assert_string_equal(merged.items[0].value, "one and 1 more: performance; two: powersave");
    assert_int_equal(merged.items[0].level, K3_LEVEL_WARN);
    assert_non_null(strstr(merged.items[0].advice, "hosts differ"));
    assert_string_equal(merged.items[1].value, "one and 1 more: absent; three: 4: ACTIVE");
}

static void test_the_worst_level_stays(void **state)
{
    (void)state;
    k3_find(&of[0], "cpu", "load", "0.1")->varies = true;
    k3_find(&of[1], "cpu", "load", "0.2")->varies = true;
    k3_finding_t *line = k3_find(&of[2], "cpu", "load", "9");
    line->varies = true;
    k3_advise(line, K3_LEVEL_WARN, "busy");
    k3_advise(line, K3_LEVEL_BAD, "on fire");
    k3_advise(line, K3_LEVEL_WARN, "less");
    k3_doctor_merge(of, hosts, 3, &merged);
    assert_string_equal(merged.items[0].value, "9");
    assert_string_equal(merged.items[0].advice, "on fire");
    assert_int_equal(k3_findings_worst(&merged), K3_LEVEL_BAD);
}

/* U09: nothing but what the list allows, and no value that is not plain. */
static void test_U09_environment(void **state)
{
    bool seen = false;

    (void)state;
    setenv("MY_TOKEN", "abc", 1);
    setenv("UCX_TLS", "tcp,self", 1);
    setenv("UCX_NAME", "pa$$word {x}", 1);
    setenv("MALLOC_ARENA_MAX", "1", 1);
    k3_doctor_software(&merged);
    for (size_t i = 0; i < merged.count; i++) {
        const k3_finding_t *f = &merged.items[i];

        assert_null(strstr(f->name, "TOKEN"));
        assert_null(strstr(f->value, "pa$$word"));
        if (strcmp(f->name, "UCX_TLS") == 0) {
            seen = true;
            assert_string_equal(f->value, "tcp,self");
            assert_int_equal(f->level, K3_LEVEL_WARN);
        }
        if (strcmp(f->name, "UCX_NAME") == 0) {
            assert_string_equal(f->value, "set (value not shown)");
        }
    }
    assert_true(seen);
    unsetenv("MALLOC_ARENA_MAX");
    unsetenv("UCX_NAME");
    unsetenv("UCX_TLS");
    unsetenv("MY_TOKEN");
}

static void test_json_has_every_line(void **state)
{
    json_t *document;

    (void)state;
    k3_advise(k3_find(&merged, "cpu", "a", "b"), K3_LEVEL_WARN, "c");
    document = k3_doctor_json(&merged, NULL, NULL);
    assert_string_equal(json_string_value(json_object_get(document, "worst")), "warn");
    assert_int_equal(json_array_size(json_object_get(document, "findings")), 1);
    assert_true(json_is_null(json_object_get(document, "barrier_us")));
    json_decref(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_equal_lines_stand_once, clear),
        cmocka_unit_test_teardown(test_E07_differences_name_the_hosts, clear),
        cmocka_unit_test_teardown(test_the_worst_level_stays, clear),
        cmocka_unit_test_teardown(test_U09_environment, clear),
        cmocka_unit_test_teardown(test_json_has_every_line, clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
