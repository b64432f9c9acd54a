/* A template for a new engine. It is compiled, so that it cannot rot, and is not in the table of
 * find.c.
 *
 * To add an engine: copy this file, rename the functions, add a value to k3_engine_id_t
 * (profiles/profile.h), one line to the table of find.c, the flows of its messages to
 * plan/traffic.c, its memory to plan/buffers.c, and a row to the registry. The checks of every run
 * (measured == plan, oracle) then hold for it without further code.
 *
 * Call order: create, then for each iteration dispatch, expert for every local expert, combine,
 * settle; destroy. Every rank makes every call, also with no rows. */
#include "bench/engines/engine.h"
#include "harness/base/memory.h"

typedef struct skeleton {
    k3_engine_env_t env;
    k3_qps_t       *qps;
} skeleton_t;

/* Runs also on a half-made engine, in the reverse order of create. */
static void skeleton_destroy(void *engine)
{
    skeleton_t *e = engine;

    if (e->qps != NULL) {
        k3_qps_destroy(e->qps);
    }
    k3_free(e);
}

/* Everything that takes time or memory happens here. Local steps first, then one agreement, then
 * the collective step: a rank that failed must not leave the others waiting inside it. */
static k3_status_t skeleton_create(const k3_engine_env_t *env, void **engine_p, k3_error_t *err)
{
    skeleton_t *e = NULL;

    k3_alloc("skeleton engine", 1, sizeof(*e), &e, err);
    if (k3_world_agree(env->world, err) == K3_OK) {
        e->env = *env;
        /* The size comes from the geometry that plan/ computes, never from a constant. */
        k3_engine_queue_pairs(env, 4096, 0, &e->qps, err);
    }
    if (err->status != K3_OK) {
        if (e != NULL) {
            skeleton_destroy(e);
        }
        return err->status;
    }
    *engine_p = e;
    return K3_OK;
}

/* Mark each phase that the protocol has; book posts under K3_TRAFFIC_NOTIFY, _DISPATCH or _COMBINE.
 */
static k3_status_t skeleton_dispatch(void *engine, const k3_rows_t *rows, k3_error_t *err)
{
    skeleton_t *e = engine;

    (void)rows; /* encode with env.kernels->encode, then k3_qps_put and k3_qps_signal_* */
    (void)err;
    k3_span_begin(e->env.spans, K3_PHASE_DISPATCH_SEND);
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_DISPATCH);
    k3_span_end(e->env.spans, K3_PHASE_DISPATCH_SEND);

    k3_span_begin(e->env.spans, K3_PHASE_DISPATCH_WAIT);
    /* Poll with k3_signal_read*; after a pass that found nothing call k3_qps_idle. Never trust a
     * count or an index that came from a peer: check it against the slab's bounds. */
    k3_span_end(e->env.spans, K3_PHASE_DISPATCH_WAIT);
    return K3_OK;
}

/* Pointers into the receive buffers: rows are consumed where they arrived. */
static void skeleton_expert(void *engine, uint32_t local_expert, k3_expert_rows_t *work)
{
    skeleton_t *e = engine;

    (void)local_expert;
    *work = (k3_expert_rows_t){.format = e->env.cell->dispatch_format};
}

static k3_status_t skeleton_combine(void *engine, const k3_rows_t *rows, uint16_t *combined,
                                    k3_error_t *err)
{
    skeleton_t *e = engine;

    (void)err;
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_COMBINE);
    k3_span_begin(e->env.spans, K3_PHASE_COMBINE_REDUCE);
    for (uint64_t i = 0; i < rows->count; i++) {
        e->env.kernels->combine(NULL, NULL, 0, e->env.cell->model.latent,
                                combined + i * e->env.cell->model.latent);
    }
    k3_span_end(e->env.spans, K3_PHASE_COMBINE_REDUCE);
    return K3_OK;
}

/* After the timed span: completes what is in flight and closes the iteration's counters. */
static k3_status_t skeleton_settle(void *engine, k3_error_t *err)
{
    return k3_qps_bank_end(((skeleton_t *)engine)->qps, err);
}

static k3_qps_t *skeleton_qps(void *engine)
{
    return ((skeleton_t *)engine)->qps;
}

const k3_engine_ops_t k3_engine_skeleton = {
    .version = K3_ENGINE_VERSION,
    .name = "skeleton",
    .create = skeleton_create,
    .destroy = skeleton_destroy,
    .dispatch = skeleton_dispatch,
    .expert = skeleton_expert,
    .combine = skeleton_combine,
    .settle = skeleton_settle,
    .qps = skeleton_qps,
};
