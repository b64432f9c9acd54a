/* The lanes of all ranks, each held against its plan by the rank that counted on it. */
#include <stdlib.h>

#include "bench/region/collect.h"
#include "harness/base/memory.h"

typedef struct planned {
    const k3_region_t *region;
    k3_flow_t *
        flows; /* [pushed, pulled][traffic][peer][qp] of what this rank executes, over all iterations */
    uint32_t qps;
    uint64_t times; /* iterations of the step at hand */
    uint8_t *cut;   /* [R][R]: who has masked whom, or is dead */
} planned_t;

static uint64_t planned_lanes(const planned_t *p)
{
    return (uint64_t)2 * K3_TRAFFIC_COUNT * p->region->cell->layout.tp * p->qps;
}

static k3_flow_t *planned_at(const planned_t *p, bool pulled, int traffic, uint32_t peer,
                             uint32_t qp)
{
    uint64_t phase = (uint64_t)pulled * K3_TRAFFIC_COUNT + (uint64_t)traffic;

    return &p->flows[(phase * p->region->cell->layout.tp + peer) * p->qps + qp];
}

static void keep_own(const k3_flow_t *flow, void *arg)
{
    planned_t *p = arg;
    uint32_t   here = flow->pulled ? flow->dst : flow->src;
    uint32_t   peer = flow->pulled ? flow->src : flow->dst;
    k3_flow_t *kept = planned_at(p, flow->pulled, (int)flow->phase, peer, flow->qp);

    if (here != (uint32_t)p->region->world->rank) {
        return;
    }
    kept->messages += flow->messages * p->times;
    kept->signals += flow->signals * p->times;
    kept->doorbells = flow->doorbells == K3_DOORBELLS_UNKNOWN
                          ? flow->doorbells
                          : kept->doorbells + flow->doorbells * p->times;
    kept->payload += flow->payload * p->times;
    kept->wire += flow->wire * p->times;
    kept->signals_spare += flow->signals_spare * p->times;
    kept->wire_spare += flow->wire_spare * p->times;
    kept->payload_spare += flow->payload_spare * p->times;
}

/* What the iterations of one step of the routing move. */
static k3_status_t plan_step(planned_t *p, uint64_t step, k3_error_t *err)
{
    const k3_cell_t *cell = p->region->cell;
    k3_traffic_t     traffic = {0};

    p->times = p->region->booked[step] * p->region->pairs;
    if (p->times == 0) {
        return K3_OK;
    }
    k3_routing_select(cell->routing, step);
    if (k3_traffic_open(cell, &traffic, err) == K3_OK) {
        for (uint32_t origin = 0; origin < cell->layout.tp; origin++) {
            k3_traffic_origin(&traffic, origin, keep_own, p);
        }
        k3_traffic_close(&traffic);
    }
    return err->status;
}

static k3_status_t plan_own(planned_t *p, k3_error_t *err)
{
    uint64_t steps = k3_routing_steps(p->region->cell->routing);

    k3_alloc("planned lanes", planned_lanes(p), sizeof(k3_flow_t), &p->flows, err);
    for (uint64_t step = 0; step < steps && err->status == K3_OK; step++) {
        plan_step(p, step, err);
    }
    return err->status;
}

/* All in n iterations. `spare`: so many of the planned ones may be missing. */
static void expect(const k3_lane_row_t *row, const char *what, uint64_t got, uint64_t want,
                   uint64_t spare, uint64_t n, k3_error_t *mismatch)
{
    if (got > want || got < want - spare) {
        k3_fail(mismatch, K3_ERR_CHECK,
                "%s %d -> %d QP %d: %llu %s in %llu iterations, planned %s%llu",
                k3_traffic_names[row->phase], row->src, row->dst, row->qp, (unsigned long long)got,
                what, (unsigned long long)n, spare > 0 ? "at most " : "", (unsigned long long)want);
    }
}

