/* The origin's part of a dispatch: the list of rows for each node, and hop 1. */
#include <string.h>

#include "bench/engines/rails_engine.h"

/* --- who gets which row ---------------------------------------------------------------------- */

/* The slot of a row on a node: by chunks the next one of the row's chunk, which gets a number when
 * its first row comes; by channels the next one of the row's channel. */
static uint32_t next_slot(rails_engine_t *e, uint32_t node, uint32_t row)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          channel, chunk;

    if (r->chunk == 0) {
        channel = row % r->channels;
        return (uint32_t)(channel * r->channel_slots) +
               e->slot_next[node * r->channels + channel]++;
    }
    chunk = row / r->chunk + 1;
    if (e->slot_chunk[node] != chunk) {
        e->slot_chunk[node] = chunk;
        e->flag_next[node]++;
        e->slot_next[node] = 0;
    }
    return (e->flag_next[node] - 1) * r->chunk + e->slot_next[node]++;
}

static uint32_t list_row(rails_engine_t *e, uint32_t node, uint32_t row)
{
    uint32_t slot = next_slot(e, node, row);

    e->list[node * e->rails.m + e->listed[node]++] = (rails_send_t){row, slot};
    return slot;
}

/* Whole chunks go to every other node, whatever their rows need. */
static void list_everywhere(rails_engine_t *e, uint32_t row)
{
    for (uint32_t node = 0; node < e->rails.nodes; node++) {
        if (node != e->node) {
            list_row(e, node, row);
        }
    }
}

static void list_one(rails_engine_t *e, uint32_t row, const int32_t *ids)
{
    const k3_rails_t *r = &e->rails;
    bool              whole = e->env.cell->profile->copy == K3_COPY_CHUNK;
    uint32_t          nodes[K3_TOPK_MAX];
    uint32_t          count = k3_holders_list(&e->nodes, ids, r->topk, nodes);

    if (whole) {
        list_everywhere(e, row);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = whole && nodes[i] != e->node ? row : list_row(e, nodes[i], row);

        e->route_back[row * r->nodes_of_row + i] = k3_rails_back_at(r, nodes[i], slot, i, row);
    }
    e->route_count[row] = count;
}

void k3_rails_list_rows(rails_engine_t *e, const k3_rows_t *rows)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          lanes = r->channels > 0 ? r->channels : 1;

    memset(e->listed, 0, r->nodes * sizeof(uint32_t));
    memset(e->slot_chunk, 0, r->nodes * sizeof(uint32_t));
    memset(e->flag_next, 0, r->nodes * sizeof(uint32_t));
    memset(e->slot_next, 0, (size_t)r->nodes * lanes * sizeof(uint32_t));
    for (uint64_t i = 0; i < rows->count; i++) {
        list_one(e, (uint32_t)i, rows->ids + i * r->topk);
    }
}

/* --- hop 1 ----------------------------------------------------------------------------------- */

static void put_rows(rails_engine_t *e, uint32_t node, uint32_t qp, rails_send_t first,
                     uint32_t rows)
{
    const k3_rails_t *r = &e->rails;

    k3_rails_put(e, k3_rails_peer(e, node), qp, e->records + first.row * r->record,
                 r->hop1 + (e->node * r->slots + first.slot) * r->record, rows * r->record,
                 rows * r->record_payload);
}

/* The node's rows of a chunk: a put for each run of neighbours, then the flag. Returns how many rows
 * they were. */
static uint32_t send_chunk(rails_engine_t *e, uint32_t node, uint32_t chunk,
                           const rails_send_t *list, uint32_t left)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          end = (chunk + 1) * r->chunk, qp = chunk % r->qps, sent = 0, flag;

    while (sent < left && list[sent].row < end) {
        uint32_t rows = 1;

        while (sent + rows < left && list[sent + rows].row < end &&
               list[sent + rows].row == list[sent].row + rows) {
            rows++;
        }
        put_rows(e, node, qp, list[sent], rows);
        sent += rows;
    }
    if (sent > 0) {
        flag = list[0].slot / r->chunk;
        k3_rails_signal(e, k3_rails_peer(e, node), qp,
                        r->flags + ((uint64_t)e->node * r->chunks + flag) * 8, (uint64_t)sent + 1);
    }
    return sent;
}

static void send_chunk_everywhere(rails_engine_t *e, uint32_t chunk)
{
    const k3_rails_t *r = &e->rails;

    for (uint32_t step = 1; step < r->nodes; step++) {
        uint32_t node = (e->node + step) % r->nodes, *sent = &e->sent[node];

        *sent += send_chunk(e, node, chunk, e->list + node * r->m + *sent, e->listed[node] - *sent);
    }
}

