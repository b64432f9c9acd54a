/* One iteration of the region, phase by phase. */
#include <string.h>

#include "bench/region/dump.h"
#include "bench/region/region_internal.h"

/* --- router and projections ------------------------------------------------------------------ */

/* When the routing is prescribed its ids replace the gate's own, with the raw scores of these experts as
 * weights. */
static void route(k3_region_t *r)
{
    const k3_model_t     *m = &r->cell->model;
    k3_compute_t         *c = &r->compute;
    const k3_route_rows_t rows = {.rows = r->rows,
                                  .experts = m->experts,
                                  .k = m->topk,
                                  .logits = r->logits,
                                  .bias = r->weights->route_bias,
                                  .wanted = r->routed_ids,
                                  .ids = r->ids,
                                  .weights = r->gates};

    k3_span_begin(&r->spans, K3_PHASE_ROUTER);
    c->ops->dense(c, &r->weights->gate, r->x, r->rows, r->logits, NULL);
    c->ops->route(c, &rows);
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
    r->compute.ops->dense(&r->compute, &r->weights->down, r->x, r->rows, NULL, r->latent);
    k3_span_end(&r->spans, K3_PHASE_LATENT_DOWN);
}

/* --- dispatch, experts, combine -------------------------------------------------------------- */

static void run_expert(k3_region_t *r, uint32_t expert, const k3_expert_rows_t *work)
{
    if (work->count == 0) {
        return;
    }
    if (r->capture != NULL) {
        k3_capture_rows(r->capture, &r->compute, r->weights->first + expert, work);
    }
    r->compute.ops->expert(&r->compute, expert, work);
    k3_watchdog_alive();
}

static void experts(k3_region_t *r)
{
    uint32_t local = k3_layout_local_experts(&r->cell->layout, &r->cell->model);

    k3_span_begin(&r->spans, K3_PHASE_EXPERT_MLP);
    for (uint32_t e = 0; e < local; e++) {
        k3_expert_rows_t work;

        r->ops->expert(r->engine, e, &work);
        run_expert(r, e, &work);
    }
    r->compute.ops->experts_done(&r->compute);
    k3_span_end(&r->spans, K3_PHASE_EXPERT_MLP);
}

/* A part of an expert's rows, called by an engine that overlaps. */
static void expert_block(void *region, uint32_t expert, const k3_expert_rows_t *work)
{
    k3_region_t *r = region;

    k3_span_begin(&r->spans, K3_PHASE_EXPERT_MLP);
    run_expert(r, expert, work);
    k3_span_end(&r->spans, K3_PHASE_EXPERT_MLP);
}

