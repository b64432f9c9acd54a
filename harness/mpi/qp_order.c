/* The order self-test: what a transport gives is found out, not assumed.
 *
 * All ranks form a ring: each sends to (rank + shift) and receives from (rank - shift). A round is
 * a put of 64 KiB with a pattern that depends on the round, and a signal behind it; the receiver
 * polls the signal, looks at the data at once, and acknowledges. Two shifts are enough to meet each
 * class of peer somewhere: one with as many pairs within a node, one with as many across nodes as
 * possible. */
#include <string.h>
#include <time.h>

#include "harness/base/memory.h"
#include "harness/mpi/qp_internal.h"

enum { PIECE = 2048 };

#define WORDS (K3_TAIL_DATA_BYTES / sizeof(uint64_t))

/* An add with a carry into the upper half: half a 64-bit add would show. */
#define ADD64_STEP ((UINT64_C(1) << 32) + UINT64_C(0xf0000001))

k3_order_fault_t k3_order_fault = K3_ORDER_FAULT_NONE;
double           k3_order_limit = 30.0;

typedef struct ring {
    k3_qps_t *qps;
    int       to, from;
    uint64_t *source;   /* [WORDS] */
    uint64_t *landed;   /* [WORDS] what arrived on a device; NULL: it is looked at where it lies */
    uint64_t  sequence; /* rounds so far, over all stages: the same on all ranks */
    uint32_t  add32;    /* what the signal words must show after this round */
    uint64_t  add64;
    uint64_t  overtaken;
    bool      seen_early; /* planted: the signal was here and the data not */
} ring_t;

static double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t pattern(uint64_t sequence, int rank, uint64_t word)
{
    return sequence * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(unsigned)rank << 32 ^ word;
}

/* To or from the device, complete; it keeps its fault. */
static void move_data(const ring_t *ring, void *to, const void *from)
{
    k3_device_t *device = ring->qps->rows.device;
    k3_error_t   kept = K3_ERROR_INIT;

    k3_device_copy(device, K3_STREAM_MAIN, to, from, K3_TAIL_DATA_BYTES);
    k3_device_finish(device, K3_STREAM_MAIN, &kept);
}

static bool data_is_there(const ring_t *ring)
{
    const k3_rows_block_t *rows = &ring->qps->rows;
    const uint64_t        *data = (const void *)(rows->memory + rows->tail + K3_TAIL_DATA);
    uint64_t               wrong = 0;

    if (rows->device != NULL) {
        move_data(ring, ring->landed, data);
        data = ring->landed;
    }
    for (uint64_t i = 0; i < WORDS; i++) {
        wrong |=
            __atomic_load_n(&data[i], __ATOMIC_RELAXED) ^ pattern(ring->sequence, ring->from, i);
    }
    return wrong == 0;
}

typedef enum signal { SIGNAL_WRITE, SIGNAL_ADD32, SIGNAL_ADD64, SIGNALS } signal_t;

static const char *const signal_names[] = {"remote write of 64 bits", "remote 32-bit add",
                                           "remote 64-bit add"};

static signal_t signal_of(uint64_t sequence)
{
    return (signal_t)(sequence % SIGNALS);
}

static bool signal_is_there(const ring_t *ring)
{
    const char *tail = ring->qps->memory + ring->qps->tail;

    switch (signal_of(ring->sequence)) {
    case SIGNAL_ADD32:
        return k3_signal_read32(tail + K3_TAIL_ADD32) == ring->add32;
    case SIGNAL_ADD64:
        return k3_signal_read64(tail + K3_TAIL_ADD64) == ring->add64;
    default:
        return k3_signal_read64(tail + K3_TAIL_WRITE) == ring->sequence;
    }
}

static bool ack_is_there(const ring_t *ring)
{
    return k3_signal_read64(ring->qps->memory + ring->qps->tail + K3_TAIL_ACK) == ring->sequence;
}

static bool wait_for(ring_t *ring, bool (*there)(const ring_t *))
{
    double until = 0;

    for (uint64_t polls = 0; !there(ring); polls++) {
        k3_qps_poll(ring->qps);
        if (polls % 1024 == 0) {
            double now = seconds_now();

            until = until == 0 ? now + k3_order_limit : until;
            if (now > until || ring->qps->fault.status != K3_OK) {
                return false;
            }
        }
    }
    return true;
}

