/* Addresses and keys of all ranks, endpoints, mappings, wiring. Nothing may connect in a timed
 * span. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "harness/base/memory.h"
#include "harness/mpi/qp_internal.h"
#include "harness/mpi/watchdog.h"

enum { BATCH = 512 };

/* What a rank tells all others; address and keys follow in a second exchange. */
typedef struct card {
    uint64_t memory, rows;
    int      address_bytes, key_bytes, rows_key_bytes; /* rows: 0 where they lie in the one block */
} card_t;

typedef struct directory {
    card_t *cards;   /* [size] */
    char   *blobs;   /* of each rank its address, then its key, each from a multiple of 8 */
    int    *counts;  /* [size] bytes of each rank's blob */
    int    *offsets; /* [size] */
} directory_t;

static int padded(int bytes)
{
    return (bytes + 7) / 8 * 8;
}

static void directory_free(directory_t *directory)
{
    k3_free(directory->offsets);
    k3_free(directory->counts);
    k3_free(directory->blobs);
    k3_free(directory->cards);
}

static const ucp_address_t *address_in(const directory_t *directory, int rank)
{
    return (const void *)(directory->blobs + directory->offsets[rank]);
}

static const void *key_in(const directory_t *directory, int rank)
{
    return directory->blobs + directory->offsets[rank] +
           padded(directory->cards[rank].address_bytes);
}

static const void *rows_key_in(const directory_t *directory, int rank)
{
    return (const char *)key_in(directory, rank) + padded(directory->cards[rank].key_bytes);
}

/* --- exchange -------------------------------------------------------------------------------- */

static k3_status_t directory_place(directory_t *directory, int size, k3_error_t *err)
{
    int total = 0;

    for (int r = 0; r < size; r++) {
        const card_t *card = &directory->cards[r];

        directory->counts[r] =
            padded(card->address_bytes) + padded(card->key_bytes) + padded(card->rows_key_bytes);
        directory->offsets[r] = total;
        if (__builtin_add_overflow(total, directory->counts[r], &total)) {
            return k3_fail(err, K3_ERR_ENV, "addresses of %d ranks exceed 2 GiB", size);
        }
    }
    return k3_alloc("addresses of the ranks", (uint64_t)total, 1, &directory->blobs, err);
}

/* What this rank brings; `bytes` are those of address, key and key of the rows. */
typedef struct own_parts {
    ucp_address_t *address;
    void          *key, *rows_key;
    size_t         address_bytes, key_bytes, rows_key_bytes;
} own_parts_t;

static k3_status_t exchange(const k3_qps_t *qps, const own_parts_t *parts, directory_t *directory,
                            k3_error_t *err)
{
    const k3_world_t *world = qps->world;
    uint64_t          n = (uint64_t)world->size;
    card_t            own = {
                   .memory = (uintptr_t)qps->memory,
                   .rows = (uintptr_t)qps->rows.memory + (uintptr_t)qps->rows.shift,
                   .address_bytes = (int)parts->address_bytes,
                   .key_bytes = (int)parts->key_bytes,
                   .rows_key_bytes = (int)parts->rows_key_bytes,
    };
    char *mine;

    if (k3_alloc("cards", n, sizeof(card_t), &directory->cards, err) == K3_OK &&
        k3_alloc("counts", n, sizeof(int), &directory->counts, err) == K3_OK) {
        k3_alloc("offsets", n, sizeof(int), &directory->offsets, err);
    }
    if (k3_world_agree(world, err) != K3_OK) {
        return err->status;
    }
    MPI_Allgather(&own, (int)sizeof(own), MPI_BYTE, directory->cards, (int)sizeof(own), MPI_BYTE,
                  world->comm);
    directory_place(directory, world->size, err);
    if (k3_world_agree(world, err) != K3_OK) {
        return err->status;
    }
    mine = directory->blobs + directory->offsets[world->rank];
    memcpy(mine, parts->address, parts->address_bytes);
    mine += padded((int)parts->address_bytes);
    memcpy(mine, parts->key, parts->key_bytes);
    if (parts->rows_key != NULL) {
        memcpy(mine + padded((int)parts->key_bytes), parts->rows_key, parts->rows_key_bytes);
    }
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, directory->blobs, directory->counts,
                   directory->offsets, MPI_BYTE, world->comm);
    return K3_OK;
}

