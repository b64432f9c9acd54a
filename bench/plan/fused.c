#include "bench/plan/fused.h"

#include "harness/base/arith.h"

enum {
    BARRIER_BYTES = 32,
    BLOCK_MOST = 192,          /* rows of upstream's largest block */
    WINDOW_STATUS = 2 << 20,   /* bytes of a half beside the rows */
    STATUS_STRIDE = 512,       /* bytes */
    STATUS_STRIDE_DENSE = 256, /* above so many blocks: */
    STATUS_BLOCKS_SPREAD = 512,
    ALIGN = 64
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static k3_fused_rows_t plan_rows(const k3_cell_t *cell)
{
    const k3_profile_t *p = cell->profile;
    uint32_t            width = cell->model.latent, topk = cell->model.topk;

    return (k3_fused_rows_t){
        .experts = cell->model.experts,
        .local = cell->model.experts / cell->layout.tp,
        .ranks = cell->layout.tp,
        .topk = topk,
        .width = width,
        .m = cell->max_tokens,
        .values = k3_format_value_bytes(cell->dispatch_format, width),
        .scales = k3_format_scale_bytes(cell->dispatch_format, width),
        .record = k3_profile_dispatch_record(p, cell->dispatch_format, width, topk),
        .record_payload = k3_profile_dispatch_payload(p, cell->dispatch_format, width),
        .result = k3_profile_combine_record(p, cell->combine_format, width, topk),
        .result_payload = k3_profile_combine_payload(p, cell->combine_format, width),
    };
}

/* Results of one block before they are sent, and the pointers of its rows. */
static uint64_t block_bytes(const k3_fused_rows_t *row)
{
    return K3_FUSED_BLOCK * (2 * (uint64_t)row->width + 3 * sizeof(void *) + sizeof(float));
}

/* Puts an area behind the last one and returns its offset. */
static uint64_t place(uint64_t bytes, uint64_t *end)
{
    uint64_t at = k3_round_up(*end, ALIGN);

    *end = k3_add(at, bytes);
    return at;
}

/* --- the owner reads ------------------------------------------------------------------------- */

static void place_workspace(k3_pull_t *p, uint64_t *end)
{
    const k3_fused_rows_t *r = &p->row;
    uint64_t               list = k3_mul(k3_mul(r->experts, r->ranks), p->m);
    uint64_t               begin = place(0, end);

    p->barrier = begin;
    p->sent = p->barrier + BARRIER_BYTES;
    p->received = p->sent + 8 * (uint64_t)r->experts;
    p->sums = p->received + 8 * (uint64_t)r->experts;
    p->list = p->sums + 8 * (uint64_t)r->local + 16 * (p->ring / K3_PULL_BLOCK_LEAST);
    p->source = k3_add(p->list, k3_mul(4, list));
    p->workspace_bytes = k3_add(p->source, k3_mul(12, p->pool)) - begin;
    *end = k3_add(begin, p->workspace_bytes);
}

static void place_input(k3_pull_t *p, uint64_t *end)
{
    const k3_fused_rows_t *r = &p->row;

    p->input_bytes = k3_mul(p->m, r->values + r->scales + 12 * (uint64_t)r->topk);
    p->values = place(p->input_bytes, end);
    p->ids = k3_add(p->values, k3_mul(p->m, r->values)); /* M * values: a multiple of 8 */
    p->weights = k3_add(p->ids, k3_mul(p->m, 8 * (uint64_t)r->topk));
    p->scales = k3_add(p->weights, k3_mul(p->m, 4 * (uint64_t)r->topk));
}

static void place_rings(const k3_cell_t *cell, k3_pull_t *p, uint64_t *end)
{
    const k3_fused_rows_t *r = &p->row;

    p->ring1_bytes = p->ring * (r->values + r->scales + 4);
    p->ring_values = place(p->ring1_bytes, end);
    p->ring_weights = p->ring_values + p->ring * r->values;
    p->ring_scales = p->ring_weights + p->ring * 4;
    p->ring2_bytes = p->ring * k3_format_row_bytes(cell->dispatch_format, cell->model.intermediate);
    place(p->ring2_bytes, end);
}

void k3_pull_plan(const k3_cell_t *cell, k3_pull_t *p)
{
    const k3_fused_rows_t *r = &p->row;
    uint64_t               end = 0, per_row;

    *p = (k3_pull_t){.row = plan_rows(cell), .ring = K3_PULL_RING};
    per_row = smaller(r->topk, r->local);
    p->m = k3_round_up(r->m, K3_PULL_UNIT);
    p->pool = k3_round_up(
        k3_add(k3_mul(k3_mul(r->ranks, p->m), per_row), (uint64_t)r->local * (BLOCK_MOST - 1)),
        K3_PULL_UNIT);
    place_workspace(p, &end);
    place_input(p, &end);
    place_rings(cell, p, &end);
    p->combine_bytes = k3_mul(k3_mul(r->topk, p->m), r->result);
    p->combine = place(p->combine_bytes, &end);
    p->bytes = k3_round_up(end, ALIGN);
    /* Counts of each (expert, source), block, and decoded results where they are not bf16. */
    p->engine = 8 * (uint64_t)r->experts + block_bytes(r) + r->result +
                (uint64_t)r->topk * r->width * 2 + 4 * (uint64_t)r->width;
}

/* --- the source stores ----------------------------------------------------------------------- */

void k3_window_plan(const k3_cell_t *cell, k3_window_t *w)
{
    const k3_fused_rows_t *r = &w->row;
    uint64_t               slot, rows;

    *w = (k3_window_t){.row = plan_rows(cell)};
    slot = 2 * (uint64_t)r->width;
    w->rows_from = k3_mul(r->m, smaller(r->local, r->topk));
    w->slot = r->record;
    w->result_slot = r->result;
    w->status_stride = r->experts > STATUS_BLOCKS_SPREAD ? STATUS_STRIDE_DENSE : STATUS_STRIDE;
    w->status_bytes = larger(WINDOW_STATUS, r->experts * w->status_stride);
    rows = k3_mul(w->rows_from, r->ranks);
    w->half = k3_add(k3_mul(rows, larger(slot, larger(w->slot, w->result_slot))), w->status_bytes);
    w->bytes = k3_mul(w->half, 2);
    /* Rows before they are stored and where their results come, counts, prefixes, block. */
    w->engine = k3_add(k3_mul(r->m, r->record + 4 * (uint64_t)r->topk),
                       20 * (uint64_t)r->experts + block_bytes(r));
}

void k3_fused_memory(const k3_cell_t *cell, uint64_t *block, uint64_t *engine)
{
    k3_pull_t   pull;
    k3_window_t window;

    if (cell->profile->copy == K3_COPY_PULL) {
        k3_pull_plan(cell, &pull);
        *block = pull.bytes;
        *engine = pull.engine;
    } else {
        k3_window_plan(cell, &window);
        *block = window.bytes;
        *engine = window.engine;
    }
}
