#include "bench/region/collect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/base/memory.h"
#include "harness/base/text.h"

/* --- phases ---------------------------------------------------------------------------------- */

typedef struct timed {
    double us;
    int    rank;
} timed_t; /* MPI_DOUBLE_INT */

static int most_often(const timed_t *slowest, uint64_t n, uint32_t *count, int ranks)
{
    int best = 0;

    memset(count, 0, (size_t)ranks * sizeof(*count));
    for (uint64_t i = 0; i < n; i++) {
        count[slowest[i].rank]++;
    }
    for (int r = 1; r < ranks; r++) {
        best = count[r] > count[best] ? r : best;
    }
    return best;
}

/* The first of the longest samples: where, and whose. */
static void find_longest(k3_phase_result_t *phase, const timed_t *slowest, uint64_t n)
{
    uint64_t longest = 0;

    for (uint64_t i = 1; i < n; i++) {
        longest = slowest[i].us > slowest[longest].us ? i : longest;
    }
    phase->max_iteration = longest + 1;
    phase->max_rank = slowest[longest].rank;
}

static k3_status_t summarize_phase(k3_phase_result_t *phase, const timed_t *slowest, uint64_t n,
                                   uint32_t *count, int ranks, k3_error_t *err)
{
    double *scratch;

    if (k3_alloc("samples", n, sizeof(double), &phase->samples, err) != K3_OK ||
        k3_alloc("samples", n, sizeof(double), &scratch, err) != K3_OK) {
        return err->status;
    }
    for (uint64_t i = 0; i < n; i++) {
        phase->samples[i] = slowest[i].us;
    }
    k3_summarize(phase->samples, n, scratch, &phase->summary);
    phase->slowest_rank = most_often(slowest, n, count, ranks);
    find_longest(phase, slowest, n);
    k3_free(scratch);
    return K3_OK;
}

static k3_status_t collect_phases(const k3_region_t *r, double *const *local, k3_measurement_t *out,
                                  k3_error_t *err)
{
    uint64_t  n = out->iterations;
    timed_t  *own = NULL, *slowest = NULL;
    uint32_t *count = NULL;

    if (k3_alloc("samples", n, sizeof(timed_t), &own, err) == K3_OK &&
        k3_alloc("samples", n, sizeof(timed_t), &slowest, err) == K3_OK) {
        k3_alloc("rank counts", (uint64_t)r->world->size, sizeof(uint32_t), &count, err);
    }
    if (k3_world_agree(r->world, err) == K3_OK) {
        for (int p = 0; p < K3_PHASE_COUNT && err->status == K3_OK; p++) {
            for (uint64_t i = 0; i < n; i++) {
                own[i] = (timed_t){local[p][i], r->world->rank};
            }
            MPI_Reduce(own, slowest, (int)n, MPI_DOUBLE_INT, MPI_MAXLOC, 0, r->world->comm);
            if (r->world->rank == 0 && slowest[0].us >= 0.0) {
                out->phase[p].present = true;
                summarize_phase(&out->phase[p], slowest, n, count, r->world->size, err);
            }
        }
    }
    k3_free(count);
    k3_free(slowest);
    k3_free(own);
    return k3_world_agree(r->world, err);
}

/* --- lanes ----------------------------------------------------------------------------------- */

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

/* Gathers `count` items of `size` bytes of each rank to rank 0, in rank order. */
static k3_status_t gather_items(const k3_world_t *world, const void *items, uint64_t count,
                                size_t size, void *all_p, uint64_t *all_count, k3_error_t *err)
{
    MPI_Datatype type;
    int         *counts = NULL, *at = NULL;
    int          own = (int)count;
    void        *all = NULL;

    if (k3_alloc("counts", (uint64_t)world->size, sizeof(int), &counts, err) == K3_OK) {
        k3_alloc("counts", (uint64_t)world->size, sizeof(int), &at, err);
    }
    if (k3_world_agree(world, err) == K3_OK) {
        MPI_Gather(&own, 1, MPI_INT, counts, 1, MPI_INT, 0, world->comm);
        *all_count = 0;
        for (int r = 0; r < world->size && world->rank == 0; r++) {
            at[r] = (int)*all_count;
            *all_count += (uint64_t)counts[r];
        }
        if (world->rank == 0) {
            k3_alloc("gathered rows", *all_count, size, &all, err);
        }
        if (k3_world_agree(world, err) == K3_OK) {
            MPI_Type_contiguous((int)size, MPI_BYTE, &type);
            MPI_Type_commit(&type);
            MPI_Gatherv(items, own, type, all, counts, at, type, 0, world->comm);
            MPI_Type_free(&type);
        }
    }
    *(void **)all_p = all;
    k3_free(at);
    k3_free(counts);
    return err->status;
}

