/* The two-hop family: a row goes once to each node, to the rank with the same local index there, which
 * passes it on to the ranks of its node that hold the row's experts; on the way back each node's results
 * are added up at that rank and travel as one row.
 *
 * What a dispatch cannot do without, in records of a rank with T rows, of which F go to other nodes by its rail
 * and which forwards G copies to ranks of its node: T written once (the format), F posted in hop 1, G posted in hop
 * 2, T + (arrived by rail) metadata read to forward and one for each arrived copy to receive. Over rings (slots are
 * used again) a record is copied to the ring's own side before hop 1 and out of the ring behind hop 2: F + G
 * more. Hop 2 of a row follows its hop 1; counts ahead of the rows are one more round by rail and one inside the
 * node.
 *
 * No area is written again before its reader is done: a rank begins its next dispatch when its combine
 * is complete, and for that every forwarder has answered, each after all ranks of its node. Where the
 * areas of combine lie over those of dispatch, where the experts have read them, ranks of a node say first that they take results
 * (local_barrier), and the counts ahead of the rows hold a dispatch back until the combine before it
 * has ended everywhere that its rows go. */
#include <string.h>

#include "bench/engines/rails_engine.h"
#include "bench/engines/rails_rings.h"
#include "bench/plan/cell_rows.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"

/* --- set-up ---------------------------------------------------------------------------------- */

static void rails_destroy(void *engine)
{
    rails_engine_t *e = engine;
    void *const     memory[] = {
            e->list,         e->listed,      e->sent,         e->slot_chunk,  e->slot_next,
            e->flag_next,    e->route_count, e->route_back,   e->notify_rows, e->notify_sums,
            e->notify_wants, e->passed,      e->got,          e->got_next,    e->forwarded,
            e->from,         e->record,      e->expert_begin, e->expert_fill, e->values,
            e->scales,       e->out,         e->pair_out,     e->decoded,     e->sum_row,
            e->seen,         e->row,         e->pair,         e->count_at,    e->channel_qp,
            e->wait_qp,
    };

    for (unsigned i = 0; i < sizeof(memory) / sizeof(memory[0]); i++) {
        k3_free(memory[i]);
    }
    k3_holders_destroy(&e->places);
    k3_holders_destroy(&e->nodes);
    k3_holders_destroy(&e->here);
    k3_holders_destroy(&e->in_front);
    k3_holders_destroy(&e->before);
    k3_compute_free(e->env.compute, e->copied);
    k3_compute_free(e->env.compute, e->results);
    k3_compute_free(e->env.compute, e->partial);
    k3_rails_meta_destroy(e);
    if (e->qps != NULL) {
        k3_qps_destroy(e->qps);
    }
    if (e->rings != NULL) {
        k3_rings_destroy(e);
    }
    k3_free(e);
}

typedef struct table {
    const char *what;
    uint64_t    count, size;
    void       *memory_p;
} table_t;

static k3_status_t alloc_all(const table_t *tables, unsigned count, k3_error_t *err)
{
    for (unsigned i = 0; i < count; i++) {
        if (k3_alloc(tables[i].what, tables[i].count, tables[i].size, tables[i].memory_p, err) !=
            K3_OK) {
            break;
        }
    }
    return err->status;
}

#define COUNT(tables) ((unsigned)(sizeof(tables) / sizeof((tables)[0])))

static k3_status_t alloc_origin(rails_engine_t *e, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;
    uint64_t          row = e->env.cell->profile->notify ? 1 + (uint64_t)r->local : 0;
    uint64_t          lanes = r->channels > 0 ? r->channels : 1;
    const table_t     tables[] = {
            {"queue pairs of channels", r->channels, sizeof(uint32_t), &e->channel_qp},
            {"counts of experts", r->experts, sizeof(uint32_t), &e->count_at},
            {"rows for nodes", k3_mul(r->nodes, r->m), sizeof(rails_send_t), &e->list},
            {"rows for nodes", r->nodes, sizeof(uint32_t), &e->listed},
            {"rows for nodes", r->nodes, sizeof(uint32_t), &e->sent},
            {"chunks of nodes", r->nodes, sizeof(uint32_t), &e->slot_chunk},
            {"slots of nodes", r->nodes * lanes, sizeof(uint32_t), &e->slot_next},
            {"chunks of nodes", r->nodes, sizeof(uint32_t), &e->flag_next},
            {"nodes of rows", r->m, sizeof(uint32_t), &e->route_count},
            {"nodes of rows", k3_mul(r->m, r->nodes_of_row), sizeof(uint64_t), &e->route_back},
            {"counts", r->ranks * row, sizeof(uint32_t), &e->notify_rows},
            {"counts", r->per_node * row, sizeof(uint64_t), &e->notify_sums},
            {"counts", row, sizeof(uint64_t), &e->notify_wants},
    };

    return alloc_all(tables, COUNT(tables), err);
}