static void compare_lane(const k3_lane_row_t *row, const k3_lane_stats_t *got,
                         const k3_flow_t *want, uint64_t n, k3_error_t *mismatch)
{
    expect(row, "messages", got->messages, want->messages, 0, n, mismatch);
    expect(row, "signals", got->signals, want->signals, want->signals_spare, n, mismatch);
    expect(row, "payload bytes", got->bytes_payload, want->payload, want->payload_spare, n,
           mismatch);
    expect(row, "wire bytes", got->bytes_wire, want->wire, want->wire_spare, n, mismatch);
    if (want->doorbells != K3_DOORBELLS_UNKNOWN) {
        expect(row, "doorbells", got->doorbells, want->doorbells, want->signals_spare, n, mismatch);
    }
}

static void fill_row(k3_lane_row_t *row, const k3_lane_stats_t *s, uint64_t n)
{
    row->messages = s->messages / n;
    row->signals = s->signals / n;
    row->doorbells = s->doorbells / n;
    row->payload = s->bytes_payload / n;
    row->wire = s->bytes_wire / n;
    row->first_post_us = s->spans > 0 ? s->first_post_us / (double)s->spans : 0.0;
    row->last_done_us = s->spans > 0 ? s->last_done_us / (double)s->spans : 0.0;
    row->busy_us = s->spans > 0 ? s->busy_us / (double)s->spans : 0.0;
    if (s->hist != NULL) {
        row->p50_us = k3_hist_percentile(s->hist, 0.50) / 1e3;
        row->p99_us = k3_hist_percentile(s->hist, 0.99) / 1e3;
        row->max_us = (double)s->hist->max / 1e3;
    }
}

/* What goes between ranks of which one is dead, or has masked the other, is not planned. */
static bool is_cut(const planned_t *p, int a, int b)
{
    int ranks = p->region->world->size;

    return p->cut != NULL && (p->cut[a * ranks + b] || p->cut[b * ranks + a]);
}

/* Collective. */
static k3_status_t find_cuts(planned_t *p, k3_error_t *err)
{
    const k3_region_t *r = p->region;
    const k3_mask_t   *masks;
    int                ranks = r->world->size, rank = r->world->rank;

    if (r->limit_s <= 0.0) {
        return K3_OK;
    }
    k3_alloc("masks of all ranks", (uint64_t)ranks * (uint64_t)ranks, 1, &p->cut, err);
    if (k3_world_agree(r->world, err) != K3_OK) {
        return err->status;
    }
    masks = r->ops->masks(r->engine);
    for (int peer = 0; peer < ranks; peer++) {
        p->cut[rank * ranks + peer] = r->spans.dead || masks[peer].call != 0;
    }
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, p->cut, ranks, MPI_BYTE, r->world->comm);
    return K3_OK;
}

/* One lane, as it is planned and as it was measured; true when it has traffic. */
static bool list_lane(const planned_t *p, k3_qps_t *qps, uint64_t n, const k3_flow_t *want,
                      k3_lane_row_t *row, k3_error_t *mismatch)
{
    int             self = p->region->world->rank;
    int             peer = row->dst;
    k3_lane_stats_t got;

    k3_qps_lane_stats(qps, (unsigned)row->phase, peer, (unsigned)row->qp, row->pulled, &got);
    row->kind = k3_qps_kind(qps, peer);
    row->src = row->pulled ? peer : self;
    row->dst = row->pulled ? self : peer;
    if (!is_cut(p, self, peer)) {
        compare_lane(row, &got, want, n, mismatch);
    }
    fill_row(row, &got, n);
    return got.messages + got.signals + want->messages + want->signals > 0;
}

/* Lanes with traffic, planned or measured; every one is held against the plan. */
static uint64_t list_lanes(const planned_t *p, k3_qps_t *qps, uint64_t n, k3_lane_row_t *rows,
                           k3_error_t *mismatch)
{
    uint32_t ranks = p->region->cell->layout.tp;
    uint64_t count = 0;

    for (int way = 0; way < 2; way++) {
        for (int t = 0; t < K3_TRAFFIC_COUNT; t++) {
            for (uint32_t peer = 0; peer < ranks; peer++) {
                for (uint32_t qp = 0; qp < p->qps; qp++) {
                    k3_lane_row_t row = {
                        .phase = t, .dst = (int32_t)peer, .qp = (int32_t)qp, .pulled = way == 1};

                    if (list_lane(p, qps, n, planned_at(p, way == 1, t, peer, qp), &row,
                                  mismatch)) {
                        rows[count++] = row;
                    }
                }
            }
        }
    }
    return count;
}

