/* Rows over rings: own rows to the other nodes, and rows of this rail to the ranks of the node. */
#include <string.h>

#include "bench/engines/rails_rings.h"

/* --- sender ---------------------------------------------------------------------------------- */

static uint32_t list_first(const rings_t *g, uint32_t node, uint32_t channel)
{
    return g->list_first[node * (g->plan.channels + 1) + channel];
}

/* Start and end of this rank's rows for each rank of the node, and for the node, as complements. */
static void fill_meta(const rails_engine_t *e, uint32_t node, uint32_t channel, uint32_t *meta)
{
    const rings_t *g = e->rings;
    uint32_t       n = g->plan.per_node;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t before = 0;

        for (uint32_t c = 0; c < channel; c++) {
            before += g->part_rows[(node * g->plan.channels + c) * n + i];
        }
        meta[i] = ~before;
        meta[n + i] = ~(before + g->part_rows[(node * g->plan.channels + channel) * n + i]);
    }
    meta[2 * n] = ~list_first(g, node, channel);
    meta[2 * n + 1] = ~list_first(g, node, channel + 1);
}

static void send_meta(rails_engine_t *e, uint32_t node, uint32_t channel)
{
    const k3_rings_t *p = &e->rings->plan;
    uint64_t          bytes = (uint64_t)p->meta_words * 4;
    uint64_t          out = p->meta_out + ((uint64_t)node * p->channels + channel) * bytes;
    uint64_t          in = p->meta_in + ((uint64_t)e->node * p->channels + channel) * bytes;

    fill_meta(e, node, channel, (uint32_t *)(void *)(e->words + out));
    k3_rails_put_words(e, k3_rails_peer(e, node), k3_rings_qp(p, channel), e->words + out, in,
                       bytes);
}

/* One chunk, when there is room for all of it. */
static void send_chunk(rails_engine_t *e, uint32_t node, uint32_t channel, uint32_t stream)
{
    const k3_rails_t   *r = &e->rails;
    const k3_rings_t   *p = &e->rings->plan;
    k3_compute_t       *c = e->env.compute;
    ring_end_t         *s = &e->rings->send[stream];
    uint32_t            left = s->total - s->done, qp = k3_rings_qp(p, channel);
    uint32_t            rows = left < p->size[0].rdma_send ? left : p->size[0].rdma_send;
    uint64_t            at = s->done % p->rdma_slots[0] * r->record;
    uint32_t            back = k3_signal_read32(k3_rings_at(e, p->credits[0], stream));
    uint64_t            mine = (uint64_t)e->node * p->channels + channel;
    uint8_t            *out = e->block + p->rdma_out + stream * p->rdma_ring + at;
    const rails_send_t *list =
        e->list + node * r->m + list_first(e->rings, node, channel) + s->done;

    if (s->done + rows - back > p->rdma_slots[0]) {
        return;
    }
    for (uint32_t i = 0; i < rows; i++) {
        c->ops->copy(c, out + i * r->record, e->records + list[i].row * r->record, r->record);
    }
    k3_rings_copied(e);
    k3_rails_put(e, k3_rails_peer(e, node), qp, out, p->rdma_in + mine * p->rdma_ring + at,
                 rows * r->record, rows * r->record_payload);
    k3_rings_add(e, k3_rails_peer(e, node), qp, p->tails[0] + mine * 4, rows);
    s->done += rows;
    e->rings->moved = true;
}

static void pass_sender(rails_engine_t *e)
{
    rings_t *g = e->rings;

    for (uint32_t c = 0; c < g->plan.channels; c++) {
        /* Channels and ranks begin with different nodes, so that not all send to one at a time. */
        for (uint32_t step = 0; step < g->plan.nodes; step++) {
            uint32_t node = (step + c + e->node) % g->plan.nodes;
            uint32_t stream = node * g->plan.channels + c;

            if (g->send[stream].done < g->send[stream].total) {
                send_chunk(e, node, c, stream);
                g->left -= g->send[stream].done == g->send[stream].total;
            }
        }
    }
}

/* --- forwarder ------------------------------------------------------------------------------- */

