#include "bench/plan/traffic.h"

#include <string.h>

#include "bench/plan/slab.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"

k3_status_t k3_traffic_open(const k3_cell_t *cell, k3_traffic_t *traffic, k3_error_t *err)
{
    traffic->cell = cell;
    traffic->counted = false;
    return k3_alloc("rows for each expert", cell->model.experts, sizeof(uint32_t),
                    (void **)&traffic->rows_to, err);
}

void k3_traffic_close(k3_traffic_t *traffic)
{
    k3_free(traffic->rows_to);
    traffic->rows_to = NULL;
}

static void count_rows(k3_traffic_t *t, uint32_t origin)
{
    const k3_cell_t *cell = t->cell;
    uint64_t         first, count;
    int32_t          ids[K3_TOPK_MAX];

    if (t->counted) {
        return;
    }
    t->counted = cell->path.all_rows;
    memset(t->rows_to, 0, cell->model.experts * sizeof(uint32_t));
    k3_cell_dispatched(cell, origin, &first, &count);
    for (uint64_t row = first; row < first + count; row++) {
        k3_routing_row(cell->routing, row, ids);
        for (uint32_t k = 0; k < cell->model.topk; k++) {
            if (ids[k] >= 0) {
                t->rows_to[ids[k]]++;
            }
        }
    }
}

/* --- slab: one message for each (row, expert), one signal for each (expert, source) ---------- */

/* Doorbells of one (expert, source) range with n messages: each `doorbell_every`-th, and each signal. */
static uint64_t doorbells_of(const k3_profile_t *p, uint64_t n)
{
    if (p->doorbell_every == 0) {
        return K3_DOORBELLS_UNKNOWN;
    }
    return n / p->doorbell_every + (p->doorbell_signal ? 1 : 0);
}

static void add_range(const k3_profile_t *p, uint64_t n, uint64_t record, uint64_t payload,
                      uint64_t signal_bytes, bool rings, k3_flow_t *flow)
{
    uint64_t bells = doorbells_of(p, n);

    flow->messages += n;
    flow->signals += 1;
    flow->payload += n * payload;
    flow->wire += n * record + signal_bytes;
    if (rings) {
        flow->doorbells = bells == K3_DOORBELLS_UNKNOWN ? bells : flow->doorbells + bells;
    }
}

static void visit_slab_peer(const k3_traffic_t *t, const k3_slab_t *s, uint32_t origin,
                            uint32_t peer, bool back, k3_flow_visit_t visit, void *arg)
{
    const k3_cell_t *cell = t->cell;
    bool             rings = !k3_cell_mapped(cell, origin, peer);
    uint32_t         lanes = s->qps < s->local ? s->qps : s->local;

    for (uint32_t qp = 0; qp < lanes; qp++) {
        k3_flow_t flow = {.phase = back ? K3_TRAFFIC_COMBINE : K3_TRAFFIC_DISPATCH,
                          .src = back ? peer : origin,
                          .dst = back ? origin : peer,
                          .qp = qp};

        for (uint32_t e = qp; e < s->local; e += s->qps) {
            add_range(cell->profile, t->rows_to[peer * s->local + e], back ? s->result : s->record,
                      back ? s->result_payload : s->record_payload, s->signal_bytes, rings, &flow);
        }
        visit(&flow, arg);
    }
}

static void visit_slab(const k3_traffic_t *t, uint32_t origin, k3_flow_visit_t visit, void *arg)
{
    k3_slab_t slab;

    k3_slab_plan(t->cell, &slab);
    for (int back = 0; back < 2; back++) {
        for (uint32_t peer = 0; peer < slab.ranks; peer++) {
            visit_slab_peer(t, &slab, origin, peer, back != 0, visit, arg);
        }
    }
}

/* --- mpi: counts by MPI_Alltoall, packed rows by MPI_Alltoallv, both ways -------------------- */

