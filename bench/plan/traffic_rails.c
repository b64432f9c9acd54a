/* Rails: one copy for each (row, node) to the rank with the same local index, then one for each (row,
 * rank) inside the node. An origin visits its lanes to the other nodes and back; as a forwarder it
 * visits its lanes inside its node, which the rows of all origins on its rail fill. */
#include <string.h>

#include "bench/plan/cell_rows.h"
#include "bench/plan/rails.h"
#include "bench/plan/traffic_internal.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"

struct k3_rails_scratch {
    struct k3_rings_scratch *rings; /* NULL: a slot for every row, and what follows */
    k3_rails_t               geometry;
    uint32_t  *forwarded;  /* [R][n] rows that a rank forwards to each rank of its node */
    k3_flow_t *out, *back; /* [N][qps] of one origin */
    uint32_t  *rows;       /* [N][max(channels, 1)] of one origin: rows, or in the present chunk */
    uint64_t  *last;       /* [N] the last row that went to the node, + 1 */
    uint32_t  *chunks;     /* [N] chunks that the node got */
};

void k3_rails_scratch_close(struct k3_rails_scratch *s)
{
    if (s == NULL) {
        return;
    }
    k3_rings_scratch_close(s->rings);
    k3_free(s->chunks);
    k3_free(s->last);
    k3_free(s->rows);
    k3_free(s->back);
    k3_free(s->out);
    k3_free(s->forwarded);
    k3_free(s);
}

/* Rows of `origin` times `times`, for every node, at the forwarder of the origin's rail. */
static void count_forwarded(const k3_cell_t *cell, uint32_t *forwarded, uint32_t origin)
{
    uint32_t n = cell->node_most, lr = cell->place_of[origin] % n;
    uint64_t first, count;
    int32_t  ids[K3_TOPK_MAX];
    uint32_t places[K3_TOPK_MAX];

    k3_cell_dispatched(cell, origin, &first, &count);
    for (uint64_t row = first; row < first + count; row++) {
        uint32_t targets;

        k3_routing_row(cell->routing, row, ids);
        targets = k3_rails_places(cell, ids, places);
        for (uint32_t t = 0; t < targets; t++) {
            uint32_t forwarder = cell->rank_at[places[t] / n * n + lr];

            forwarded[(uint64_t)forwarder * n + places[t] % n]++;
        }
    }
}

/* What the origins of some ranks send to each place in the mean, from every node of the rail. */
static void expect_forwarded(const k3_cell_t *cell, uint32_t *forwarded)
{
    uint64_t lanes = (uint64_t)cell->layout.tp * cell->node_most, rows = 0;
    uint32_t origins = k3_expected_origins(cell);
    double   each;

    for (uint32_t i = 0; i < origins; i++) {
        count_forwarded(cell, forwarded, k3_expected_origin(cell, i));
    }
    for (uint64_t i = 0; i < lanes; i++) {
        rows += forwarded[i];
    }
    each = (double)rows * cell->nodes / origins / cell->layout.tp;
    for (uint64_t i = 0; i < lanes; i++) {
        forwarded[i] = (uint32_t)(each + 0.5);
    }
}

/* Where all origins have the same rows, each rail's forwarders get them from every node. */
static void count_all_forwarded(const k3_cell_t *cell, uint32_t *forwarded)
{
    uint32_t n = cell->node_most, tp = cell->layout.tp;

    if (cell->expected) {
        expect_forwarded(cell, forwarded);
        return;
    }
    for (uint32_t origin = 0; origin < (cell->path.all_rows ? 1 : tp); origin++) {
        count_forwarded(cell, forwarded, origin);
    }
    if (!cell->path.all_rows) {
        return;
    }
    for (uint32_t rank = tp; rank-- > 0;) {
        uint32_t place = cell->place_of[rank];
        uint32_t counted = cell->rank_at[place / n * n + cell->place_of[0] % n];

        for (uint32_t p = 0; p < n && rank != counted; p++) {
            forwarded[(uint64_t)rank * n + p] = forwarded[(uint64_t)counted * n + p] * cell->nodes;
        }
    }
    for (uint32_t node = 0; node < cell->nodes; node++) {
        uint32_t counted = cell->rank_at[node * n + cell->place_of[0] % n];

        for (uint32_t p = 0; p < n; p++) {
            forwarded[(uint64_t)counted * n + p] *= cell->nodes;
        }
    }
}