/* What is known of a source's rows goes to the ranks of the node. */
static void pass_meta(rails_engine_t *e, uint32_t node, uint32_t channel, const uint32_t *meta)
{
    const rings_t *g = e->rings;
    uint32_t       n = g->plan.per_node, qp = k3_rings_local_qp(&g->plan, channel);

    for (uint32_t step = 0; step < n; step++) {
        uint32_t to = (e->index + step) % n, peer = k3_rails_local_rank(e, to);

        k3_rings_write(e, peer, qp, k3_rings_nvl_word(g, channel, e->index, node), meta[to]);
        k3_rings_write(e, peer, qp, k3_rings_nvl_word(g, channel, e->index, g->plan.nodes + node),
                       meta[n + to]);
    }
}

static bool poll_meta(rails_engine_t *e, uint32_t node, uint32_t channel, ring_end_t *t,
                      k3_error_t *err)
{
    const k3_rings_t *p = &e->rings->plan;
    uint32_t         *meta = (uint32_t *)(void *)k3_rings_at(
                e, p->meta_in, ((uint64_t)node * p->channels + channel) * p->meta_words);

    for (uint32_t i = 0; i < p->meta_words; i++) {
        if (k3_signal_read32(meta + i) == 0) {
            return false;
        }
    }
    t->total = meta[2 * p->per_node] - meta[2 * p->per_node + 1];
    t->known = true;
    if (t->total > e->rails.channel_slots) {
        k3_fail(err, K3_ERR_CHECK, "rank %u announces %u rows on channel %u, the bound is %llu",
                k3_rails_peer(e, node), t->total, channel,
                (unsigned long long)e->rails.channel_slots);
        return false;
    }
    pass_meta(e, node, channel, meta);
    for (uint32_t i = 0; i < p->meta_words; i++) {
        k3_signal_clear32(meta + i);
    }
    e->rings->moved = true;
    return true;
}

static bool has_room(const rails_engine_t *e, uint32_t channel, uint32_t to)
{
    const rings_t *g = e->rings;
    uint32_t       head =
        k3_signal_read32(e->words + k3_rings_nvl_word(g, channel, to, k3_rings_tail_word(g) + 1));

    return g->inside[k3_rings_nvl_index(g, channel, to)].done - head < g->plan.nvl_slots[0];
}

static void tell_tail(rails_engine_t *e, uint32_t channel, uint32_t to)
{
    const rings_t *g = e->rings;
    ring_end_t    *in = &e->rings->inside[k3_rings_nvl_index(g, channel, to)];

    k3_rings_add(e, k3_rails_local_rank(e, to), k3_rings_local_qp(&g->plan, channel),
                 k3_rings_nvl_word(g, channel, e->index, k3_rings_tail_word(g)), in->loose);
    in->loose = 0;
}

static void put_inside(rails_engine_t *e, uint32_t channel, uint32_t to, const uint8_t *record)
{
    const k3_rails_t *r = &e->rails;
    const rings_t    *g = e->rings;
    ring_end_t       *in = &e->rings->inside[k3_rings_nvl_index(g, channel, to)];
    uint64_t ring = g->plan.nvl + k3_rings_nvl_index(g, channel, e->index) * g->plan.nvl_ring;

    k3_rails_put(e, k3_rails_local_rank(e, to), k3_rings_local_qp(&g->plan, channel), record,
                 ring + in->done % g->plan.nvl_slots[0] * r->record, r->record, r->record_payload);
    in->done++;
    if (++in->loose == g->plan.size[0].nvl_send) {
        tell_tail(e, channel, to);
    }
}

/* A record that leaves by unmapped lanes must stay unchanged until it has arrived, longer than its slot is
 * its. */
static bool goes_through(const rails_engine_t *e, uint32_t node)
{
    return !e->env.cell->p2p && node != e->node;
}

static uint8_t *through_at(const rails_engine_t *e, uint32_t node, uint32_t channel, uint32_t i)
{
    uint64_t at = node * e->rails.slots + channel * e->rails.channel_slots + i;

    return e->rings->through + at * e->rails.record;
}

/* False: a ring of the node is full. */
static bool forward_row(rails_engine_t *e, uint32_t node, uint32_t channel, uint32_t i,
                        const uint8_t *record, const uint8_t *meta, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;
    rails_passed_t   *passed = k3_rings_passed(e, node, channel) + i;
    int32_t           ids[K3_TOPK_MAX];
    rails_row_t       row;
    rails_here_t      here;

    if (k3_rails_meta(e, meta, &row, ids, err) != K3_OK) {
        return false;
    }
    k3_rails_here(e, ids, &here);
    *passed =
        (rails_passed_t){.row = row.row, .parts = (uint16_t)here.count, .position = here.position};
    for (uint32_t j = 0; j < here.count; j++) {
        passed->mask |= UINT32_C(1) << here.index[j];
        if (!has_room(e, channel, here.index[j])) {
            return false;
        }
    }
    if (goes_through(e, node)) {
        uint8_t *kept = through_at(e, node, channel, i);

        if (!k3_rails_on_device(e)) {
            memcpy(kept, record, r->record);
        }
        record = kept;
    }
    for (uint32_t j = 0; j < here.count; j++) {
        put_inside(e, channel, here.index[j], record);
    }
    return true;
}

