/* One iteration of the region, phase by phase. */
#include "bench/region/region.h"

#include <string.h>

/* --- before the router ----------------------------------------------------------------------- */

static void attention_fast(k3_region_t *r)
{
    uint16_t *partial = r->buffer[K3_BUF_PARTIAL];

    if (!r->cell->path.sp_moe) {
        r->x = partial; /* attn_tp 1: the rows are complete and the rank's own */
        return;
    }
    k3_span_begin(&r->spans, K3_PHASE_ATTN_REDUCE_SCATTER);
    r->x = r->buffer[K3_BUF_X];
    k3_reduce_scatter(&r->attn, r->kernels, partial, r->attn_share, r->buffer[K3_BUF_EXCHANGE],
                      r->x);
    k3_span_end(&r->spans, K3_PHASE_ATTN_REDUCE_SCATTER);
}

static void attention_fallback(k3_region_t *r)
{
    const k3_layout_t *l = &r->cell->layout;
    uint64_t           h = r->cell->model.hidden;
    uint16_t          *partial = r->buffer[K3_BUF_PARTIAL];
    uint32_t           rank = (uint32_t)r->world->rank;
    uint64_t           first = l->first_row[rank] - l->first_row[k3_layout_group_first(l, rank)];

    if (l->attn_tp > 1) {
        k3_span_begin(&r->spans, K3_PHASE_ATTN_ALL_REDUCE);
        k3_all_reduce(&r->attn, r->kernels, partial, r->group_slots * h,
                      r->buffer[K3_BUF_EXCHANGE]);
        k3_span_end(&r->spans, K3_PHASE_ATTN_ALL_REDUCE);
    }
    r->x = partial;
    if (l->groups > 1) {
        k3_span_begin(&r->spans, K3_PHASE_DP_GATHER);
        r->x = r->buffer[K3_BUF_X];
        k3_all_gather(&r->all, partial + first * h, r->row_share, r->x);
        k3_span_end(&r->spans, K3_PHASE_DP_GATHER);
    }
}

/* --- router and projections ------------------------------------------------------------------ */

/* The gate runs in full. When the routing is prescribed its ids replace the gate's own, with the
 * raw scores of these experts as weights. */
static void route(k3_region_t *r)
{
    const k3_model_t *m = &r->cell->model;

    k3_span_begin(&r->spans, K3_PHASE_ROUTER);
    k3_dense_run(r->weights->gate, r->x, r->rows, r->logits, NULL);
    for (uint64_t i = 0; i < r->rows; i++) {
        int32_t *ids = r->ids + i * m->topk;
        float   *gates = r->gates + i * m->topk;

        r->kernels->route(r->logits + i * m->experts, r->weights->bias, m->experts, m->topk, ids,
                          gates);
        memcpy(ids, r->routed_ids + i * m->topk, m->topk * sizeof(int32_t));
        r->kernels->route_weights(r->logits + i * m->experts, m->topk, ids, gates);
    }
    k3_span_end(&r->spans, K3_PHASE_ROUTER);
}

static void latent_down(k3_region_t *r)
{
    if (!r->cell->model.latent_step) {
        r->latent = r->x;
        return;
    }
    k3_span_begin(&r->spans, K3_PHASE_LATENT_DOWN);
    r->latent = r->buffer[K3_BUF_LATENT];
    k3_dense_run(r->weights->down, r->x, r->rows, NULL, r->latent);
    k3_span_end(&r->spans, K3_PHASE_LATENT_DOWN);
}

/* Whole on the fast path; on the fallback this rank's slice, a partial sum. */
static void shared_expert(k3_region_t *r, uint16_t *out)
{
    const k3_weights_t *w = r->weights;
    uint64_t            n = r->rows, h = r->cell->model.hidden;
    uint32_t            begin, end, width;
    uint16_t           *gate = r->buffer[K3_BUF_SHARED_MID];

    k3_shared_slice(r->cell, (uint32_t)r->world->rank, &begin, &end);
    width = end - begin;
    k3_span_begin(&r->spans, K3_PHASE_SHARED_EXPERT);
    if (width > 0) {
        k3_dense_run(w->shared_gate, r->x, n, NULL, gate);
        k3_dense_run(w->shared_up, r->x, n, NULL, gate + n * width);
        r->kernels->activate(r->cell->model.activation, gate, gate + n * width, n * width,
                             gate + 2 * n * width);
        k3_dense_run(w->shared_down, gate + 2 * n * width, n, NULL, out);
    } else {
        memset(out, 0, n * h * sizeof(uint16_t));
    }
    k3_span_end(&r->spans, K3_PHASE_SHARED_EXPERT);
}