/* In one piece, or in many: a burst may wait in queues that a single put never meets. */
static void send_data(const ring_t *ring, unsigned qp)
{
    const k3_rows_block_t *rows = &ring->qps->rows;
    uint64_t               piece = ring->sequence / SIGNALS % 2 == 0 ? K3_TAIL_DATA_BYTES : PIECE;
    const char            *source = (const char *)ring->source;

    if (rows->device != NULL) { /* what is put comes from where rows come from */
        source = rows->memory + rows->tail + K3_TAIL_SOURCE;
        move_data(ring, rows->memory + rows->tail + K3_TAIL_SOURCE, ring->source);
    }
    for (uint64_t at = 0; at < K3_TAIL_DATA_BYTES; at += piece) {
        k3_qps_put(ring->qps, ring->to, qp, source + at, rows->tail + K3_TAIL_DATA + at, piece, 0);
    }
}

static void send_signal(ring_t *ring, unsigned qp)
{
    k3_qps_t *qps = ring->qps;
    signal_t  kind = signal_of(ring->sequence);

    ring->add32 += kind == SIGNAL_ADD32;
    ring->add64 += kind == SIGNAL_ADD64 ? ADD64_STEP : 0;
    if (kind == SIGNAL_WRITE) {
        k3_qps_signal_write64(qps, ring->to, qp, qps->tail + K3_TAIL_WRITE, ring->sequence);
    } else if (k3_order_fault == K3_ORDER_FAULT_ADD) {
        return;
    } else if (kind == SIGNAL_ADD32) {
        k3_qps_signal_add32(qps, ring->to, qp, qps->tail + K3_TAIL_ADD32, 1);
    } else {
        k3_qps_signal_add64(qps, ring->to, qp, qps->tail + K3_TAIL_ADD64, ADD64_STEP);
    }
}

static void send_round(ring_t *ring, unsigned qp)
{
    bool swapped = k3_order_fault == K3_ORDER_FAULT_ALL ||
                   (k3_order_fault == K3_ORDER_FAULT_FENCE && ring->qps->form == K3_FORM_FENCE);

    for (uint64_t i = 0; i < WORDS; i++) {
        ring->source[i] = pattern(ring->sequence, ring->qps->world->rank, i);
    }
    if (swapped) {
        /* All ranks wait between signal and data, so that each looks before the data can be there. */
        struct timespec gap = {0, 30000000};
        k3_error_t      ignored = K3_ERROR_INIT;

        send_signal(ring, qp);
        k3_qps_flush(ring->qps, &ignored);
        ring->seen_early = wait_for(ring, signal_is_there) && !data_is_there(ring);
        nanosleep(&gap, NULL);
        send_data(ring, qp);
    } else {
        send_data(ring, qp);
        send_signal(ring, qp);
    }
}

static k3_status_t run_round(ring_t *ring, k3_error_t *err)
{
    k3_qps_t *qps = ring->qps;
    unsigned  qp;

    ring->sequence++;
    ring->seen_early = false;
    qp = (unsigned)(ring->sequence % qps->qps_per_peer);
    send_round(ring, qp);
    if (!wait_for(ring, signal_is_there)) {
        return k3_fail(err, K3_ERR_ENV,
                       "%s from rank %d (%s) did not arrive within %g s over %s: the transport "
                       "lacks it; profiles whose signals are writes need no add",
                       signal_names[signal_of(ring->sequence)], ring->from,
                       qps->world->host_of[ring->from], k3_order_limit,
                       qps->peers[ring->from].transport);
    }
    if (ring->seen_early || !data_is_there(ring)) {
        ring->overtaken++;
        if (!wait_for(ring, data_is_there)) {
            return k3_fail(err, K3_ERR_ENV, "a remote write from rank %d (%s) over %s was lost",
                           ring->from, qps->world->host_of[ring->from],
                           qps->peers[ring->from].transport);
        }
    }
    k3_qps_signal_write64(qps, ring->from, qp, qps->tail + K3_TAIL_ACK, ring->sequence);
    if (!wait_for(ring, ack_is_there)) {
        return k3_fail(err, K3_ERR_ENV, "rank %d (%s) did not answer in the order self-test",
                       ring->to, qps->world->host_of[ring->to]);
    }
    return K3_OK;
}

