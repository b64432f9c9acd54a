/* Results over rings: to the forwarder of each row, their sums to the origins, and the sums of the other
 * nodes out of their rings. */
#include <string.h>

#include "bench/engines/rails_rings.h"

/* A stream inside the node: channel, rank of the node, node of the origin. */
static uint32_t stream_of(const rings_t *g, uint32_t channel, uint32_t index, uint32_t node)
{
    return (channel * g->plan.per_node + index) * g->plan.nodes + node;
}

/* --- receiver of rows: results to the forwarders --------------------------------------------- */

static void return_record(rails_engine_t *e, uint32_t channel, uint32_t to, uint32_t node,
                          ring_stream_t *s)
{
    const k3_rails_t *r = &e->rails;
    const k3_rings_t *p = &e->rings->plan;
    uint32_t          slots = p->nvl_slots[1], qp = k3_rings_local_qp(p, channel);
    uint32_t          i = s->first - 1, peer = k3_rails_local_rank(e, to);
    uint64_t          mine = stream_of(e->rings, channel, e->index, node);

    k3_rails_put(e, peer, qp, k3_rails_partial(e, i),
                 p->back_nvl + mine * p->back_nvl_ring + s->sent % slots * r->result, r->result,
                 r->result_payload);
    s->first = e->rings->next[i];
    s->sent++;
    if (++s->loose == p->size[1].nvl_send || s->sent == s->count) {
        k3_rings_add(e, peer, qp, p->back_tail + mine * 4, s->loose);
        s->loose = 0;
    }
    e->rings->moved = true;
}

static void pass_results(rails_engine_t *e, k3_error_t *err)
{
    rings_t *g = e->rings;

    for (uint32_t i = 0; i < g->plan.channels * g->plan.per_node * g->plan.nodes; i++) {
        ring_stream_t *s = &g->stream[i];
        uint32_t       node = i % g->plan.nodes, to = i / g->plan.nodes % g->plan.per_node;
        uint32_t       channel = i / g->plan.nodes / g->plan.per_node;

        if (s->sent == s->count) {
            continue;
        }
        while (s->sent < s->count && err->status == K3_OK &&
               s->sent - k3_signal_read32(k3_rings_at(e, g->plan.back_head, i)) <
                   g->plan.nvl_slots[1]) {
            return_record(e, channel, to, node, s);
        }
        g->left -= s->sent == s->count;
    }
}

/* --- forwarder: sums to the origins ---------------------------------------------------------- */

/* The first rank of the node of which a result is missing for the next sum; n: none. */
static uint32_t missing_from(const rails_engine_t *e, uint32_t channel, uint32_t node,
                             uint32_t mask)
{
    const rings_t *g = e->rings;
    uint32_t       i = 0;

    for (; i < g->plan.per_node; i++) {
        uint32_t stream = stream_of(g, channel, i, node);

        if ((mask >> i & 1) != 0 && k3_signal_read32(k3_rings_at(e, g->plan.back_tail, stream)) <=
                                        g->results[stream].done) {
            break;
        }
    }
    return i;
}

bool k3_rings_stuck_sum(const rails_engine_t *e, rings_stuck_t *stuck)
{
    const rings_t *g = e->rings;

    for (uint32_t i = 0; i < g->plan.nodes * g->plan.channels; i++) {
        const ring_end_t *s = &g->send[i];
        uint32_t          node = i / g->plan.channels, c = i % g->plan.channels;
        uint32_t          from = s->done < s->total
                                     ? missing_from(e, c, node, k3_rings_passed(e, node, c)[s->done].mask)
                                     : g->plan.per_node;

        if (from < g->plan.per_node) {
            *stuck =
                (rings_stuck_t){k3_rails_local_rank(e, from), c, k3_rings_local_qp(&g->plan, c)};
            return true;
        }
    }
    return false;
}

/* Sum of one row in rank order. */
static void sum_row(rails_engine_t *e, uint32_t channel, uint32_t node, uint32_t mask, uint8_t *out)
{
    const k3_rings_t *p = &e->rings->plan;
    const uint8_t    *parts[K3_TOPK_MAX];
    uint32_t          count = 0;

    for (uint32_t i = 0; i < p->per_node; i++) {
        uint64_t stream = stream_of(e->rings, channel, i, node);

        if (mask >> i & 1) {
            parts[count++] = e->block + p->back_nvl + stream * p->back_nvl_ring +
                             e->rings->results[stream].done++ % p->nvl_slots[1] * e->rails.result;
        }
    }
    k3_rails_sum_to_send(e, parts, count, out);
}

/* The slots of a row that was summed are handed back. */
static void free_slots(rails_engine_t *e, uint32_t channel, uint32_t node, uint32_t mask)
{
    const k3_rings_t *p = &e->rings->plan;

    for (uint32_t i = 0; i < p->per_node; i++) {
        uint32_t stream = stream_of(e->rings, channel, i, node);

        if (mask >> i & 1) {
            k3_rings_give_back(e, i, k3_rings_local_qp(p, channel),
                               p->back_head +
                                   (uint64_t)stream_of(e->rings, channel, e->index, node) * 4,
                               1, p->size[1].nvl_send, &e->rings->results[stream].loose);
        }
    }
    e->rings->moved = true;
}