/* --- dispatch, experts, combine -------------------------------------------------------------- */

/* Nearest, ties to even; the stand-in's values are finite. Inline, so that the loop is vectorised. */
static inline uint16_t round_bf16(float value)
{
    union {
        float    f;
        uint32_t u;
    } v = {value};

    return (uint16_t)((v.u + 0x7fffu + (v.u >> 16 & 1)) >> 16);
}

/* y = bf16(x * factor): every expert has its own factor, so that no identity and no mix-up passes. */
static void stand_in(k3_region_t *r, uint32_t expert, const k3_expert_rows_t *work)
{
    float   *row = r->buffer[K3_BUF_EXPERT_WORK];
    float    factor = r->factors[expert];
    uint32_t width = r->cell->model.latent;

    for (size_t i = 0; i < work->count; i++) {
        uint16_t *out = work->out[i];

        r->kernels->decode(work->format, work->values[i],
                           work->scales != NULL ? work->scales[i] : NULL, width, row);
        for (uint32_t j = 0; j < width; j++) {
            out[j] = round_bf16(row[j] * factor);
        }
    }
}

static void experts(k3_region_t *r)
{
    uint32_t local = k3_layout_local_experts(&r->cell->layout, &r->cell->model);

    k3_span_begin(&r->spans, K3_PHASE_EXPERT_MLP);
    for (uint32_t e = 0; e < local; e++) {
        k3_expert_rows_t    work;
        k3_expert_weights_t weights;

        r->ops->expert(r->engine, e, &work);
        if (work.count == 0) {
            continue;
        }
        if (r->stand_in) {
            stand_in(r, e, &work);
        } else {
            k3_weights_expert(r->weights, e, &weights);
            r->kernels->expert_mlp(&r->weights->shape, &r->cell->runner->recipe, &weights,
                                   work.count, work.format, work.values, work.scales, work.out,
                                   r->buffer[K3_BUF_EXPERT_WORK]);
        }
        k3_watchdog_alive();
    }
    k3_span_end(&r->spans, K3_PHASE_EXPERT_MLP);
}

/* Fault injection: a row with the right norm in the wrong place. */
static void corrupt(k3_region_t *r)
{
    uint32_t  width = r->cell->model.latent;
    uint64_t  at = r->fault.corrupt_row, other = at + 1 < r->rows ? at + 1 : 0;
    uint16_t *a, *b;

    if (r->fault.corrupt_rank != r->world->rank || at >= r->rows) {
        return;
    }
    a = r->combined + at * width;
    b = r->combined + other * width;
    if (a == b) {
        a[0] ^= 0x8000u;
    }
    for (uint32_t j = 0; j < width; j++) {
        uint16_t keep = a[j];

        a[j] = b[j];
        b[j] = a == b ? b[j] : keep;
    }
}

/* Components that time one part keep the parts of all ranks apart, so that no rank's time holds the next
 * part of another (where ranks outnumber cores they would fight for them). */
static void line_up(const k3_region_t *r)
{
    switch (r->cell->component) {
    case K3_COMPONENT_DISPATCH:
    case K3_COMPONENT_COMBINE:
    case K3_COMPONENT_EXPERTS:
    case K3_COMPONENT_CONTROL:
        MPI_Barrier(r->world->comm);
        break;
    default:
        break;
    }
}

