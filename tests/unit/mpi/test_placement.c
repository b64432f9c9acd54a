/* Nearest network device and share of the cores, on described machines (tests/data/machines). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "harness/mpi/placement.h"

static const struct {
    const char *name, *nic;
    int         cores;
} machines[] = {{"h200", "mlx5_", 112}, {"b300", "mlx5_", 144}, {"mi355x", "bnxt_re", 128}};

static hwloc_topology_t load(const char *name)
{
    char             path[512];
    hwloc_topology_t topology;

    snprintf(path, sizeof(path), "%s/tests/data/machines/%s.xml", K3_SOURCE_DIR, name);
    topology = k3_topology_load(path, NULL);
    assert_non_null(topology);
    return topology;
}

/* The description puts device i ^ 1 beside accelerator i. */
static void test_beside_the_accelerator(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof(machines) / sizeof(machines[0]); m++) {
        hwloc_topology_t topology = load(machines[m].name);

        assert_int_equal(k3_topology_accelerators(topology), 8);
        for (int gpu = 0; gpu < 8; gpu++) {
            char nic[K3_NIC_MAX], want[K3_NIC_MAX];

            snprintf(want, sizeof(want), "%s%d:1", machines[m].nic, gpu ^ 1);
            for (int rank = 0; rank < 3; rank++) {
                assert_true(k3_nearest_nic(topology, gpu, NULL, rank, nic));
                assert_string_equal(nic, want);
            }
        }
        hwloc_topology_destroy(topology);
    }
}

/* Ranks on cores: a device of the own socket, each of the four in turn, never one that is down. */
static void test_beside_the_cores(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof(machines) / sizeof(machines[0]); m++) {
        hwloc_topology_t topology = load(machines[m].name);
        hwloc_bitmap_t   cpus = hwloc_bitmap_alloc();
        unsigned         used = 0;

        for (int rank = 0; rank < 8; rank++) {
            char     nic[K3_NIC_MAX];
            unsigned number;

            assert_true(k3_share_of_cores(topology, rank, 8, cpus));
            assert_int_equal(hwloc_bitmap_weight(cpus), machines[m].cores / 8);
            assert_true(k3_nearest_nic(topology, -1, cpus, rank, nic));
            assert_int_equal(strncmp(nic, machines[m].nic, strlen(machines[m].nic)), 0);
            number = (unsigned)(nic[strlen(machines[m].nic)] - '0');
            assert_true(number < 8);
            assert_int_equal(number / 4, rank / 4);
            used |= 1u << number;
        }
        assert_int_equal(used, 0xff);
        hwloc_bitmap_free(cpus);
        hwloc_topology_destroy(topology);
    }
}

static void test_shares_are_disjoint(void **state)
{
    hwloc_topology_t topology = k3_topology_load(NULL, "package:2 numa:1 core:5 pu:2");
    hwloc_bitmap_t   all = hwloc_bitmap_alloc(), share = hwloc_bitmap_alloc();
    char             nic[K3_NIC_MAX];

    (void)state;
    assert_non_null(topology);
    for (int ranks = 1; ranks <= 10; ranks++) {
        hwloc_bitmap_zero(all);
        for (int r = 0; r < ranks; r++) {
            assert_true(k3_share_of_cores(topology, r, ranks, share));
            assert_false(hwloc_bitmap_iszero(share));
            assert_false(hwloc_bitmap_intersects(all, share));
            hwloc_bitmap_or(all, all, share);
        }
        assert_int_equal(hwloc_bitmap_weight(all), 20);
    }
    assert_false(k3_share_of_cores(topology, 0, 11, share));
    assert_false(k3_nearest_nic(topology, -1, all, 0, nic));
    assert_int_equal(k3_topology_accelerators(topology), 0);
    hwloc_bitmap_free(share);
    hwloc_bitmap_free(all);
    hwloc_topology_destroy(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_beside_the_accelerator),
                                       cmocka_unit_test(test_beside_the_cores),
                                       cmocka_unit_test(test_shares_are_disjoint)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