static k3_status_t collect_lanes(const k3_region_t *r, k3_qps_t *qps, k3_measurement_t *out,
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
        gather_items(r->world, rows, own, sizeof(*rows), &out->lanes, &out->lane_count, err);
    }
    k3_free(rows);
    k3_free(p.cut);
    k3_free(p.flows);
    return err->status;
}

/* --- transports ------------------------------------------------------------------------------ */

typedef struct carrier {
    int  kind;
    char name[K3_TRANSPORT_MAX];
} carrier_t;

/* What never leaves the host first. */
static int by_kind_and_name(const void *a, const void *b)
{
    const carrier_t *x = a, *y = b;

    return x->kind != y->kind ? (x->kind > y->kind) - (x->kind < y->kind)
                              : strcmp(x->name, y->name);
}

/* Each once; returns how many are left. */
static uint64_t sort_carriers(carrier_t *items, uint64_t count)
{
    uint64_t kept = 0;

    qsort(items, count, sizeof(*items), by_kind_and_name);
    for (uint64_t i = 0; i < count; i++) {
        if (kept == 0 || by_kind_and_name(&items[kept - 1], &items[i]) != 0) {
            items[kept++] = items[i];
        }
    }
    return kept;
}

static k3_status_t join_carriers(const carrier_t *items, uint64_t count, char **text_p,
                                 k3_error_t *err)
{
    size_t bytes = count * (K3_TRANSPORT_MAX + 2) + 1, used = 0;

    if (k3_alloc("names of transports", bytes, 1, text_p, err) == K3_OK) {
        for (uint64_t i = 0; i < count; i++) {
            used = k3_append(*text_p, bytes, used, "%s%s", i > 0 ? ", " : "", items[i].name);
        }
    }
    return err->status;
}

/* Of all ranks: the first one may share a host with nobody, or with everybody. */
static k3_status_t collect_transports(const k3_region_t *r, k3_qps_t *qps, k3_measurement_t *out,
                                      k3_error_t *err)
{
    uint64_t   peers = (uint64_t)r->world->size, count;
    carrier_t *own, *all = NULL;

    k3_alloc("transports", peers, sizeof(*own), &own, err);
    if (k3_world_agree(r->world, err) != K3_OK) {
        k3_free(own);
        return err->status;
    }
    for (uint64_t p = 0; p < peers; p++) {
        own[p].kind = (int)k3_qps_kind(qps, (int)p);
        snprintf(own[p].name, sizeof(own[p].name), "%s", k3_qps_transport(qps, (int)p));
    }
    gather_items(r->world, own, sort_carriers(own, peers), sizeof(*own), &all, &count, err);
    if (err->status == K3_OK && r->world->rank == 0) {
        join_carriers(all, sort_carriers(all, count), &out->transport, err);
    }
    k3_free(all);
    k3_free(own);
    return k3_world_agree(r->world, err);
}

static void describe_order(k3_qps_t *qps, k3_measurement_t *out)
{
    uint64_t in_use; /* none overtakes then */

    snprintf(out->order, sizeof(out->order), "%s", k3_signal_order_name(k3_qps_order(qps)));
    k3_qps_order_result(qps, &out->order_rounds, &out->order_overtaken, &in_use);
}

/* --- waits, memory, set-up ------------------------------------------------------------------- */