static k3_status_t build_directory(k3_qps_t *qps, directory_t *directory, k3_error_t *err)
{
    own_parts_t   parts = {0};
    ucp_context_h context = qps->fabric->context;
    ucs_status_t status = ucp_worker_get_address(qps->worker, &parts.address, &parts.address_bytes);

    if (status == UCS_OK) {
        status = ucp_rkey_pack(context, qps->memory_handle, &parts.key, &parts.key_bytes);
    }
    if (status == UCS_OK && qps->rows.handle != NULL) {
        status = ucp_rkey_pack(context, qps->rows.handle, &parts.rows_key, &parts.rows_key_bytes);
    }
    if (status != UCS_OK) {
        k3_fail(err, K3_ERR_ENV, "UCX gives no address or key: %s", ucs_status_string(status));
    }
    exchange(qps, &parts, directory, err);
    if (parts.rows_key != NULL) {
        ucp_rkey_buffer_release(parts.rows_key);
    }
    if (parts.key != NULL) {
        ucp_rkey_buffer_release(parts.key);
    }
    if (parts.address != NULL) {
        ucp_worker_release_address(qps->worker, parts.address);
    }
    return err->status;
}

/* --- endpoints ------------------------------------------------------------------------------- */

static k3_status_t open_endpoint(k3_qps_t *qps, const directory_t *directory, int peer,
                                 ucp_ep_h *ep_p, k3_error_t *err)
{
    ucp_ep_params_t params;
    ucs_status_t    status;

    memset(&params, 0, sizeof(params));
    /* Without failure handling: with it UCX leaves out shared memory. */
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    params.address = address_in(directory, peer);
    params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
    status = ucp_ep_create(qps->worker, &params, ep_p);
    if (status != UCS_OK) {
        *ep_p = NULL;
        return k3_fail(
            err, K3_ERR_ENV,
            "no queue pair to rank %d (%s) over %s: %s; it needs remote write, 32-bit and 64-bit "
            "remote add",
            peer, qps->world->host_of[peer], k3_qps_devices(), ucs_status_string(status));
    }
    return K3_OK;
}

static k3_status_t unpack_key(const void *key, int peer, ucp_ep_h ep, ucp_rkey_h *rkey_p,
                              k3_error_t *err)
{
    ucs_status_t status = ucp_ep_rkey_unpack(ep, key, rkey_p);

    if (status != UCS_OK) {
        *rkey_p = NULL;
        return k3_fail(err, K3_ERR_ENV, "the memory of rank %d cannot be reached: %s", peer,
                       ucs_status_string(status));
    }
    return K3_OK;
}

static void map_lanes(k3_qps_t *qps, int peer, char *mapped, k3_lane_kind_t kind)
{
    qps->peers[peer].kind = kind;
    for (unsigned q = 0; q < qps->qps_per_peer; q++) {
        k3_lane_of(qps, peer, q)->mapped = mapped;
    }
}

/* Signals keep the key of the one block, puts take that of the block for rows. */
static k3_status_t part_words(k3_qps_t *qps, const directory_t *directory, int peer,
                              k3_lane_t *lane, k3_error_t *err)
{
    qps->words[lane - qps->lanes] = (k3_lane_words_t){lane->rkey, lane->remote};
    lane->remote = directory->cards[peer].rows;
    return unpack_key(rows_key_in(directory, peer), peer, lane->ep, &lane->rkey, err);
}

/* Each endpoint has a key of its own: UCX refuses the use of a key with another endpoint than the
 * one that it was unpacked for. */
