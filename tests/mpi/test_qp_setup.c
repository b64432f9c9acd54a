/* What set-up refuses, how the order self-test decides, and the slow-lane fault.
 * ranks: 1 2 3 8 */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include <sys/resource.h>

#include "harness/mpi/qp_internal.h"
#include "ranks.h"

static k3_fabric_t *fabric;

static void expect_refusal(const k3_qps_config_t *config, k3_status_t status, const char *a,
                           const char *b)
{
    k3_error_t fault = K3_ERROR_INIT;
    k3_qps_t  *qps = NULL;

    k3_qps_create(fabric, config, &qps, &fault);
    if (fault.status != status || strstr(fault.text, a) == NULL || strstr(fault.text, b) == NULL) {
        fprintf(stderr, "status %d, text: %s\n", (int)fault.status, fault.text);
    }
    CHECK(qps == NULL && fault.status == status);
    CHECK(strstr(fault.text, a) != NULL && strstr(fault.text, b) != NULL);
}

static void test_refusals(void)
{
    k3_qps_config_t config = basic_config(4096, 0, true);

    expect_refusal(&config, K3_ERR_USAGE, "0 queue pairs", "4096");
    config = basic_config(4096, 4097, true);
    expect_refusal(&config, K3_ERR_USAGE, "4097", "4096");
    config = basic_config(4096, 1, true);
    config.banks = K3_BANKS_MAX + 1;
    expect_refusal(&config, K3_ERR_USAGE, "5 banks", "4");
    config = basic_config(4096, 1, true);
    config.slow_peer = world.size;
    config.slow_factor = 2;
    expect_refusal(&config, K3_ERR_USAGE, "slow", "factor 2");
    config = basic_config(UINT64_C(1) << 60, 1, true);
    expect_refusal(&config, K3_ERR_ENV, "1152921504606846976 bytes", "do not fit");
    config = basic_config(UINT64_MAX, 1, true);
    expect_refusal(&config, K3_ERR_ENV, "18446744073709551615 bytes", "do not fit");
}

static void test_mismatch(void)
{
    bool            odd = world.rank == world.size - 1;
    k3_qps_config_t config = basic_config(odd ? 8192 : 4096, 2, true);

    if (world.size == 1) {
        return;
    }
    expect_refusal(&config, K3_ERR_USAGE, "4096 on rank 0", "8192 on rank");
    config = basic_config(4096, odd ? 3 : 2, true);
    expect_refusal(&config, K3_ERR_USAGE, "2 on rank 0", "3 on rank");
}

/* One rank's own fault reaches all, with its number. */
static void test_one_fails(void)
{
    k3_qps_config_t config = basic_config(4096, 2, true);

    if (world.size == 1) {
        return;
    }
    config.banks = world.rank == world.size - 1 ? 9 : 2;
    expect_refusal(&config, K3_ERR_USAGE, "rank ", "9 banks");
}

static k3_signal_order_t order_with(k3_order_fault_t fault, bool p2p)
{
    k3_qps_config_t   config = basic_config(100, 2, p2p);
    k3_qps_t         *qps;
    k3_signal_order_t order;
    uint64_t          rounds, bare, used;

    config.order_rounds = 6;
    k3_order_fault = fault;
    CHECK_OK(k3_qps_create(fabric, &config, &qps, err));
    k3_order_fault = K3_ORDER_FAULT_NONE;
    order = k3_qps_order(qps);
    k3_qps_order_result(qps, &rounds, &bare, &used);
    CHECK(rounds == 6 * (unsigned)world.size && used == 0);
    k3_qps_destroy(qps);
    return order;
}

static void test_Q04_Q16_order(void)
{
    k3_qps_config_t config = basic_config(100, 2, false);

    CHECK(order_with(K3_ORDER_FAULT_NONE, false) == K3_ORDER_FENCE);
    CHECK(order_with(K3_ORDER_FAULT_NONE, true) == K3_ORDER_FENCE);
    if (world.size == 1) {
        return; /* the own memory cannot be overtaken */
    }
    CHECK(order_with(K3_ORDER_FAULT_FENCE, false) == K3_ORDER_FLUSH);
    config.order_rounds = 6;
    k3_order_fault = K3_ORDER_FAULT_ALL;
    expect_refusal(&config, K3_ERR_ENV, "overtook", "flushed");
    k3_order_fault = K3_ORDER_FAULT_ADD;
    k3_order_limit = 1;
    expect_refusal(&config, K3_ERR_ENV, "32-bit add", "write");
    k3_order_fault = K3_ORDER_FAULT_NONE;
    k3_order_limit = 30;
}

