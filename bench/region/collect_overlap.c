/* What engines that overlap dispatch, experts and combine have hidden. */
#include "bench/region/collect.h"
#include "harness/base/memory.h"

enum { PARTS = 4 };

_Static_assert(sizeof(k3_overlap_us_t) == PARTS * sizeof(double), "reduced as an array");

typedef struct longest {
    double us;
    int    rank;
} longest_t; /* MPI_DOUBLE_INT */

/* In *all at rank 0: for each iteration the values of the rank with the longest span. */
static k3_status_t pick_longest(const k3_region_t *r, const k3_overlap_us_t *own, uint64_t n,
                                k3_overlap_us_t *mine, k3_overlap_us_t *all, longest_t *longest,
                                k3_error_t *err)
{
    for (uint64_t i = 0; i < n; i++) {
        longest[i] = (longest_t){own[i].span, r->world->rank};
    }
    if (MPI_Allreduce(MPI_IN_PLACE, longest, (int)n, MPI_DOUBLE_INT, MPI_MAXLOC, r->world->comm) !=
        MPI_SUCCESS) {
        return k3_fail(err, K3_ERR_ENV, "MPI_Allreduce failed");
    }
    for (uint64_t i = 0; i < n; i++) {
        mine[i] = longest[i].rank == r->world->rank ? own[i] : (k3_overlap_us_t){0};
    }
    if (MPI_Reduce(mine, all, (int)n * PARTS, MPI_DOUBLE, MPI_SUM, 0, r->world->comm) !=
        MPI_SUCCESS) {
        return k3_fail(err, K3_ERR_ENV, "MPI_Reduce failed");
    }
    return K3_OK;
}

static double median(double *values, double *scratch, uint64_t n)
{
    k3_summary_t summary;

    k3_summarize(values, n, scratch, &summary);
    return summary.median;
}

void k3_overlap_summarize(const k3_overlap_us_t *all, uint64_t n, double *values,
                          k3_overlap_result_t *result)
{
    double *scratch = values + n, *own = &result->own.dispatch;

    for (unsigned part = 0; part < PARTS; part++) {
        for (uint64_t i = 0; i < n; i++) {
            values[i] = (&all[i].dispatch)[part];
        }
        own[part] = median(values, scratch, n);
    }
    for (uint64_t i = 0; i < n; i++) {
        values[i] = all[i].dispatch + all[i].expert + all[i].combine - all[i].span;
        result->nothing = (i == 0 || result->nothing) && values[i] == 0.0;
    }
    result->hidden = median(values, scratch, n);
    result->present = true;
}

k3_status_t k3_collect_overlap(const k3_region_t *r, const k3_overlap_us_t *own,
                               uint64_t iterations, k3_overlap_result_t *result, k3_error_t *err)
{
    k3_overlap_us_t *mine = NULL, *all = NULL;
    longest_t       *longest = NULL;
    double          *values = NULL;

    if (k3_alloc("overlap", iterations, sizeof(*mine), &mine, err) == K3_OK &&
        k3_alloc("overlap", iterations, sizeof(*all), &all, err) == K3_OK &&
        k3_alloc("overlap", iterations, sizeof(*longest), &longest, err) == K3_OK) {
        k3_alloc("overlap", iterations, 2 * sizeof(*values), &values, err);
    }
    if (k3_world_agree(r->world, err) == K3_OK &&
        pick_longest(r, own, iterations, mine, all, longest, err) == K3_OK && r->world->rank == 0) {
        k3_overlap_summarize(all, iterations, values, result);
    }
    k3_free(values);
    k3_free(longest);
    k3_free(all);
    k3_free(mine);
    return k3_world_agree(r->world, err);
}
