/* Ranks: one copy for each (row, rank); counts apart or in the signals. */
#include "bench/plan/ranks.h"
#include "bench/plan/traffic_internal.h"
#include "harness/base/memory.h"

/* One origin, and one peer of it: rows that go there once each, and all its (row, expert) pairs. */
typedef struct pass {
    const k3_traffic_t *t;
    const k3_profile_t *p;
    k3_ranks_t          g;
    uint32_t            origin, peer;
    uint64_t            rows, pairs;
    k3_flow_visit_t     visit;
    void               *arg;
} pass_t;

/* --- rows on lanes --------------------------------------------------------------------------- */

k3_status_t k3_open_ranks(k3_traffic_t *t, k3_error_t *err)
{
    t->lane_qps = t->cell->qps.active > 0 ? t->cell->qps.active : 1;
    return k3_alloc("rows on each lane", (uint64_t)t->cell->layout.tp * t->lane_qps,
                    sizeof(uint32_t), (void **)&t->lane_rows, err);
}

void k3_count_ranks(k3_traffic_t *t, uint64_t row, const int32_t *ids)
{
    const k3_cell_t *cell = t->cell;
    uint32_t         local = k3_layout_local_experts(&cell->layout, &cell->model);
    k3_ranks_t       g = {.local = local, .qps = t->lane_qps, .channels = cell->profile->channels};

    for (uint32_t k = 0; k < cell->model.topk; k++) {
        uint32_t rank, seen = 0;

        if (ids[k] < 0) {
            continue;
        }
        rank = (uint32_t)ids[k] / local;
        for (uint32_t j = 0; j < k; j++) {
            seen += ids[j] >= 0 && (uint32_t)ids[j] / local == rank;
        }
        if (seen == 0) {
            uint32_t *lanes = t->lane_rows + (uint64_t)rank * t->lane_qps;
            uint64_t  slot = 0;

            for (uint32_t q = 0; q < t->lane_qps; q++) {
                slot += lanes[q];
            }
            lanes[k3_ranks_row_qp(cell, &g, row, slot)]++;
        }
    }
}

/* --- flows ----------------------------------------------------------------------------------- */

static k3_flow_t flow_of(const pass_t *x, k3_traffic_phase_t phase, uint32_t qp)
{
    bool     back = phase == K3_TRAFFIC_COMBINE;
    uint32_t src = back ? x->peer : x->origin, dst = back ? x->origin : x->peer;
    bool     rings = !k3_cell_mapped(x->t->cell, src, dst) && x->p->doorbell_every == 0;

    return (k3_flow_t){.phase = phase,
                       .src = src,
                       .dst = dst,
                       .qp = qp,
                       .doorbells = rings ? K3_DOORBELLS_UNKNOWN : 0};
}

static void add_messages(k3_flow_t *flow, uint64_t messages, uint64_t payload, uint64_t wire)
{
    flow->messages += messages;
    flow->payload += payload;
    flow->wire += wire;
}

static void add_signals(k3_flow_t *flow, uint64_t signals, uint32_t bytes)
{
    flow->signals += signals;
    flow->wire += signals * bytes;
}

static void show(const pass_t *x, const k3_flow_t *flow)
{
    if (flow->messages + flow->signals > 0) {
        x->visit(flow, x->arg);
    }
}

/* Of 0 .. n - 1, how many are on this QP by their number. */
static uint64_t slots_on(const pass_t *x, uint64_t n, uint32_t qp)
{
    uint64_t on = 0;

    for (uint64_t slot = 0; slot < n; slot++) {
        on += k3_ranks_back_qp(x->t->cell, &x->g, slot) == qp;
    }
    return on;
}

static uint64_t signals_on(const pass_t *x, k3_signal_when_t when, uint32_t qp)
{
    if (x->p->completion == K3_DONE_BARRIER) {
        return qp == 0 ? 2 : 0; /* at the start and at the end */
    }
    switch (when) {
    case K3_WHEN_PER_QP:
        return 1;
    case K3_WHEN_PER_EXPERT:
        return qp < x->g.local ? (x->g.local - qp - 1) / x->g.qps + 1 : 0;
    default:
        return qp == 0 ? 1 : 0;
    }
}

static void visit_notify(const pass_t *x)
{
    k3_flow_t flow = flow_of(x, K3_TRAFFIC_NOTIFY, 0);

    add_messages(&flow, 2, 0, sizeof(uint64_t) * (1 + x->g.local));
    show(x, &flow);
}

static void visit_dispatch(const pass_t *x, uint32_t qp)
{
    k3_flow_t flow = flow_of(x, K3_TRAFFIC_DISPATCH, qp);
    uint64_t  first, rows = x->t->lane_rows[(uint64_t)x->peer * x->t->lane_qps + qp];
    uint64_t  messages = rows;

    if (x->p->qp_map == K3_QP_SPLIT) {
        rows = k3_ranks_part(&x->g, x->rows, qp, &first);
        messages = rows > 0 ? 1 : 0;
    }
    add_messages(&flow, messages, rows * x->g.record_payload, rows * x->g.record);
    add_signals(&flow, signals_on(x, x->p->dispatch_when, qp), x->p->signal_bytes);
    show(x, &flow);
}