/* Data and signals stay in order, and accounts right, where a flush stands in for the fence. */
static void test_flush_form(void)
{
    k3_qps_config_t config = basic_config(65536, 2, false);
    k3_qps_t       *qps;
    int             to = (world.rank + 1) % world.size;
    static uint64_t source[4096];
    const char     *memory;

    if (world.size == 1) {
        return;
    }
    config.order_rounds = 3;
    k3_order_fault = K3_ORDER_FAULT_FENCE;
    CHECK_OK(k3_qps_create(fabric, &config, &qps, err));
    k3_order_fault = K3_ORDER_FAULT_NONE;
    CHECK(k3_qps_order(qps) == K3_ORDER_FLUSH);
    memory = k3_qps_memory(qps);
    for (uint64_t round = 1; round <= 20; round++) {
        k3_qps_bank_begin(qps, 0);
        for (unsigned i = 0; i < 4096; i++) {
            source[i] = round;
        }
        k3_qps_put(qps, to, 1, source, 8192, sizeof(source), 0);
        k3_qps_signal_add32(qps, to, 1, 0, 1);
        while (k3_signal_read32(memory) != round) {
            CHECK_OK(k3_qps_idle(qps, err));
        }
        for (unsigned i = 0; i < 4096; i++) {
            CHECK(((const uint64_t *)(const void *)(memory + 8192))[i] == round);
        }
        CHECK_OK(k3_qps_bank_end(qps, err));
        CHECK_OK(k3_qps_barrier(qps, err));
    }
    k3_qps_destroy(qps);
}

static unsigned lowest_bucket(const k3_qps_t *qps, int peer, unsigned qp)
{
    k3_lane_stats_t stats;

    k3_qps_lane_stats(qps, 0, peer, qp, false, &stats);
    CHECK(stats.hist != NULL);
    for (unsigned i = 0; i < K3_HIST_BUCKETS; i++) {
        if (stats.hist->count[i] != 0) {
            return i;
        }
    }
    return K3_HIST_BUCKETS;
}

static void test_slow_lane(bool p2p)
{
    int             to = (world.rank + 1) % world.size;
    k3_qps_config_t config = basic_config(4096, 3, p2p);
    k3_qps_t       *qps;
    char            data[128] = {0};

    config.slow_peer = to;
    config.slow_qp = 1;
    config.slow_factor = 101;
    CHECK_OK(k3_qps_create(fabric, &config, &qps, err));
    k3_qps_bank_begin(qps, 0);
    for (int i = 0; i < 60; i++) {
        k3_qps_put(qps, to, (unsigned)i % 3, data, 0, sizeof(data), sizeof(data));
    }
    CHECK_OK(k3_qps_bank_end(qps, err));
    CHECK(lowest_bucket(qps, to, 1) >= k3_hist_bucket(100000));
    CHECK(lowest_bucket(qps, to, 0) < k3_hist_bucket(100000));
    CHECK(lowest_bucket(qps, to, 2) < k3_hist_bucket(100000));
    CHECK_OK(k3_qps_barrier(qps, err));
    k3_qps_destroy(qps);
}

/* Peers on another node, by a virtual assignment, are not mapped. */
static void test_virtual_nodes(void)
{
    int             nodes[64];
    k3_qps_config_t config = basic_config(4096, 1, true);
    k3_qps_t       *qps;

    for (int r = 0; r < world.size; r++) {
        nodes[r] = r / 2;
    }
    config.node_of = nodes;
    config.order_rounds = 3;
    CHECK_OK(k3_qps_create(fabric, &config, &qps, err));
    for (int r = 0; r < world.size; r++) {
        if (r != world.rank) {
            CHECK((k3_qps_kind(qps, r) == K3_LANE_P2P) == (r / 2 == world.rank / 2));
        }
    }
    k3_qps_destroy(qps);
}

/* Histograms beyond the memory bound are shared by the lanes to one peer. */
static void test_shared_histograms(void)
{
    k3_qps_config_t config = basic_config(4096, 4096, true);
    k3_qps_t       *qps;
    k3_lane_stats_t a, b;
    char            byte = 1;

    if (world.size < 8) {
        return;
    }
    config.banks = 3;
    CHECK_OK(k3_qps_create(fabric, &config, &qps, err));
    k3_qps_bank_begin(qps, 2);
    k3_qps_put(qps, 3, 7, &byte, 0, 1, 1);
    k3_qps_put(qps, 3, 4095, &byte, 0, 1, 1);
    CHECK_OK(k3_qps_bank_end(qps, err));
    k3_qps_lane_stats(qps, 2, 3, 7, false, &a);
    k3_qps_lane_stats(qps, 2, 3, 4095, false, &b);
    CHECK(a.messages == 1 && b.messages == 1 && a.hist == b.hist && a.hist->total == 2);
    CHECK_OK(k3_qps_barrier(qps, err));
    k3_qps_destroy(qps);
}

