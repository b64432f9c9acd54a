/* Two hops over rings. Every rank visits the lanes that leave it: rows as origin, rows as forwarder,
 * results and sums on the way back, and in the other direction of each the credits, whose number depends
 * on timing. */
#include <string.h>

#include "bench/plan/cell_rows.h"
#include "bench/plan/rings.h"
#include "bench/plan/traffic_internal.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"

struct k3_rings_scratch {
    k3_rails_t rails;
    k3_rings_t rings;
    uint32_t  *to_node;  /* [R][C][N] rows of an origin's channel for each node */
    uint32_t  *to_place; /* [R][C][R] and for each place */
    k3_flow_t *flows;    /* [2 N + 2 n][qps] lanes of one rank: dispatch and combine, to rails and
                            inside the node */
};

void k3_rings_scratch_close(struct k3_rings_scratch *s)
{
    if (s != NULL) {
        k3_free(s->flows);
        k3_free(s->to_place);
        k3_free(s->to_node);
        k3_free(s);
    }
}

static void count_row(const k3_cell_t *cell, struct k3_rings_scratch *s, uint64_t stream,
                      const int32_t *ids)
{
    uint32_t places[K3_TOPK_MAX], before = UINT32_MAX;
    uint32_t count = k3_rails_places(cell, ids, places);

    for (uint32_t t = 0; t < count; t++) {
        uint32_t node = places[t] / s->rings.per_node;

        s->to_place[stream * cell->layout.tp + places[t]]++;
        s->to_node[stream * s->rings.nodes + node] += node != before;
        before = node;
    }
}

static void count_rows(const k3_cell_t *cell, struct k3_rings_scratch *s)
{
    uint32_t channels = s->rings.channels;
    int32_t  ids[K3_TOPK_MAX];

    for (uint32_t origin = 0; origin < cell->layout.tp; origin++) {
        uint64_t first, count, begin, end;

        k3_cell_dispatched(cell, origin, &first, &count);
        for (uint32_t c = 0; c < channels; c++) {
            k3_rings_channel(&s->rings, count, c, &begin, &end);
            for (uint64_t i = begin; i < end; i++) {
                k3_routing_row(cell->routing, first + i, ids);
                count_row(cell, s, (uint64_t)origin * channels + c, ids);
            }
        }
    }
}

k3_status_t k3_rings_scratch_open(const k3_cell_t *cell, struct k3_rings_scratch **scratch_p,
                                  k3_error_t *err)
{
    struct k3_rings_scratch *s = NULL;
    uint64_t                 streams;

    if (k3_alloc("plan of rings", 1, sizeof(*s), &s, err) != K3_OK) {
        return err->status;
    }
    *scratch_p = s; /* freed by the caller, whatever happens here */
    k3_rails_plan(cell, &s->rails);
    k3_rings_plan(cell, &s->rings);
    streams = (uint64_t)cell->layout.tp * s->rings.channels;
    if (k3_alloc("rows of channels", streams * s->rings.nodes, sizeof(uint32_t), &s->to_node,
                 err) != K3_OK ||
        k3_alloc("rows of channels", streams * cell->layout.tp, sizeof(uint32_t), &s->to_place,
                 err) != K3_OK ||
        k3_alloc("flows", 2 * ((uint64_t)s->rings.nodes + s->rings.per_node) * s->rings.qps,
                 sizeof(k3_flow_t), &s->flows, err) != K3_OK) {
        return err->status;
    }
    count_rows(cell, s);
    return K3_OK;
}

/* --- counts ---------------------------------------------------------------------------------- */

static uint64_t rows_to_node(const struct k3_rings_scratch *s, uint32_t origin, uint32_t channel,
                             uint32_t node)
{
    return s->to_node[((uint64_t)origin * s->rings.channels + channel) * s->rings.nodes + node];
}

/* Rows of the origins on the rail of `forwarder`, for the rank at index `to` of its node: those of one
 * node's origin. */
static uint64_t rows_through(const k3_cell_t *cell, const struct k3_rings_scratch *s,
                             uint32_t forwarder, uint32_t node, uint32_t channel, uint32_t to)
{
    uint32_t origin = k3_cell_rail_peer(cell, forwarder, node);
    uint32_t place = cell->place_of[forwarder] / s->rings.per_node * s->rings.per_node + to;

    return s->to_place[((uint64_t)origin * s->rings.channels + channel) * cell->layout.tp + place];
}

/* --- flows ----------------------------------------------------------------------------------- */

static void add_rows(k3_flow_t *flow, uint64_t messages, uint64_t rows, uint64_t payload,
                     uint64_t record)
{
    flow->messages += messages;
    flow->payload += rows * payload;
    flow->wire += rows * record;
}

static void add_signals(k3_flow_t *flow, uint64_t signals)
{
    flow->signals += signals;
    flow->wire += signals * 4;
}

/* At most one credit for each full chunk; the reader gives back at least once when it can. */
static void add_credits(k3_flow_t *flow, uint64_t rows, uint64_t chunk)
{
    uint64_t most = rows / chunk;

    add_signals(flow, most);
    if (most > 1) {
        flow->signals_spare += most - 1;
        flow->wire_spare += (most - 1) * 4;
    }
}

static k3_flow_t *lane(struct k3_rings_scratch *s, bool back, bool inside, uint32_t to, uint32_t qp)
{
    uint64_t half = (uint64_t)s->rings.nodes + s->rings.per_node;

    return &s->flows[((back ? half : 0) + (inside ? s->rings.nodes : 0) + to) * s->rings.qps + qp];
}