static void credit(rails_engine_t *e, uint32_t node, uint32_t channel, ring_end_t *t)
{
    const k3_rings_t *p = &e->rings->plan;

    if (++t->loose >= p->size[0].rdma_send) {
        k3_rings_add(e, k3_rails_peer(e, node), k3_rings_credit_qp(p, channel),
                     p->credits[0] + ((uint64_t)e->node * p->channels + channel) * 4, t->loose);
        t->loose = 0;
    }
}

/* On a device records that go through are copied together, in front of the first post. */
static void keep_on_device(rails_engine_t *e, uint32_t node, uint32_t channel, uint32_t first,
                           const uint8_t *records, uint32_t n)
{
    k3_compute_t *c = e->env.compute;

    for (uint32_t i = 0; i < n && goes_through(e, node); i++) {
        c->ops->copy(c, through_at(e, node, channel, first + i), records + i * e->rails.record,
                     e->rails.record);
    }
    k3_rings_copied(e);
}

/* Rows that lie one behind the other in the ring; false: not all of them found room. */
static bool forward_run(rails_engine_t *e, uint32_t node, uint32_t channel, ring_end_t *t,
                        uint8_t *records, uint32_t n, k3_error_t *err)
{
    uint64_t       stride;
    const uint8_t *meta = k3_rails_read(e, records, n, &stride);

    if (k3_rails_on_device(e)) {
        keep_on_device(e, node, channel, t->done, records, n);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!forward_row(e, node, channel, t->done, records + i * e->rails.record,
                         meta + i * stride, err)) {
            return false;
        }
        t->done++;
        credit(e, node, channel, t);
        e->rings->moved = true;
    }
    return true;
}

static void forward_rail(rails_engine_t *e, uint32_t node, uint32_t channel, ring_end_t *t,
                         k3_error_t *err)
{
    const k3_rings_t *p = &e->rings->plan;
    uint64_t          stream = (uint64_t)node * p->channels + channel;
    uint32_t          tail = k3_signal_read32(k3_rings_at(e, p->tails[0], stream));
    uint8_t          *ring = e->block + p->rdma_in + stream * p->rdma_ring;

    if (tail > t->total) {
        k3_fail(err, K3_ERR_CHECK, "rank %u sent %u of %u rows on channel %u",
                k3_rails_peer(e, node), tail, t->total, channel);
        return;
    }
    while (t->done < tail && err->status == K3_OK) {
        uint32_t at = t->done % p->rdma_slots[0], left = p->rdma_slots[0] - at;
        uint32_t n = tail - t->done < left ? tail - t->done : left;

        if (!forward_run(e, node, channel, t, ring + at * e->rails.record, n, err)) {
            break;
        }
    }
    if (t->done == t->total) {
        k3_signal_clear32(k3_rings_at(e, p->tails[0], stream));
    }
}

static void forward_own(rails_engine_t *e, uint32_t channel, ring_end_t *t, k3_error_t *err)
{
    const k3_rails_t   *r = &e->rails;
    const rails_send_t *list = e->list + e->node * r->m + list_first(e->rings, e->node, channel);

    while (t->done < t->total && err->status == K3_OK &&
           forward_row(e, e->node, channel, t->done, e->records + list[t->done].row * r->record,
                       k3_rails_own(e, list[t->done].row), err)) {
        t->done++;
        e->rings->moved = true;
    }
}

/* The last rows of the channel are told when all its sources are through. */
static void close_source(rails_engine_t *e, uint32_t node, uint32_t channel, ring_end_t *t)
{
    rings_t *g = e->rings;

    t->over = true;
    e->got[node * g->plan.channels + channel] = t->total;
    k3_rings_over(e, K3_TRAFFIC_DISPATCH, k3_rails_peer(e, node), &g->left_nodes[node]);
    if (--g->open[channel] > 0) {
        return;
    }
    for (uint32_t step = 0; step < g->plan.per_node; step++) {
        uint32_t to = (e->index + step) % g->plan.per_node;

        if (g->inside[k3_rings_nvl_index(g, channel, to)].loose > 0) {
            tell_tail(e, channel, to);
        }
    }
}

