/* Which rows are where: before the router and after the combine. */
#include <string.h>

#include "bench/plan/cell_rows.h"
#include "bench/region/region_internal.h"

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
    k3_reduce_scatter(&r->attn, &r->compute, partial, r->attn_share, r->buffer[K3_BUF_EXCHANGE],
                      r->x);
    k3_span_end(&r->spans, K3_PHASE_ATTN_REDUCE_SCATTER);
}

/* The rows of the DP group, from its ranks with the same place in their attention groups, to their
 * place among all rows. */
static void gather_context(k3_region_t *r)
{
    const k3_layout_t *l = &r->cell->layout;
    uint32_t           span = l->cp * l->attn_tp;
    uint64_t           first = l->first_row[(uint32_t)r->world->rank / span * span];

    k3_span_begin(&r->spans, K3_PHASE_CP_GATHER);
    r->x = r->buffer[K3_BUF_X];
    k3_all_gather(&r->cp, &r->compute, r->buffer[K3_BUF_PARTIAL], r->cp_share,
                  r->x + first * r->cell->model.hidden);
    k3_span_end(&r->spans, K3_PHASE_CP_GATHER);
}

static void gather_data(k3_region_t *r, const uint16_t *own)
{
    k3_span_begin(&r->spans, K3_PHASE_DP_GATHER);
    r->x = r->buffer[K3_BUF_X];
    k3_all_gather(&r->all, &r->compute, own, r->row_share, r->x);
    k3_span_end(&r->spans, K3_PHASE_DP_GATHER);
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
        k3_all_reduce(&r->attn, &r->compute, partial, r->group_slots * h,
                      r->buffer[K3_BUF_EXCHANGE]);
        k3_span_end(&r->spans, K3_PHASE_ATTN_ALL_REDUCE);
    }
    r->x = partial;
    if (l->cp > 1) {
        gather_context(r);
    }
    if (l->dp > 1) {
        gather_data(r, l->cp > 1 ? r->x + l->first_row[rank] * h : partial + first * h);
    }
}

void k3_region_attention(k3_region_t *r)
{
    if (r->cell->path.fast) {
        attention_fast(r);
    } else {
        attention_fallback(r);
    }
}

/* --- after the combine ----------------------------------------------------------------------- */

/* Values of a row that are summed over tp: a complete combine is left out, unless a historical rule
 * reduces it again; the shared expert's part is not. */
static uint64_t summed_latent(const k3_region_t *r)
{
    return r->cell->path.reduce_latent ? r->cell->model.latent : 0;
}

static uint64_t summed_shared(const k3_region_t *r)
{
    return r->cell->shared == K3_SHARED_TP ? r->cell->model.hidden : 0;
}

/* Latent partial sums and the shared expert's lie in one buffer and are reduced together. */
static void reduce_over(k3_region_t *r, const k3_group_t *group, uint64_t rows)
{
    uint64_t skip = rows * (r->cell->model.latent - summed_latent(r));
    uint64_t n = rows * (summed_latent(r) + summed_shared(r));

    if (group->size == 1 || n == 0) {
        return;
    }
    k3_span_begin(&r->spans, K3_PHASE_TP_ALL_REDUCE);
    k3_all_reduce(group, &r->compute, r->combined + skip, n, r->buffer[K3_BUF_EXCHANGE]);
    k3_span_end(&r->spans, K3_PHASE_TP_ALL_REDUCE);
}

/* Copies the rows of one cp index, in the order of the DP groups, one behind the other; the rows of
 * `from` are all rows. By the processor the target may be the beginning of `from`. */
static uint16_t *take_rows(k3_region_t *r, uint32_t cp_rank, const uint16_t *from, uint64_t width,
                           uint16_t *to)
{
    const k3_layout_t *l = &r->cell->layout;

    for (uint32_t dp = 0; dp < l->dp && width > 0; dp++) {
        uint32_t first = (dp * l->cp + cp_rank) * l->attn_tp;
        uint64_t n = k3_layout_group_rows(l, first) * width;

        r->compute.ops->copy(&r->compute, to, from + l->first_row[first] * width,
                             n * sizeof(uint16_t));
        to += n;
    }
    return to;
}

/* Of combined rows that are complete the own ones stay. Copies of a device are in no order: they go by way of
 * `spare`. */
static void cut_rows(k3_region_t *r, uint32_t cp_rank, uint16_t *spare)
{
    k3_compute_t *c = &r->compute;
    uint16_t     *to = c->device == NULL ? r->combined : spare;
    uint16_t     *end = take_rows(r, cp_rank, r->combined, r->cell->model.latent, to);

    if (to != r->combined) {
        c->ops->copies_done(c);
        c->ops->copy(c, r->combined, to, (uint64_t)(end - to) * sizeof(uint16_t));
    }
}

/* To each rank of the cp group the sums of its rows, from all of them; then the sums of these over
 * the ranks that keep the same rows. What is complete already is only cut. */
static void reduce_context(k3_region_t *r)
{
    const k3_layout_t *l = &r->cell->layout;
    uint64_t           latent = summed_latent(r), shared = summed_shared(r);
    const uint16_t    *all_shared = r->combined + r->rows * r->cell->model.latent;
    uint16_t          *packed = r->buffer[K3_BUF_PACKED], *end = packed;
    uint32_t           own = k3_layout_cp_rank(l, (uint32_t)r->world->rank);

    k3_span_begin(&r->spans, K3_PHASE_CP_REDUCE_SCATTER);
    for (uint32_t c = 0; c < l->cp; c++) {
        end = take_rows(r, c, r->combined, latent, end);
        end = take_rows(r, c, all_shared, shared, end);
    }
    if (latent == 0) {
        cut_rows(r, own, end);
    }
    r->compute.ops->copies_done(&r->compute);
    if (latent + shared > 0) {
        k3_reduce_scatter(&r->cp, &r->compute, packed, r->sum_share, r->buffer[K3_BUF_EXCHANGE],
                          r->combined + r->kept * (r->cell->model.latent - latent));
    }
    k3_span_end(&r->spans, K3_PHASE_CP_REDUCE_SCATTER);
    reduce_over(r, &r->same_cp, r->kept);
}

void k3_region_reduce(k3_region_t *r)
{
    if (r->cell->path.fast) {
        return;
    }
    if (k3_splits_context(r->cell)) {
        reduce_context(r);
    } else {
        reduce_over(r, &r->all, r->rows);
    }
}

void k3_region_restore(k3_region_t *r)
{
    uint64_t h = r->cell->model.hidden;

    r->restored = r->y;
    if (r->cell->path.sp_moe) {
        k3_span_begin(&r->spans, K3_PHASE_ALL_GATHER);
        r->restored = r->buffer[K3_BUF_OUTPUT];
        k3_all_gather(&r->attn, &r->compute, r->y, r->attn_share, r->restored);
        k3_span_end(&r->spans, K3_PHASE_ALL_GATHER);
    } else if (!r->cell->path.fast && r->cell->layout.dp > 1) {
        k3_span_begin(&r->spans, K3_PHASE_DP_SCATTER);
        r->restored = r->buffer[K3_BUF_OUTPUT];
        r->compute.ops->copy(&r->compute, r->restored, r->y + r->group_at * h,
                             r->group_rows * h * sizeof(uint16_t));
        r->compute.ops->copies_done(&r->compute);
        k3_span_end(&r->spans, K3_PHASE_DP_SCATTER);
    }
}
