/* Making and ending a set of queue pairs, and what can be asked about it. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "harness/base/keyed.h"
#include "harness/base/memory.h"
#include "harness/mpi/qp_internal.h"
#include "harness/mpi/watchdog.h"

enum { QPS_MAX = 4096, OPS_MIN = 4096, OPS_MAX = 65536 };

const char *k3_lane_kind_name(k3_lane_kind_t kind)
{
    static const char *const names[] = {"self", "p2p", "qp"};

    return names[kind];
}

const char *k3_signal_order_name(k3_signal_order_t order)
{
    return order == K3_ORDER_FENCE ? "fence" : "flush";
}

/* --- checks ---------------------------------------------------------------------------------- */

static k3_status_t check_config(const k3_qps_config_t *config, const k3_world_t *world,
                                k3_error_t *err)
{
    if (config->qps_per_peer < 1 || config->qps_per_peer > QPS_MAX) {
        return k3_fail(err, K3_ERR_USAGE, "%u queue pairs per peer: allowed are 1 to %d",
                       config->qps_per_peer, QPS_MAX);
    }
    if (config->banks < 1 || config->banks > K3_BANKS_MAX) {
        return k3_fail(err, K3_ERR_USAGE, "%u banks: allowed are 1 to %d", config->banks,
                       K3_BANKS_MAX);
    }
    if ((config->slow_peer >= 0 &&
         (config->slow_peer >= world->size || config->slow_qp >= config->qps_per_peer)) ||
        ((config->slow_peer >= 0 || config->slow_network) && !(config->slow_factor >= 1.0))) {
        return k3_fail(err, K3_ERR_USAGE,
                       "slow queue pair: peer %d, index %u, factor %g; there are %d ranks with %u "
                       "queue pairs each, and the factor is 1 or more",
                       config->slow_peer, config->slow_qp, config->slow_factor, world->size,
                       config->qps_per_peer);
    }
    return K3_OK;
}

static k3_status_t same_number(const k3_world_t *world, const char *what, uint64_t value,
                               k3_error_t *err)
{
    char text[24];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return k3_world_same(world, what, text, err);
}

static k3_status_t check_same(const k3_qps_config_t *config, const k3_world_t *world,
                              k3_error_t *err)
{
    uint64_t nodes = 0;

    for (int r = 0; r < world->size; r++) {
        nodes = k3_key(nodes, (uint64_t)(unsigned)config->node_of[r]);
    }
    if (same_number(world, "bytes of symmetric memory", config->bytes, err) == K3_OK &&
        same_number(world, "bytes of rows on devices", config->rows_bytes, err) == K3_OK &&
        same_number(world, "queue pairs per peer", config->qps_per_peer, err) == K3_OK &&
        same_number(world, "plain stores to peers (p2p)", config->p2p, err) == K3_OK &&
        same_number(world, "rounds of the order self-test", config->order_rounds, err) == K3_OK) {
        same_number(world, "assignment of ranks to nodes (hash)", nodes, err);
    }
    return err->status;
}

/* --- parts ----------------------------------------------------------------------------------- */

static k3_status_t alloc_ops(k3_qps_t *qps, k3_error_t *err)
{
    uint64_t count = 4 * qps->lane_count;

    count = count < OPS_MIN ? OPS_MIN : count > OPS_MAX ? OPS_MAX : count;
    if (k3_alloc("operations in flight", count, sizeof(*qps->ops), &qps->ops, err) != K3_OK) {
        return err->status;
    }
    for (uint64_t i = count; i > 0; i--) {
        qps->ops[i - 1].qps = qps;
        qps->ops[i - 1].next = qps->free_ops;
        qps->free_ops = &qps->ops[i - 1];
    }
    return K3_OK;
}

static k3_status_t alloc_tables(k3_qps_t *qps, const k3_qps_config_t *config, k3_error_t *err)
{
    if (k3_alloc("queue pairs", qps->lane_count, sizeof(*qps->lanes), &qps->lanes, err) == K3_OK &&
        (config->device == NULL || k3_alloc("signals of queue pairs", qps->lane_count,
                                            sizeof(*qps->words), &qps->words, err) == K3_OK) &&
        k3_alloc("peers", (uint64_t)qps->world->size, sizeof(*qps->peers), &qps->peers, err) ==
            K3_OK &&
        k3_accounts_create(qps, config->pulls, err) == K3_OK) {
        alloc_ops(qps, err);
    }
    return err->status;
}

static void set_params(k3_qps_t *qps)
{
    qps->put_param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    qps->put_param.cb.send = k3_op_done;
    qps->get_param = qps->put_param;
    qps->get_param.cb.send = k3_read_done;
    qps->add32_param = qps->put_param;
    qps->add32_param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    qps->add32_param.datatype = ucp_dt_make_contig(sizeof(uint32_t));
    qps->add64_param = qps->add32_param;
    qps->add64_param.datatype = ucp_dt_make_contig(sizeof(uint64_t));
}