static k3_status_t connect_peer(k3_qps_t *qps, const directory_t *directory, int peer, bool may_map,
                                k3_error_t *err)
{
    k3_peer_t *entry = &qps->peers[peer];
    void      *mapped = NULL;

    if (open_endpoint(qps, directory, peer, &entry->ep, err) != K3_OK ||
        unpack_key(key_in(directory, peer), peer, entry->ep, &entry->rkey, err) != K3_OK) {
        return err->status;
    }
    if (may_map) {
        ucs_status_t status = ucp_rkey_ptr(entry->rkey, directory->cards[peer].memory, &mapped);

        /* Another kind of lane than was planned would be another measurement. */
        if (status != UCS_OK) {
            return k3_fail(err, K3_ERR_ENV,
                           "p2p on: the memory of rank %d on the same node cannot be mapped (%s); "
                           "UCX needs sysv or posix shared memory for it, or use p2p off",
                           peer, ucs_status_string(status));
        }
        k3_memory_huge(mapped, k3_block_bytes(qps->bytes));
        map_lanes(qps, peer, mapped, K3_LANE_P2P);
        return K3_OK;
    }
    entry->kind = K3_LANE_QP;
    for (unsigned q = 0; q < qps->qps_per_peer; q++) {
        k3_lane_t *lane = k3_lane_of(qps, peer, q);

        lane->remote = directory->cards[peer].memory;
        if (q == 0) {
            lane->ep = entry->ep;
            lane->rkey = entry->rkey;
        } else if (open_endpoint(qps, directory, peer, &lane->ep, err) != K3_OK ||
                   unpack_key(key_in(directory, peer), peer, lane->ep, &lane->rkey, err) != K3_OK) {
            return err->status;
        }
        if (qps->words != NULL && part_words(qps, directory, peer, lane, err) != K3_OK) {
            return err->status;
        }
    }
    return K3_OK;
}

/* Where it hangs if it hangs. */
static void announce_lane(k3_qps_t *qps, uint64_t lane)
{
    qps->wiring = lane + 1;
    k3_watchdog_tick("set-up: connection of the queue pairs", 0);
}

/* Every rank starts with its right neighbour, so that not all connect to rank 0 at once. UCX may wait
 * for a peer in here already, as its TCP does: the watchdog tells for which. */
static k3_status_t connect_all(k3_qps_t *qps, const k3_qps_config_t *config,
                               const directory_t *directory, k3_error_t *err)
{
    int rank = qps->world->rank, size = qps->world->size;

    map_lanes(qps, rank, qps->memory, K3_LANE_SELF);
    for (int i = 1; i < size; i++) {
        int  peer = (rank + i) % size;
        bool may_map =
            config->p2p && config->device == NULL && config->node_of[peer] == config->node_of[rank];

        announce_lane(qps, (uint64_t)peer * qps->qps_per_peer);
        if (connect_peer(qps, directory, peer, may_map, err) != K3_OK) {
            return err->status;
        }
    }
    qps->wiring = 0;
    return K3_OK;
}

/* --- requests that are waited for together --------------------------------------------------- */

typedef struct batch {
    ucs_status_ptr_t requests[BATCH];
    const char      *what[BATCH];
    uint64_t         lane[BATCH]; /* being connected: its number, plus one; 0: on the way back */
    int              count;
} batch_t;

static void finish_batch(k3_qps_t *qps, batch_t *batch)
{
    for (int i = 0; i < batch->count; i++) {
        ucs_status_t status;

        qps->wiring = 0;
        if (batch->lane[i] > 0) {
            announce_lane(qps, batch->lane[i] - 1);
        }
        status = k3_qps_finish(qps, batch->requests[i]);

        if (status != UCS_OK) {
            k3_qps_note(qps, batch->what[i], status);
        }
    }
    batch->count = 0;
}

static void add_request(k3_qps_t *qps, batch_t *batch, uint64_t lane, const char *what,
                        ucs_status_ptr_t request)
{
    if (batch->count == BATCH) {
        finish_batch(qps, batch);
    }
    batch->what[batch->count] = what;
    batch->lane[batch->count] = lane;
    batch->requests[batch->count++] = request;
}

/* --- wiring ---------------------------------------------------------------------------------- */

static void wire_lane(k3_qps_t *qps, uint64_t index, batch_t *batch)
{
    k3_lane_t                *lane = &qps->lanes[index];
    static const uint64_t     zero;
    ucp_request_param_t       param = {0};
    const ucp_request_param_t plain = {0};

    uint64_t   word = lane->remote + qps->tail + K3_TAIL_WIRE_ADD;
    ucp_rkey_h word_key = lane->rkey;

    if (qps->words != NULL) {
        word = qps->words[index].remote + qps->tail + K3_TAIL_WIRE_ADD;
        word_key = qps->words[index].rkey;
    }
    add_request(qps, batch, index + 1, "remote write on a new queue pair",
                ucp_put_nbx(lane->ep, &zero, sizeof(zero),
                            lane->remote + qps->rows.tail + K3_TAIL_WIRE_PUT, lane->rkey, &plain));
    param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_contig(sizeof(zero));
    add_request(qps, batch, index + 1, "remote 64-bit add on a new queue pair",
                ucp_atomic_op_nbx(lane->ep, UCP_ATOMIC_OP_ADD, &zero, 1, word, word_key, &param));
}

