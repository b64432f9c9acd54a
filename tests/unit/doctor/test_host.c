/* What doctor says about a laptop, a limited container and a node of eight GPUs (E03, E04, E05, E08). */
#define _GNU_SOURCE /* nftw */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "harness/doctor/host.h"
#include "tree.h"

static k3_findings_t found;

static const k3_finding_t *line(const char *topic, const char *name)
{
    for (size_t i = 0; i < found.count; i++) {
        if (strcmp(found.items[i].topic, topic) == 0 && strcmp(found.items[i].name, name) == 0) {
            return &found.items[i];
        }
    }
    fail_msg("no line %s %s", topic, name);
    return NULL;
}

static void expect(const char *topic, const char *name, k3_level_t level, const char *value)
{
    const k3_finding_t *f = line(topic, name);

    if (strstr(f->value, value) == NULL || f->level != level) {
        fail_msg("%s %s: %s, \"%s\"", topic, name, k3_level_names[f->level], f->value);
    }
    assert_true((f->advice[0] != '\0') == (level != K3_LEVEL_OK));
}

static void look(unsigned ranks, unsigned hosts, const char *filter)
{
    k3_host_facts_t facts = {.root = tree, .ranks = ranks, .hosts = hosts, .net_devices = filter};

    k3_findings_free(&found);
    k3_doctor_cpu(&facts, &found);
    k3_doctor_memory(&facts, &found);
    k3_doctor_nics(&facts, &found);
    k3_doctor_gpus(&facts, &found);
}

static int end(void **state)
{
    k3_findings_free(&found);
    return tree_end(state);
}

static void common(const char *online, const char *memory_kib)
{
    char text[128];

    put("/sys/devices/system/cpu/online", online);
    put("/sys/devices/system/node/online", "0\n");
    put("/proc/cpuinfo", "processor : 0\nmodel name\t: Some CPU @ 3 GHz\n");
    (void)snprintf(text, sizeof(text), "Name: k3bench\nCpus_allowed_list:\t%s\n", online);
    put("/proc/self/status", text);
    (void)snprintf(text, sizeof(text), "MemTotal: %s kB\nMemAvailable: %s kB\n", memory_kib,
                   memory_kib);
    put("/proc/meminfo", text);
    put("/proc/loadavg", "0.10 0.2 0.3 1/200 77\n");
    put("/proc/self/limits", "Max locked memory         8388608   8388608   bytes\n");
    put("/dev/shm/x", "");
    put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
}

