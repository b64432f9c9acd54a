#include "bench/region/timeline.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/base/memory.h"
#include "harness/base/stats.h"

k3_status_t k3_timeline_open(k3_timeline_t *t, k3_sync_t *sync, k3_error_t *err)
{
    *t = (k3_timeline_t){.sync = sync, .every = 1};
    return sync == NULL ? K3_OK
                        : k3_alloc("remembered iterations", K3_TIMELINE_TAKEN, sizeof(*t->taken),
                                   &t->taken, err);
}

void k3_timeline_close(k3_timeline_t *t)
{
    k3_free(t->taken);
    memset(t, 0, sizeof(*t));
}

/* --- while it lasts -------------------------------------------------------------------------- */

/* Every second one goes: the others stay evenly spread. */
static void thin(k3_timeline_t *t)
{
    t->every *= 2;
    for (uint64_t i = 0; i < t->count; i += 2) {
        t->taken[i / 2] = t->taken[i];
    }
    t->count = (t->count + 1) / 2;
}

void k3_timeline_note(k3_timeline_t *t, const k3_spans_t *spans, uint64_t n)
{
    k3_timeline_iteration_t *i;

    if (t->sync == NULL || n % t->every != 0) {
        return;
    }
    if (t->count == K3_TIMELINE_TAKEN) {
        thin(t); /* n is a multiple of the doubled distance: count and it are powers of two */
    }
    i = &t->taken[t->count++];
    i->number = n;
    i->placed = false;
    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        i->phase[p] = (k3_timeline_phase_t){NAN, NAN, 0.0};
        if (spans->used[p]) {
            i->phase[p] = (k3_timeline_phase_t){k3_sync_local(t->sync, spans->first[p]),
                                                k3_sync_local(t->sync, spans->last[p]),
                                                k3_clock_us(spans->ticks[p])};
        }
    }
}

void k3_timeline_place(k3_timeline_t *t)
{
    for (uint64_t i = 0; i < t->count; i++) {
        k3_timeline_iteration_t *taken = &t->taken[i];

        for (int p = 0; p < K3_PHASE_COUNT && !taken->placed; p++) {
            taken->phase[p].begin = k3_sync_global(t->sync, taken->phase[p].begin);
            taken->phase[p].end = k3_sync_global(t->sync, taken->phase[p].end);
        }
        taken->placed = true;
    }
}

/* --- at the end ------------------------------------------------------------------------------ */

uint64_t k3_timeline_choose(const k3_timeline_t *t, const double *us, double median)
{
    uint64_t best = 0;

    for (uint64_t i = 1; i < t->count; i++) {
        if (fabs(us[t->taken[i].number] - median) < fabs(us[t->taken[best].number] - median)) {
            best = i;
        }
    }
    return best;
}

static int slowest(const k3_timeline_phase_t *all, int ranks, k3_phase_t headline)
{
    int best = 0;

    for (int r = 1; r < ranks; r++) {
        if (all[r * K3_PHASE_COUNT + headline].own_us >
            all[best * K3_PHASE_COUNT + headline].own_us) {
            best = r;
        }
    }
    return best;
}

static double earliest(const k3_timeline_phase_t *all, int ranks)
{
    double first = INFINITY;

    for (int i = 0; i < ranks * K3_PHASE_COUNT; i++) {
        first = fmin(first, all[i].begin); /* NaN: the other one */
    }
    return first;
}

/* Evenly spread ranks, and the slowest one. */
static k3_status_t keep_rows(const k3_timeline_phase_t *all, int ranks, k3_phase_t headline,
                             k3_timeline_result_t *result, k3_error_t *err)
{
    int    step = (ranks + K3_TIMELINE_RANKS - 1) / K3_TIMELINE_RANKS;
    int    late = slowest(all, ranks, headline);
    double first = earliest(all, ranks);

    if (k3_alloc("timeline", ((uint64_t)ranks / (uint64_t)step + 2) * K3_PHASE_COUNT,
                 sizeof(*result->row), &result->row, err) != K3_OK) {
        return err->status;
    }
    for (int r = 0; r < ranks; r++) {
        if (r % step != 0 && r != late) {
            continue;
        }
        result->ranks_kept++;
        for (int p = 0; p < K3_PHASE_COUNT; p++) {
            const k3_timeline_phase_t *at = &all[r * K3_PHASE_COUNT + p];

            if (isfinite(at->begin)) {
                result->row[result->row_count++] = (k3_timeline_row_t){
                    r, p, (at->begin - first) / 1e3, (at->end - first) / 1e3, at->own_us};
            }
        }
    }
    return K3_OK;
}

k3_status_t k3_timeline_collect(const k3_timeline_t *t, const k3_world_t *world, const double *us,
                                uint64_t n, k3_phase_t headline, double *scratch,
                                k3_timeline_result_t *result, k3_error_t *err)
{
    k3_timeline_phase_t *all = NULL;
    k3_summary_t         sum;
    uint64_t             best;

    memset(result, 0, sizeof(*result));
    if (t->sync == NULL || t->count == 0) {
        snprintf(result->reason, sizeof(result->reason), "%s",
                 t->sync == NULL ? "the clocks were not compared" : "no samples");
        return K3_OK;
    }
    k3_summarize(us, n, scratch, &sum);
    best = k3_timeline_choose(t, us, sum.median);
    result->iteration = t->taken[best].number;
    result->headline_us = us[result->iteration];
    if (world->rank == 0) {
        k3_alloc("phases of all ranks", (uint64_t)world->size * K3_PHASE_COUNT, sizeof(*all), &all,
                 err);
    }
    if (k3_world_agree(world, err) == K3_OK) {
        MPI_Gather(t->taken[best].phase, 3 * K3_PHASE_COUNT, MPI_DOUBLE, all, 3 * K3_PHASE_COUNT,
                   MPI_DOUBLE, 0, world->comm);
        if (world->rank == 0) {
            keep_rows(all, world->size, headline, result, err);
        }
    }
    k3_free(all);
    return k3_world_agree(world, err);
}