static k3_status_t alloc_forwarder(rails_engine_t *e, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;
    uint64_t          lanes = r->channels > 0 ? r->channels : r->chunks;
    uint64_t          most = r->nodes > r->per_node ? r->nodes : r->per_node;
    uint64_t          width = e->env.cell->model.latent;
    const table_t     tables[] = {
            {"rows passed on", k3_mul(r->nodes, r->slots), sizeof(rails_passed_t), &e->passed},
            {"rows of chunks", k3_mul(r->nodes, lanes), sizeof(uint32_t), &e->got},
            {"chunks seen", r->nodes, sizeof(uint32_t), &e->got_next},
            {"rows passed on", r->per_node, sizeof(uint64_t), &e->forwarded},
            {"signals seen", most, 1, &e->seen},
            {"signals missing", most, sizeof(uint32_t), &e->wait_qp},
            {"results decoded", (most < r->topk ? most : r->topk) * width, sizeof(uint16_t),
             &e->decoded},
            {"sum", width, sizeof(uint16_t), &e->sum_row},
    };

    return alloc_all(tables, COUNT(tables), err);
}

/* A row that arrives has at least one of the pairs that the routing brings here. */
static k3_status_t alloc_receiver(rails_engine_t *e, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;
    k3_compute_t     *c = e->env.compute;
    uint64_t          pairs = k3_rows_arriving(e->env.cell, e->rank);
    uint64_t          width = e->env.cell->model.latent;
    const table_t     tables[] = {
            {"records of forwarders", (uint64_t)r->per_node + 1, sizeof(uint64_t), &e->from},
            {"records", pairs, sizeof(void *), &e->record},
            {"expert ranges", (uint64_t)r->local + 1, sizeof(uint64_t), &e->expert_begin},
            {"expert ranges", r->local, sizeof(uint64_t), &e->expert_fill},
            {"row pointers", pairs, sizeof(void *), &e->values},
            {"row pointers", pairs, sizeof(void *), &e->scales},
            {"row pointers", pairs, sizeof(void *), &e->out},
            {"row pointers", pairs, sizeof(void *), &e->pair_out},
            {"rows of records", pairs, sizeof(rails_row_t), &e->row},
            {"pairs of records", pairs, sizeof(rails_pair_t), &e->pair},
    };

    e->rows_cap = pairs;
    e->pairs_cap = pairs;
    if (alloc_all(tables, COUNT(tables), err) != K3_OK ||
        k3_compute_alloc(c, "records copied out", r->copies_out ? pairs : 0, r->record, false,
                         &e->copied, err) != K3_OK ||
        k3_compute_alloc(c, "expert results", pairs, width * 2, false, &e->results, err) != K3_OK) {
        return err->status;
    }
    return k3_compute_alloc(c, "sums of results", pairs, r->result, true, &e->partial, err);
}

/* Rows are named by 32 bits: rank * M + row. */
static k3_status_t check_names(const k3_rails_t *r, k3_error_t *err)
{
    if (k3_mul(r->ranks, r->m) > UINT32_MAX || r->slots > UINT32_MAX) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "ranks %u x max-tokens %llu is above the limit %u of row names", r->ranks,
                       (unsigned long long)r->m, UINT32_MAX);
    }
    return K3_OK;
}

static k3_status_t alloc_holders(rails_engine_t *e, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;

    if (k3_holders_create(&e->places, r->experts, r->ranks, err) != K3_OK ||
        k3_holders_create(&e->nodes, r->experts, r->nodes, err) != K3_OK ||
        k3_holders_create(&e->here, r->experts, r->per_node, err) != K3_OK ||
        k3_holders_create(&e->in_front, r->experts, e->node, err) != K3_OK) {
        return err->status;
    }
    return k3_holders_create(&e->before, r->experts, e->index, err);
}

/* Counts of rows, where there are any: for each place, or each rank of a node of rings, and for its experts. */
static uint32_t count_word(const rails_engine_t *e, uint32_t expert, uint32_t node, uint32_t index)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          of_rank = expert % r->local;

    return e->rings == NULL
               ? (node * r->per_node + index) * (1 + r->local) + 1 + of_rank
               : node * e->rings->plan.rail_words + r->per_node + index * r->local + of_rank;
}

static void fill_tables(rails_engine_t *e)
{
    const k3_rails_t *r = &e->rails;

    for (uint32_t c = 0; c < r->channels && e->rings == NULL; c++) {
        e->channel_qp[c] = k3_rails_qp(e->env.cell->profile, r, c, true);
    }
    for (uint32_t x = 0; x < r->experts; x++) {
        uint32_t place = e->env.cell->place_of[x / r->local];
        uint32_t node = place / r->per_node, index = place % r->per_node;

        k3_holders_give(&e->places, x, place);
        k3_holders_give(&e->nodes, x, node);
        e->count_at[x] = count_word(e, x, node, index);
        if (node < e->node) {
            k3_holders_give(&e->in_front, x, node);
        }
        if (node == e->node) {
            k3_holders_give(&e->here, x, index);
        }
        if (node == e->node && index < e->index) {
            k3_holders_give(&e->before, x, index);
        }
    }
}