/* The slot of the next sum for another node; NULL: no room for its chunk yet. */
static uint8_t *next_slot(rails_engine_t *e, uint32_t stream, ring_end_t *s)
{
    const k3_rings_t *p = &e->rings->plan;
    uint32_t          left = s->total - s->done;
    uint32_t          rows = left < p->size[1].rdma_send ? left : p->size[1].rdma_send;

    if (s->chunk == 0) {
        if (s->done + rows - k3_signal_read32(k3_rings_at(e, p->credits[1], stream)) >
            p->rdma_slots[1]) {
            return NULL;
        }
        s->chunk = rows;
    }
    return e->block + p->back_out + stream * p->back_rdma_ring +
           s->done % p->rdma_slots[1] * e->rails.result;
}

/* A sum lies in its slot; the chunk goes when it is full. */
static void fill_slot(rails_engine_t *e, uint32_t node, uint32_t channel, ring_end_t *s)
{
    const k3_rails_t *r = &e->rails;
    const k3_rings_t *p = &e->rings->plan;
    uint64_t          mine = (uint64_t)e->node * p->channels + channel;
    uint64_t          stream = (uint64_t)node * p->channels + channel, at;
    uint32_t          peer = k3_rails_peer(e, node), qp = k3_rings_qp(p, channel);

    s->done++;
    if (++s->loose < s->chunk) {
        return;
    }
    at = (s->done - s->chunk) % p->rdma_slots[1] * r->result;
    k3_rails_put(e, peer, qp, e->block + p->back_out + stream * p->back_rdma_ring + at,
                 p->back_in + mine * p->back_rdma_ring + at, s->chunk * r->result,
                 s->chunk * r->result_payload);
    k3_rings_add(e, peer, qp, p->tails[1] + mine * 4, s->chunk);
    s->loose = 0;
    s->chunk = 0;
}

/* Where the next sum of the stream goes, and how many may be made together: NULL, none yet. A device makes as
 * many as there are, but of one chunk. */
static uint8_t *next_out(rails_engine_t *e, uint32_t node, uint32_t channel, ring_end_t *s,
                         uint32_t *most)
{
    const k3_rails_t     *r = &e->rails;
    const rails_passed_t *row = &k3_rings_passed(e, node, channel)[s->done];
    uint8_t              *out;

    *most = 1;
    if (node == e->node) {
        return e->returned + k3_rails_back_at(r, node, 0, row->position, row->row) * r->result;
    }
    out = next_slot(e, node * e->rings->plan.channels + channel, s);
    if (out != NULL && k3_rails_on_device(e)) {
        *most = s->chunk - s->loose;
    }
    return out;
}

/* Returns how many of the next rows were summed: as many as have all their results. */
static uint32_t sum_ready(rails_engine_t *e, uint32_t node, uint32_t channel, const ring_end_t *s,
                          uint8_t *out, uint32_t most)
{
    const rails_passed_t *row = k3_rings_passed(e, node, channel) + s->done;
    k3_error_t            kept = K3_ERROR_INIT; /* a device keeps it */
    uint32_t              n = 0;

    while (n < most && missing_from(e, channel, node, row[n].mask) == e->rings->plan.per_node) {
        sum_row(e, channel, node, row[n].mask, out + n * e->rails.result);
        n++;
    }
    if (n > 0) {
        k3_rails_summed(e, &kept);
    }
    for (uint32_t i = 0; i < n; i++) {
        free_slots(e, channel, node, row[i].mask);
    }
    return n;
}

static void sum_stream(rails_engine_t *e, uint32_t node, uint32_t channel)
{
    ring_end_t *s = &e->rings->send[node * e->rings->plan.channels + channel];
    uint32_t    n = 1, most;

    while (s->done < s->total && n > 0) {
        const rails_passed_t *row = k3_rings_passed(e, node, channel) + s->done;
        uint8_t              *out;

        if (missing_from(e, channel, node, row->mask) != e->rings->plan.per_node ||
            (out = next_out(e, node, channel, s, &most)) == NULL) {
            return;
        }
        n = sum_ready(e, node, channel, s, out, most);
        if (node == e->node) {
            s->done += n;
        }
        for (uint32_t i = 0; i < n && node != e->node; i++) {
            fill_slot(e, node, channel, s);
        }
    }
}

/* All results of the stream have been taken. */
static void close_sums(rails_engine_t *e, uint32_t node, uint32_t channel)
{
    rings_t *g = e->rings;

    for (uint32_t i = 0; i < g->plan.per_node; i++) {
        k3_signal_clear32(k3_rings_at(e, g->plan.back_tail, stream_of(g, channel, i, node)));
    }
    g->send[node * g->plan.channels + channel].over = true;
    g->left--;
    g->moved = true;
}