/* What a worker takes of the system, with what there is of it: UCX only says that something failed. */
static k3_status_t no_worker(ucs_status_t status, k3_error_t *err)
{
    struct rlimit files = {0, 0};
    char          allowed[24] = "unlimited";

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
        snprintf(allowed, sizeof(allowed), "%llu", (unsigned long long)files.rlim_cur);
    }
    return k3_fail(
        err, K3_ERR_ENV,
        "UCX worker cannot be made: %s (open files allowed: %s; free in /dev/shm: %llu bytes)",
        ucs_status_string(status), allowed, k3_shm_free());
}

static k3_status_t open_worker(k3_qps_t *qps, k3_error_t *err)
{
    ucp_worker_params_t params;
    ucs_status_t        status;

    memset(&params, 0, sizeof(params));
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SINGLE;
    status = ucp_worker_create(qps->fabric->context, &params, &qps->worker);
    if (status != UCS_OK) {
        qps->worker = NULL;
        return no_worker(status, err);
    }
    return K3_OK;
}

static void take_config(k3_qps_t *qps, k3_fabric_t *fabric, const k3_qps_config_t *config)
{
    qps->fabric = fabric;
    qps->world = fabric->world;
    qps->bytes = config->bytes;
    qps->qps_per_peer = config->qps_per_peer;
    qps->lane_count = (uint64_t)config->qps_per_peer * (unsigned)fabric->world->size;
    qps->banks = config->banks;
    qps->accounting = config->accounting;
    qps->yield_at_once = fabric->world->oversubscribed;
    qps->form = K3_FORM_FENCE;
    qps->scale = *k3_clock_current_scale();
    set_params(qps);
}

/* Only once the set-up is done: it is not part of what the fault is for. */
static void arm_fault(k3_qps_t *qps, const k3_qps_config_t *config)
{
    const k3_world_t *world = qps->world;

    if (config->slow_peer >= 0) {
        k3_lane_of(qps, config->slow_peer, config->slow_qp)->slow = true;
    }
    for (int peer = 0; peer < world->size && config->slow_network; peer++) {
        for (unsigned qp = 0; qp < config->qps_per_peer; qp++) {
            k3_lane_of(qps, peer, qp)->slow = config->node_of[peer] != config->node_of[world->rank];
        }
    }
    qps->slow_factor = config->slow_factor;
}

/* --- for the watchdog, from its thread: a look at what may change meanwhile ---------------------- */

static unsigned describe_lane(const k3_qps_t *qps, uint64_t i, char *text, unsigned size)
{
    int      peer = (int)(i / qps->qps_per_peer);
    unsigned used = (unsigned)snprintf(
        text, size, "%d->%d (%s) QP %u over %s", qps->world->rank, peer, qps->world->host_of[peer],
        (unsigned)(i % qps->qps_per_peer),
        k3_qps_transport(qps, peer)[0] != '\0' ? k3_qps_transport(qps, peer) : k3_qps_devices());

    return used < size ? used : size;
}

static void describe_lanes(const void *arg, char *text, unsigned size)
{
    const k3_qps_t *qps = arg;
    uint64_t        unfinished = 0, first = 0;
    unsigned        used;

    if (qps->wiring > 0) {
        used = (unsigned)snprintf(text, size, "no connection yet: queue pair ");
        describe_lane(qps, qps->wiring - 1, text + used, size - used);
        return;
    }
    for (uint64_t i = qps->lane_count; i > 0; i--) {
        if (qps->lanes[i - 1].in_flight > 0) {
            unfinished++;
            first = i - 1;
        }
    }
    if (unfinished == 0) {
        if (qps->reads > 0) {
            snprintf(text, size, "%llu reads from peers unfinished",
                     (unsigned long long)qps->reads);
        }
        return;
    }
    used = (unsigned)snprintf(text, size, "%llu operations unfinished on %llu lanes, first: ",
                              (unsigned long long)qps->in_flight, (unsigned long long)unfinished);
    used += describe_lane(qps, first, text + used, size - used);
    if (qps->posts.bank_books != NULL) {
        const k3_book_t *book = &qps->posts.bank_books[first];

        snprintf(text + used, size - used,
                 ", %u of its last; posted there: %llu messages, %llu "
                 "signals",
                 qps->lanes[first].in_flight, (unsigned long long)book->messages,
                 (unsigned long long)book->signals);
    }
}

/* --- create and destroy ---------------------------------------------------------------------- */

/* Local parts first, one agreement, then the collective parts. */
static k3_status_t build(k3_qps_t *qps, const k3_qps_config_t *config, k3_error_t *err)
{
    uint64_t start = k3_clock_now(), mapped, connected;

    if (alloc_tables(qps, config, err) == K3_OK && open_worker(qps, err) == K3_OK) {
        start = k3_clock_now();
        if (k3_block_create(qps, err) == K3_OK) {
            k3_rows_create(qps, config, err);
        }
    }
    mapped = k3_clock_now();
    if (k3_world_agree(qps->world, err) != K3_OK) {
        return err->status;
    }
    qps->everywhere = true;
    k3_watchdog_describe_lanes(describe_lanes, qps);
    if (k3_lanes_connect(qps, config, err) != K3_OK) {
        return err->status;
    }
    connected = k3_clock_now();
    qps->registration_us = k3_clock_us(mapped - start);
    qps->connection_us = k3_clock_us(connected - mapped);
    if (config->order_rounds > 0 &&
        k3_order_test(qps, config->node_of, config->order_rounds, err) != K3_OK) {
        return err->status;
    }
    qps->selftest_us = k3_clock_us(k3_clock_now() - connected);
    arm_fault(qps, config);
    return K3_OK;
}

