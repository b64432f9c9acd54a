/* Moves nothing: every phase is entered and left at once, so the region's time is what the harness
 * and the rest of the region cost. No expert gets rows, the combined rows are zero. */
#include "bench/engines/engine.h"
#include "harness/base/memory.h"

typedef struct null_engine {
    k3_engine_env_t env;
} null_engine_t;

static k3_status_t null_create(const k3_engine_env_t *env, void **engine_p, k3_error_t *err)
{
    null_engine_t *e;

    if (k3_alloc("null engine", 1, sizeof(*e), (void **)&e, err) != K3_OK) {
        return err->status;
    }
    e->env = *env;
    *engine_p = e;
    return K3_OK;
}

static void null_destroy(void *engine)
{
    k3_free(engine);
}

static void pass(k3_spans_t *spans, k3_phase_t phase)
{
    k3_span_begin(spans, phase);
    k3_span_end(spans, phase);
}

static k3_status_t null_dispatch(void *engine, const k3_rows_t *rows, k3_error_t *err)
{
    null_engine_t *e = engine;

    (void)rows;
    (void)err;
    pass(e->env.spans, K3_PHASE_DISPATCH_SEND);
    pass(e->env.spans, K3_PHASE_DISPATCH_WAIT);
    return K3_OK;
}

static void null_expert(void *engine, uint32_t local_expert, k3_expert_rows_t *work)
{
    (void)engine;
    (void)local_expert;
    *work = (k3_expert_rows_t){.format = K3_FORMAT_BF16};
}

static k3_status_t null_combine(void *engine, const k3_rows_t *rows, uint16_t *combined,
                                k3_error_t *err)
{
    null_engine_t *e = engine;

    pass(e->env.spans, K3_PHASE_COMBINE_SEND);
    pass(e->env.spans, K3_PHASE_COMBINE_WAIT);
    k3_span_begin(e->env.spans, K3_PHASE_COMBINE_REDUCE);
    e->env.compute->ops->zero(e->env.compute, combined,
                              rows->count * e->env.cell->model.latent * sizeof(uint16_t));
    k3_span_end(e->env.spans, K3_PHASE_COMBINE_REDUCE);
    return e->env.compute->ops->finish(e->env.compute, err);
}

static k3_qps_t *null_qps(void *engine)
{
    (void)engine;
    return NULL;
}

const k3_engine_ops_t k3_engine_null = {
    .version = K3_ENGINE_VERSION,
    .name = "null",
    .create = null_create,
    .destroy = null_destroy,
    .dispatch = null_dispatch,
    .expert = null_expert,
    .combine = null_combine,
    .qps = null_qps,
    .refuses_device = k3_engine_refuses_nothing,
};
