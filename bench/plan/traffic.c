#include "bench/plan/traffic.h"

#include <string.h>

#include "bench/plan/cell_rows.h"
#include "bench/plan/counted.h"
#include "bench/plan/expect.h"
#include "bench/plan/traffic_internal.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"

k3_status_t k3_traffic_open(const k3_cell_t *cell, k3_traffic_t *traffic, k3_error_t *err)
{
    *traffic = (k3_traffic_t){.cell = cell};
    if (k3_alloc("rows for each expert", cell->model.experts, sizeof(uint32_t),
                 (void **)&traffic->rows_to, err) == K3_OK) {
        if (cell->profile->engine == K3_ENGINE_RAILS) {
            k3_rails_scratch_open(cell, &traffic->rails, err);
        } else if (cell->profile->engine == K3_ENGINE_RANKS) {
            k3_open_ranks(traffic, err);
        } else if (cell->profile->engine == K3_ENGINE_SLAB) {
            k3_alloc("rows of a group", (uint64_t)cell->layout.tp + 1, sizeof(uint64_t),
                     (void **)&traffic->group_to, err);
        }
    }
    if (err->status != K3_OK) {
        k3_traffic_close(traffic);
    }
    return err->status;
}

void k3_traffic_close(k3_traffic_t *traffic)
{
    k3_rails_scratch_close(traffic->rails);
    k3_free(traffic->group_to);
    k3_free(traffic->lane_rows);
    k3_free(traffic->rows_to);
    *traffic = (k3_traffic_t){0};
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
    if (t->lane_rows != NULL) {
        memset(t->lane_rows, 0, (size_t)cell->layout.tp * t->lane_qps * sizeof(uint32_t));
    }
    k3_cell_dispatched(cell, origin, &first, &count);
    for (uint64_t row = first; row < first + count; row++) {
        k3_routing_row(cell->routing, row, ids);
        for (uint32_t k = 0; k < cell->model.topk; k++) {
            if (ids[k] >= 0) {
                t->rows_to[ids[k]]++;
            }
        }
        if (t->lane_rows != NULL) {
            k3_count_ranks(t, row - first, ids);
        }
    }
}