/* flag_next holds how many chunks each node gets. */
static void close_chunks(rails_engine_t *e)
{
    const k3_rails_t *r = &e->rails;

    for (uint32_t step = 1; step < r->nodes; step++) {
        uint32_t node = (e->node + step) % r->nodes;

        k3_rails_signal(e, k3_rails_peer(e, node), 0, r->ends + e->node * 8,
                        (uint64_t)e->flag_next[node] * r->chunk + 1);
    }
}

/* The low half of a channel's word is the tail, the high half says that no more comes. */
static void send_tail(rails_engine_t *e, uint32_t node, uint32_t channel, uint32_t rows, bool last)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          qp = e->channel_qp[channel];

    k3_rails_signal(e, k3_rails_peer(e, node), qp,
                    r->flags + ((uint64_t)e->node * r->channels + channel) * 8,
                    rows | (uint64_t)last << 32);
}

/* The node's rows in front of `end`. */
static void send_to_channels(rails_engine_t *e, uint32_t node, uint64_t end)
{
    const k3_profile_t *p = e->env.cell->profile;
    const k3_rails_t   *r = &e->rails;
    const rails_send_t *list = e->list + node * r->m;
    uint32_t           *i = &e->sent[node];

    for (; *i < e->listed[node] && list[*i].row < end; ++*i) {
        uint32_t channel = list[*i].row % r->channels;
        uint32_t sent = list[*i].slot - (uint32_t)(channel * r->channel_slots) + 1;

        put_rows(e, node, e->channel_qp[channel], list[*i], 1);
        if (sent % p->tail_rows == 0) {
            send_tail(e, node, channel, p->tail_rows, false);
        }
    }
}

static void send_channels(rails_engine_t *e, uint64_t end)
{
    for (uint32_t step = 1; step < e->rails.nodes; step++) {
        send_to_channels(e, (e->node + step) % e->rails.nodes, end);
    }
}

static void close_channels(rails_engine_t *e)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          tail_rows = e->env.cell->profile->tail_rows;

    for (uint32_t step = 1; step < r->nodes; step++) {
        uint32_t node = (e->node + step) % r->nodes;

        for (uint32_t c = 0; c < r->channels; c++) {
            send_tail(e, node, c, e->slot_next[node * r->channels + c] % tail_rows, true);
        }
    }
}

static void close_hop(rails_engine_t *e)
{
    if (e->rails.chunk > 0) {
        close_chunks(e);
    } else {
        close_channels(e);
    }
}

/* A chunk's rows leave together: they are one block. On a device all chunks are there at once. */
static uint64_t block_end(const rails_engine_t *e, uint64_t first, uint64_t count)
{
    uint64_t chunk = e->rails.chunk;

    if (chunk == 0 || k3_rails_on_device(e)) {
        return k3_block_end(e->env.compute, first, count);
    }
    return count - first < chunk ? count : first + chunk;
}

static k3_status_t send_block(rails_engine_t *e, const k3_rows_t *rows, uint64_t first,
                              uint64_t end, k3_error_t *err)
{
    uint32_t chunk = e->rails.chunk, width = e->env.cell->model.latent;

    if (chunk > 0) {
        for (uint64_t i = first; i < end; i += chunk) {
            send_chunk_everywhere(e, (uint32_t)(i / chunk));
        }
    } else {
        for (uint64_t i = first; i < end; i++) {
            k3_block_fetch_ahead(rows, width, i);
        }
        send_channels(e, end);
    }
    if (end == rows->count) {
        close_hop(e);
    }
    return k3_rails_forward_own(e, end, err);
}

k3_status_t k3_rails_send(rails_engine_t *e, const k3_rows_t *rows, k3_error_t *err)
{
    k3_spans_t *spans = e->env.spans;
    uint64_t    first = 0, end;

    memset(e->sent, 0, e->rails.nodes * sizeof(*e->sent));
    do {
        end = block_end(e, first, rows->count);
        k3_span_begin(spans, K3_PHASE_QUANTIZE);
        k3_rails_quantize(e, rows, first, end, err);
        k3_span_end(spans, K3_PHASE_QUANTIZE);
        k3_span_begin(spans, K3_PHASE_DISPATCH_SEND);
        if (err->status == K3_OK) {
            send_block(e, rows, first, end, err);
        }
        if (end == rows->count) {
            e->env.compute->ops->copies_done(e->env.compute);
        }
        k3_span_end(spans, K3_PHASE_DISPATCH_SEND);
        first = end;
    } while (err->status == K3_OK && end < rows->count);
    return err->status;
}
