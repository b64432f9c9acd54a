/* Rows of each channel, and the counts ahead of them. */
#include <string.h>

#include "bench/engines/rails_rings.h"

/* --- who gets which row ---------------------------------------------------------------------- */

static void list_row(rails_engine_t *e, uint32_t channel, uint32_t row, const int32_t *ids)
{
    const k3_rails_t *r = &e->rails;
    rings_t          *g = e->rings;
    uint32_t          places[K3_TOPK_MAX], nodes = 0, before = UINT32_MAX;
    uint32_t          count = k3_holders_list(&e->places, ids, r->topk, places);

    for (uint32_t t = 0; t < count; t++) {
        uint32_t node = places[t] / r->per_node;

        g->part_rows[(node * g->plan.channels + channel) * r->per_node + places[t] % r->per_node]++;
        if (node == before) {
            continue;
        }
        before = node;
        e->list[node * r->m + e->listed[node]++] = (rails_send_t){row, nodes};
        e->route_back[row * r->nodes_of_row + nodes] = k3_rails_back_at(r, node, 0, nodes, row);
        nodes++;
    }
    e->route_count[row] = nodes;
}

void k3_rings_list_rows(rails_engine_t *e, const k3_rows_t *rows)
{
    const k3_rails_t *r = &e->rails;
    rings_t          *g = e->rings;
    uint32_t          channels = g->plan.channels;

    memset(e->listed, 0, r->nodes * sizeof(uint32_t));
    memset(g->part_rows, 0, (size_t)r->nodes * channels * r->per_node * sizeof(uint32_t));
    for (uint32_t c = 0; c < channels; c++) {
        uint64_t begin, end;

        for (uint32_t node = 0; node < r->nodes; node++) {
            g->list_first[node * (channels + 1) + c] = e->listed[node];
        }
        k3_rings_channel(&g->plan, rows->count, c, &begin, &end);
        for (uint64_t i = begin; i < end; i++) {
            list_row(e, c, (uint32_t)i, rows->ids + i * r->topk);
        }
    }
    for (uint32_t node = 0; node < r->nodes; node++) {
        g->list_first[node * (channels + 1) + channels] = e->listed[node];
    }
}

/* --- counts ---------------------------------------------------------------------------------- */

/* A count travels as its complement, so that none is zero. For each node: rows for each of its ranks,
 * for each of its experts, and for the node. */
static void count_rows(rails_engine_t *e, const k3_rows_t *rows)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          words = e->rings->plan.rail_words;

    memset(e->rings->rail_counts, 0xff, (size_t)r->nodes * words * sizeof(uint32_t));
    for (uint32_t node = 0; node < r->nodes; node++) {
        uint32_t *counts = e->rings->rail_counts + (size_t)node * words;

        counts[words - 1] -= e->listed[node];
        for (uint32_t i = 0; i < e->rings->plan.channels * r->per_node; i++) {
            counts[i % r->per_node] -=
                e->rings->part_rows[node * e->rings->plan.channels * r->per_node + i];
        }
    }
    for (uint64_t i = 0; i < rows->count * r->topk; i++) {
        if (rows->ids[i] >= 0) {
            e->rings->rail_counts[e->count_at[rows->ids[i]]]--;
        }
    }
}

static bool all_there(const uint32_t *words, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (k3_signal_read32(words + i) == 0) {
            return false;
        }
    }
    return true;
}

static void clear(uint32_t *words, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        k3_signal_clear32(words + i);
    }
}

/* What the origins on this rail announce, for each rank of the node: rows of each source node and the
 * sum for each of its experts. In one node: this rank's rows for each rank. */
static void add_rail(rails_engine_t *e, uint32_t node, const uint32_t *counts)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          words = e->rings->plan.node_words, heads = words - r->local;

    for (uint32_t to = 0; to < r->per_node; to++) {
        uint32_t *row = e->rings->node_counts + (size_t)to * words;

        if (r->nodes > 1) {
            row[node] -= ~counts[to];
        } else {
            for (uint32_t i = 0; i < r->per_node; i++) {
                row[i] -= ~counts[i];
            }
        }
        for (uint32_t x = 0; x < r->local; x++) {
            row[heads + x] -= ~counts[r->per_node + to * r->local + x];
        }
    }
}