static void laptop(void)
{
    common("0-7\n", "16000000");
    put("/sys/devices/system/cpu/smt/active", "1\n");
    for (int i = 0; i < 8; i++) {
        char path[96];

        (void)snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor",
                       i);
        put(path, i == 7 ? "performance\n" : "powersave\n");
    }
    put("/sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
    put("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
    put("/sys/kernel/mm/transparent_hugepage/defrag", "[always] defer madvise never\n");
    put("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
        "always within_size [advise] never deny force\n");
    put("/sys/class/net/lo/operstate", "unknown\n");
    put("/sys/class/net/wlan0/operstate", "up\n");
    put("/sys/class/net/wlan0/mtu", "1500\n");
    put("/sys/class/net/eth0/operstate", "down\n");
}

static void test_laptop(void **state)
{
    (void)state;
    laptop();
    look(0, 1, NULL);
    expect("cpu", "cores", K3_LEVEL_OK, "8 online, Some CPU @ 3 GHz");
    expect("cpu", "governor", K3_LEVEL_WARN, "powersave, not on all cores");
    expect("cpu", "turbo", K3_LEVEL_WARN, "on");
    expect("cpu", "smt", K3_LEVEL_OK, "on");
    expect("cpu", "clock source", K3_LEVEL_OK, "tsc");
    expect("cpu", "quota", K3_LEVEL_OK, "none");
    expect("cpu", "load", K3_LEVEL_OK, "0.10 on 8");
    expect("memory", "huge pages", K3_LEVEL_WARN, "always");
    expect("memory", "shared huge pages", K3_LEVEL_OK, "advise");
    assert_null(strstr(line("memory", "shared huge pages")->value, "saves"));
    expect("memory", "locked", K3_LEVEL_OK, "8 MiB"); /* no RDMA device: nothing needs locks */
    expect("network", "wlan0", K3_LEVEL_OK, "up");
    expect("network", "eth0", K3_LEVEL_OK, "down");
    expect("gpu", "devices", K3_LEVEL_OK, "none");
    look(6, 1, NULL);
    expect("cpu", "smt", K3_LEVEL_WARN, "on");
    expect("cpu", "ranks", K3_LEVEL_OK, "6 on 8");
    look(9, 1, NULL);
    expect("cpu", "ranks", K3_LEVEL_WARN, "9 on 8"); /* E08: runs, and says what the times hold */
    put("/proc/loadavg", "7.5 2 1 1/1 1\n");
    put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
    look(0, 1, NULL);
    expect("cpu", "load", K3_LEVEL_WARN, "7.50");
    expect("cpu", "clock source", K3_LEVEL_BAD, "hpet");
}

static void test_container(void **state)
{
    (void)state;
    common("0-63\n", "500000000");
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
    put("/sys/fs/cgroup/memory.max", "536870912\n");
    put("/sys/fs/cgroup/cpu.stat", "nr_periods 100\nnr_throttled 40\n");
    look(2, 1, NULL);
    put("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
        "always within_size advise [never] deny force\n");
    look(2, 1, NULL);
    expect("memory", "shared huge pages", K3_LEVEL_OK, "never; `advise` in /sys/kernel/mm");
    expect("cpu", "quota", K3_LEVEL_WARN, "2 cores of 64");
    expect("cpu", "throttled", K3_LEVEL_WARN, "40 of 100");
    expect("memory", "limit", K3_LEVEL_BAD, "0.50 GiB");
    look(8, 1, NULL);
    expect("cpu", "quota", K3_LEVEL_BAD, "2 cores of 64");
    assert_non_null(strstr(line("cpu", "quota")->advice, "8 ranks"));
    put("/sys/fs/cgroup/memory.max", "max\n");
    put("/sys/fs/cgroup/cpu.max", "max 100000\n");
    look(8, 1, NULL);
    expect("cpu", "quota", K3_LEVEL_OK, "none");
    expect("memory", "limit", K3_LEVEL_OK, "none");
}

static void h200_node(void)
{
    char path[128];

    common("0-191\n", "2000000000");
    put("/sys/devices/system/node/online", "0-1\n");
    put("/proc/sys/kernel/numa_balancing", "1\n");
    for (int i = 0; i < 8; i++) {
        (void)snprintf(path, sizeof(path), "/sys/class/infiniband/mlx5_%d/ports/1/state", i);
        put(path, i == 5 ? "1: DOWN\n" : "4: ACTIVE\n");
        (void)snprintf(path, sizeof(path), "/sys/class/infiniband/mlx5_%d/ports/1/rate", i);
        put(path, "400 Gb/sec (4X NDR)\n");
        (void)snprintf(path, sizeof(path), "/sys/class/infiniband/mlx5_%d/ports/1/link_layer", i);
        put(path, "InfiniBand\n");
        (void)snprintf(path, sizeof(path), "/sys/class/infiniband/mlx5_%d/device/numa_node", i);
        put(path, i < 4 ? "0\n" : "1\n");
        (void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/0000:%02x:00.0/vendor", 16 * i);
        put(path, "0x10de\n");
        (void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/0000:%02x:00.0/class", 16 * i);
        put(path, "0x030200\n");
        (void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/0000:%02x:00.0/device", 16 * i);
        put(path, "0x2335\n");
        (void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/0000:%02x:00.0/current_link_width",
                       16 * i);
        put(path, i == 3 ? "8\n" : "16\n");
        (void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/0000:%02x:00.0/max_link_width",
                       16 * i);
        put(path, "16\n");
    }
    put("/sys/bus/pci/devices/0000:ff:00.0/vendor", "0x8086\n");
    put("/sys/bus/pci/devices/0000:ff:00.0/class", "0x020000\n");
    put("/sys/class/net/eth0/operstate", "up\n");
}

static void test_gpu_node(void **state)
{
    (void)state;
    h200_node();
    look(8, 4, NULL);
    expect("cpu", "numa", K3_LEVEL_OK, "2 nodes");
    expect("cpu", "numa balancing", K3_LEVEL_WARN, "on");
    expect("memory", "locked", K3_LEVEL_BAD,
           "8 MiB"); /* RDMA is here and memory cannot be locked */
    expect("network", "RDMA", K3_LEVEL_OK, "8 devices, 7 active");
    expect("network", "mlx5_0:1", K3_LEVEL_OK, "400 Gb/sec");
    expect("network", "mlx5_5:1", K3_LEVEL_WARN, "1: DOWN");
    expect("gpu", "0000:00:00.0", K3_LEVEL_OK, "10de:2335");
    expect("gpu", "0000:30:00.0", K3_LEVEL_WARN, "10de:2335");
    put("/proc/self/limits", "Max locked memory         unlimited   unlimited   bytes\n");
    look(8, 4, NULL);
    expect("memory", "locked", K3_LEVEL_OK, "unlimited");
}

static void test_E03_E04_filters(void **state)
{
    (void)state;
    h200_node();
    look(8, 4, "mlx5_0:1");
    expect("network", "filter", K3_LEVEL_OK, "mlx5_0:1");
    look(8, 4, "mlx5_5:1");
    expect("network", "filter", K3_LEVEL_BAD, "mlx5_5:1");
    assert_non_null(strstr(line("network", "filter")->advice, "it is down (1: DOWN)"));
    look(8, 4, "mlx5_9:1");
    expect("network", "filter", K3_LEVEL_BAD, "mlx5_9:1");
    assert_non_null(strstr(line("network", "filter")->advice, "no such device"));
    assert_non_null(strstr(line("network", "filter")->advice, "mlx5_0:1, mlx5_1:1"));
    look(8, 4, "eth0");
    expect("network", "filter", K3_LEVEL_OK, "eth0");
    look(8, 4, "../../proc");
    expect("network", "filter", K3_LEVEL_BAD, "../../proc");
    look(8, 4, "lo");
    expect("network", "filter", K3_LEVEL_BAD, "lo");
    look(8, 1, "lo");
    expect("network", "filter", K3_LEVEL_WARN, "lo");
}

static void test_E05_no_network(void **state)
{
    (void)state;
    common("0-1\n", "16000000");
    look(2, 1, NULL);
    expect("network", "interfaces", K3_LEVEL_OK, "none is up");
    look(2, 2, NULL);
    expect("network", "interfaces", K3_LEVEL_BAD, "none is up");
    expect("network", "RDMA", K3_LEVEL_WARN, "0 devices");
}

static void test_nothing_readable(void **state)
{
    (void)state;
    look(4, 2, "eth7");
    assert_true(found.count > 10); /* every subject is still named */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_laptop, tree_begin, end),
        cmocka_unit_test_setup_teardown(test_container, tree_begin, end),
        cmocka_unit_test_setup_teardown(test_gpu_node, tree_begin, end),
        cmocka_unit_test_setup_teardown(test_E03_E04_filters, tree_begin, end),
        cmocka_unit_test_setup_teardown(test_E05_no_network, tree_begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_readable, tree_begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
