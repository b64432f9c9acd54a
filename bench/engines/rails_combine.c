/* The way back: each rank returns the weighted sum of its experts to the rank that forwarded the row,
 * which adds up what its node has for the row; one sum per node travels to the origin, which adds these. */
#include <string.h>

#include "bench/engines/rails_engine.h"

/* --- to the forwarders ----------------------------------------------------------------------- */

static bool poll_ready(rails_engine_t *e, uint32_t index, k3_error_t *err)
{
    (void)err;
    return k3_rails_take(e, e->rails.ready + (uint64_t)index * 8) != 0;
}

/* This rank is done with what it received and has sent, so that results may lie there. */
static k3_status_t local_barrier(rails_engine_t *e, k3_error_t *err)
{
    for (uint32_t step = 0; step < e->rails.per_node; step++) {
        uint32_t to = (e->index + step) % e->rails.per_node;

        k3_rails_signal(e, k3_rails_local_rank(e, to), 0, e->rails.ready + e->index * 8, 1);
    }
    return k3_rails_wait(e, "barrier of the node", K3_TRAFFIC_COMBINE, false, poll_ready, err);
}

static void return_row(rails_engine_t *e, uint32_t to, uint64_t i)
{
    const k3_rails_t  *r = &e->rails;
    const rails_row_t *row = &e->row[i];
    uint64_t           at = e->env.cell->place_of[row->source] / r->per_node * r->m + row->row;

    k3_rails_put(e, k3_rails_local_rank(e, to), 0, k3_rails_partial(e, i),
                 r->arrive + (at * r->parts + row->part) * r->result, r->result, r->result_payload);
}

/* All rows that came by one forwarder, with a tail after some rows each or one signal at the end. */
static void return_rows(rails_engine_t *e, uint32_t to)
{
    uint32_t tail = e->env.cell->profile->local_tail_rows;
    uint64_t offset = e->rails.results + e->index * 8, told = 0;

    for (uint64_t i = e->from[to]; i < e->from[to + 1]; i++) {
        return_row(e, to, i);
        told++;
        if (tail > 0 && (told == tail || i + 1 == e->from[to + 1])) {
            k3_rails_signal(e, k3_rails_local_rank(e, to), 0, offset, told);
            told = 0;
        }
    }
    if (tail == 0) {
        k3_rails_signal(e, k3_rails_local_rank(e, to), 0, offset, 1);
    }
}

/* With tails the word counts the rows; they are as many as this rank forwarded. */
static bool poll_results(rails_engine_t *e, uint32_t index, k3_error_t *err)
{
    uint8_t *word = e->words + e->rails.results + (uint64_t)index * 8;
    uint64_t want = e->env.cell->profile->local_tail_rows > 0 ? e->forwarded[index] : 1;
    uint64_t value = k3_signal_read64(word);

    if (value > want) {
        k3_fail(err, K3_ERR_CHECK, "rank %u returned %llu of %llu results",
                k3_rails_local_rank(e, index), (unsigned long long)value, (unsigned long long)want);
    }
    if (value < want) {
        return false;
    }
    k3_signal_clear64(word);
    return true;
}

/* --- to the origins -------------------------------------------------------------------------- */

/* The sum of this node for one row. */
static void sum_of_node(rails_engine_t *e, uint32_t node, uint64_t slot, uint8_t *out)
{
    const k3_rails_t     *r = &e->rails;
    const rails_passed_t *passed = &e->passed[node * r->slots + slot];
    const uint8_t        *parts[K3_TOPK_MAX];

    for (uint32_t i = 0; i < passed->parts; i++) {
        parts[i] = e->block + r->arrive + ((node * r->m + passed->row) * r->parts + i) * r->result;
    }
    k3_rails_sum_to_send(e, parts, passed->parts, out);
}

static uint8_t *staging(const rails_engine_t *e, uint32_t node, uint64_t slot)
{
    return e->block + e->rails.staging + (node * e->rails.slots + slot) * e->rails.result;
}

/* The sums of rows in neighbouring slots, to where they leave from. */
static void sum_slots(rails_engine_t *e, uint32_t node, uint64_t slot, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++) {
        sum_of_node(e, node, slot + i, staging(e, node, slot + i));
    }
}

/* On a device the sums for the other nodes are made together, in front of the first that is sent. */
static k3_status_t sum_on_device(rails_engine_t *e, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;
    uint64_t          each = r->chunk > 0 ? r->chunk : r->channel_slots;
    uint32_t          lanes = r->chunk > 0 ? r->chunks : r->channels;

    for (uint32_t node = 0; node < r->nodes; node++) {
        uint32_t used = r->chunk > 0 ? e->got_next[node] : r->channels;

        for (uint32_t c = 0; c < used && node != e->node; c++) {
            sum_slots(e, node, c * each, e->got[(uint64_t)node * lanes + c]);
        }
    }
    return k3_rails_summed(e, err);
}

static void return_own(rails_engine_t *e)
{
    const k3_rails_t   *r = &e->rails;
    const rails_send_t *list = e->list + e->node * r->m;

    for (uint32_t i = 0; i < e->listed[e->node]; i++) {
        uint64_t back =
            k3_rails_back_at(r, e->node, list[i].slot,
                             e->passed[e->node * r->slots + list[i].slot].position, list[i].row);

        sum_of_node(e, e->node, list[i].slot, e->returned + back * r->result);
    }
}

