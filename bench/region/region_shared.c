/* The shared expert: whole on the rank's own rows, over the attention group, or a slice of it on
 * all rows. */
#include "bench/plan/shared.h"
#include "bench/region/region_internal.h"

/* Behind the latent rows where both are reduced together. */
uint16_t *k3_region_shared_out(const k3_region_t *r, uint64_t rows)
{
    return r->cell->shared == K3_SHARED_TP ? r->combined + rows * r->cell->model.latent
                                           : r->buffer[K3_BUF_SHARED];
}

/* This rank's slice of the width on n rows; zeros where the slice is empty. */
static void run_slice(k3_region_t *r, const uint16_t *x, uint64_t n, uint16_t *out)
{
    const k3_weights_t *w = r->weights;
    k3_compute_t       *c = &r->compute;
    uint32_t            begin, end, width;
    uint16_t           *gate = r->buffer[K3_BUF_SHARED_MID];

    k3_shared_slice(r->cell, (uint32_t)r->world->rank, &begin, &end);
    width = end - begin;
    k3_span_begin(&r->spans, K3_PHASE_SHARED_EXPERT);
    if (width > 0) {
        c->ops->dense(c, &w->shared_gate, x, n, NULL, gate);
        c->ops->dense(c, &w->shared_up, x, n, NULL, gate + n * width);
        c->ops->activate(c, r->cell->model.activation, gate, gate + n * width, n * width,
                         gate + 2 * n * width);
        c->ops->dense(c, &w->shared_down, gate + 2 * n * width, n, NULL, out);
    } else {
        c->ops->zero(c, out, n * r->cell->model.hidden * sizeof(uint16_t));
    }
    k3_span_end(&r->spans, K3_PHASE_SHARED_EXPERT);
}

/* The rows of the group, padding too, go to every rank of it, and each rank's part of the sums of a
 * row back to the row's own. The partial attention output has been reduced by now and the restored
 * rows are not there yet: their buffers are free. */
static void run_sharded(k3_region_t *r)
{
    uint16_t *rows = r->buffer[K3_BUF_PARTIAL], *sums = r->buffer[K3_BUF_OUTPUT];

    k3_span_begin(&r->spans, K3_PHASE_SHARED_GATHER);
    k3_all_gather(&r->attn, &r->compute, r->x, r->attn_share, rows);
    k3_span_end(&r->spans, K3_PHASE_SHARED_GATHER);
    run_slice(r, rows, r->group_slots, sums);
    k3_span_begin(&r->spans, K3_PHASE_SHARED_REDUCE_SCATTER);
    k3_reduce_scatter(&r->attn, &r->compute, sums, r->attn_share, r->buffer[K3_BUF_EXCHANGE],
                      r->buffer[K3_BUF_SHARED]);
    k3_span_end(&r->spans, K3_PHASE_SHARED_REDUCE_SCATTER);
}

void k3_region_shared(k3_region_t *r)
{
    switch (r->cell->shared) {
    case K3_SHARED_NONE:
        break;
    case K3_SHARED_SHARDED:
        run_sharded(r);
        break;
    default:
        run_slice(r, r->x, r->rows, k3_region_shared_out(r, r->rows));
        break;
    }
}
