/* The fused family: dispatch, experts and combine are one call. A helper thread brings the rows of
 * the next blocks in while the main thread computes the present one and pushes its results. Lives on
 * mapped memory alone.
 *
 * Who moves the rows, and how one knows that they are there, is the protocol's: the owner reads them
 * (fused_pull.c), or the source stores them into a window (fused_window.c). */
#include <stdarg.h>
#include <stdio.h>

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

/* --- waiting --------------------------------------------------------------------------------- */

static void describe_wait(const void *arg, char *text, unsigned size)
{
    const fused_engine_t *e = arg;
    uint32_t              i = 0;
    int used = snprintf(text, size, "%llu %s", (unsigned long long)e->missing, e->waiting_for);

    while (e->seen != NULL && i < e->seen_count && e->seen[i]) {
        i++;
    }
    if (e->seen != NULL && i < e->seen_count && used > 0 && (unsigned)used < size) {
        snprintf(text + used, size - (unsigned)used, ", first: of rank %u",
                 e->seen_count == e->row.experts ? i / e->row.local : i);
    }
}

void k3_fused_describe(fused_engine_t *e, const char *waiting_for, uint64_t missing)
{
    e->missing = missing;
    e->waiting_for = waiting_for;
    k3_watchdog_describe(describe_wait, e);
}

void k3_fused_fail(fused_engine_t *e, const char *format, ...)
{
    char    text[K3_ERROR_TEXT / 2];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    k3_fail(&e->fault, K3_ERR_CHECK, "%s", text);
    __atomic_store_n(&e->failed, true, __ATOMIC_RELEASE);
}

static k3_status_t helper_fault(const fused_engine_t *e, k3_error_t *err)
{
    if (__atomic_load_n(&e->failed, __ATOMIC_ACQUIRE)) {
        return k3_fail(err, e->fault.status, "%s", e->fault.text);
    }
    return K3_OK;
}

k3_status_t k3_fused_wait_in(fused_engine_t *e, uint64_t want, const char *what, k3_error_t *err)
{
    uint64_t seen = __atomic_load_n(&e->in, __ATOMIC_ACQUIRE), now;

    if (seen >= want) {
        return K3_OK;
    }
    k3_span_begin(e->env.spans, K3_PHASE_DISPATCH_WAIT);
    k3_fused_describe(e, what, want - seen);
    while (seen < want && helper_fault(e, err) == K3_OK && err->status == K3_OK) {
        k3_qps_idle(e->qps, err);
        now = __atomic_load_n(&e->in, __ATOMIC_ACQUIRE);
        if (now != seen) {
            seen = now;
            e->missing = want > seen ? want - seen : 0;
            k3_watchdog_alive();
        }
    }
    k3_watchdog_describe(NULL, NULL);
    k3_span_end(e->env.spans, K3_PHASE_DISPATCH_WAIT);
    return err->status;
}

/* --- a call ---------------------------------------------------------------------------------- */

void k3_fused_begin(fused_engine_t *e)
{
    k3_span_begin(e->env.spans, K3_PHASE_DISPATCH);
    e->begin = e->env.spans->begin[K3_PHASE_DISPATCH];
    e->in = 0;
    e->out_of = 0;
    e->last_in = 0;
    e->waited = 0;
    e->pushed = 0;
    e->pushing = false;
}

void k3_fused_start_helper(fused_engine_t *e)
{
    k3_qps_banks_begin(e->qps, K3_TRAFFIC_COMBINE, K3_TRAFFIC_DISPATCH);
    k3_helper_run(&e->helper);
}

void k3_fused_push_begin(fused_engine_t *e)
{
    if (!e->pushing) {
        e->pushing = true;
        k3_span_begin(e->env.spans, K3_PHASE_COMBINE);
    }
    k3_span_begin(e->env.spans, K3_PHASE_COMBINE_SEND);
}

void k3_fused_push_end(fused_engine_t *e)
{
    k3_span_end(e->env.spans, K3_PHASE_COMBINE_SEND);
    e->pushed += k3_clock_now() - e->env.spans->begin[K3_PHASE_COMBINE_SEND];
}

k3_status_t k3_fused_all_in(fused_engine_t *e, k3_error_t *err)
{
    while (!__atomic_load_n(&e->helper.done, __ATOMIC_ACQUIRE) && err->status == K3_OK) {
        k3_qps_idle(e->qps, err);
    }
    if (helper_fault(e, err) == K3_OK) {
        k3_span_end_at(e->env.spans, K3_PHASE_DISPATCH, e->last_in);
    }
    return err->status;
}

/* The parts' own times: dispatch from its begin until the last row was in, less what the helper
 * waited for room; the experts; the pushes, and everything behind the last expert. */
void k3_fused_complete(fused_engine_t *e, uint64_t experts_end)
{
    k3_spans_t *spans = e->env.spans;
    uint64_t    now = k3_clock_now();

    k3_span_end(spans, K3_PHASE_COMBINE);
    /* A rank without rows computes nothing, one that is late waits for nothing: zero, not absent. */
    spans->used[K3_PHASE_EXPERT_MLP] = true;
    spans->used[K3_PHASE_DISPATCH_WAIT] = true;
    spans->overlap = (k3_overlap_t){
        .dispatch = e->last_in - e->begin - e->waited,
        .combine = e->pushed + (now - experts_end),
        .span = now - e->begin,
    };
}

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
           "its "
           "blocks it would be another protocol (--device cpu)";
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