/* --- lanes on which two ranks count ----------------------------------------------------------- */

static int by_lane(const void *a, const void *b)
{
    const k3_lane_row_t *x = *(const k3_lane_row_t *const *)a;
    const k3_lane_row_t *y = *(const k3_lane_row_t *const *)b;
    const int32_t        of_x[] = {x->phase, x->src, x->dst, x->qp};
    const int32_t        of_y[] = {y->phase, y->src, y->dst, y->qp};

    for (int i = 0; i < 4; i++) {
        if (of_x[i] != of_y[i]) {
            return of_x[i] < of_y[i] ? -1 : 1;
        }
    }
    return 0;
}

static void add_counts(k3_lane_row_t *row, const k3_lane_row_t *more)
{
    row->messages += more->messages;
    row->signals += more->signals;
    row->doorbells += more->doorbells;
    row->payload += more->payload;
    row->wire += more->wire;
}

/* What the source posted and what the destination read. Of two that both have messages the times are those of the
 * later one; each rank knows its own. */
static void join_rows(k3_lane_row_t *row, const k3_lane_row_t *read)
{
    k3_lane_row_t posted = *row;
    bool          later = posted.messages == 0 || read->last_done_us > posted.last_done_us;

    *row = later ? *read : posted;
    row->pulled = false;
    add_counts(row, later ? &posted : read);
}

/* A lane is one row, also where its source signals and its destination reads. */
static k3_status_t join_reads(k3_lane_row_t *rows, uint64_t *count, k3_error_t *err)
{
    k3_lane_row_t **posted = NULL;
    uint64_t        known = 0, kept = 0;

    if (k3_alloc("lanes", *count, sizeof(*posted), &posted, err) != K3_OK) {
        return err->status;
    }
    for (uint64_t i = 0; i < *count; i++) {
        if (!rows[i].pulled) {
            posted[known++] = &rows[i];
        }
    }
    qsort(posted, known, sizeof(*posted), by_lane);
    for (uint64_t i = 0; i < *count && known < *count; i++) {
        const k3_lane_row_t *key = &rows[i];
        k3_lane_row_t      **found =
            key->pulled ? bsearch(&key, posted, known, sizeof(*posted), by_lane) : NULL;

        if (found != NULL) {
            join_rows(*found, key);
            rows[i].phase = -1; /* joined */
        }
    }
    for (uint64_t i = 0; i < *count; i++) {
        if (rows[i].phase >= 0) {
            rows[kept++] = rows[i];
        }
    }
    *count = kept;
    k3_free(posted);
    return err->status;
}

/* --- all ranks --------------------------------------------------------------------------------- */

k3_status_t k3_collect_lanes(const k3_region_t *r, k3_qps_t *qps, k3_measurement_t *out,
                             k3_error_t *err)
{
    planned_t      p = {.region = r, .qps = k3_qps_per_peer(qps)};
    k3_lane_row_t *rows = NULL;
    uint64_t       own = 0;

    if (find_cuts(&p, err) == K3_OK && plan_own(&p, err) == K3_OK) {
        k3_alloc("lane rows", planned_lanes(&p), sizeof(*rows), &rows, err);
    }
    if (k3_world_agree(r->world, err) == K3_OK) {
        k3_error_t mismatch = K3_ERROR_INIT;

        own = list_lanes(&p, qps, out->iterations * r->pairs, rows, &mismatch);
        k3_world_agree(r->world, &mismatch);
        out->has_lanes = true;
        out->mismatch = mismatch;
        out->matches_plan = mismatch.status == K3_OK;
        k3_gather_items(r->world, rows, own, sizeof(*rows), &out->lanes, &out->lane_count, err);
        if (err->status == K3_OK && r->world->rank == 0) {
            join_reads(out->lanes, &out->lane_count, err);
        }
        k3_world_agree(r->world, err);
    }
    k3_free(rows);
    k3_free(p.cut);
    k3_free(p.flows);
    return err->status;
}