static void rail_lanes(const k3_cell_t *cell, struct k3_rings_scratch *s, uint32_t rank,
                       uint32_t node, uint32_t c)
{
    const k3_rings_t *r = &s->rings;
    const k3_rails_t *rails = &s->rails;
    uint32_t          peer = k3_cell_rail_peer(cell, rank, node), qp = k3_rings_qp(r, c);
    uint32_t          credit = k3_rings_credit_qp(r, c);
    uint64_t          out = rows_to_node(s, rank, c, node);
    uint64_t          in = rows_to_node(s, peer, c, cell->place_of[rank] / r->per_node);
    uint64_t          chunks = k3_ceil_div(out, r->size[0].rdma_send);
    uint64_t          back = k3_ceil_div(in, r->size[1].rdma_send);

    add_rows(lane(s, false, false, node, qp), 1, 1, 0, (uint64_t)r->meta_words * 4);
    add_rows(lane(s, false, false, node, qp), chunks, out, rails->record_payload, rails->record);
    add_signals(lane(s, false, false, node, qp), chunks);
    add_credits(lane(s, false, false, node, credit), in, r->size[0].rdma_send);
    add_rows(lane(s, true, false, node, qp), back, in, rails->result_payload, rails->result);
    add_signals(lane(s, true, false, node, qp), back);
    add_credits(lane(s, true, false, node, credit), out, r->size[1].rdma_send);
}

static void local_lanes(const k3_cell_t *cell, struct k3_rings_scratch *s, uint32_t rank,
                        uint32_t to, uint32_t c)
{
    const k3_rings_t *r = &s->rings;
    const k3_rails_t *rails = &s->rails;
    uint32_t          place = cell->place_of[rank], index = place % r->per_node;
    uint32_t          peer = cell->rank_at[place - index + to], qp = k3_rings_local_qp(r, c);
    k3_flow_t        *out = lane(s, false, true, to, qp), *back = lane(s, true, true, to, qp);
    bool              heads = !k3_cell_mapped(cell, rank, peer);
    uint64_t          sent = 0, taken = 0;

    for (uint32_t node = 0; node < r->nodes; node++) {
        uint64_t passed = rows_through(cell, s, rank, node, c, to);
        uint64_t got = rows_through(cell, s, peer, node, c, index);

        sent += passed;
        taken += got;
        add_rows(back, got, got, rails->result_payload, rails->result);
        add_signals(back, k3_ceil_div(got, r->size[1].nvl_send));
        if (heads) {
            add_credits(back, passed, r->size[1].nvl_send);
        }
    }
    add_rows(out, sent, sent, rails->record_payload, rails->record);
    add_signals(out, 2 * r->nodes + k3_ceil_div(sent, r->size[0].nvl_send));
    if (heads) {
        add_credits(out, taken, r->size[0].nvl_send);
    }
}

/* Each message and each signal rings; stores to mapped memory do not. */
static void emit(const k3_cell_t *cell, k3_flow_t flow, k3_flow_visit_t visit, void *arg)
{
    if (flow.messages + flow.signals > 0) {
        flow.doorbells =
            k3_cell_mapped(cell, flow.src, flow.dst) ? 0 : flow.messages + flow.signals;
        visit(&flow, arg);
    }
}

static void visit_notify(const k3_cell_t *cell, const k3_rings_t *r, uint32_t rank,
                         k3_flow_visit_t visit, void *arg)
{
    uint32_t own = cell->place_of[rank] / r->per_node;

    for (uint32_t node = 0; node < r->nodes; node++) {
        k3_flow_t flow = {.phase = K3_TRAFFIC_NOTIFY,
                          .src = rank,
                          .dst = k3_cell_rail_peer(cell, rank, node),
                          .messages = node != own,
                          .wire = (uint64_t)r->rail_words * 4};

        emit(cell, flow, visit, arg);
    }
    for (uint32_t to = 0; to < r->per_node; to++) {
        k3_flow_t flow = {.phase = K3_TRAFFIC_NOTIFY,
                          .src = rank,
                          .dst = cell->rank_at[own * r->per_node + to],
                          .messages = 1,
                          .wire = (uint64_t)r->node_words * 4};

        emit(cell, flow, visit, arg);
    }
}

void k3_visit_rings(const k3_cell_t *cell, struct k3_rings_scratch *s, uint32_t rank,
                    k3_flow_visit_t visit, void *arg)
{
    const k3_rings_t *r = &s->rings;
    uint32_t          own = cell->place_of[rank] / r->per_node;

    visit_notify(cell, r, rank, visit, arg);
    memset(s->flows, 0, 2 * ((size_t)r->nodes + r->per_node) * r->qps * sizeof(*s->flows));
    for (uint32_t c = 0; c < r->channels; c++) {
        for (uint32_t node = 0; node < r->nodes; node++) {
            if (node != own) {
                rail_lanes(cell, s, rank, node, c);
            }
        }
        for (uint32_t to = 0; to < r->per_node; to++) {
            local_lanes(cell, s, rank, to, c);
        }
    }
    for (uint32_t i = 0; i < 2 * (r->nodes + r->per_node); i++) {
        uint32_t to = i % (r->nodes + r->per_node);

        for (uint32_t qp = 0; qp < r->qps; qp++) {
            k3_flow_t flow = s->flows[(uint64_t)i * r->qps + qp];

            flow.phase = i == to ? K3_TRAFFIC_DISPATCH : K3_TRAFFIC_COMBINE;
            flow.src = rank;
            flow.dst = to < r->nodes ? k3_cell_rail_peer(cell, rank, to)
                                     : cell->rank_at[own * r->per_node + to - r->nodes];
            flow.qp = qp;
            emit(cell, flow, visit, arg);
        }
    }
}