static uint64_t results_on(const pass_t *x, uint32_t qp, uint64_t *messages)
{
    uint64_t first, rows = 0;

    if (x->g.back == K3_BACK_PACKED) {
        rows = k3_ranks_part(&x->g, x->rows, qp, &first);
        *messages = rows > 0 ? 1 : 0;
        return rows;
    }
    if (x->p->combine_copy == K3_COPY_PER_EXPERT) {
        for (uint32_t e = qp; e < x->g.local; e += x->g.qps) {
            rows += x->t->rows_to[x->peer * x->g.local + e];
        }
    } else if (x->g.back != K3_BACK_PULLED) {
        rows = slots_on(x, x->rows, qp);
    }
    *messages = rows;
    return rows;
}

static void visit_combine(const pass_t *x, uint32_t qp)
{
    k3_flow_t flow = flow_of(x, K3_TRAFFIC_COMBINE, qp);
    uint32_t  bytes =
        x->p->combine_signal_bytes > 0 ? x->p->combine_signal_bytes : x->p->signal_bytes;
    uint64_t messages, rows = results_on(x, qp, &messages);

    add_messages(&flow, messages, rows * x->g.result_payload, rows * x->g.result);
    add_signals(&flow, signals_on(x, x->p->combine_when, qp), bytes);
    show(x, &flow);
}

static void visit_pulls(const pass_t *x)
{
    k3_flow_t flow = flow_of(x, K3_TRAFFIC_COMBINE, 0);

    flow.pulled = true;
    add_messages(&flow, x->rows, x->rows * x->g.result_payload, x->rows * x->g.result);
    show(x, &flow);
}

static void visit_peer(const pass_t *x)
{
    if (x->p->notify) {
        visit_notify(x);
    }
    for (uint32_t qp = 0; qp < x->g.qps; qp++) {
        visit_dispatch(x, qp);
        visit_combine(x, qp);
    }
    if (x->g.back == K3_BACK_PULLED) {
        visit_pulls(x);
    }
}

/* --- slots split: counts first, then at most two packed writes ------------------------------- */

/* Counts and barriers go to all others on QP 0, rows on the QP behind it, each write with its immediate;
 * what stays on the rank needs none. */
static void visit_packed_peer(const pass_t *x)
{
    bool     remote = x->peer != x->origin;
    uint64_t writes = (x->pairs > 0) + (x->pairs > x->g.private_rows), back = x->pairs > 0;

    if (remote) {
        k3_flow_t flow = flow_of(x, K3_TRAFFIC_NOTIFY, 0);

        add_messages(&flow, 1, 0, (uint64_t)x->g.experts * sizeof(uint32_t));
        add_signals(&flow, 1, x->p->signal_bytes);
        show(x, &flow);
    }
    for (uint32_t qp = 0; qp < x->g.qps; qp++) {
        k3_flow_t out = flow_of(x, K3_TRAFFIC_DISPATCH, qp);
        k3_flow_t in = flow_of(x, K3_TRAFFIC_COMBINE, qp);

        if (qp == k3_ranks_bulk_qp(&x->g)) {
            add_messages(&out, writes, x->pairs * x->g.record_payload, x->pairs * x->g.record);
            add_signals(&out, remote ? writes : 0, x->p->signal_bytes);
            add_messages(&in, back, x->pairs * x->g.result_payload, x->pairs * x->g.result);
            add_signals(&in, remote ? 1 : 0, x->p->signal_bytes);
        }
        if (qp == 0 && remote) {
            add_signals(&out, 1, x->p->signal_bytes);
            add_signals(&in, 1, x->p->signal_bytes);
        }
        show(x, &out);
        show(x, &in);
    }
}

void k3_visit_ranks(const k3_traffic_t *t, uint32_t origin, k3_flow_visit_t visit, void *arg)
{
    pass_t x = {.t = t, .p = t->cell->profile, .origin = origin, .visit = visit, .arg = arg};

    k3_ranks_plan(t->cell, &x.g);
    for (x.peer = 0; x.peer < x.g.ranks; x.peer++) {
        x.rows = x.pairs = 0;
        for (uint32_t q = 0; q < t->lane_qps; q++) {
            x.rows += t->lane_rows[(uint64_t)x.peer * t->lane_qps + q];
        }
        for (uint32_t e = 0; e < x.g.local; e++) {
            x.pairs += t->rows_to[x.peer * x.g.local + e];
        }
        if (x.p->slots == K3_SLOTS_SPLIT) {
            visit_packed_peer(&x);
        } else {
            visit_peer(&x);
        }
    }
}
