#include "harness/mpi/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/mpi/clock.h"

const char *const k3_pair_class_names[] = {"self", "mapped", "shared", "network", NULL};

enum {
    BULK = 1 << 20,
    BULKS = 16,
    AREA_BULKS =
        64, /* area that data go to, in units of BULK: larger than a share of the last cache */
    ROW = 8192,
    SMALL = 64,
    REPEATS = 5, /* of which the median counts */
    ROUNDS = 100,
    MESSAGES = 512,
    BARRIERS = 20,
    ORDER_ROUNDS = 48,
    SLEEP_US = 200
};

#define AREA      ((uint64_t)BULK * AREA_BULKS)
#define WORD_GO   (2 * AREA) /* data lie at 0, are sent from AREA */
#define WORD_BACK (2 * AREA + 64)
#define WORD_ADDS (2 * AREA + 128)
#define BYTES     (2 * AREA + 192)

typedef struct pair {
    k3_qps_t   *qps;
    int         rank, peer; /* this rank and the other one; equal for self */
    bool        sends;
    uint64_t    sequence; /* of both words: the same on both ranks, rising over classes */
    k3_error_t *err;
} pair_t;

/* --- a signal and its answer ------------------------------------------------------------------- */

static void await(pair_t *p, uint64_t word)
{
    const char *memory = k3_qps_memory(p->qps);

    while (k3_signal_read64(memory + word) < p->sequence && k3_qps_idle(p->qps, p->err) == K3_OK) {
    }
}

/* The sender's signal, and the receiver's when it has seen it. */
static void exchange(pair_t *p)
{
    p->sequence++;
    if (p->sends) {
        k3_qps_signal_write64(p->qps, p->peer, 0, WORD_GO, p->sequence);
        k3_qps_doorbell(p->qps, p->peer, 0);
    }
    if (!p->sends || p->rank == p->peer) {
        await(p, WORD_GO);
        k3_qps_signal_write64(p->qps, p->peer, 0, WORD_BACK, p->sequence);
        k3_qps_doorbell(p->qps, p->peer, 0);
    }
    if (p->sends) {
        await(p, WORD_BACK);
    }
}

/* --- measurements: microseconds of one operation, at the sender -------------------------------- */

static double round_trip(pair_t *p)
{
    uint64_t start = k3_clock_now();

    for (int i = 0; i < ROUNDS; i++) {
        exchange(p);
    }
    return k3_clock_us(k3_clock_now() - start) / ROUNDS / 2.0;
}

static double send_messages(pair_t *p, uint64_t bytes, int count)
{
    const char *memory = k3_qps_memory(p->qps);
    uint64_t    start = k3_clock_now();

    for (int i = 0; i < count && p->sends; i++) {
        uint64_t at = (uint64_t)i * bytes % AREA;

        k3_qps_put(p->qps, p->peer, 0, memory + AREA + at, at, bytes, bytes);
    }
    exchange(p);
    if (p->sends) {
        k3_qps_flush(p->qps, p->err);
    }
    return k3_clock_us(k3_clock_now() - start) / count;
}

static double small_messages(pair_t *p)
{
    return send_messages(p, SMALL, MESSAGES);
}

static double rows(pair_t *p)
{
    return send_messages(p, ROW, MESSAGES);
}

/* Over the whole area: neither side finds it in its caches. */
static double cold_rows(pair_t *p)
{
    return send_messages(p, ROW, (int)(AREA / ROW));
}

static double bulk(pair_t *p)
{
    return send_messages(p, BULK, BULKS);
}

static double signals(pair_t *p)
{
    uint64_t start = k3_clock_now();

    for (int i = 0; i < MESSAGES && p->sends; i++) {
        k3_qps_signal_add64(p->qps, p->peer, 0, WORD_ADDS, 1);
    }
    exchange(p);
    if (p->sends) {
        k3_qps_flush(p->qps, p->err);
    }
    return k3_clock_us(k3_clock_now() - start) / MESSAGES;
}