k3_status_t k3_qps_create(k3_fabric_t *fabric, const k3_qps_config_t *config, k3_qps_t **qps_p,
                          k3_error_t *err)
{
    const k3_world_t *world = fabric->world;
    k3_error_t        fault = K3_ERROR_INIT;
    k3_qps_t         *qps = NULL;

    *qps_p = NULL;
    k3_clock_init();
    if (check_config(config, world, &fault) == K3_OK) {
        k3_block_check(world, config->bytes, &fault);
    }
    if (k3_world_agree(world, &fault) == K3_OK && check_same(config, world, &fault) == K3_OK) {
        k3_alloc("set of queue pairs", 1, sizeof(*qps), &qps, &fault);
        if (k3_world_agree(world, &fault) == K3_OK) {
            take_config(qps, fabric, config);
            build(qps, config, &fault);
        }
    }
    if (fault.status != K3_OK) {
        k3_qps_destroy(qps);
        return k3_fail(err, fault.status, "%s", fault.text);
    }
    *qps_p = qps;
    return K3_OK;
}

/* Peers may still need this rank's progress until all have reached the same point, hence a barrier
 * that progresses before and after the endpoints close. Where a rank lacks its own parts, nothing was connected. */
void k3_qps_destroy(k3_qps_t *qps)
{
    k3_error_t ignored = K3_ERROR_INIT;

    if (qps == NULL) {
        return;
    }
    k3_watchdog_describe_lanes(NULL, NULL);
    if (qps->everywhere) {
        if (qps->fault.status == K3_OK) {
            k3_qps_drain(qps);
        }
        k3_qps_barrier(qps, &ignored);
        k3_lanes_disconnect(qps);
        k3_qps_barrier(qps, &ignored);
    }
    if (qps->worker != NULL) {
        k3_block_destroy(qps);
        ucp_worker_destroy(qps->worker);
    }
    k3_free(qps->ops);
    k3_accounts_destroy(qps);
    k3_free(qps->peers);
    k3_free(qps->words);
    k3_free(qps->lanes);
    k3_free(qps);
}

/* --- questions ------------------------------------------------------------------------------- */

void *k3_qps_memory(k3_qps_t *qps)
{
    return qps->memory;
}

void *k3_qps_rows(k3_qps_t *qps)
{
    return qps->rows.memory;
}

void *k3_qps_mapped(k3_qps_t *qps, int peer)
{
    return k3_lane_of(qps, peer, 0)->mapped;
}

k3_lane_kind_t k3_qps_kind(const k3_qps_t *qps, int peer)
{
    return qps->peers[peer].kind;
}

uint64_t k3_qps_bytes(const k3_qps_t *qps)
{
    return qps->bytes;
}

static bool carried_by(const k3_qps_t *qps, int peer, const char *const *prefixes)
{
    const char *name = k3_qps_transport(qps, peer);

    for (int i = 0; prefixes[i] != NULL; i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) {
            return true;
        }
    }
    return false;
}

bool k3_qps_needs_progress(const k3_qps_t *qps, int peer)
{
    static const char *const alone[] = {"self", "mapped", "posix", "sysv", "cma",
                                        "knem", "xpmem",  "rc",    "dc",   NULL};
    /* Shared memory transports cannot write to what they did not allocate. */
    static const char *const to_devices[] = {"self", "rc", "dc", "cuda_ipc", "rocm_ipc", NULL};

    return !carried_by(qps, peer, qps->rows.device != NULL ? to_devices : alone);
}

bool k3_qps_is_rdma(const k3_qps_t *qps, int peer)
{
    static const char *const rdma[] = {"rc", "dc", "ud", NULL};

    return carried_by(qps, peer, rdma);
}

const char *k3_qps_transport(const k3_qps_t *qps, int peer)
{
    return qps->peers[peer].transport;
}

k3_signal_order_t k3_qps_order(const k3_qps_t *qps)
{
    return qps->form == K3_FORM_FLUSH ? K3_ORDER_FLUSH : K3_ORDER_FENCE;
}

void k3_qps_order_result(const k3_qps_t *qps, uint64_t *rounds, uint64_t *overtaken_bare,
                         uint64_t *overtaken_used)
{
    *rounds = qps->order_rounds;
    *overtaken_bare = qps->overtaken_bare;
    *overtaken_used = qps->overtaken_used;
}

void k3_qps_setup_times(const k3_qps_t *qps, double *registration_us, double *connection_us,
                        double *selftest_us)
{
    *registration_us = qps->registration_us;
    *connection_us = qps->connection_us;
    *selftest_us = qps->selftest_us;
}