static void visit_mpi(const k3_traffic_t *t, uint32_t origin, k3_flow_visit_t visit, void *arg)
{
    const k3_cell_t *cell = t->cell;
    uint32_t         local = k3_layout_local_experts(&cell->layout, &cell->model);
    uint32_t         width = cell->model.latent, topk = cell->model.topk;
    uint64_t record = k3_profile_dispatch_record(cell->profile, cell->dispatch_format, width, topk);
    uint64_t payload = k3_profile_dispatch_payload(cell->profile, cell->dispatch_format, width);
    uint64_t result = k3_profile_combine_record(cell->profile, cell->combine_format, width, topk);
    uint64_t back = k3_profile_combine_payload(cell->profile, cell->combine_format, width);

    for (int phase = 0; phase < K3_TRAFFIC_COUNT; phase++) {
        for (uint32_t peer = 0; peer < cell->layout.tp; peer++) {
            bool      returns = phase == K3_TRAFFIC_COMBINE;
            uint64_t  rows = 0;
            k3_flow_t flow = {.phase = (k3_traffic_phase_t)phase,
                              .src = returns ? peer : origin,
                              .dst = returns ? origin : peer,
                              .doorbells = K3_DOORBELLS_UNKNOWN};

            for (uint32_t e = 0; e < local; e++) {
                rows += t->rows_to[peer * local + e];
            }
            if (phase == K3_TRAFFIC_NOTIFY) {
                flow.messages = 1;
                flow.wire = local * sizeof(int32_t);
            } else if (rows > 0) {
                flow.messages = 1;
                flow.payload = rows * (returns ? back : payload);
                flow.wire = rows * (returns ? result : record);
            } else {
                continue;
            }
            visit(&flow, arg);
        }
    }
}

void k3_traffic_origin(k3_traffic_t *traffic, uint32_t origin, k3_flow_visit_t visit, void *arg)
{
    count_rows(traffic, origin);
    switch (traffic->cell->profile->engine) {
    case K3_ENGINE_SLAB:
        visit_slab(traffic, origin, visit, arg);
        break;
    case K3_ENGINE_MPI:
        visit_mpi(traffic, origin, visit, arg);
        break;
    default:
        break; /* no lanes */
    }
}

/* --- sums ------------------------------------------------------------------------------------ */

typedef struct totals {
    const k3_cell_t *cell;
    k3_work_t       *work;
    uint64_t        *expert_rows; /* [E] */
    uint64_t        *rank_rows;   /* [R] rows received, by the profile's copy rule */
    double           qp_sum, qp_max;
    uint64_t         qp_lanes;
} totals_t;

static void add_flow(const k3_flow_t *flow, void *arg)
{
    totals_t         *t = arg;
    k3_traffic_sum_t *sum = &t->work->sum[flow->phase];
    bool              network = t->cell->node_of[flow->src] != t->cell->node_of[flow->dst];

    sum->lanes++;
    sum->messages += flow->messages;
    sum->signals += flow->signals;
    sum->payload += flow->payload;
    sum->wire += flow->wire;
    sum->doorbells =
        sum->doorbells == K3_DOORBELLS_UNKNOWN || flow->doorbells == K3_DOORBELLS_UNKNOWN
            ? K3_DOORBELLS_UNKNOWN
            : sum->doorbells + flow->doorbells;
    if (flow->src != flow->dst) {
        sum->payload_remote += flow->payload;
        sum->wire_remote += flow->wire;
    }
    if (network) {
        sum->payload_network += flow->payload;
        sum->wire_network += flow->wire;
        if (flow->phase == K3_TRAFFIC_DISPATCH) {
            double wire = (double)flow->wire;

            t->qp_lanes++;
            t->qp_sum += wire;
            t->qp_max = wire > t->qp_max ? wire : t->qp_max;
        }
    }
}

/* Rows that the origin sends to each rank: one for each (row, expert), or one for each (row, rank).
 * `times`: so many origins have these rows. */