/* On a device signals and counts have a block of their own. */
static void part_words(rails_engine_t *e, uint64_t *bytes, uint64_t *rows_bytes)
{
    *bytes = e->rails.bytes;
    *rows_bytes = 0;
    if (k3_rails_on_device(e)) {
        *rows_bytes = *bytes;
        *bytes = e->rings != NULL ? k3_rings_part_words(&e->rings->plan)
                                  : k3_rails_part_words(e->env.cell, &e->rails);
    }
}

static k3_status_t rails_create(const k3_engine_env_t *env, void **engine_p, k3_error_t *err)
{
    rails_engine_t *e = NULL;
    uint64_t        bytes = 0, rows_bytes = 0;

    if (k3_alloc("two-hop engine", 1, sizeof(*e), &e, err) == K3_OK) {
        e->env = *env;
        e->rank = (uint32_t)env->world->rank;
        k3_rails_plan(env->cell, &e->rails);
        e->node = env->cell->place_of[e->rank] / e->rails.per_node;
        e->index = env->cell->place_of[e->rank] % e->rails.per_node;
        if (check_names(&e->rails, err) == K3_OK && alloc_holders(e, err) == K3_OK &&
            alloc_origin(e, err) == K3_OK && alloc_forwarder(e, err) == K3_OK) {
            alloc_receiver(e, err);
        }
        if (err->status == K3_OK && env->cell->profile->rings != NULL) {
            k3_rings_create(e, err);
        }
        if (err->status == K3_OK && k3_rails_meta_create(e, err) == K3_OK) {
            part_words(e, &bytes, &rows_bytes);
        }
    }
    if (k3_world_agree(env->world, err) == K3_OK) {
        k3_engine_queue_pairs(env, bytes, rows_bytes, &e->qps, err);
    }
    if (err->status != K3_OK) {
        if (e != NULL) {
            rails_destroy(e);
        }
        return err->status;
    }
    fill_tables(e);
    e->block = k3_qps_rows(e->qps);
    e->words = k3_qps_memory(e->qps);
    if (e->rings == NULL) {
        e->returned = e->block + e->rails.returned;
        e->records = e->block + e->rails.send;
    }
    e->soft = k3_engine_soft_lanes(env->world, e->qps);
    *engine_p = e;
    return K3_OK;
}

/* --- dispatch -------------------------------------------------------------------------------- */

static k3_status_t rails_dispatch(void *engine, const k3_rows_t *rows, k3_error_t *err)
{
    rails_engine_t *e = engine;
    k3_spans_t     *spans = e->env.spans;

    if (e->rings != NULL) {
        return k3_rings_dispatch(e, rows, err);
    }
    k3_span_begin(spans, K3_PHASE_DISPATCH_SEND);
    k3_rails_list_rows(e, rows);
    k3_span_end(spans, K3_PHASE_DISPATCH_SEND);

    if (e->env.cell->profile->notify) {
        k3_span_begin(spans, K3_PHASE_NOTIFY);
        k3_qps_bank_begin(e->qps, K3_TRAFFIC_NOTIFY);
        k3_rails_notify(e, rows, err);
        k3_span_end(spans, K3_PHASE_NOTIFY);
    }

    k3_qps_bank_begin(e->qps, K3_TRAFFIC_DISPATCH);
    memset(e->forwarded, 0, e->rails.per_node * sizeof(*e->forwarded));
    if (err->status != K3_OK || k3_rails_send(e, rows, err) != K3_OK) {
        return err->status;
    }

    k3_span_begin(spans, K3_PHASE_DISPATCH_WAIT);
    if (k3_rails_forward(e, err) == K3_OK) {
        k3_rails_receive(e, err);
    }
    k3_engine_finish_span(e->qps, e->soft, err);
    k3_span_end(spans, K3_PHASE_DISPATCH_WAIT);
    return err->status;
}

static k3_status_t rails_combine(void *engine, const k3_rows_t *rows, uint16_t *combined,
                                 k3_error_t *err)
{
    rails_engine_t *e = engine;

    return e->rings != NULL ? k3_rings_combine(e, rows, combined, err)
                            : k3_rails_combine(e, rows, combined, err);
}

static k3_qps_t *rails_qps(void *engine)
{
    return ((rails_engine_t *)engine)->qps;
}

static k3_status_t rails_settle(void *engine, k3_error_t *err)
{
    return k3_qps_bank_end(((rails_engine_t *)engine)->qps, err);
}

const k3_engine_ops_t k3_engine_rails = {
    .version = K3_ENGINE_VERSION,
    .name = "rails",
    .create = rails_create,
    .destroy = rails_destroy,
    .dispatch = rails_dispatch,
    .expert = k3_rails_expert,
    .combine = rails_combine,
    .settle = rails_settle,
    .qps = rails_qps,
    .refuses_device = k3_engine_refuses_nothing,
};