static k3_status_t collect_waits(const k3_region_t *r, k3_measurement_t *out, k3_error_t *err)
{
    uint32_t       ranks = r->cell->layout.tp;
    k3_wait_row_t *rows = NULL;
    uint64_t       own = 0;

    k3_alloc("wait rows", (uint64_t)K3_TRAFFIC_COUNT * ranks, sizeof(*rows), &rows, err);
    if (k3_world_agree(r->world, err) == K3_OK) {
        for (int t = 0; t < K3_TRAFFIC_COUNT; t++) {
            for (uint32_t s = 0; s < ranks; s++) {
                if (r->waits[t][s].count > 0) {
                    rows[own++] = (k3_wait_row_t){t, r->world->rank, (int32_t)s, r->waits[t][s]};
                }
            }
        }
        gather_items(r->world, rows, own, sizeof(*rows), &out->waits, &out->wait_count, err);
    }
    k3_free(rows);
    return err->status;
}

/* Who masked whom and when, and on how many ranks the fault that was asked for came about. */
static k3_status_t collect_faults(const k3_region_t *r, k3_measurement_t *out, k3_error_t *err)
{
    const k3_mask_t *masks = r->limit_s > 0.0 ? r->ops->masks(r->engine) : NULL;
    k3_mask_row_t   *rows = NULL;
    uint64_t         own = 0;
    int              struck = r->spans.struck;

    MPI_Allreduce(MPI_IN_PLACE, &struck, 1, MPI_INT, MPI_SUM, r->world->comm);
    out->struck = struck;
    k3_alloc("masks", (uint64_t)r->world->size, sizeof(*rows), &rows, err);
    if (k3_world_agree(r->world, err) == K3_OK) {
        for (int rank = 0; rank < r->world->size && masks != NULL; rank++) {
            if (masks[rank].call != 0) {
                rows[own++] = (k3_mask_row_t){r->world->rank, rank, masks[rank]};
            }
        }
        gather_items(r->world, rows, own, sizeof(*rows), &out->masks, &out->mask_count, err);
    }
    k3_free(rows);
    return err->status;
}

static void collect_setup(const k3_region_t *r, k3_qps_t *qps, k3_measurement_t *out)
{
    double   us[5] = {r->weights->fill_us, r->setup_queue_pairs_us};
    uint64_t bytes = r->allocated_bytes, calls = out->timed_allocations;

    if (qps != NULL) {
        k3_qps_setup_times(qps, &us[2], &us[3], &us[4]);
    }
    MPI_Allreduce(MPI_IN_PLACE, us, 5, MPI_DOUBLE, MPI_MAX, r->world->comm);
    MPI_Allreduce(&bytes, &out->allocated_bytes, 1, MPI_UINT64_T, MPI_MAX, r->world->comm);
    MPI_Allreduce(&r->device_bytes, &out->device_bytes, 1, MPI_UINT64_T, MPI_MAX, r->world->comm);
    MPI_Allreduce(&calls, &out->timed_allocations, 1, MPI_UINT64_T, MPI_MAX, r->world->comm);
    out->weights_us = us[0];
    out->queue_pairs_us = us[1];
    out->registration_us = us[2];
    out->connection_us = us[3];
    out->selftest_us = us[4];
}

k3_status_t k3_collect(const k3_region_t *region, double *const *local,
                       const k3_overlap_us_t *overlap, k3_measurement_t *out, k3_error_t *err)
{
    k3_qps_t *qps = region->ops->qps(region->engine);

    out->share_cores = region->world->oversubscribed;
    collect_setup(region, qps, out);
    if (collect_phases(region, local, out, err) != K3_OK ||
        (overlap != NULL &&
         k3_collect_overlap(region, overlap, out->iterations, &out->overlap, err) != K3_OK)) {
        return err->status;
    }
    if (qps != NULL) {
        describe_order(qps, out);
        if (collect_transports(region, qps, out, err) != K3_OK ||
            collect_lanes(region, qps, out, err) != K3_OK) {
            return err->status;
        }
    }
    return collect_waits(region, out, err) == K3_OK ? collect_faults(region, out, err)
                                                    : err->status;
}