k3_status_t k3_rails_scratch_open(const k3_cell_t *cell, struct k3_rails_scratch **scratch_p,
                                  k3_error_t *err)
{
    struct k3_rails_scratch *s = NULL;
    const k3_rails_t        *r;
    uint64_t                 lanes;

    if (k3_alloc("plan of two hops", 1, sizeof(*s), &s, err) != K3_OK) {
        return err->status;
    }
    *scratch_p = s; /* freed by the caller, whatever happens here */
    if (cell->profile->rings != NULL) {
        return k3_rings_scratch_open(cell, &s->rings, err);
    }
    k3_rails_plan(cell, &s->geometry);
    r = &s->geometry;
    lanes = (uint64_t)r->nodes * r->qps;
    if (k3_alloc("rows forwarded", (uint64_t)r->ranks * r->per_node, sizeof(uint32_t),
                 &s->forwarded, err) != K3_OK ||
        k3_alloc("flows", lanes, sizeof(k3_flow_t), &s->out, err) != K3_OK ||
        k3_alloc("flows", lanes, sizeof(k3_flow_t), &s->back, err) != K3_OK ||
        k3_alloc("rows of nodes", (uint64_t)r->nodes * (r->channels > 0 ? r->channels : 1),
                 sizeof(uint32_t), &s->rows, err) != K3_OK ||
        k3_alloc("rows of nodes", r->nodes, sizeof(uint64_t), &s->last, err) != K3_OK ||
        k3_alloc("chunks of nodes", r->nodes, sizeof(uint32_t), &s->chunks, err) != K3_OK) {
        return err->status;
    }
    count_all_forwarded(cell, s->forwarded);
    return K3_OK;
}

/* --- flows ----------------------------------------------------------------------------------- */

/* Stores to mapped memory ring no doorbell. */
static void emit(const k3_cell_t *cell, k3_flow_t flow, k3_flow_visit_t visit, void *arg)
{
    const k3_profile_t *p = cell->profile;

    if (flow.messages + flow.signals == 0) {
        return;
    }
    flow.doorbells = 0;
    if (!k3_cell_mapped(cell, flow.src, flow.dst)) {
        flow.doorbells = p->doorbell_every == 0 ? K3_DOORBELLS_UNKNOWN
                                                : flow.messages / p->doorbell_every +
                                                      (p->doorbell_signal ? flow.signals : 0);
    }
    visit(&flow, arg);
}

static void add_rows(k3_flow_t *flow, uint64_t messages, uint64_t rows, uint64_t payload,
                     uint64_t record)
{
    flow->messages += messages;
    flow->payload += rows * payload;
    flow->wire += rows * record;
}

static void add_signals(k3_flow_t *flow, uint64_t signals, uint64_t bytes)
{
    flow->signals += signals;
    flow->wire += signals * bytes;
}

/* --- hop 1 by chunks ------------------------------------------------------------------------- */

/* The chunk of rows that ends here has been counted for each node. */
static void close_chunk(struct k3_rails_scratch *s, uint32_t bytes, uint32_t chunk)
{
    const k3_rails_t *r = &s->geometry;

    for (uint32_t node = 0; node < r->nodes; node++) {
        k3_flow_t *out = &s->out[node * r->qps + chunk % r->qps];
        k3_flow_t *back;

        if (s->rows[node] == 0) {
            continue;
        }
        add_rows(out, 0, s->rows[node], r->record_payload, r->record);
        add_signals(out, 1, bytes);
        back = &s->back[node * r->qps + s->chunks[node]++ % r->qps];
        add_rows(back, 1, s->rows[node], r->result_payload, r->result);
        s->rows[node] = 0;
    }
}

