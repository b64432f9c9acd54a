/* Fingerprint, environment, times and ids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "harness/record/fingerprint.h"
#include "harness/record/run_id.h"

static const k3_machine_t machine = {
    .cpu_model = "Example CPU @ 2 GHz", .cores = 16, .numa_nodes = 2, .nodes = 1, .ranks = 8};

static const char *key_of(const json_t *fingerprint)
{
    const char *key = json_string_value(json_object_get(fingerprint, "key"));

    assert_non_null(key);
    assert_int_equal(strlen(key), 16);
    assert_int_equal(strspn(key, "0123456789abcdef"), 16);
    return key;
}

static void test_fingerprint_has_its_parts(void **state)
{
    json_t *fingerprint = k3_fingerprint(&machine);
    json_t *stable = json_object_get(fingerprint, "stable");
    json_t *other = json_object_get(fingerprint, "volatile");

    (void)state;
    (void)key_of(fingerprint);
    assert_string_equal(json_string_value(json_object_get(stable, "cpu_model")),
                        "Example CPU @ 2 GHz");
    assert_int_equal(json_integer_value(json_object_get(stable, "cores")), 16);
    assert_int_equal(json_integer_value(json_object_get(stable, "numa_nodes")), 2);
    assert_int_equal(json_integer_value(json_object_get(stable, "ranks")), 8);
    assert_true(json_integer_value(json_object_get(stable, "memory_gib")) > 0);
    assert_true(json_is_string(json_object_get(other, "kernel")));
    assert_int_equal(json_array_size(json_object_get(other, "load")), 3);
    assert_non_null(json_object_get(other, "cgroup_cpus"));
    assert_non_null(json_object_get(other, "governor"));
    assert_null(json_object_get(stable, "kernel"));
    json_decref(fingerprint);
}

static void test_key_depends_on_stable_facts_alone(void **state)
{
    k3_machine_t other = machine;
    json_t      *first = k3_fingerprint(&machine);
    json_t      *second = k3_fingerprint(&machine);
    json_t      *third;

    (void)state;
    assert_string_equal(key_of(first), key_of(second));
    other.ranks = 9;
    third = k3_fingerprint(&other);
    assert_string_not_equal(key_of(first), key_of(third));
    json_decref(third);
    other = machine;
    other.cpu_model = NULL;
    third = k3_fingerprint(&other);
    assert_string_not_equal(key_of(first), key_of(third));
    assert_true(json_is_null(json_object_get(json_object_get(third, "stable"), "cpu_model")));
    json_decref(third);
    json_decref(first);
    json_decref(second);
}

static void test_U09_environment_is_an_allow_list(void **state)
{
    static const char *const secret[] = {"MY_TOKEN",
                                         "UCX_TOKEN",
                                         "K3BENCH_SECRET_X",
                                         "OMPI_MCA_password",
                                         "NCCL_API_KEY",
                                         "UCX_MY_CREDENTIALS",
                                         "HOME_OF_NOBODY",
                                         "xUCX_TLS",
                                         "OMP_NUM_THREADS2",
                                         "OMPI_MCA_orte_hnp_uri",
                                         "OMPI_MCA_orte_precondition_transports"};
    json_t                  *environment;
    char                    *text;

    (void)state;
    for (size_t i = 0; i < sizeof(secret) / sizeof(secret[0]); i++) {
        setenv(secret[i], "abc-hidden-value", 1);
    }
    setenv("MY_TOKEN", "abc-hidden-value", 1);
    setenv("UCX_TLS", "sm,self", 1);
    environment = k3_environment();
    text = json_dumps(environment, 0);
    assert_non_null(text);
    assert_null(strstr(text, "hidden"));
    for (size_t i = 0; i < sizeof(secret) / sizeof(secret[0]); i++) {
        assert_null(json_object_get(environment, secret[i]));
        unsetenv(secret[i]);
    }
    assert_string_equal(json_string_value(json_object_get(environment, "UCX_TLS")), "sm,self");
    unsetenv("UCX_TLS");
    free(text);
    json_decref(environment);
}

static void test_U09_secret_is_in_no_part_of_a_record(void **state)
{
    json_t *fingerprint;
    char   *text;

    (void)state;
    setenv("MY_TOKEN", "abc-hidden-value", 1);
    fingerprint = k3_fingerprint(&machine);
    text = json_dumps(fingerprint, 0);
    assert_non_null(text);
    assert_null(strstr(text, "hidden"));
    unsetenv("MY_TOKEN");
    free(text);
    json_decref(fingerprint);
}

static void test_environment_is_sorted_by_name(void **state)
{
    json_t     *environment;
    const char *previous = "";
    const char *name;
    json_t     *value;

    (void)state;
    setenv("UCX_A1", "2", 1);
    setenv("UCX_B", "\xff", 1);
    setenv("UCX_A", "1", 1);
    setenv("OMP_NUM_THREADS", "", 1);
    environment = k3_environment();
    assert_true(json_object_size(environment) >= 4);
    json_object_foreach(environment, name, value)
    {
        assert_true(strcmp(previous, name) < 0);
        assert_true(json_is_string(value));
        previous = name;
    }
    assert_string_equal(json_string_value(json_object_get(environment, "UCX_B")), "?");
    assert_string_equal(json_string_value(json_object_get(environment, "OMP_NUM_THREADS")), "");
    json_decref(environment);
    unsetenv("UCX_A1");
    unsetenv("UCX_A");
    unsetenv("UCX_B");
    unsetenv("OMP_NUM_THREADS");
}

static void test_utc_now(void **state)
{
    char      text[21];
    struct tm parts;
    time_t    before = time(NULL);

    (void)state;
    k3_utc_now(text);
    memset(&parts, 0, sizeof(parts));
    assert_int_equal(strlen(text), 20);
    assert_int_equal(sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2dZ", &parts.tm_year, &parts.tm_mon,
                            &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec),
                     6);
    parts.tm_year -= 1900;
    parts.tm_mon -= 1;
    assert_in_range(timegm(&parts), before, before + 5);
}

static void test_U04_run_ids_differ(void **state)
{
    char first[17], second[17];

    (void)state;
    k3_run_id(first);
    k3_run_id(second);
    assert_int_equal(strlen(first), 16);
    assert_int_equal(strspn(first, "0123456789abcdef"), 16);
    assert_string_not_equal(first, second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fingerprint_has_its_parts),
        cmocka_unit_test(test_key_depends_on_stable_facts_alone),
        cmocka_unit_test(test_U09_environment_is_an_allow_list),
        cmocka_unit_test(test_U09_secret_is_in_no_part_of_a_record),
        cmocka_unit_test(test_environment_is_sorted_by_name),
        cmocka_unit_test(test_utc_now),
        cmocka_unit_test(test_U04_run_ids_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
