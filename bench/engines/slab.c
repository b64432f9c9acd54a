/* The slab family: one message for each (row, expert) into a slot that belongs to (expert, source),
 * results back into the slot (expert, row) of the origin, weighted sum there.
 *
 * What differs between backends (number and choice of QPs, doorbells, signals, slot strides, buffers,
 * copies) comes from the profile through k3_slab_t and k3_counted_t. Profiles with one signal for each
 * (expert, source) are slab_rows.c, those that count arrivals slab_counted.c. */
#include "bench/engines/slab_engine.h"
#include "harness/base/memory.h"

static void slab_destroy(void *engine)
{
    slab_engine_t *e = engine;

    k3_slab_control_destroy(e);
    k3_free(e->due);
    k3_free(e->total);
    k3_free(e->base);
    k3_free(e->masks);
    k3_free(e->decoded);
    k3_free(e->placed);
    k3_free(e->origins);
    k3_free(e->records);
    k3_free(e->parts);
    k3_free(e->messages);
    k3_free(e->lengths);
    k3_compute_free(e->env.compute, e->results);
    k3_free(e->out);
    k3_free(e->scales);
    k3_free(e->values);
    k3_free(e->counts);
    k3_free(e->seen);
    k3_free(e->arrived);
    k3_free(e->next);
    k3_free(e->target);
    if (e->qps != NULL) {
        k3_qps_destroy(e->qps);
    }
    k3_free(e);
}

static const slab_form_t *form_of(const k3_cell_t *cell)
{
    return k3_is_counted(cell->profile) ? &k3_slab_counted : &k3_slab_rows;
}

static k3_status_t alloc_tables(slab_engine_t *e, k3_error_t *err)
{
    const k3_cell_t *cell = e->env.cell;
    uint32_t         experts = cell->model.experts;

    if (k3_alloc("targets", experts, sizeof(slab_target_t), &e->target, err) != K3_OK ||
        k3_alloc("slots used", experts, sizeof(uint32_t), &e->next, err) != K3_OK ||
        k3_alloc("rows arrived", experts, sizeof(uint32_t), &e->arrived, err) != K3_OK ||
        k3_alloc("masks", cell->layout.tp, sizeof(k3_mask_t), &e->masks, err) != K3_OK ||
        e->form->alloc(e, err) != K3_OK ||
        k3_alloc("row pointers", e->rows_cap, sizeof(void *), &e->values, err) != K3_OK ||
        k3_alloc("row pointers", e->rows_cap, sizeof(void *), &e->scales, err) != K3_OK ||
        k3_alloc("row pointers", e->rows_cap, sizeof(void *), &e->out, err) != K3_OK) {
        return err->status;
    }
    return K3_OK;
}

/* Those that count arrivals wait for no words of their own. */
static bool slab_has_control(const k3_cell_t *cell)
{
    return !k3_is_counted(cell->profile);
}

static k3_status_t slab_create(const k3_engine_env_t *env, void **engine_p, k3_error_t *err)
{
    slab_engine_t *e = NULL;
    uint64_t       bytes = 0, rows_bytes = 0;

    if (k3_alloc("slab engine", 1, sizeof(*e), &e, err) == K3_OK) {
        e->env = *env;
        e->rank = (uint32_t)env->world->rank;
        e->form = form_of(env->cell);
        e->trapped = (k3_error_t)K3_ERROR_INIT;
        bytes = e->form->plan(e);
        if (env->compute->device != NULL) {
            rows_bytes = bytes;
            bytes = e->form->part_words(e);
        }
        alloc_tables(e, err);
    }
    if (k3_world_agree(env->world, err) == K3_OK) {
        k3_engine_queue_pairs(env, bytes, rows_bytes, &e->qps, err);
    }
    if (err->status != K3_OK) {
        if (e != NULL) {
            slab_destroy(e);
        }
        return err->status;
    }
    e->block = k3_qps_rows(e->qps);
    e->words = k3_qps_memory(e->qps);
    e->soft = k3_engine_soft_lanes(env->world, e->qps);
    e->all_mapped = env->compute->device == NULL;
    for (int peer = 0; peer < env->world->size; peer++) {
        e->all_mapped = e->all_mapped && k3_qps_mapped(e->qps, peer) != NULL;
    }
    *engine_p = e;
    return env->cell->component == K3_COMPONENT_CONTROL && slab_has_control(env->cell)
               ? k3_slab_control_create(e, err)
               : K3_OK;
}

static void slab_rerouted(void *engine)
{
    slab_engine_t *e = engine;

    if (e->form->rerouted != NULL) {
        e->form->rerouted(e);
    }
}

static k3_status_t slab_dispatch(void *engine, const k3_rows_t *rows, k3_error_t *err)
{
    slab_engine_t *e = engine;

    e->call++;
    return e->form->dispatch(e, rows, err);
}

static void slab_expert(void *engine, uint32_t local_expert, k3_expert_rows_t *work)
{
    slab_engine_t *e = engine;

    e->form->expert(e, local_expert, work);
}

static k3_status_t slab_combine(void *engine, const k3_rows_t *rows, uint16_t *combined,
                                k3_error_t *err)
{
    slab_engine_t *e = engine;

    return e->form->combine(e, rows, combined, err);
}

static const k3_mask_t *slab_masks(void *engine)
{
    return ((slab_engine_t *)engine)->masks;
}

static const k3_error_t *slab_trapped(void *engine)
{
    const slab_engine_t *e = engine;

    return e->trapped.status != K3_OK ? &e->trapped : NULL;
}

static const char *slab_refuses_device(const k3_cell_t *cell)
{
    return cell->combine_format == K3_FORMAT_LOGFMT10 && cell->model.latent > K3_GPU_LOG_WIDTH
               ? "the kernels of its results take rows of up to 8192 values"
               : NULL;
}

static k3_qps_t *slab_qps(void *engine)
{
    return ((slab_engine_t *)engine)->qps;
}

static k3_status_t slab_settle(void *engine, k3_error_t *err)
{
    return k3_qps_bank_end(((slab_engine_t *)engine)->qps, err);
}

const k3_engine_ops_t k3_engine_slab = {
    .version = K3_ENGINE_VERSION,
    .name = "slab",
    .create = slab_create,
    .destroy = slab_destroy,
    .rerouted = slab_rerouted,
    .dispatch = slab_dispatch,
    .expert = slab_expert,
    .combine = slab_combine,
    .settle = slab_settle,
    .control = k3_slab_control,
    .has_control = slab_has_control,
    .masks = slab_masks,
    .trapped = slab_trapped,
    .qps = slab_qps,
    .refuses_device = slab_refuses_device,
};