/* A put for each finished chunk, and at the end one add on each QP. */
static void return_chunks(rails_engine_t *e, uint32_t node)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          peer = k3_rails_peer(e, node);

    for (uint32_t c = 0; c < e->got_next[node]; c++) {
        uint64_t slot = (uint64_t)c * r->chunk;
        uint32_t rows = e->got[(uint64_t)node * r->chunks + c];

        if (!k3_rails_on_device(e)) {
            sum_slots(e, node, slot, rows);
        }
        k3_rails_put(e, peer, c % r->qps, staging(e, node, slot),
                     r->returned + k3_rails_back_at(r, e->node, slot, 0, 0) * r->result,
                     rows * r->result, rows * r->result_payload);
    }
    for (uint32_t qp = 0; qp < r->qps; qp++) {
        k3_rails_signal(e, peer, qp, r->closing + e->node * 8, 1);
    }
}

/* A put for each row, and for each channel a word that says that no more comes. */
static void return_channels(rails_engine_t *e, uint32_t node)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          peer = k3_rails_peer(e, node);

    for (uint32_t c = 0; c < r->channels; c++) {
        uint32_t qp = k3_rails_qp(e->env.cell->profile, r, c, false);

        for (uint32_t i = 0; i < e->got[(uint64_t)node * r->channels + c]; i++) {
            uint64_t              slot = c * r->channel_slots + i;
            const rails_passed_t *passed = &e->passed[node * r->slots + slot];

            if (!k3_rails_on_device(e)) {
                sum_slots(e, node, slot, 1);
            }
            k3_rails_put(e, peer, qp, staging(e, node, slot),
                         r->returned +
                             k3_rails_back_at(r, e->node, slot, passed->position, passed->row) *
                                 r->result,
                         r->result, r->result_payload);
        }
        k3_rails_signal(e, peer, qp, r->closing + ((uint64_t)e->node * r->channels + c) * 8,
                        UINT64_C(1) << 32);
    }
}

static k3_status_t return_sums(rails_engine_t *e, k3_error_t *err)
{
    if (k3_rails_on_device(e) && sum_on_device(e, err) != K3_OK) {
        return err->status;
    }
    for (uint32_t step = 1; step < e->rails.nodes; step++) {
        uint32_t node = (e->node + step) % e->rails.nodes;

        if (e->rails.chunk > 0) {
            return_chunks(e, node);
        } else {
            return_channels(e, node);
        }
        k3_watchdog_alive();
    }
    return_own(e);
    return k3_rails_summed(e, err);
}

/* --- at the origin --------------------------------------------------------------------------- */

static bool poll_closing(rails_engine_t *e, uint32_t node, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          words = r->chunk > 0 ? 1 : r->channels;
    uint64_t          want = r->chunk > 0 ? r->qps : UINT64_C(1) << 32;
    uint8_t          *word = e->words + r->closing + (uint64_t)node * words * 8;

    (void)err;
    for (uint32_t i = 0; i < words; i++) {
        if (k3_signal_read64(word + (size_t)i * 8) < want) {
            return false;
        }
    }
    for (uint32_t i = 0; i < words; i++) {
        k3_signal_clear64(word + (size_t)i * 8);
    }
    return true;
}

void k3_rails_sum_over_nodes(rails_engine_t *e, const k3_rows_t *rows, uint16_t *combined)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          width = e->env.cell->model.latent;
    const uint8_t    *parts[K3_TOPK_MAX];

    for (uint64_t i = 0; i < rows->count; i++) {
        const uint64_t *back = e->route_back + i * r->nodes_of_row;

        for (uint32_t p = 0; p < e->route_count[i]; p++) {
            parts[p] = e->returned + back[p] * r->result;
        }
        k3_rails_sum(e, parts, e->route_count[i], combined + i * width);
    }
    k3_rails_start_sums(e);
}

k3_status_t k3_rails_combine(rails_engine_t *e, const k3_rows_t *rows, uint16_t *combined,
                             k3_error_t *err)
{
    k3_spans_t *spans = e->env.spans;

    k3_span_begin(spans, K3_PHASE_COMBINE_SEND);
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_COMBINE);
    k3_rails_partials(e, err);
    if (e->env.cell->profile->local_barrier && err->status == K3_OK) {
        local_barrier(e, err);
    }
    for (uint32_t step = 0; step < e->rails.per_node && err->status == K3_OK; step++) {
        return_rows(e, (e->index + step) % e->rails.per_node);
    }
    e->env.compute->ops->copies_done(e->env.compute);
    k3_span_end(spans, K3_PHASE_COMBINE_SEND);

    k3_span_begin(spans, K3_PHASE_COMBINE_WAIT);
    if (err->status == K3_OK && k3_rails_wait(e, "results of the node", K3_TRAFFIC_COMBINE, false,
                                              poll_results, err) == K3_OK) {
        if (return_sums(e, err) == K3_OK) {
            k3_rails_wait(e, "sums of nodes", K3_TRAFFIC_COMBINE, true, poll_closing, err);
        }
    }
    k3_engine_finish_span(e->qps, e->soft, err);
    k3_span_end(spans, K3_PHASE_COMBINE_WAIT);

    k3_span_begin(spans, K3_PHASE_COMBINE_REDUCE);
    if (err->status == K3_OK) {
        k3_rails_sum_over_nodes(e, rows, combined);
    }
    k3_span_end(spans, K3_PHASE_COMBINE_REDUCE);
    return err->status == K3_OK ? k3_rails_summed(e, err) : err->status;
}