/* Fault injection: a row with the right norm in the wrong place. */
static void corrupt(k3_region_t *r)
{
    uint32_t  width = r->cell->model.latent;
    uint64_t  at = r->fault.corrupt_row, other = at + 1 < r->rows ? at + 1 : 0;
    uint16_t *a, *b, *rows[2] = {r->spare_rows, r->spare_rows + width};

    if (r->fault.corrupt_rank != r->world->rank || at >= r->rows) {
        return;
    }
    a = r->combined + at * width;
    b = r->combined + other * width;
    k3_compute_bring(&r->compute, rows[0], a, width * sizeof(uint16_t));
    k3_compute_bring(&r->compute, rows[1], b, width * sizeof(uint16_t));
    rows[1][0] ^= a == b ? 0x8000u : 0;
    r->spans.struck |= memcmp(rows[0], rows[1], width * sizeof(uint16_t)) != 0;
    k3_compute_send(&r->compute, b, rows[0], width * sizeof(uint16_t));
    k3_compute_send(&r->compute, a, rows[1], width * sizeof(uint16_t));
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

/* A device is idle when a total begins or ends: it then holds what the total is of, and nothing else. */
static k3_status_t one_after_another(k3_region_t *r, const k3_rows_t *rows, k3_error_t *err)
{
    k3_compute_t *c = &r->compute;

    if (c->ops->finish(c, err) != K3_OK) {
        return err->status;
    }
    k3_span_begin(&r->spans, K3_PHASE_DISPATCH);
    r->ops->dispatch(r->engine, rows, err);
    k3_span_end(&r->spans, K3_PHASE_DISPATCH);
    if (err->status != K3_OK) {
        return err->status;
    }
    line_up(r);
    experts(r);
    if (c->ops->finish(c, err) != K3_OK) {
        return err->status;
    }
    line_up(r);
    k3_span_begin(&r->spans, K3_PHASE_COMBINE);
    r->ops->combine(r->engine, rows, r->combined, err);
    k3_span_end(&r->spans, K3_PHASE_COMBINE);
    return err->status;
}

static k3_status_t exchange(k3_region_t *r, k3_error_t *err)
{
    k3_rows_t rows = {r->rows, r->latent, r->ids, r->gates};

    if (r->skips) {
        r->spans.struck = true;
        return K3_OK;
    }
    if (r->ops->fused != NULL) {
        r->ops->fused(r->engine, &rows, expert_block, r, r->combined, err);
    } else {
        one_after_another(r, &rows, err);
    }
    if (err->status == K3_OK) {
        corrupt(r);
    }
    return err->status;
}

/* --- after the combine ----------------------------------------------------------------------- */

/* Norm after the full reduction, up projection, and the shared expert added once. */
static void latent_up(k3_region_t *r)
{
    const k3_model_t *m = &r->cell->model;
    k3_compute_t     *c = &r->compute;
    uint16_t         *normed = r->buffer[K3_BUF_NORMED];

    k3_span_begin(&r->spans, K3_PHASE_LATENT_UP);
    r->y = r->combined;
    if (m->latent_step) {
        r->y = r->buffer[K3_BUF_ROUTED];
        c->ops->norm(c, r->combined, r->weights->norm_gain, r->kept, m->latent, normed);
        c->ops->dense(c, &r->weights->up, normed, r->kept, NULL, r->y);
    }
    if (m->shared > 0) {
        if (r->cell->shared_overlap) {
            c->ops->join(c);
        }
        /* Without a latent step the combined rows stay as they are, for the check. */
        c->ops->add(c, r->y, k3_region_shared_out(r, r->kept), r->kept * m->hidden,
                    r->buffer[K3_BUF_ROUTED]);
        r->y = r->buffer[K3_BUF_ROUTED];
    }
    k3_span_end(&r->spans, K3_PHASE_LATENT_UP);
}

/* --- components ------------------------------------------------------------------------------ */

static k3_status_t run_region(k3_region_t *r, k3_error_t *err)
{
    k3_span_begin(&r->spans, K3_PHASE_REGION);
    k3_region_attention(r);
    route(r);
    latent_down(r);
    if (!r->cell->shared_overlap) { /* else the engine calls it inside its dispatch */
        k3_region_shared(r);
    }
    if (exchange(r, err) != K3_OK) {
        return err->status;
    }
    k3_region_reduce(r);
    latent_up(r);
    k3_region_restore(r);
    r->compute.ops->finish(&r->compute, err);
    k3_span_end(&r->spans, K3_PHASE_REGION);
    return err->status;
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

/* Waits are counted by the engine, not by the queue pairs. */
static void copy_waits(k3_region_t *r, k3_wait_t *const *from, k3_wait_t *const *to)
{
    for (int t = 0; t < K3_TRAFFIC_COUNT; t++) {
        memcpy(to[t], from[t], r->cell->layout.tp * sizeof(k3_wait_t));
    }
}

void k3_region_keep_waits(k3_region_t *r)
{
    copy_waits(r, r->waits, r->kept_waits);
}

void k3_region_restore_waits(k3_region_t *r)
{
    copy_waits(r, r->kept_waits, r->waits);
}

/* The spans as they were before a turn that is not kept; what a fault did in it stays. */
static void restore_spans(k3_region_t *r, k3_spans_t *kept)
{
    kept->dead = r->spans.dead;
    kept->struck = r->spans.struck;
    r->spans = *kept;
}

/* A pair whose accounts are switched off; only the total of its dispatch is kept. */
static k3_status_t run_unbooked(k3_region_t *r, bool kept, k3_error_t *err)
{
    k3_spans_t booked = r->spans;
    k3_qps_t  *qps = r->ops->qps(r->engine);
    bool       timed = k3_region_times_kernels(r);
    uint64_t   ticks, begin, end;

    k3_region_keep_waits(r);
    k3_qps_accounting(qps, false);
    if (timed) {
        k3_region_time_kernels(r, false);
    }
    r->spans.ticks[K3_PHASE_DISPATCH] = 0;
    run_pair(r, err);
    ticks = r->spans.ticks[K3_PHASE_DISPATCH];
    begin = r->spans.begin[K3_PHASE_DISPATCH];
    end = r->spans.last[K3_PHASE_DISPATCH];
    k3_qps_accounting(qps, true);
    if (timed) {
        k3_region_time_kernels(r, true);
    }
    restore_spans(r, &booked);
    if (kept) {
        r->spans.ticks[K3_PHASE_UNBOOKED] = ticks;
        r->spans.first[K3_PHASE_UNBOOKED] = begin;
        r->spans.last[K3_PHASE_UNBOOKED] = end;
        r->spans.used[K3_PHASE_UNBOOKED] = true;
    }
    k3_region_restore_waits(r);
    return err->status;
}

static void run_bare(k3_region_t *r, k3_error_t *err)
{
    k3_rows_t rows = {r->rows, r->latent, r->ids, r->gates};

    k3_region_keep_waits(r);
    k3_span_begin(&r->spans, K3_PHASE_CONTROL);
    if (r->control != NULL) {
        k3_control_bare(r->control, err);
    } else {
        r->ops->control(r->engine, &rows, false, err);
    }
    k3_span_end(&r->spans, K3_PHASE_CONTROL);
    k3_region_restore_waits(r);
}

/* For the caches alone. */
static void run_bare_unkept(k3_region_t *r, k3_error_t *err)
{
    k3_spans_t kept = r->spans;

    run_bare(r, err);
    restore_spans(r, &kept);
}

static void run_ordered(k3_region_t *r, k3_error_t *err)
{
    k3_span_begin(&r->spans, K3_PHASE_ORDERED);
    k3_control_ordered(r->control, err);
    k3_span_end(&r->spans, K3_PHASE_ORDERED);
}

static void run_floor(k3_region_t *r, k3_error_t *err)
{
    k3_rows_t rows = {r->rows, r->latent, r->ids, r->gates};

    k3_region_keep_waits(r);
    k3_span_begin(&r->spans, K3_PHASE_FLOOR);
    if (r->control != NULL) {
        k3_control_floor(r->control, &rows, err);
    } else {
        r->ops->control(r->engine, &rows, true, err);
    }
    k3_span_end(&r->spans, K3_PHASE_FLOOR);
    k3_region_restore_waits(r);
}

/* The same messages several times in one iteration: by the engine, by the engine without accounts, by the
 * bare loop, by one that keeps the protocol's order, and by one that makes its copies too. A pair of the
 * engine stands in front of each loop and a loop in front of each pair that is kept, so that each finds the
 * caches as the other kind leaves them, and the turns rotate. An engine's own control waits as its dispatch
 * does: its bare loop keeps the order. */
static k3_status_t run_control(k3_region_t *r, uint64_t payload, k3_error_t *err)
{
    enum { BOOKED, BARE, UNBOOKED, ORDERED, BETWEEN, FLOOR, TURNS };

    for (uint64_t turn = 0; turn < TURNS && err->status == K3_OK; turn++) {
        switch ((payload + turn) % TURNS) {
        case BOOKED:
            run_pair(r, err);
            break;
        case BARE:
            run_bare(r, err);
            break;
        case UNBOOKED:
            run_unbooked(r, true, err);
            break;
        case ORDERED:
            if (r->control != NULL) {
                run_ordered(r, err);
            } else {
                run_bare_unkept(r, err);
            }
            break;
        case BETWEEN:
            run_unbooked(r, false, err);
            break;
        default:
            run_floor(r, err);
            break;
        }
        if (err->status == K3_OK) {
            r->ops->settle(r->engine, err);
        }
        MPI_Barrier(r->world->comm);
    }
    return err->status;
}

static bool is_to_stall(const k3_fault_t *f, int rank, uint64_t call)
{
    if (f->stall_rank != rank) {
        return false;
    }
    if (f->stall_call != 0) {
        return f->stall_call == call;
    }
    return f->stall_every == 0 || call % f->stall_every == 0;
}

static bool is_to_die(const k3_fault_t *f, int rank)
{
    for (int i = 0; i < f->dead_count; i++) {
        if (f->dead_rank[i] == rank) {
            return true;
        }
    }
    return false;
}

/* Sets the span that is late or the last one in this iteration, if any, and whether there is an exchange. */
static void arm_fault(k3_region_t *r, uint64_t call)
{
    const k3_fault_t *f = &r->fault;
    uint64_t          last = f->dead_call != 0 ? f->dead_call : r->timed_from + 1;
    bool              timed = f->dead_call != 0 || r->timed_from != 0;

    r->spans.fault_phase = -1;
    r->spans.dies = false;
    r->skips = f->skip_rank == r->world->rank && f->skip_call == call;
    if (is_to_stall(f, r->world->rank, call)) {
        r->spans.fault_phase = f->stall_phase;
    }
    if (is_to_die(f, r->world->rank) && timed && call == last) {
        r->spans.fault_phase = f->dead_phase;
        r->spans.dies = true;
    }
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
    arm_fault(r, payload + 1);
    k3_watchdog_tick("start of the iteration", payload);
    enter(r);
    k3_region_events_begin(r);
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
    k3_region_events_end(r);
    if (err->status == K3_OK && r->ops->settle != NULL) {
        r->ops->settle(r->engine, err);
    }
    return err->status;
}