static void add_rows(totals_t *t, uint32_t origin, uint32_t times)
{
    const k3_cell_t *cell = t->cell;
    bool dedup = cell->profile->copy != K3_COPY_PER_EXPERT && cell->profile->copy != K3_COPY_PULL;
    uint32_t local = k3_layout_local_experts(&cell->layout, &cell->model);
    uint64_t first, count;
    int32_t  ids[K3_TOPK_MAX];

    k3_cell_dispatched(cell, origin, &first, &count);
    t->work->rows_dispatched += count * times;
    for (uint64_t row = first; row < first + count; row++) {
        k3_routing_row(cell->routing, row, ids);
        for (uint32_t k = 0; k < cell->model.topk; k++) {
            uint32_t owner, seen = 0;

            if (ids[k] < 0) {
                continue;
            }
            owner = (uint32_t)ids[k] / local;
            for (uint32_t j = 0; j < k; j++) {
                seen += ids[j] >= 0 && (uint32_t)ids[j] / local == owner;
            }
            t->work->assignments += times;
            t->expert_rows[ids[k]] += times;
            t->work->dedup_rows += seen == 0 ? times : 0;
            if (owner < cell->layout.tp && (!dedup || seen == 0)) {
                t->rank_rows[owner] += times;
            }
        }
    }
}

static double imbalance(const uint64_t *load, uint32_t n)
{
    double sum = 0.0, max = 0.0;

    for (uint32_t i = 0; i < n; i++) {
        sum += (double)load[i];
        max = (double)load[i] > max ? (double)load[i] : max;
    }
    return sum > 0.0 ? max * n / sum : 0.0;
}

static k3_status_t sum_origins(totals_t *t, k3_error_t *err)
{
    k3_traffic_t traffic = {0};
    uint32_t     origins = t->cell->path.all_rows ? 1 : t->cell->layout.tp; /* that differ */

    if (k3_traffic_open(t->cell, &traffic, err) != K3_OK) {
        return err->status;
    }
    for (uint32_t origin = 0; origin < t->cell->layout.tp; origin++) {
        k3_traffic_origin(&traffic, origin, add_flow, t);
    }
    for (uint32_t origin = 0; origin < origins; origin++) {
        add_rows(t, origin, t->cell->layout.tp / origins);
    }
    k3_traffic_close(&traffic);
    return K3_OK;
}

k3_status_t k3_work_plan(const k3_cell_t *cell, k3_work_t *work, k3_error_t *err)
{
    totals_t t = {.cell = cell, .work = work};

    memset(work, 0, sizeof(*work));
    work->rows_global = cell->layout.rows_global;
    work->rows_padding = cell->layout.rows_padding;
    work->dispatches =
        cell->profile->copy != K3_COPY_NONE && cell->profile->copy != K3_COPY_REPLICATE;
    if (k3_alloc("rows of each expert", cell->model.experts, sizeof(uint64_t),
                 (void **)&t.expert_rows, err) == K3_OK &&
        k3_alloc("rows of each rank", cell->layout.tp, sizeof(uint64_t), (void **)&t.rank_rows,
                 err) == K3_OK &&
        sum_origins(&t, err) == K3_OK) {
        work->dispatch_ratio =
            work->rows_global > 0 ? (double)work->rows_dispatched / (double)work->rows_global : 0.0;
        work->imbalance_expert = imbalance(t.expert_rows, cell->model.experts);
        work->has_imbalance_expert = work->assignments > 0;
        work->has_imbalance_rank = work->assignments > 0 && work->dispatches;
        work->imbalance_rank =
            work->has_imbalance_rank ? imbalance(t.rank_rows, cell->layout.tp) : 0.0;
        work->has_imbalance_qp = t.qp_lanes > 0;
        work->imbalance_qp = t.qp_sum > 0.0 ? t.qp_max * (double)t.qp_lanes / t.qp_sum : 1.0;
    }
    k3_free(t.rank_rows);
    k3_free(t.expert_rows);
    return err->status;
}
