/* Rows of the forwarders out of their rings, into the streams that take their results back. */
#include <string.h>

#include "bench/engines/rails_rings.h"

static bool poll_totals(rails_engine_t *e, uint32_t channel, uint32_t from, ring_end_t *a,
                        k3_error_t *err)
{
    const rings_t *g = e->rings;
    uint32_t       nodes = g->plan.nodes;
    uint32_t      *word = (uint32_t *)(void *)(e->words + k3_rings_nvl_word(g, channel, from, 0));

    for (uint32_t i = 0; i < 2 * nodes; i++) {
        if (k3_signal_read32(word + i) == 0) {
            return false;
        }
    }
    a->total = 0;
    for (uint32_t node = 0; node < nodes; node++) {
        uint32_t rows = word[node] - word[nodes + node];

        a->total += rows;
        if (rows > e->rails.channel_slots) {
            k3_fail(err, K3_ERR_CHECK, "rank %u announces %u rows on channel %u",
                    k3_rails_local_rank(e, from), rows, channel);
        }
    }
    for (uint32_t i = 0; i < 2 * nodes; i++) {
        k3_signal_clear32(word + i);
    }
    a->known = true;
    return true;
}

/* A record leaves its ring and joins its stream, which takes its result back. Its metadata are read
 * here, so only values and scales are copied. */
static void take_record(rails_engine_t *e, uint32_t channel, uint32_t from, const uint8_t *record,
                        const uint8_t *meta, k3_error_t *err)
{
    k3_compute_t     *c = e->env.compute;
    const k3_rails_t *r = &e->rails;
    rings_t          *g = e->rings;
    uint64_t          i = e->got_count[0];
    ring_stream_t    *stream;
    uint32_t          place;

    if (k3_rails_take_row(e, record, meta, err) != K3_OK) {
        return;
    }
    place = e->env.cell->place_of[e->row[i].source];
    if (place % r->per_node != from) {
        k3_fail(err, K3_ERR_CHECK, "row %u of rank %u by rank %u: not planned, after %llu rows",
                e->row[i].row, e->row[i].source, k3_rails_local_rank(e, from),
                (unsigned long long)i);
        return;
    }
    c->ops->copy(c, e->copied + i * r->record, record, r->meta_at);
    e->record[i] = e->copied + i * r->record;
    stream = &g->stream[k3_rings_nvl_index(g, channel, from) * r->nodes + place / r->per_node];
    g->next[i] = 0;
    if (stream->count++ == 0) {
        stream->first = (uint32_t)i + 1;
    } else {
        g->next[stream->last - 1] = (uint32_t)i + 1;
    }
    stream->last = (uint32_t)i + 1;
}

/* Records that lie one behind the other in the ring. */
static void take_run(rails_engine_t *e, uint32_t channel, uint32_t from, uint8_t *records,
                     uint32_t n, k3_error_t *err)
{
    uint64_t       stride;
    const uint8_t *meta = k3_rails_read(e, records, n, &stride);

    k3_rails_expect(e, meta, stride, 0, k3_rails_ahead(n));
    for (uint32_t i = 0; i < n && err->status == K3_OK; i++) {
        k3_rails_expect(e, meta, stride, i + K3_RAILS_AHEAD, i + K3_RAILS_AHEAD + 1);
        take_record(e, channel, from, records + i * e->rails.record, meta + i * stride, err);
    }
    k3_rings_copied(e);
}

static void receive(rails_engine_t *e, uint32_t channel, uint32_t from, k3_error_t *err)
{
    rings_t    *g = e->rings;
    ring_end_t *a = &g->arrive[k3_rings_nvl_index(g, channel, from)];
    uint8_t    *word = e->words + k3_rings_nvl_word(g, channel, from, k3_rings_tail_word(g));
    uint32_t    tail = k3_signal_read32(word), before = a->done;
    uint8_t    *ring =
        e->block + g->plan.nvl + k3_rings_nvl_index(g, channel, from) * g->plan.nvl_ring;

    while (a->done < tail && err->status == K3_OK) {
        uint32_t at = a->done % g->plan.nvl_slots[0], left = g->plan.nvl_slots[0] - at;
        uint32_t n = tail - a->done < left ? tail - a->done : left;

        take_run(e, channel, from, ring + at * e->rails.record, n, err);
        a->done += n;
    }
    if (a->done > before) {
        k3_rings_give_back(e, from, k3_rings_local_qp(&g->plan, channel),
                           k3_rings_nvl_word(g, channel, e->index, k3_rings_tail_word(g) + 1),
                           a->done - before, g->plan.size[0].nvl_send, &a->loose);
        g->moved = true;
    }
    if ((a->known || poll_totals(e, channel, from, a, err)) && a->done == a->total) {
        k3_signal_clear32(word);
        a->over = true;
        k3_rings_over(e, K3_TRAFFIC_DISPATCH, k3_rails_local_rank(e, from), &g->left_local[from]);
    }
}

void k3_rings_receive(rails_engine_t *e, k3_error_t *err)
{
    rings_t *g = e->rings;

    for (uint32_t from = 0; from < g->plan.per_node; from++) {
        for (uint32_t c = 0; c < g->plan.channels && err->status == K3_OK; c++) {
            if (!g->arrive[k3_rings_nvl_index(g, c, from)].over) {
                receive(e, c, from, err);
            }
        }
    }
}
