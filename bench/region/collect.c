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
    k3_gather_items(r->world, own, sort_carriers(own, peers), sizeof(*own), &all, &count, err);
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
        k3_gather_items(r->world, rows, own, sizeof(*rows), &out->waits, &out->wait_count, err);
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
        k3_gather_items(r->world, rows, own, sizeof(*rows), &out->masks, &out->mask_count, err);
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
            k3_collect_lanes(region, qps, out, err) != K3_OK) {
            return err->status;
        }
    }
    return collect_waits(region, out, err) == K3_OK ? collect_faults(region, out, err)
                                                    : err->status;
}