static double doorbells(pair_t *p)
{
    uint64_t start = k3_clock_now();

    for (int i = 0; i < MESSAGES && p->sends; i++) {
        k3_qps_doorbell(p->qps, p->peer, 0);
    }
    return k3_clock_us(k3_clock_now() - start) / MESSAGES;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median_of(pair_t *p, double (*measure)(pair_t *))
{
    double values[REPEATS];

    measure(p); /* first use of pages and connections */
    for (int i = 0; i < REPEATS; i++) {
        values[i] = measure(p);
    }
    qsort(values, REPEATS, sizeof(values[0]), compare_doubles);
    return values[REPEATS / 2];
}

static void measure_pair(pair_t *p, k3_pair_result_t *r)
{
    double row;

    r->latency_us = median_of(p, round_trip);
    r->message_us = median_of(p, small_messages);
    r->signal_us = median_of(p, signals);
    row = median_of(p, rows);
    r->row_GBps = row > r->message_us ? (ROW - SMALL) / (row - r->message_us) * 1e-3 : 0;
    row = median_of(p, cold_rows);
    r->cold_GBps = row > r->message_us ? (ROW - SMALL) / (row - r->message_us) * 1e-3 : 0;
    r->bulk_GBps = BULK / median_of(p, bulk) * 1e-3;
    r->doorbell_us = k3_qps_kind(p->qps, p->peer) == K3_LANE_QP ? median_of(p, doorbells) : 0;
}

/* --- who with whom ----------------------------------------------------------------------------- */

static bool find_pair(const k3_world_t *world, k3_pair_class_t class, k3_pair_result_t *r)
{
    r->src = 0;
    r->dst = 0;
    if (class == K3_PAIR_SELF) {
        return true;
    }
    for (r->src = 0; r->src < world->size; r->src++) {
        for (r->dst = r->src + 1; r->dst < world->size; r->dst++) {
            bool together = world->node_of[r->src] == world->node_of[r->dst];

            if (together == (class != K3_PAIR_NETWORK)) {
                return true;
            }
        }
    }
    return false;
}

/* The pair progresses until both are done, since UCX may emulate puts in software; all others sleep, so
 * that the pair has its cores for itself. */
static void wait_for_pair(k3_qps_t *qps, const k3_world_t *world, bool in_pair, k3_error_t *err)
{
    MPI_Request request;
    int         done = 0;

    MPI_Ibarrier(world->comm, &request);
    if (in_pair) {
        k3_qps_complete(qps, &request, err);
        return;
    }
    for (;;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done) {
            return;
        }
        usleep(SLEEP_US);
    }
}

static void measure_class(k3_qps_t *qps, const k3_world_t *world, k3_pair_class_t class,
                          k3_pair_report_t *report, k3_error_t *err)
{
    k3_pair_result_t *r = &report->result[class];
    bool              in_pair;

    if (!find_pair(world, class, r)) {
        return;
    }
    in_pair = world->rank == r->src || world->rank == r->dst;
    k3_qps_barrier(qps, err);
    if (in_pair) {
        bool   sends = world->rank == r->src;
        pair_t p = {qps, world->rank, sends ? r->dst : r->src, sends, (uint64_t) class << 32, err};

        measure_pair(&p, r);
        snprintf(r->transport, sizeof(r->transport), "%s", k3_qps_transport(qps, p.peer));
        k3_qps_flush(qps, err);
    }
    wait_for_pair(qps, world, in_pair, err);
    MPI_Bcast(r, (int)sizeof(*r), MPI_BYTE, r->src, world->comm);
    r->measured = true;
    k3_qps_order_result(qps, &r->order_rounds, &r->overtaken_bare, &r->overtaken_used);
    r->order = k3_qps_order(qps);
}

static double barrier_time(k3_qps_t *qps, const k3_world_t *world, k3_error_t *err)
{
    uint64_t start;
    double   us;

    k3_qps_barrier(qps, err);
    start = k3_clock_now();
    for (int i = 0; i < BARRIERS; i++) {
        k3_qps_barrier(qps, err);
    }
    us = k3_clock_us(k3_clock_now() - start) / BARRIERS;
    MPI_Allreduce(MPI_IN_PLACE, &us, 1, MPI_DOUBLE, MPI_MAX, world->comm);
    return us;
}

static k3_status_t measure_form(k3_fabric_t *fabric, const k3_world_t *world, bool p2p,
                                k3_pair_report_t *report, k3_error_t *err)
{
    k3_qps_config_t config = {.bytes = BYTES,
                              .qps_per_peer = 1,
                              .banks = 1,
                              .p2p = p2p,
                              .node_of = world->node_of,
                              .order_rounds = ORDER_ROUNDS,
                              .slow_peer = -1};
    k3_qps_t       *qps = NULL;

    if (k3_qps_create(fabric, &config, &qps, err) != K3_OK) {
        return err->status;
    }
    if (p2p) {
        measure_class(qps, world, K3_PAIR_SELF, report, err);
        measure_class(qps, world, K3_PAIR_MAPPED, report, err);
        measure_class(qps, world, K3_PAIR_NETWORK, report, err);
        report->barrier_us = barrier_time(qps, world, err);
    } else {
        measure_class(qps, world, K3_PAIR_SHARED, report, err);
    }
    k3_qps_destroy(qps);
    return k3_world_agree(world, err);
}

k3_status_t k3_pairs_measure(k3_fabric_t *fabric, const k3_world_t *world, k3_pair_report_t *report,
                             k3_error_t *err)
{
    memset(report, 0, sizeof(*report));
    if (measure_form(fabric, world, true, report, err) == K3_OK && world->size > 1) {
        measure_form(fabric, world, false, report, err);
    }
    return err->status;
}