/* A message is a run of consecutive rows of the chunk. */
static void add_to_chunk(struct k3_rails_scratch *s, uint32_t node, uint64_t i)
{
    const k3_rails_t *r = &s->geometry;
    bool              runs = s->rows[node] > 0 && s->last[node] == i;

    s->out[node * r->qps + i / r->chunk % r->qps].messages += runs ? 0 : 1;
    s->rows[node]++;
    s->last[node] = i + 1;
}

static void close_rail(struct k3_rails_scratch *s, const k3_profile_t *p)
{
    const k3_rails_t *r = &s->geometry;

    for (uint32_t node = 0; node < r->nodes; node++) {
        add_signals(&s->out[node * r->qps], p->end_marker ? 1 : 0, p->signal_bytes);
        for (uint32_t qp = 0; qp < r->qps; qp++) {
            add_signals(&s->back[node * r->qps + qp], 1, p->signal_bytes);
        }
    }
}

/* --- hop 1 by channels ----------------------------------------------------------------------- */

static void close_channels(struct k3_rails_scratch *s, const k3_profile_t *p)
{
    const k3_rails_t *r = &s->geometry;

    for (uint32_t node = 0; node < r->nodes; node++) {
        for (uint32_t c = 0; c < r->channels; c++) {
            uint64_t   n = s->rows[node * r->channels + c];
            k3_flow_t *out = &s->out[node * r->qps + k3_rails_qp(p, r, c, true)];
            k3_flow_t *back = &s->back[node * r->qps + k3_rails_qp(p, r, c, false)];

            add_rows(out, n, n, r->record_payload, r->record);
            add_signals(out, n / p->tail_rows + 1, p->signal_bytes);
            add_rows(back, n, n, r->result_payload, r->result);
            add_signals(back, 1, p->signal_bytes);
        }
    }
}

/* --- an origin ------------------------------------------------------------------------------- */

static void reset_flows(const k3_cell_t *cell, struct k3_rails_scratch *s, uint32_t origin)
{
    const k3_rails_t *r = &s->geometry;
    uint64_t          words = (uint64_t)r->nodes * (r->channels > 0 ? r->channels : 1);

    memset(s->rows, 0, words * sizeof(uint32_t));
    memset(s->last, 0, r->nodes * sizeof(uint64_t));
    memset(s->chunks, 0, r->nodes * sizeof(uint32_t));
    for (uint32_t node = 0; node < r->nodes; node++) {
        uint32_t peer = k3_cell_rail_peer(cell, origin, node);

        for (uint32_t qp = 0; qp < r->qps; qp++) {
            s->out[node * r->qps + qp] =
                (k3_flow_t){.phase = K3_TRAFFIC_DISPATCH, .src = origin, .dst = peer, .qp = qp};
            s->back[node * r->qps + qp] =
                (k3_flow_t){.phase = K3_TRAFFIC_COMBINE, .src = peer, .dst = origin, .qp = qp};
        }
    }
}

static void add_row(const k3_cell_t *cell, struct k3_rails_scratch *s, uint64_t row, uint64_t i)
{
    const k3_rails_t *r = &s->geometry;
    int32_t           ids[K3_TOPK_MAX];
    uint32_t          places[K3_TOPK_MAX], count, before = UINT32_MAX;

    if (cell->profile->copy == K3_COPY_CHUNK) {
        for (uint32_t node = 0; node < r->nodes; node++) {
            add_to_chunk(s, node, i);
        }
        return;
    }
    k3_routing_row(cell->routing, row, ids);
    count = k3_rails_places(cell, ids, places);
    for (uint32_t t = 0; t < count; t++) {
        uint32_t node = places[t] / r->per_node;

        if (node == before) {
            continue;
        }
        before = node;
        if (r->chunk > 0) {
            add_to_chunk(s, node, i);
        } else {
            s->rows[node * r->channels + i % r->channels]++;
        }
    }
}