static k3_status_t exchange(k3_region_t *r, k3_error_t *err)
{
    k3_rows_t rows = {r->rows, r->latent, r->ids, r->gates};

    k3_span_begin(&r->spans, K3_PHASE_DISPATCH);
    r->ops->dispatch(r->engine, &rows, err);
    k3_span_end(&r->spans, K3_PHASE_DISPATCH);
    if (err->status != K3_OK) {
        return err->status;
    }
    line_up(r);
    experts(r);
    line_up(r);
    k3_span_begin(&r->spans, K3_PHASE_COMBINE);
    r->ops->combine(r->engine, &rows, r->combined, err);
    k3_span_end(&r->spans, K3_PHASE_COMBINE);
    if (err->status == K3_OK) {
        corrupt(r);
    }
    return err->status;
}

/* --- after the combine ----------------------------------------------------------------------- */

/* Latent partial sums and the shared expert's lie in one buffer and are reduced together. A
 * complete combine is left out, unless a historical rule reduces it again. */
static void reduce_tp(k3_region_t *r)
{
    uint64_t latent = r->rows * r->cell->model.latent;
    uint64_t shared = r->cell->model.shared > 0 ? r->rows * r->cell->model.hidden : 0;
    uint64_t skip = r->cell->path.reduce_latent ? 0 : latent;

    if (r->all.size == 1 || latent + shared == skip) {
        return;
    }
    k3_span_begin(&r->spans, K3_PHASE_TP_ALL_REDUCE);
    k3_all_reduce(&r->all, r->kernels, r->combined + skip, latent + shared - skip,
                  r->buffer[K3_BUF_EXCHANGE]);
    k3_span_end(&r->spans, K3_PHASE_TP_ALL_REDUCE);
}

/* Norm after the full reduction, up projection, and the shared expert added once. */
static void latent_up(k3_region_t *r, const uint16_t *shared)
{
    const k3_model_t *m = &r->cell->model;
    uint16_t         *normed = r->buffer[K3_BUF_NORMED];

    k3_span_begin(&r->spans, K3_PHASE_LATENT_UP);
    r->y = r->combined;
    if (m->latent_step) {
        r->y = r->buffer[K3_BUF_ROUTED];
        for (uint64_t i = 0; i < r->rows; i++) {
            r->kernels->rms_norm(r->combined + i * m->latent,
                                 r->weights->tensor[K3_TENSOR_LATENT_NORM], m->latent, 1e-5f,
                                 normed + i * m->latent);
        }
        k3_dense_run(r->weights->up, normed, r->rows, NULL, r->y);
    }
    if (m->shared > 0) {
        /* Without a latent step the combined rows stay as they are, for the check. */
        r->kernels->add(r->y, shared, r->rows * m->hidden, r->buffer[K3_BUF_ROUTED]);
        r->y = r->buffer[K3_BUF_ROUTED];
    }
    k3_span_end(&r->spans, K3_PHASE_LATENT_UP);
}

static void restore(k3_region_t *r)
{
    const k3_layout_t *l = &r->cell->layout;
    uint32_t           rank = (uint32_t)r->world->rank;
    uint64_t           h = r->cell->model.hidden;
    uint64_t           first = l->first_row[k3_layout_group_first(l, rank)];

    r->restored = r->y;
    if (r->cell->path.sp_moe) {
        k3_span_begin(&r->spans, K3_PHASE_ALL_GATHER);
        r->restored = r->buffer[K3_BUF_OUTPUT];
        k3_all_gather(&r->attn, r->y, r->attn_share, r->restored);
        k3_span_end(&r->spans, K3_PHASE_ALL_GATHER);
    } else if (!r->cell->path.fast && l->groups > 1) {
        k3_span_begin(&r->spans, K3_PHASE_DP_SCATTER);
        r->restored = r->buffer[K3_BUF_OUTPUT];
        memcpy(r->restored, r->y + first * h, r->group_rows * h * sizeof(uint16_t));
        k3_span_end(&r->spans, K3_PHASE_DP_SCATTER);
    }
}

/* --- components ------------------------------------------------------------------------------ */