static void pass_forwarder(rails_engine_t *e, k3_error_t *err)
{
    rings_t *g = e->rings;

    for (uint32_t c = 0; c < g->plan.channels; c++) {
        for (uint32_t step = 0; step < g->plan.nodes && err->status == K3_OK; step++) {
            uint32_t    node = (e->node + step) % g->plan.nodes;
            ring_end_t *t = &g->take[node * g->plan.channels + c];

            if (t->over || (!t->known && !poll_meta(e, node, c, t, err))) {
                continue;
            }
            if (node == e->node) {
                forward_own(e, c, t, err);
            } else {
                forward_rail(e, node, c, t, err);
            }
            if (t->done == t->total && err->status == K3_OK) {
                close_source(e, node, c, t);
            }
        }
    }
}

/* --- all roles ------------------------------------------------------------------------------- */

static void begin_channel(rails_engine_t *e, uint32_t channel)
{
    rings_t *g = e->rings;
    uint32_t meta[2 * 32 + 2];

    g->open[channel] = g->plan.nodes;
    for (uint32_t node = 0; node < g->plan.nodes; node++) {
        uint32_t    stream = node * g->plan.channels + channel;
        uint32_t    rows = list_first(g, node, channel + 1) - list_first(g, node, channel);
        ring_end_t *s = &g->send[stream], *t = &g->take[stream];

        *s = (ring_end_t){.total = node == e->node ? 0 : rows};
        *t = (ring_end_t){.total = rows, .known = node == e->node};
        g->left += 1 + (s->total > 0);
        if (node == e->node) {
            fill_meta(e, node, channel, meta);
            pass_meta(e, node, channel, meta);
        } else {
            send_meta(e, node, channel);
        }
    }
}

static void begin(rails_engine_t *e)
{
    rings_t *g = e->rings;
    uint32_t channels = g->plan.channels, n = g->plan.per_node;

    e->got_count[0] = e->got_count[1] = 0;
    g->combines = false;
    g->left = channels * n;
    memset(g->inside, 0, (size_t)channels * n * sizeof(*g->inside));
    memset(g->arrive, 0, (size_t)channels * n * sizeof(*g->arrive));
    memset(g->stream, 0, (size_t)channels * n * g->plan.nodes * sizeof(*g->stream));
    for (uint32_t node = 0; node < g->plan.nodes; node++) {
        g->left_nodes[node] = channels;
    }
    for (uint32_t i = 0; i < n; i++) {
        g->left_local[i] = channels;
    }
    for (uint32_t c = 0; c < channels; c++) {
        begin_channel(e, c);
    }
}

static void pass(rails_engine_t *e, k3_error_t *err)
{
    pass_sender(e);
    pass_forwarder(e, err);
    if (err->status == K3_OK) {
        k3_rings_receive(e, err);
    }
}

k3_status_t k3_rings_dispatch(rails_engine_t *e, const k3_rows_t *rows, k3_error_t *err)
{
    k3_spans_t *spans = e->env.spans;

    k3_span_begin(spans, K3_PHASE_DISPATCH_SEND);
    k3_rings_list_rows(e, rows);
    k3_span_end(spans, K3_PHASE_DISPATCH_SEND);
    k3_span_begin(spans, K3_PHASE_QUANTIZE);
    k3_rails_quantize(e, rows, 0, rows->count, err);
    k3_span_end(spans, K3_PHASE_QUANTIZE);
    if (err->status != K3_OK) {
        return err->status;
    }

    k3_span_begin(spans, K3_PHASE_NOTIFY);
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_NOTIFY);
    k3_rings_notify(e, rows, err);
    k3_span_end(spans, K3_PHASE_NOTIFY);

    k3_span_begin(spans, K3_PHASE_DISPATCH_SEND);
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_DISPATCH);
    if (err->status == K3_OK) {
        begin(e);
        pass_sender(e);
    }
    k3_span_end(spans, K3_PHASE_DISPATCH_SEND);

    k3_span_begin(spans, K3_PHASE_DISPATCH_WAIT);
    if (err->status == K3_OK && k3_rings_loop(e, "rows", pass, err) == K3_OK) {
        k3_rails_sort(e, err);
    }
    k3_engine_finish_span(e->qps, e->soft, err);
    k3_span_end(spans, K3_PHASE_DISPATCH_WAIT);
    return err->status;
}