static void visit_origin(const k3_cell_t *cell, struct k3_rails_scratch *s, uint32_t origin,
                         k3_flow_visit_t visit, void *arg)
{
    const k3_rails_t *r = &s->geometry;
    uint64_t          first, count;

    reset_flows(cell, s, origin);
    k3_cell_dispatched(cell, origin, &first, &count);
    for (uint64_t i = 0; i < count; i++) {
        add_row(cell, s, first + i, i);
        if (r->chunk > 0 && ((i + 1) % r->chunk == 0 || i + 1 == count)) {
            close_chunk(s, cell->profile->signal_bytes, (uint32_t)(i / r->chunk));
        }
    }
    if (r->chunk > 0) {
        close_rail(s, cell->profile);
    } else {
        close_channels(s, cell->profile);
    }
    for (uint32_t node = 0; node < r->nodes; node++) {
        for (uint32_t qp = 0; qp < r->qps && node != (uint32_t)cell->node_of[origin]; qp++) {
            emit(cell, s->out[node * r->qps + qp], visit, arg);
            emit(cell, s->back[node * r->qps + qp], visit, arg);
        }
    }
}

/* --- a forwarder ----------------------------------------------------------------------------- */

static uint64_t local_signals(const k3_profile_t *p, uint64_t rows)
{
    uint64_t tails = p->local_tail_rows > 0 ? k3_ceil_div(rows, p->local_tail_rows) : 1;

    return tails + (p->local_barrier ? 1 : 0);
}

static void visit_forwarder(const k3_cell_t *cell, const struct k3_rails_scratch *s, uint32_t rank,
                            k3_flow_visit_t visit, void *arg)
{
    const k3_profile_t *p = cell->profile;
    const k3_rails_t   *r = &s->geometry;
    uint32_t            node = cell->place_of[rank] / r->per_node;

    for (uint32_t i = 0; i < r->per_node; i++) {
        uint32_t  peer = cell->rank_at[node * r->per_node + i];
        uint64_t  rows = s->forwarded[(uint64_t)rank * r->per_node + i];
        k3_flow_t out = {.phase = K3_TRAFFIC_DISPATCH, .src = rank, .dst = peer};
        k3_flow_t back = {.phase = K3_TRAFFIC_COMBINE, .src = peer, .dst = rank};

        add_rows(&out, rows, rows, r->record_payload, r->record);
        add_signals(&out, 1, 8);
        emit(cell, out, visit, arg);
        add_rows(&back, rows, rows, r->result_payload, r->result);
        add_signals(&back, local_signals(p, rows), 8);
        emit(cell, back, visit, arg);
    }
}

/* Counts for the ranks of each node and their experts by rail, then their sums inside the node. */
static void visit_notify(const k3_cell_t *cell, const k3_rails_t *r, uint32_t rank,
                         k3_flow_visit_t visit, void *arg)
{
    uint32_t node = cell->place_of[rank] / r->per_node;
    uint64_t row = 1 + (uint64_t)r->local;

    for (uint32_t other = 0; other < r->nodes; other++) {
        k3_flow_t flow = {.phase = K3_TRAFFIC_NOTIFY,
                          .src = rank,
                          .dst = k3_cell_rail_peer(cell, rank, other),
                          .messages = 1,
                          .wire = 4 * r->per_node * row};

        if (other != node) {
            emit(cell, flow, visit, arg);
        }
    }
    for (uint32_t i = 0; i < r->per_node; i++) {
        k3_flow_t flow = {.phase = K3_TRAFFIC_NOTIFY,
                          .src = rank,
                          .dst = cell->rank_at[node * r->per_node + i],
                          .signals = row,
                          .wire = 8 * row};

        emit(cell, flow, visit, arg);
    }
}

void k3_visit_rails(const k3_traffic_t *t, uint32_t origin, k3_flow_visit_t visit, void *arg)
{
    struct k3_rails_scratch *s = t->rails;

    if (s->rings != NULL) {
        k3_visit_rings(t->cell, s->rings, origin, visit, arg);
        return;
    }
    if (t->cell->profile->notify) {
        visit_notify(t->cell, &s->geometry, origin, visit, arg);
    }
    visit_origin(t->cell, s, origin, visit, arg);
    visit_forwarder(t->cell, s, origin, visit, arg);
}