/* One form over all stages. All ranks leave with the same status and count. */
static k3_status_t run_form(ring_t *ring, k3_form_t form, const int *shifts, int stages,
                            unsigned rounds, uint64_t *overtaken, k3_error_t *err)
{
    k3_qps_t *qps = ring->qps;
    int       size = qps->world->size, rank = qps->world->rank;

    qps->form = form;
    ring->overtaken = 0;
    for (int s = 0; s < stages && err->status == K3_OK; s++) {
        ring->to = (rank + shifts[s]) % size;
        ring->from = (rank + size - shifts[s]) % size;
        for (unsigned i = 0; i < rounds && err->status == K3_OK; i++) {
            run_round(ring, err);
        }
        if (err->status == K3_OK) {
            k3_qps_flush(qps, err);
        }
        k3_qps_barrier(qps, err);
        k3_world_agree(qps->world, err);
    }
    if (err->status == K3_OK) {
        MPI_Allreduce(&ring->overtaken, overtaken, 1, MPI_UINT64_T, MPI_SUM, qps->world->comm);
    }
    return err->status;
}

/* The shifts with most pairs within a node and most across nodes; one where they coincide. */
static int choose_shifts(const int *node_of, int size, int *shifts)
{
    int most_within = -1, most_across = -1;

    shifts[0] = 0;
    shifts[1] = 0;
    for (int shift = 1; shift < size; shift++) {
        int within = 0;

        for (int r = 0; r < size; r++) {
            within += node_of[r] == node_of[(r + shift) % size];
        }
        if (within > most_within) {
            most_within = within;
            shifts[0] = shift;
        }
        if (size - within > most_across) {
            most_across = size - within;
            shifts[1] = shift;
        }
    }
    if (most_within <= 0) {
        shifts[0] = shifts[1];
    }
    return shifts[0] == shifts[1] || most_across == 0 ? 1 : 2;
}

static k3_status_t run_forms(ring_t *ring, const int *shifts, int stages, unsigned rounds,
                             k3_error_t *err)
{
    k3_qps_t *qps = ring->qps;

    if (run_form(ring, K3_FORM_BARE, shifts, stages, rounds, &qps->overtaken_bare, err) != K3_OK ||
        run_form(ring, K3_FORM_FENCE, shifts, stages, rounds, &qps->overtaken_used, err) != K3_OK ||
        qps->overtaken_used == 0) {
        return err->status;
    }
    if (run_form(ring, K3_FORM_FLUSH, shifts, stages, rounds, &qps->overtaken_used, err) == K3_OK &&
        qps->overtaken_used != 0) {
        k3_fail(err, K3_ERR_ENV,
                "signals overtook their data in %llu of %llu rounds although the queue pair was "
                "flushed in between: this transport (%s) cannot carry signals",
                (unsigned long long)qps->overtaken_used, (unsigned long long)qps->order_rounds,
                qps->peers[ring->to].transport);
    }
    return err->status;
}

k3_status_t k3_order_test(k3_qps_t *qps, const int *node_of, unsigned rounds, k3_error_t *err)
{
    ring_t ring = {.qps = qps};
    int    shifts[2], stages = choose_shifts(node_of, qps->world->size, shifts);

    /* What a lonely rank copies to itself on a device is in the order of its stream, and there is no lane to
     * test. */
    if (qps->rows.device != NULL && qps->world->size == 1) {
        return K3_OK;
    }
    k3_alloc("pattern of the order self-test", WORDS, sizeof(uint64_t), &ring.source, err);
    if (qps->rows.device != NULL) {
        k3_alloc("data of the order self-test", WORDS, sizeof(uint64_t), &ring.landed, err);
    }
    if (k3_world_agree(qps->world, err) == K3_OK) {
        qps->order_rounds = (uint64_t)rounds * (unsigned)stages * (unsigned)qps->world->size;
        run_forms(&ring, shifts, stages, rounds, err);
    }
    k3_free(ring.landed);
    k3_free(ring.source);
    return err->status;
}