enum { QUEUE = 128, PILE_POSTS = 300, PILE_BYTES = 65536 }; /* more than a socket takes */

/* Rank 0 posts while rank 1 stands in MPI and helps none of them: they pile up. Then rank 1 is let go. */
static void pile_up(k3_qps_t *qps, unsigned lanes)
{
    static char data[PILE_BYTES];

    for (unsigned i = 0; world.rank == 0 && i < lanes * PILE_POSTS; i++) {
        k3_qps_put(qps, 1, i % lanes, data, 0, PILE_BYTES, 0);
    }
    for (unsigned qp = 0; world.rank == 0 && qp < lanes; qp++) {
        CHECK(k3_lane_of(qps, 1, qp)->in_flight > QUEUE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Of each lane no more posts stay behind than a send queue takes; a lane that fails is not waited for. */
static void test_hand_over(void)
{
    k3_qps_config_t config = basic_config(PILE_BYTES, 2, false);
    k3_fabric_t    *tcp = NULL;
    k3_qps_t       *qps = NULL;
    k3_error_t      fault = K3_ERROR_INIT;

    if (world.size != 2) {
        return;
    }
    setenv("UCX_TLS", "tcp,self", 1);
    CHECK_OK(k3_fabric_open(&world, &tcp, err));
    CHECK_OK(k3_qps_create(tcp, &config, &qps, err));
    CHECK_OK(k3_qps_barrier(qps, err));
    pile_up(qps, 2);
    CHECK_OK(k3_qps_hand_over(qps, err));
    CHECK(k3_lane_of(qps, 1 - world.rank, 0)->in_flight <= QUEUE &&
          k3_lane_of(qps, 1 - world.rank, 1)->in_flight <= QUEUE);
    CHECK_OK(k3_qps_flush(qps, err));
    CHECK_OK(k3_qps_barrier(qps, err));
    pile_up(qps, 1);
    if (world.rank == 0) {
        k3_qps_note(qps, "a put", UCS_ERR_UNREACHABLE);
        CHECK(k3_qps_hand_over(qps, &fault) == K3_ERR_ENV && strstr(fault.text, "a put") != NULL);
        CHECK(k3_lane_of(qps, 1, 0)->in_flight > QUEUE);
        k3_error_clear(&qps->fault);
    }
    CHECK_OK(k3_qps_flush(qps, err));
    CHECK_OK(k3_qps_barrier(qps, err));
    k3_qps_destroy(qps);
    k3_fabric_close(tcp);
    unsetenv("UCX_TLS");
}

static long faults_so_far(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
}

/* One store to each page of all blocks that this rank reaches: none of them is the first. */
static void test_touch(void)
{
    enum { BYTES = 4 << 20, PAGES = BYTES / 4096 };

    k3_qps_config_t config = basic_config(BYTES, 1, true);
    k3_qps_t       *qps = NULL;
    long            before;

    CHECK_OK(k3_qps_create(fabric, &config, &qps, err));
    k3_qps_touch(qps);
    before = faults_so_far();
    for (int peer = 0; peer < world.size; peer++) {
        volatile char *block = k3_qps_mapped(qps, peer);

        for (uint64_t at = 0; at < BYTES; at += 4096) {
            block[at] = 0;
        }
    }
    /* A sanitizer has pages of its own beside them, one for eight. */
    CHECK(faults_so_far() - before < world.size * PAGES / 4);
    CHECK_OK(k3_qps_barrier(qps, err));
    k3_qps_destroy(qps);
}

static void test_no_transport(void)
{
    k3_error_t   fault = K3_ERROR_INIT;
    k3_fabric_t *none = NULL;

    setenv("UCX_TLS", "nonexistent", 1);
    CHECK(k3_fabric_open(&world, &none, &fault) == K3_ERR_ENV);
    CHECK(none == NULL && strstr(fault.text, "nonexistent") != NULL);
    unsetenv("UCX_TLS");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK_OK(k3_fabric_open(&world, &fabric, err));
    test_refusals();
    test_mismatch();
    test_one_fails();
    test_Q04_Q16_order();
    test_flush_form();
    test_slow_lane(true);
    test_slow_lane(false);
    test_virtual_nodes();
    test_shared_histograms();
    test_touch();
    k3_fabric_close(fabric);
    test_hand_over();
    test_no_transport();
    return finish("test_qp_setup");
}
