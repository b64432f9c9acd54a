/* No all-to-all: every rank was given every row (the gather is the region's phase dp_gather), runs
 * the experts that it holds and leaves a partial sum for each row; the region reduces these over
 * tp. */
#include <string.h>

#include "bench/engines/engine.h"
#include "bench/plan/cell_rows.h"
#include "harness/base/memory.h"

typedef struct gather_engine {
    k3_engine_env_t  env;
    uint32_t         local, first; /* experts held */
    uint64_t         capacity;     /* (row, local expert) pairs */
    uint64_t         rows_cap;
    uint64_t        *begin;   /* [local + 1] of the pairs of an expert */
    uint64_t        *fill;    /* [local] */
    const void     **values;  /* [capacity] rows, grouped by expert */
    uint16_t       **out;     /* [capacity] results, likewise */
    uint16_t        *results; /* [capacity][L] */
    const uint16_t **of_row;  /* [rows][K] result of a selection, NULL: another rank holds it */
} gather_engine_t;

static void gather_destroy(void *engine)
{
    gather_engine_t *e = engine;

    k3_free(e->of_row);
    k3_compute_free(e->env.compute, e->results);
    k3_free(e->out);
    k3_free(e->values);
    k3_free(e->fill);
    k3_free(e->begin);
    k3_free(e);
}

static k3_status_t gather_create(const k3_engine_env_t *env, void **engine_p, k3_error_t *err)
{
    const k3_cell_t *cell = env->cell;
    uint32_t         rank = (uint32_t)env->world->rank;
    uint64_t         selections = cell->layout.rows_global * cell->model.topk;
    gather_engine_t *e;

    if (k3_alloc("gather engine", 1, sizeof(*e), &e, err) != K3_OK) {
        return err->status;
    }
    e->env = *env;
    e->local = k3_layout_local_experts(&cell->layout, &cell->model);
    e->first = k3_layout_first_expert(&cell->layout, &cell->model, rank);
    e->capacity = k3_rows_arriving(cell, rank);
    e->rows_cap = cell->layout.rows_global;
    if (k3_alloc("expert ranges", (uint64_t)e->local + 1, sizeof(uint64_t), &e->begin, err) !=
            K3_OK ||
        k3_alloc("expert ranges", e->local, sizeof(uint64_t), &e->fill, err) != K3_OK ||
        k3_alloc("row pointers", e->capacity, sizeof(void *), &e->values, err) != K3_OK ||
        k3_alloc("row pointers", e->capacity, sizeof(void *), &e->out, err) != K3_OK ||
        k3_compute_alloc(env->compute, "expert results", e->capacity,
                         (uint64_t)cell->model.latent * 2, false, &e->results, err) != K3_OK ||
        k3_alloc("result of each selection", selections, sizeof(void *), &e->of_row, err) !=
            K3_OK) {
        gather_destroy(e);
        return err->status;
    }
    *engine_p = e;
    return K3_OK;
}

static bool is_local(const gather_engine_t *e, int32_t id)
{
    return id >= 0 && (uint32_t)id >= e->first && (uint32_t)id < e->first + e->local;
}

/* Groups the selections that this rank holds by expert, rows in order. */
static k3_status_t group(gather_engine_t *e, const k3_rows_t *rows, k3_error_t *err)
{
    uint32_t topk = e->env.cell->model.topk, width = e->env.cell->model.latent;
    uint64_t pairs = 0;

    memset(e->fill, 0, e->local * sizeof(uint64_t));
    for (uint64_t i = 0; i < rows->count * topk; i++) {
        if (is_local(e, rows->ids[i])) {
            e->fill[(uint32_t)rows->ids[i] - e->first]++;
            pairs++;
        }
    }
    if (pairs > e->capacity || rows->count > e->rows_cap) {
        return k3_fail(err, K3_ERR_CHECK,
                       "%llu selections of %llu rows are more than the %llu planned",
                       (unsigned long long)pairs, (unsigned long long)rows->count,
                       (unsigned long long)e->capacity);
    }
    for (uint32_t x = 0; x < e->local; x++) {
        e->begin[x + 1] = e->begin[x] + e->fill[x];
        e->fill[x] = e->begin[x];
    }
    for (uint64_t i = 0; i < rows->count * topk; i++) {
        e->of_row[i] = NULL;
        if (is_local(e, rows->ids[i])) {
            uint64_t at = e->fill[(uint32_t)rows->ids[i] - e->first]++;
            e->values[at] = rows->latent + i / topk * width;
            e->out[at] = e->results + at * width;
            e->of_row[i] = e->out[at];
        }
    }
    return K3_OK;
}

/* Nothing moves: sorting out the local selections is all there is to wait for. */
static k3_status_t gather_dispatch(void *engine, const k3_rows_t *rows, k3_error_t *err)
{
    gather_engine_t *e = engine;

    k3_span_begin(e->env.spans, K3_PHASE_DISPATCH_WAIT);
    group(e, rows, err);
    k3_span_end(e->env.spans, K3_PHASE_DISPATCH_WAIT);
    return err->status;
}

static void gather_expert(void *engine, uint32_t local_expert, k3_expert_rows_t *work)
{
    gather_engine_t *e = engine;
    uint64_t         at = e->begin[local_expert];

    *work = (k3_expert_rows_t){e->begin[local_expert + 1] - at, K3_FORMAT_BF16, e->values + at,
                               NULL, e->out + at};
}

static k3_status_t gather_combine(void *engine, const k3_rows_t *rows, uint16_t *combined,
                                  k3_error_t *err)
{
    gather_engine_t *e = engine;
    uint32_t         topk = e->env.cell->model.topk, width = e->env.cell->model.latent;

    k3_span_begin(e->env.spans, K3_PHASE_COMBINE_REDUCE);
    e->env.compute->ops->combine(e->env.compute, e->of_row, rows->weights, rows->count, topk, width,
                                 combined);
    k3_span_end(e->env.spans, K3_PHASE_COMBINE_REDUCE);
    return e->env.compute->ops->finish(e->env.compute, err);
}

static k3_qps_t *gather_qps(void *engine)
{
    (void)engine;
    return NULL;
}

const k3_engine_ops_t k3_engine_gather = {
    .version = K3_ENGINE_VERSION,
    .name = "gather",
    .create = gather_create,
    .destroy = gather_destroy,
    .dispatch = gather_dispatch,
    .expert = gather_expert,
    .combine = gather_combine,
    .qps = gather_qps,
    .refuses_device = k3_engine_refuses_nothing,
};