static void pass_sums(rails_engine_t *e)
{
    rings_t *g = e->rings;

    for (uint32_t c = 0; c < g->plan.channels; c++) {
        for (uint32_t step = 0; step < g->plan.nodes; step++) {
            uint32_t    node = (step + c + e->node) % g->plan.nodes;
            ring_end_t *s = &g->send[node * g->plan.channels + c];

            if (s->over) {
                continue;
            }
            sum_stream(e, node, c);
            if (s->done == s->total) {
                close_sums(e, node, c);
            }
        }
    }
}

/* --- origin: sums of the other nodes --------------------------------------------------------- */

static void take_sum(rails_engine_t *e, uint32_t node, uint32_t channel, uint32_t at)
{
    const k3_rails_t   *r = &e->rails;
    const k3_rings_t   *p = &e->rings->plan;
    uint64_t            stream = (uint64_t)node * p->channels + channel;
    uint32_t            first = e->rings->list_first[node * (p->channels + 1) + channel];
    const rails_send_t *row = &e->list[node * r->m + first + at];

    e->env.compute->ops->copy(
        e->env.compute, e->returned + k3_rails_back_at(r, node, 0, row->slot, row->row) * r->result,
        e->block + p->back_in + stream * p->back_rdma_ring + at % p->rdma_slots[1] * r->result,
        r->result);
}

static void credit_sum(rails_engine_t *e, uint32_t node, uint32_t channel, ring_end_t *t)
{
    const k3_rings_t *p = &e->rings->plan;

    t->done++;
    if (++t->loose >= p->size[1].rdma_send) {
        k3_rings_add(e, k3_rails_peer(e, node), k3_rings_credit_qp(p, channel),
                     p->credits[1] + ((uint64_t)e->node * p->channels + channel) * 4, t->loose);
        t->loose = 0;
    }
    e->rings->moved = true;
}

static void take_stream(rails_engine_t *e, uint32_t node, uint32_t channel, ring_end_t *t,
                        k3_error_t *err)
{
    const k3_rings_t *p = &e->rings->plan;
    uint8_t          *word = k3_rings_at(e, p->tails[1], (uint64_t)node * p->channels + channel);
    uint32_t          tail = k3_signal_read32(word);

    if (tail > t->total) {
        k3_fail(err, K3_ERR_CHECK, "rank %u returned %u of %u sums on channel %u",
                k3_rails_peer(e, node), tail, t->total, channel);
        return;
    }
    for (uint32_t at = t->done; at < tail; at++) {
        take_sum(e, node, channel, at);
    }
    if (t->done < tail) {
        k3_rings_copied(e);
    }
    while (t->done < tail) {
        credit_sum(e, node, channel, t);
    }
    if (t->done == t->total) {
        k3_signal_clear32(word);
        t->over = true;
        k3_rings_over(e, K3_TRAFFIC_COMBINE, k3_rails_peer(e, node), &e->rings->left_nodes[node]);
    }
}

static void pass_origin(rails_engine_t *e, k3_error_t *err)
{
    rings_t *g = e->rings;

    for (uint32_t i = 0; i < g->plan.nodes * g->plan.channels && err->status == K3_OK; i++) {
        if (!g->take[i].over) {
            take_stream(e, i / g->plan.channels, i % g->plan.channels, &g->take[i], err);
        }
    }
}

/* --- all roles ------------------------------------------------------------------------------- */

static void pass(rails_engine_t *e, k3_error_t *err)
{
    pass_results(e, err);
    pass_sums(e);
    pass_origin(e, err);
}

static void begin(rails_engine_t *e)
{
    rings_t *g = e->rings;
    uint32_t channels = g->plan.channels, streams = channels * g->plan.per_node * g->plan.nodes;

    g->left = 0;
    g->combines = true;
    memset(g->results, 0, streams * sizeof(*g->results));
    memset(g->left_local, 0, g->plan.per_node * sizeof(uint32_t));
    for (uint32_t i = 0; i < streams; i++) {
        g->left += g->stream[i].count > 0;
    }
    for (uint32_t i = 0; i < channels * g->plan.nodes; i++) {
        uint32_t node = i / channels, c = i % channels;
        uint32_t first = node * (channels + 1) + c;

        g->send[i] = (ring_end_t){.total = e->got[i]};
        g->take[i] = (ring_end_t){.total = g->list_first[first + 1] - g->list_first[first],
                                  .over = node == e->node};
        g->left += node == e->node ? 1 : 2;
        g->left_nodes[node] = node == e->node ? 0 : channels;
    }
}

k3_status_t k3_rings_combine(rails_engine_t *e, const k3_rows_t *rows, uint16_t *combined,
                             k3_error_t *err)
{
    k3_spans_t *spans = e->env.spans;

    k3_span_begin(spans, K3_PHASE_COMBINE_SEND);
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_COMBINE);
    begin(e);
    if (k3_rails_partials(e, err) == K3_OK) {
        pass_results(e, err);
    }
    k3_span_end(spans, K3_PHASE_COMBINE_SEND);

    k3_span_begin(spans, K3_PHASE_COMBINE_WAIT);
    if (err->status == K3_OK) {
        k3_rings_loop(e, "results", pass, err);
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