/* UCX wires an endpoint at its first use; so each is used once, for both kinds of operation. Many at a
 * time: a peer that shares this core answers all that came while it waited for it. */
static k3_status_t wire_all(k3_qps_t *qps, k3_error_t *err)
{
    batch_t batch = {.count = 0};

    for (uint64_t i = 0; i < qps->lane_count; i++) {
        if (qps->lanes[i].ep != NULL) {
            wire_lane(qps, i, &batch);
        }
    }
    finish_batch(qps, &batch);
    qps->wiring = 0;
    k3_watchdog_tick("set-up: flush of the new queue pairs", 0);
    k3_qps_flush(qps, err);
    k3_qps_barrier(qps, err);
    return k3_world_agree(qps->world, err);
}

static k3_status_t name_transports(k3_qps_t *qps, k3_error_t *err)
{
    char backing[16];

    k3_memory_backing(qps->memory, backing, sizeof(backing));
    for (int peer = 0; peer < qps->world->size; peer++) {
        k3_peer_t *entry = &qps->peers[peer];
        char      *info;

        if (entry->kind != K3_LANE_QP) {
            strcpy(entry->transport, entry->kind == K3_LANE_SELF ? "self" : "mapped");
            continue;
        }
        info = k3_transport_info(entry->ep);
        if (info == NULL) {
            return k3_fail(err, K3_ERR_ENV, "no memory for the description of an endpoint");
        }
        k3_transport_parse(info, backing, entry->transport);
        free(info);
    }
    return err->status;
}

k3_status_t k3_lanes_connect(k3_qps_t *qps, const k3_qps_config_t *config, k3_error_t *err)
{
    directory_t directory = {0};

    if (build_directory(qps, &directory, err) == K3_OK) {
        connect_all(qps, config, &directory, err);
        if (err->status == K3_OK) {
            name_transports(qps, err);
        }
        if (k3_world_agree(qps->world, err) == K3_OK) {
            wire_all(qps, err);
            name_transports(qps, err); /* wiring may have chosen anew */
            k3_world_agree(qps->world, err);
        }
    }
    directory_free(&directory);
    return err->status;
}

/* --- the way back ---------------------------------------------------------------------------- */

static void close_endpoint(k3_qps_t *qps, ucp_ep_h ep, batch_t *batch)
{
    static const ucp_request_param_t flushing; /* mode flush */

    if (ep != NULL) {
        add_request(qps, batch, 0, "close of a queue pair", ucp_ep_close_nbx(ep, &flushing));
    }
}

static bool is_first_of_peer(const k3_qps_t *qps, uint64_t lane)
{
    return lane % qps->qps_per_peer == 0;
}

static void drop_key(ucp_rkey_h rkey)
{
    if (rkey != NULL) {
        ucp_rkey_destroy(rkey);
    }
}

/* The first lane of a peer has the peer's endpoint and key. */
void k3_lanes_disconnect(k3_qps_t *qps)
{
    batch_t batch = {.count = 0};

    for (uint64_t i = 0; qps->words != NULL && i < qps->lane_count; i++) {
        /* The peer's key is that of its first lane's signals. */
        if (is_first_of_peer(qps, i)) {
            drop_key(qps->words[i].rkey != NULL ? qps->lanes[i].rkey : NULL);
        } else {
            drop_key(qps->words[i].rkey);
        }
    }
    for (uint64_t i = 0; i < qps->lane_count; i++) {
        if (!is_first_of_peer(qps, i)) {
            drop_key(qps->lanes[i].rkey);
            close_endpoint(qps, qps->lanes[i].ep, &batch);
        }
    }
    for (int peer = 0; peer < qps->world->size; peer++) {
        drop_key(qps->peers[peer].rkey);
        close_endpoint(qps, qps->peers[peer].ep, &batch);
    }
    finish_batch(qps, &batch);
}
