#include "bench/region/span.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/base/memory.h"

/* Two ranks' clocks are each off by the error. Above this share of the median there is no span. */
static const double largest_share = 0.10;

/* The experts, where they are all that is asked for, in one stretch of this clock. */
static bool are_experts(const k3_region_t *r, int phase)
{
    return phase == K3_PHASE_EXPERT_MLP && r->cell->component == K3_COMPONENT_EXPERTS &&
           r->ops->fused == NULL && !r->cell->on_device;
}

/* In a chain a rank enters the parts many times; the dispatch without accounts is no span of its own. */
static bool is_kept(const k3_region_t *r, int phase)
{
    if (are_experts(r, phase)) {
        return true;
    }
    return phase >= K3_PHASE_DISPATCH && phase != K3_PHASE_UNBOOKED &&
           (r->pairs == 1 || phase == K3_PHASE_CHAIN);
}

k3_status_t k3_spans_global_open(k3_spans_global_t *g, k3_sync_t *sync, const k3_region_t *region,
                                 uint64_t capacity, k3_error_t *err)
{
    k3_sync_quality_t quality;

    memset(g, 0, sizeof(*g));
    g->sync = sync;
    for (int p = 0; p < K3_PHASE_COUNT && sync != NULL; p++) {
        if (is_kept(region, p) &&
            (k3_alloc("span samples", capacity, sizeof(double), &g->begin[p], err) != K3_OK ||
             k3_alloc("span samples", capacity, sizeof(double), &g->end[p], err) != K3_OK)) {
            return err->status;
        }
    }
    if (sync != NULL) {
        k3_sync_quality(sync, &quality);
        g->steps = quality.steps;
    }
    return K3_OK;
}

void k3_spans_global_close(k3_spans_global_t *g)
{
    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        k3_free(g->end[p]);
        k3_free(g->begin[p]);
    }
    memset(g, 0, sizeof(*g));
}

void k3_spans_global_note(k3_spans_global_t *g, const k3_spans_t *spans, uint64_t n)
{
    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        if (g->begin[p] != NULL && spans->used[p]) {
            g->begin[p][n] = k3_sync_local(g->sync, spans->begin[p]);
            g->end[p][n] = k3_sync_local(g->sync, spans->begin[p] + spans->ticks[p]);
        }
    }
}

void k3_spans_global_place(k3_spans_global_t *g, uint64_t n)
{
    k3_sync_quality_t quality;

    if (g->sync == NULL) {
        return;
    }
    k3_sync_refit(g->sync);
    k3_sync_quality(g->sync, &quality);
    g->error_us = fmax(g->error_us, quality.error);
    g->stepped = g->stepped || quality.steps != g->steps;
    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        for (uint64_t i = g->placed; g->begin[p] != NULL && i < n; i++) {
            g->begin[p][i] = k3_sync_global(g->sync, g->begin[p][i]);
            g->end[p][i] = k3_sync_global(g->sync, g->end[p][i]);
        }
    }
    g->placed = n;
}

static void judge(const k3_spans_global_t *g, k3_span_result_t *result)
{
    double error = 2.0 * g->error_us;

    if (g->stepped) {
        snprintf(result->reason, sizeof(result->reason), "a clock jumped");
    } else if (error > largest_share * result->summary.median) {
        snprintf(result->reason, sizeof(result->reason),
                 "the clocks agree to %.3g us, that is above 10 %% of the median, %.4g us", error,
                 result->summary.median);
    } else {
        result->valid = true;
    }
}

void k3_spans_global_collect(const k3_spans_global_t *g, const k3_world_t *world, k3_phase_t phase,
                             uint64_t n, unsigned parts, double *own, double *scratch,
                             k3_span_result_t *result)
{
    memset(result, 0, sizeof(*result));
    if (g->begin[phase] == NULL || n == 0) {
        snprintf(result->reason, sizeof(result->reason), "%s",
                 g->sync == NULL ? "the clocks were not compared"
                 : n == 0        ? "no samples"
                                 : "not one stretch of time on a rank");
        return;
    }
    MPI_Reduce(g->begin[phase], own, (int)n, MPI_DOUBLE, MPI_MIN, 0, world->comm);
    MPI_Reduce(g->end[phase], scratch, (int)n, MPI_DOUBLE, MPI_MAX, 0, world->comm);
    if (world->rank == 0) {
        for (uint64_t i = 0; i < n; i++) {
            /* Clocks that are a little off could give less than nothing. */
            own[i] = fmax(scratch[i] - own[i], 0.0) / 1e3 / parts;
        }
        k3_summarize(own, n, scratch, &result->summary);
        judge(g, result);
    }
}