void k3_traffic_origin(k3_traffic_t *traffic, uint32_t origin, k3_flow_visit_t visit, void *arg)
{
    count_rows(traffic, origin);
    switch (traffic->cell->profile->engine) {
    case K3_ENGINE_SLAB:
        (k3_is_counted(traffic->cell->profile) ? k3_visit_counted : k3_visit_slab)(traffic, origin,
                                                                                   visit, arg);
        break;
    case K3_ENGINE_RANKS:
        k3_visit_ranks(traffic, origin, visit, arg);
        break;
    case K3_ENGINE_RAILS:
        k3_visit_rails(traffic, origin, visit, arg);
        break;
    case K3_ENGINE_FUSED:
        k3_visit_fused(traffic, origin, visit, arg);
        break;
    case K3_ENGINE_MPI:
        k3_visit_mpi(traffic, origin, visit, arg);
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
    k3_flow_visit_t  visit; /* NULL: nobody else looks at the flows */
    void            *arg;
} totals_t;

static void add_flow(const k3_flow_t *flow, void *arg)
{
    totals_t         *t = arg;
    k3_traffic_sum_t *sum = &t->work->sum[flow->phase];
    bool              network = t->cell->node_of[flow->src] != t->cell->node_of[flow->dst];

    if (t->visit != NULL) {
        t->visit(flow, t->arg);
    }
    sum->lanes += !flow->pulled; /* the rank that is read signals on the same lane */
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

/* Whether a value stands among those before it. */
static bool is_new(const int32_t *values, uint32_t k)
{
    for (uint32_t j = 0; j < k; j++) {
        if (values[j] == values[k]) {
            return false;
        }
    }
    return true;
}

/* Rows that the origin sends to each rank: one for each (row, expert), or one for each (row, rank).
 * `times`: so many origins have these rows. */
static void add_rows(totals_t *t, uint32_t origin, uint32_t times)
{
    const k3_cell_t *cell = t->cell;
    bool dedup = cell->profile->copy != K3_COPY_PER_EXPERT && cell->profile->copy != K3_COPY_PULL;
    uint32_t local = k3_layout_local_experts(&cell->layout, &cell->model);
    uint64_t first, count;

    k3_cell_dispatched(cell, origin, &first, &count);
    t->work->rows_dispatched += count * times;
    for (uint64_t row = first; row < first + count; row++) {
        int32_t  ids[K3_TOPK_MAX], owner[K3_TOPK_MAX], node[K3_TOPK_MAX];
        uint32_t sent = 0;

        k3_routing_row(cell->routing, row, ids);
        for (uint32_t k = 0; k < cell->model.topk; k++) {
            bool new_rank;

            if (ids[k] < 0) {
                continue;
            }
            owner[sent] = ids[k] / (int32_t)local;
            node[sent] = cell->node_of[(uint32_t)owner[sent] * cell->layout.moe_tp];
            new_rank = is_new(owner, sent);
            t->expert_rows[ids[k]] += times;
            t->work->dedup_rows += new_rank ? times : 0;
            t->work->node_rows += new_rank && is_new(node, sent) ? times : 0;
            if ((uint32_t)owner[sent] < cell->layout.tp && (!dedup || new_rank)) {
                t->rank_rows[owner[sent]] += times;
            }
            sent++;
        }
        t->work->assignments += (uint64_t)sent * times;
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

static uint64_t scaled(uint64_t n, double factor)
{
    return n >= K3_TOO_BIG / 2 ? n : (uint64_t)((double)n * factor + 0.5);
}

/* What the rows of some ranks give, for all ranks. */
static void scale_work(const k3_cell_t *cell, k3_work_t *w, double factor)
{
    w->rows_dispatched = scaled(w->rows_dispatched, factor);
    w->assignments = scaled(w->assignments, factor);
    w->dedup_rows = scaled(w->dedup_rows, factor);
    w->node_rows = scaled(w->node_rows, factor);
    for (int phase = 0; phase < K3_TRAFFIC_COUNT; phase++) {
        k3_traffic_sum_t *s = &w->sum[phase];
        uint64_t *sums[] = {&s->messages,        &s->signals,        &s->payload,     &s->wire,
                            &s->doorbells,       &s->payload_remote, &s->wire_remote, &s->lanes,
                            &s->payload_network, &s->wire_network};

        for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
            *sums[i] = scaled(*sums[i], factor);
        }
    }
    if (k3_routing_is_uniform(cell->routing) && !cell->path.all_rows) {
        k3_expectation_t ranks =
            k3_expected_distinct(cell->model.experts, cell->layout.ep, cell->model.topk);

        w->rows_dispatched = w->rows_global;
        w->assignments = w->rows_global * cell->model.topk;
        w->dedup_rows = (uint64_t)(ranks.mean * (double)w->rows_global + 0.5);
    }
}

static k3_status_t sum_some_origins(totals_t *t, k3_error_t *err)
{
    k3_traffic_t traffic = {0};
    uint32_t     count = k3_expected_origins(t->cell);

    if (k3_traffic_open(t->cell, &traffic, err) != K3_OK) {
        return err->status;
    }
    for (uint32_t i = 0; i < count; i++) {
        k3_traffic_origin(&traffic, k3_expected_origin(t->cell, i), add_flow, t);
        add_rows(t, k3_expected_origin(t->cell, i), 1);
    }
    k3_traffic_close(&traffic);
    scale_work(t->cell, t->work, (double)t->cell->layout.tp / count);
    return K3_OK;
}

static k3_status_t sum_origins(totals_t *t, k3_error_t *err)
{
    k3_traffic_t traffic = {0};
    uint32_t     origins = t->cell->path.all_rows ? 1 : t->cell->layout.tp; /* that differ */

    if (t->cell->expected) {
        return sum_some_origins(t, err);
    }

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

/* The step of the routing in force. */
static k3_status_t plan_step(const k3_cell_t *cell, k3_work_t *work, k3_flow_visit_t visit,
                             void *arg, k3_error_t *err)
{
    totals_t t = {.cell = cell, .work = work, .visit = visit, .arg = arg};

    memset(work, 0, sizeof(*work));
    work->rows_global = cell->layout.rows_global;
    if (k3_alloc("rows of each expert", cell->model.experts, sizeof(uint64_t),
                 (void **)&t.expert_rows, err) == K3_OK &&
        k3_alloc("rows of each rank", cell->layout.tp, sizeof(uint64_t), (void **)&t.rank_rows,
                 err) == K3_OK &&
        sum_origins(&t, err) == K3_OK) {
        work->imbalance_expert = imbalance(t.expert_rows, cell->model.experts);
        work->imbalance_rank = imbalance(t.rank_rows, cell->layout.tp);
        work->has_imbalance_qp = t.qp_lanes > 0;
        work->imbalance_qp = t.qp_sum > 0.0 ? t.qp_max * (double)t.qp_lanes / t.qp_sum : 1.0;
    }
    k3_free(t.rank_rows);
    k3_free(t.expert_rows);
    return err->status;
}

static void add_sums(k3_traffic_sum_t *sum, const k3_traffic_sum_t *step)
{
    bool unknown =
        sum->doorbells == K3_DOORBELLS_UNKNOWN || step->doorbells == K3_DOORBELLS_UNKNOWN;

    sum->messages += step->messages;
    sum->signals += step->signals;
    sum->doorbells = unknown ? K3_DOORBELLS_UNKNOWN : sum->doorbells + step->doorbells;
    sum->payload += step->payload;
    sum->wire += step->wire;
    sum->payload_remote += step->payload_remote;
    sum->wire_remote += step->wire_remote;
    sum->payload_network += step->payload_network;
    sum->wire_network += step->wire_network;
    sum->lanes += step->lanes;
}

static void add_step(k3_work_t *work, const k3_work_t *step)
{
    work->rows_dispatched += step->rows_dispatched;
    work->assignments += step->assignments;
    work->dedup_rows += step->dedup_rows;
    work->node_rows += step->node_rows;
    work->imbalance_expert += step->imbalance_expert;
    work->imbalance_rank += step->imbalance_rank;
    work->imbalance_qp += step->imbalance_qp;
    work->has_imbalance_qp |= step->has_imbalance_qp;
    for (int t = 0; t < K3_TRAFFIC_COUNT; t++) {
        add_sums(&work->sum[t], &step->sum[t]);
    }
}

/* To the mean over n steps, counts to the nearest. */
static void mean_of_steps(k3_work_t *work, uint64_t n)
{
    uint64_t *counts[] = {&work->rows_dispatched, &work->assignments, &work->dedup_rows,
                          &work->node_rows};

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        *counts[i] = (*counts[i] + n / 2) / n;
    }
    for (int t = 0; t < K3_TRAFFIC_COUNT; t++) {
        k3_traffic_sum_t *s = &work->sum[t];
        uint64_t         *sums[] = {
                    &s->messages,       &s->signals,     &s->doorbells,       &s->payload,      &s->wire,
                    &s->payload_remote, &s->wire_remote, &s->payload_network, &s->wire_network, &s->lanes};

        for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
            *sums[i] = *sums[i] == K3_DOORBELLS_UNKNOWN ? *sums[i] : (*sums[i] + n / 2) / n;
        }
    }
    work->imbalance_expert /= (double)n;
    work->imbalance_rank /= (double)n;
    work->imbalance_qp /= (double)n;
}

static void finish_work(const k3_cell_t *cell, k3_work_t *work)
{
    work->rows_global = cell->layout.rows_global;
    work->rows_padding = cell->layout.rows_padding;
    work->dispatches =
        cell->profile->copy != K3_COPY_NONE && cell->profile->copy != K3_COPY_REPLICATE;
    work->dispatch_ratio =
        work->rows_global > 0 ? (double)work->rows_dispatched / (double)work->rows_global : 0.0;
    work->expected = cell->expected;
    work->has_imbalance_expert = work->assignments > 0 && !cell->expected;
    work->has_imbalance_rank = work->has_imbalance_expert && work->dispatches;
    work->has_imbalance_qp = work->has_imbalance_qp && !cell->expected;
    work->imbalance_rank = work->has_imbalance_rank ? work->imbalance_rank : 0.0;
}

k3_status_t k3_work_plan_seen(const k3_cell_t *cell, k3_work_t *work, k3_flow_visit_t visit,
                              void *arg, k3_error_t *err)
{
    uint64_t  steps = k3_routing_steps(cell->routing);
    k3_work_t step;

    memset(work, 0, sizeof(*work));
    for (uint64_t s = 0; s < steps && err->status == K3_OK; s++) {
        k3_routing_select(cell->routing, s);
        if (plan_step(cell, &step, visit, arg, err) == K3_OK) {
            add_step(work, &step);
        }
    }
    k3_routing_select(cell->routing, 0);
    if (err->status == K3_OK) {
        mean_of_steps(work, steps);
        finish_work(cell, work);
    }
    return err->status;
}

k3_status_t k3_work_plan(const k3_cell_t *cell, k3_work_t *work, k3_error_t *err)
{
    return k3_work_plan_seen(cell, work, NULL, NULL, err);
}