static k3_status_t run_region(k3_region_t *r, k3_error_t *err)
{
    uint16_t *shared = r->cell->path.fast ? r->buffer[K3_BUF_SHARED]
                                          : r->combined + r->rows * r->cell->model.latent;

    k3_span_begin(&r->spans, K3_PHASE_REGION);
    if (r->cell->path.fast) {
        attention_fast(r);
    } else {
        attention_fallback(r);
    }
    route(r);
    latent_down(r);
    if (r->cell->model.shared > 0) {
        shared_expert(r, shared);
    }
    if (exchange(r, err) != K3_OK) {
        return err->status;
    }
    if (!r->cell->path.fast) {
        reduce_tp(r);
    }
    latent_up(r, shared);
    restore(r);
    k3_span_end(&r->spans, K3_PHASE_REGION);
    return K3_OK;
}

static k3_status_t run_pair(k3_region_t *r, k3_error_t *err)
{
    k3_span_begin(&r->spans, K3_PHASE_PAIR);
    exchange(r, err);
    k3_span_end(&r->spans, K3_PHASE_PAIR);
    return err->status;
}

/* As a model calls them layer by layer: a rank that is done begins the next pair, whatever the others
 * are at. The rows are the same in all of them. */
static k3_status_t run_chain(k3_region_t *r, k3_error_t *err)
{
    k3_span_begin(&r->spans, K3_PHASE_CHAIN);
    for (unsigned pair = 0; pair < r->pairs && err->status == K3_OK; pair++) {
        exchange(r, err);
    }
    k3_span_end(&r->spans, K3_PHASE_CHAIN);
    return err->status;
}

/* A dispatch whose accounts are switched off; only its total is kept. */
static k3_status_t run_unbooked(k3_region_t *r, k3_error_t *err)
{
    k3_spans_t booked = r->spans;
    k3_qps_t  *qps = r->ops->qps(r->engine);
    uint64_t   ticks;

    k3_qps_accounting(qps, false);
    r->spans.ticks[K3_PHASE_DISPATCH] = 0;
    run_pair(r, err);
    ticks = r->spans.ticks[K3_PHASE_DISPATCH];
    k3_qps_accounting(qps, true);
    r->spans = booked;
    r->spans.ticks[K3_PHASE_UNBOOKED] = ticks;
    r->spans.used[K3_PHASE_UNBOOKED] = true;
    return err->status;
}

static void run_bare(k3_region_t *r, k3_error_t *err)
{
    k3_rows_t rows = {r->rows, r->latent, r->ids, r->gates};

    k3_span_begin(&r->spans, K3_PHASE_CONTROL);
    r->ops->control(r->engine, &rows, err);
    k3_span_end(&r->spans, K3_PHASE_CONTROL);
}

/* The same messages three times in one iteration: by the engine, by the engine without accounts, and by
 * the bare loop. The order rotates, so that none always finds the caches warm. */
static k3_status_t run_control(k3_region_t *r, uint64_t payload, k3_error_t *err)
{
    enum { BOOKED, UNBOOKED, BARE, TURNS };

    for (uint64_t turn = 0; turn < TURNS && err->status == K3_OK; turn++) {
        switch ((payload + turn) % TURNS) {
        case BOOKED:
            run_pair(r, err);
            break;
        case UNBOOKED:
            run_unbooked(r, err);
            break;
        default:
            run_bare(r, err);
            break;
        }
        if (err->status == K3_OK) {
            r->ops->settle(r->engine, err);
        }
        MPI_Barrier(r->world->comm);
    }
    return err->status;
}

static void enter(k3_region_t *r)
{
    if (r->sync != NULL) {
        r->late_us = k3_sync_start(r->sync);
    } else {
        MPI_Barrier(r->world->comm);
    }
}

k3_status_t k3_region_run(k3_region_t *r, uint64_t payload, k3_error_t *err)
{
    k3_spans_start(&r->spans, payload);
    k3_watchdog_tick("start of the iteration", payload);
    enter(r);
    switch (r->cell->component) {
    case K3_COMPONENT_REGION:
        run_region(r, err);
        break;
    case K3_COMPONENT_CONTROL:
        run_control(r, payload, err);
        break;
    case K3_COMPONENT_CHAIN:
        run_chain(r, err);
        break;
    default:
        run_pair(r, err);
        break;
    }
    k3_watchdog_tick("end of the iteration", payload);
    if (err->status == K3_OK && r->ops->settle != NULL) {
        r->ops->settle(r->engine, err);
    }
    return err->status;
}
