/* A node whose link is slow, out of waits between ranks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/report/pattern_internal.h"

enum { RANKS = 8 };

static const int nodes_of_two[RANKS] = {0, 0, 1, 1, 2, 2, 3, 3};

/* 100 us between nodes, `slow` times that to and from node `node`, 1 us within. */
static void fill(double *wait, const int *nodes, int node, double slow)
{
    for (int dst = 0; dst < RANKS; dst++) {
        for (int src = 0; src < RANKS; src++) {
            bool with = nodes[dst] == node || nodes[src] == node;

            wait[dst * RANKS + src] = nodes[dst] == nodes[src] ? 1.0 : with ? 100.0 * slow : 100.0;
        }
    }
}

static void test_each_node(void **state)
{
    double wait[RANKS * RANKS], excess;

    (void)state;
    for (int node = 0; node < 4; node++) {
        fill(wait, nodes_of_two, node, 2.0);
        assert_int_equal(k3_slow_link(wait, RANKS, nodes_of_two, &excess), node);
        assert_float_equal(excess, 100.0, 1e-9);
    }
}

static void test_none(void **state)
{
    static const int two[RANKS] = {0, 0, 0, 0, 1, 1, 1, 1};
    static const int one[RANKS] = {0};
    double           wait[RANKS * RANKS], excess;

    (void)state;
    fill(wait, nodes_of_two, 1, 1.0);
    assert_int_equal(k3_slow_link(wait, RANKS, nodes_of_two, &excess), -1);
    /* One direction of one pair is as fast as the others: no slow link. */
    fill(wait, nodes_of_two, 1, 2.0);
    wait[2 * RANKS + 4] = wait[2 * RANKS + 5] = wait[3 * RANKS + 4] = wait[3 * RANKS + 5] = 100.0;
    assert_int_equal(k3_slow_link(wait, RANKS, nodes_of_two, &excess), -1);
    fill(wait, two, 1, 2.0);
    assert_int_equal(k3_slow_link(wait, RANKS, two, &excess), -1);
    fill(wait, one, 1, 2.0);
    assert_int_equal(k3_slow_link(wait, RANKS, one, &excess), -1);
    for (int i = 0; i < RANKS * RANKS; i++) {
        wait[i] = NAN;
    }
    assert_int_equal(k3_slow_link(wait, RANKS, nodes_of_two, &excess), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_node),
                                       cmocka_unit_test(test_none)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
