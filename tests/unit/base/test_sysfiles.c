/* Readers of the kernel's files on small trees. */
#define _GNU_SOURCE /* nftw */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../doctor/tree.h"
#include "harness/base/sysfiles.h"

static void test_lines_fields_and_choices(void **state)
{
    char    text[K3_SYS_LINE];
    int64_t number;

    (void)state;
    put("/a/line", "first \t\nsecond\n");
    put("/a/empty", "");
    put("/a/fields", "one: 1\nMax locked memory       8388608   bytes\n");
    put("/a/choice", "always [madvise] never\n");
    put("/a/number", "-1\n");
    assert_true(k3_sys_line(tree, "/a/line", text));
    assert_string_equal(text, "first");
    assert_false(k3_sys_line(tree, "/a/empty", text));
    assert_false(k3_sys_line(tree, "/a/none", text));
    assert_true(k3_sys_field(tree, "/a/fields", "Max locked memory", text));
    assert_string_equal(text, "8388608   bytes");
    assert_false(k3_sys_field(tree, "/a/fields", "two", text));
    assert_true(k3_sys_chosen(tree, "/a/choice", text));
    assert_string_equal(text, "madvise");
    assert_true(k3_sys_number(tree, "/a/number", &number) && number == -1);
    assert_false(k3_sys_number(tree, "/a/choice", &number));
    assert_true(k3_sys_exists(tree, "/a") && !k3_sys_exists(tree, "/b"));
}

static void test_load(void **state)
{
    double load = -1.0;

    (void)state;
    assert_false(k3_sys_load(tree, &load));
    put("/proc/loadavg", "7.95 8.1 2.0 3/456 789\n");
    assert_true(k3_sys_load(tree, &load));
    assert_true(load == 7.95);
    put("/proc/loadavg", "none\n");
    assert_false(k3_sys_load(tree, &load));
}

static void test_id_lists(void **state)
{
    (void)state;
    assert_int_equal(k3_sys_count_ids("0-3,8"), 5);
    assert_int_equal(k3_sys_count_ids("7"), 1);
    assert_int_equal(k3_sys_count_ids(""), 0);
    assert_int_equal(k3_sys_count_ids("3-1"), 0);
    assert_int_equal(k3_sys_count_ids("0-3;8"), 0);
    assert_int_equal(k3_sys_count_ids("0-"), 0);
    assert_int_equal(k3_sys_count_ids("0-18446744073709551615"), 0);
}

static void test_quota_of_a_group_above_binds(void **state)
{
    double   cpus;
    uint64_t bytes, held, periods;

    (void)state;
    put("/proc/self/cgroup", "0::/pods/one\n");
    put("/sys/fs/cgroup/pods/one/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/pods/cpu.max", "150000 100000\n");
    put("/sys/fs/cgroup/pods/one/memory.max", "max\n");
    put("/sys/fs/cgroup/pods/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/pods/one/cpu.stat", "usage_usec 5\nnr_periods 200\nnr_throttled 30\n");
    assert_true(k3_sys_cpu_quota(tree, &cpus));
    assert_true(cpus == 1.5);
    assert_true(k3_sys_memory_limit(tree, &bytes) && bytes == 1073741824u);
    assert_true(k3_sys_throttled(tree, &held, &periods) && held == 30 && periods == 200);
}

static void test_groups_of_version_one(void **state)
{
    double   cpus;
    uint64_t bytes;

    (void)state;
    put("/proc/self/cgroup", "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n"); /* shown as the root in a container */
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(k3_sys_cpu_quota(tree, &cpus) && cpus == 2.5);
    assert_false(k3_sys_memory_limit(tree, &bytes));
    put("/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "4194304\n");
    assert_true(k3_sys_memory_limit(tree, &bytes) && bytes == 4194304);
}

static void test_no_limits_and_broken_files(void **state)
{
    double   cpus;
    uint64_t bytes;

    (void)state;
    assert_false(k3_sys_cpu_quota(tree, &cpus));
    put("/proc/self/cgroup", "0::/\nbroken\n:\n");
    put("/sys/fs/cgroup/cpu.max", "many\n");
    put("/sys/fs/cgroup/memory.max", "-5\n");
    assert_false(k3_sys_cpu_quota(tree, &cpus));
    assert_false(k3_sys_memory_limit(tree, &bytes));
}

static void test_turbo(void **state)
{
    bool on = false;

    (void)state;
    assert_false(k3_sys_turbo(tree, &on));
    put("/sys/devices/system/cpu/cpufreq/boost", "1\n");
    assert_true(k3_sys_turbo(tree, &on) && on);
    put("/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
    assert_true(k3_sys_turbo(tree, &on) && !on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines_fields_and_choices, tree_begin, tree_end),
        cmocka_unit_test_setup_teardown(test_load, tree_begin, tree_end),
        cmocka_unit_test(test_id_lists),
        cmocka_unit_test_setup_teardown(test_quota_of_a_group_above_binds, tree_begin, tree_end),
        cmocka_unit_test_setup_teardown(test_groups_of_version_one, tree_begin, tree_end),
        cmocka_unit_test_setup_teardown(test_no_limits_and_broken_files, tree_begin, tree_end),
        cmocka_unit_test_setup_teardown(test_turbo, tree_begin, tree_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