static bool poll_rail(rails_engine_t *e, uint32_t node, k3_error_t *err)
{
    uint32_t  words = e->rings->plan.rail_words;
    uint32_t *counts =
        (uint32_t *)(void *)k3_rings_at(e, e->rings->plan.rail_counts, (uint64_t)node * words);

    (void)err;
    if (!all_there(counts, words)) {
        return false;
    }
    add_rail(e, node, counts);
    clear(counts, words);
    return true;
}

static bool poll_node(rails_engine_t *e, uint32_t index, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          words = e->rings->plan.node_words, heads = words - r->local;
    uint32_t         *row =
        (uint32_t *)(void *)k3_rings_at(e, e->rings->plan.node_counts, (uint64_t)index * words);

    (void)err;
    if (!all_there(row, words)) {
        return false;
    }
    for (uint32_t i = 0; i < heads; i++) {
        e->notify_wants[0] += r->nodes > 1 || i == e->index ? ~row[i] : 0;
    }
    for (uint32_t x = 0; x < r->local; x++) {
        e->notify_wants[1 + x] += ~row[heads + x];
    }
    clear(row, words);
    return true;
}

/* Every rank that adds to them has ended the iteration before, and answers only what comes from now on. */
static void clear_returns(rails_engine_t *e)
{
    const k3_rings_t *p = &e->rings->plan;
    uint32_t          streams = p->channels * p->per_node, rails = p->channels * p->nodes;

    for (uint32_t i = 0; i < streams; i++) {
        k3_signal_clear32(
            k3_rings_at(e, p->nvl_word, (uint64_t)i * p->nvl_words + 2 * p->nodes + 1));
    }
    for (uint32_t i = 0; i < streams * p->nodes; i++) {
        k3_signal_clear32(k3_rings_at(e, p->back_head, i));
    }
    for (uint32_t i = 0; i < rails && p->nodes > 1; i++) {
        k3_signal_clear32(k3_rings_at(e, p->credits[0], i));
        k3_signal_clear32(k3_rings_at(e, p->credits[1], i));
    }
}

k3_status_t k3_rings_notify(rails_engine_t *e, const k3_rows_t *rows, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;
    const k3_rings_t *p = &e->rings->plan;

    count_rows(e, rows);
    for (uint32_t step = 1; step < r->nodes; step++) {
        uint32_t node = (e->node + step) % r->nodes;

        k3_rails_put_words(
            e, k3_rails_peer(e, node), 0, e->rings->rail_counts + (size_t)node * p->rail_words,
            p->rail_counts + (uint64_t)e->node * p->rail_words * 4, (uint64_t)p->rail_words * 4);
    }
    memset(e->rings->node_counts, 0xff, (size_t)r->per_node * p->node_words * sizeof(uint32_t));
    memset(e->notify_wants, 0, (1 + (size_t)r->local) * sizeof(uint64_t));
    add_rail(e, e->node, e->rings->rail_counts + (size_t)e->node * p->rail_words);
    if (k3_rails_wait(e, "counts", K3_TRAFFIC_NOTIFY, true, poll_rail, err) != K3_OK) {
        return err->status;
    }
    for (uint32_t step = 0; step < r->per_node; step++) {
        uint32_t to = (e->index + step) % r->per_node;

        k3_rails_put_words(
            e, k3_rails_local_rank(e, to), 0, e->rings->node_counts + (size_t)to * p->node_words,
            p->node_counts + (uint64_t)e->index * p->node_words * 4, (uint64_t)p->node_words * 4);
    }
    k3_rails_wait(e, "counts of the node", K3_TRAFFIC_NOTIFY, false, poll_node, err);
    clear_returns(e);
    return err->status;
}
