/* The fused family: dispatch, experts and combine are one call. A helper thread brings the rows of
 * the next blocks in while the main thread computes the present one and pushes its results. Lives on
 * mapped memory alone.
 *
 * Who moves the rows, and how one knows that they are there, is the protocol's: the owner reads them
 * (fused_pull.c), or the source stores them into a window (fused_window.c). */
#include "bench/engines/fused_engine.h"
#include "harness/base/memory.h"

/* --- set-up ---------------------------------------------------------------------------------- */

static void fused_destroy(void *engine)
{
    fused_engine_t *e = engine;

    k3_helper_destroy(&e->helper);
    if (e->state != NULL) {
        e->protocol->destroy(e);
    }
    k3_free(e->staging);
    k3_free(e->out);
    k3_free(e->weights);
    k3_free(e->scales);
    k3_free(e->values);
    if (e->qps != NULL) {
        k3_qps_destroy(e->qps);
    }
    k3_free(e);
}

static k3_status_t alloc_block(fused_engine_t *e, k3_error_t *err)
{
    if (k3_alloc("row pointers", K3_FUSED_BLOCK, sizeof(void *), &e->values, err) != K3_OK ||
        k3_alloc("row pointers", K3_FUSED_BLOCK, sizeof(void *), &e->scales, err) != K3_OK ||
        k3_alloc("row weights", K3_FUSED_BLOCK, sizeof(float), &e->weights, err) != K3_OK ||
        k3_alloc("row pointers", K3_FUSED_BLOCK, sizeof(void *), &e->out, err) != K3_OK ||
        k3_alloc("results", K3_FUSED_BLOCK, 2 * (uint64_t)e->row.width, &e->staging, err) !=
            K3_OK) {
        return err->status;
    }
    for (uint64_t i = 0; i < K3_FUSED_BLOCK; i++) {
        e->out[i] = e->staging + i * e->row.width;
    }
    return K3_OK;
}

static k3_status_t fused_create(const k3_engine_env_t *env, void **engine_p, k3_error_t *err)
{
    fused_engine_t *e = NULL;
    uint64_t        bytes = 0;

    if (k3_alloc("fused engine", 1, sizeof(*e), &e, err) == K3_OK) {
        e->env = *env;
        e->rank = (uint32_t)env->world->rank;
        e->protocol = env->cell->profile->copy == K3_COPY_PULL ? &k3_fused_pull : &k3_fused_window;
        if (e->protocol->create(e, &bytes, err) == K3_OK && alloc_block(e, err) == K3_OK) {
            k3_helper_create(&e->helper, e->protocol->help, e, err);
        }
    }
    if (k3_world_agree(env->world, err) == K3_OK) {
        k3_engine_queue_pairs(env, bytes, 0, &e->qps, err);
    }
    if (err->status != K3_OK) {
        if (e != NULL) {
            fused_destroy(e);
        }
        return err->status;
    }
    e->block = k3_qps_memory(e->qps);
    *engine_p = e;
    return K3_OK;
}

/* --- the calls --------------------------------------------------------------------------------- */

static k3_status_t fused_run(void *engine, const k3_rows_t *rows, k3_expert_fn_t expert, void *arg,
                             uint16_t *combined, k3_error_t *err)
{
    fused_engine_t *e = engine;

    return e->protocol->run(e, rows, expert, arg, combined, err);
}

static k3_qps_t *fused_qps(void *engine)
{
    return ((fused_engine_t *)engine)->qps;
}

static k3_status_t fused_settle(void *engine, k3_error_t *err)
{
    return k3_qps_bank_end(((fused_engine_t *)engine)->qps, err);
}

/* A host between the blocks of rows would measure what these backends do away with. */
static const char *fused_refuses_device(const k3_cell_t *cell)
{
    (void)cell;
    return "one kernel brings rows in, computes and sends results: with posts of the host between "
           "its blocks it would be another protocol (--device cpu)";
}

const k3_engine_ops_t k3_engine_fused = {
    .version = K3_ENGINE_VERSION,
    .name = "fused",
    .create = fused_create,
    .destroy = fused_destroy,
    .fused = fused_run,
    .settle = fused_settle,
    .qps = fused_qps,
    .refuses_device = fused_refuses_device,
};
