/* Options that are given and would change nothing. */
#include "tests/unit/plan/plan_test.h"

#include "bench/commands/command.h"
#include "bench/plan/effect.h"

static k3_options_t *parse(unsigned command, const char *words)
{
    k3_option_table_t table = {k3_option_defs, k3_option_count, command};
    k3_error_t        err = K3_ERROR_INIT;
    k3_options_t     *options = NULL;
    k3_list_t         list;

    k3_list_split(words, ' ', &list);
    if (k3_options_parse(&table, (int)list.count, list.items, &options, &err) != K3_OK) {
        fail_msg("%s: %s", words, err.text);
    }
    k3_list_free(&list);
    return options;
}

static k3_status_t check(unsigned command, const char *words, k3_error_t *err)
{
    k3_options_t     *options = parse(command, words);
    k3_cell_request_t base = {.world = 0};
    k3_requests_t     requests;

    assert_int_equal(k3_requests_create(options, &base, &requests, err), K3_OK);
    k3_effect_check(options, &requests, err);
    k3_requests_free(&requests);
    k3_options_free(options);
    return err->status;
}

static void assert_idle(unsigned command, const char *words, const char *a, const char *b)
{
    k3_error_t err = K3_ERROR_INIT;

    if (check(command, words, &err) != K3_ERR_USAGE) {
        fail_msg("%s: not refused", words);
    }
    assert_says(&err, "has no effect", a, b);
}

static void assert_acts(unsigned command, const char *words)
{
    k3_error_t err = K3_ERROR_INIT;

    if (check(command, words, &err) != K3_OK) {
        fail_msg("%s: %s", words, err.text);
    }
}

static void test_lanes(void **state)
{
    (void)state;
    assert_idle(K3_COMMAND_RUN, "--backend none --p2p off", "p2p off", "no queue pairs");
    assert_idle(K3_COMMAND_PLAN, "--backend none,mpi,null --p2p on", "any of the cells", "none");
    assert_idle(K3_COMMAND_RUN, "--backend mpi --accounting off", "accounting off", "mpi");
    assert_idle(K3_COMMAND_RUN, "--backend null --transport any", "transport any", "null");
    assert_idle(K3_COMMAND_RUN, "--device cuda --backend deepep:ll --p2p off", "p2p", "not mapped");
    assert_acts(K3_COMMAND_RUN, "--p2p off --accounting off --transport any"); /* by default some */
    assert_acts(K3_COMMAND_RUN, "--backend none,megamoe --p2p off");
    assert_acts(K3_COMMAND_RUN, "--backend nixl,none --accounting off");
}

static void test_fabric(void **state)
{
    (void)state;
    assert_idle(K3_COMMAND_RUN, "--backend none --fabric roce", "fabric roce", "none");
    assert_idle(K3_COMMAND_PLAN, "--backend deepep:ll --fabric ib", "fabric ib", "as many");
    assert_idle(K3_COMMAND_RUN, "--backend mooncake --qps 4 --fabric roce", "fabric", "--qps");
    assert_acts(K3_COMMAND_RUN, "--backend mooncake --qps auto,4 --fabric roce");
    assert_acts(K3_COMMAND_PLAN, "--backend deepep:ll,mooncake --fabric roce");
}

static void test_device(void **state)
{
    static const char *const idle[] = {"--staged on", "--events off", "--share-device on",
                                       "--staged off --device cpu"};

    (void)state;
    for (unsigned i = 0; i < sizeof(idle) / sizeof(idle[0]); i++) {
        assert_idle(K3_COMMAND_RUN, idle[i], "on a device", "--device is cpu");
    }
    assert_idle(K3_COMMAND_RUN, "--device hip --isa scalar", "isa scalar", "the device's");
    assert_acts(K3_COMMAND_RUN, "--device hip --staged on --events off --share-device on");
    assert_acts(K3_COMMAND_RUN, "--isa scalar --device cpu");
}

static void test_iterations(void **state)
{
    (void)state;
    assert_idle(K3_COMMAND_RUN, "--iters 5 --max-seconds 3", "max-seconds 3", "--iters 5");
    assert_idle(K3_COMMAND_RUN, "--ci-target 1 --iters 5", "ci-target 1", "--iters 5");
    assert_acts(K3_COMMAND_RUN, "--iters 5");
    assert_acts(K3_COMMAND_RUN, "--ci-target 1 --max-seconds 3");
}

static void test_path_rule(void **state)
{
    (void)state;
    assert_idle(K3_COMMAND_PLAN, "--backend none --path-rule unlisted", "path-rule", "span");
    assert_idle(K3_COMMAND_RUN, "--backend mooncake --path fast --path-rule unlisted", "path-rule",
                "--path fast");
    assert_acts(K3_COMMAND_RUN, "--backend mooncake --path auto,fast --path-rule unlisted");
    assert_acts(K3_COMMAND_RUN, "--backend mooncake --path fallback --path-rule unlisted");
}

static void test_counting(void **state)
{
    (void)state;
    assert_idle(K3_COMMAND_PLAN, "--routing trace:x.npy --counting expected", "counting expected",
                "row by row");
    assert_acts(K3_COMMAND_PLAN, "--routing uniform,trace:x.npy --counting expected");
    assert_acts(K3_COMMAND_PLAN, "--counting exact");
}

/* What is the same in all launches of a user stands in the environment. */
static void test_environment_is_not_asked(void **state)
{
    (void)state;
    setenv("K3BENCH_STAGED", "on", 1);
    setenv("K3BENCH_MAX_SECONDS", "1", 1);
    assert_acts(K3_COMMAND_RUN, "--iters 5");
    unsetenv("K3BENCH_STAGED");
    unsetenv("K3BENCH_MAX_SECONDS");
}

/* Its name is told, not that nothing comes of it. */
static void test_unknown_backend(void **state)
{
    (void)state;
    assert_acts(K3_COMMAND_RUN, "--backend moncake --p2p off");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_fabric),
        cmocka_unit_test(test_device),
        cmocka_unit_test(test_iterations),
        cmocka_unit_test(test_path_rule),
        cmocka_unit_test(test_counting),
        cmocka_unit_test(test_environment_is_not_asked),
        cmocka_unit_test(test_unknown_backend),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
