#include "bench/plan/ranks.h"

#include "harness/base/arith.h"

enum { ALIGN = 128, V2_UNIT = 2 << 20 };

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* --- queue pairs ----------------------------------------------------------------------------- */

/* QP 0 is kept for counts and barriers when `reserved`, unless it is the only one. */
static uint32_t channel_qp(const k3_ranks_t *g, uint64_t index, bool reserved)
{
    uint32_t channel = (uint32_t)(index % g->channels);

    if (g->qps == 1) {
        return 0;
    }
    return reserved ? 1 + channel % (g->qps - 1) : channel % g->qps;
}

uint32_t k3_ranks_row_qp(const k3_cell_t *cell, const k3_ranks_t *g, uint64_t row, uint64_t slot)
{
    switch (cell->profile->qp_map) {
    case K3_QP_BY_CHANNEL:
        return g->channels > 0 ? channel_qp(g, row, cell->profile->notify) : 0;
    case K3_QP_BY_SLOT:
        return (uint32_t)(slot % g->local) % g->qps;
    default:
        return 0;
    }
}

uint32_t k3_ranks_back_qp(const k3_cell_t *cell, const k3_ranks_t *g, uint64_t slot)
{
    return cell->profile->qp_map == K3_QP_BY_CHANNEL && g->channels > 0 ? channel_qp(g, slot, false)
                                                                        : 0;
}

/* --- records --------------------------------------------------------------------------------- */

/* The metadata: ids and weights of the K selections (32 bits each) and the source row behind them, or the
 * source row and 16-bit ids. */
static void plan_record(const k3_cell_t *cell, k3_ranks_t *g)
{
    const k3_profile_t *p = cell->profile;
    uint64_t            values = k3_format_value_bytes(cell->dispatch_format, g->width);
    uint64_t            scales = k3_format_scale_bytes(cell->dispatch_format, g->width);
    uint64_t            meta;

    g->record = k3_profile_dispatch_record(p, cell->dispatch_format, g->width, g->topk);
    g->record_payload = k3_profile_dispatch_payload(p, cell->dispatch_format, g->width);
    g->values_at = k3_round_up(p->header_bytes, p->pad);
    g->scales_at = g->values_at + k3_round_up(values, p->pad);
    meta = g->scales_at + k3_round_up(scales, p->pad);
    g->meta_at = meta;
    g->meta_bytes = g->record - meta;
    g->weights_at = g->source_at = K3_NO_AREA;
    if (p->meta_topk_bytes >= 2 * sizeof(int32_t)) {
        g->id_bytes = sizeof(int32_t);
        g->ids_at = meta;
        g->weights_at = meta + (uint64_t)g->topk * sizeof(int32_t);
        g->source_at =
            p->meta_bytes > 0 ? g->weights_at + (uint64_t)g->topk * sizeof(float) : K3_NO_AREA;
    } else {
        g->id_bytes = sizeof(uint16_t);
        g->source_at = meta;
        g->ids_at = meta + p->meta_bytes;
    }
    g->result = k3_profile_combine_record(p, cell->combine_format, g->width, g->topk);
    g->result_payload = k3_profile_combine_payload(p, cell->combine_format, g->width);
}

static k3_back_place_t back_place(const k3_cell_t *cell, const k3_ranks_t *g)
{
    const k3_profile_t *p = cell->profile;

    if (p->combine_copy == K3_COPY_PULL) {
        return K3_BACK_PULLED;
    }
    if (p->qp_map == K3_QP_SPLIT || p->slots == K3_SLOTS_SPLIT) {
        return K3_BACK_PACKED;
    }
    return p->combine_copy == K3_COPY_PER_EXPERT || (p->combine_folds && g->ranks > g->topk)
               ? K3_BACK_BY_TOPK
               : K3_BACK_BY_RANK;
}

/* --- areas ----------------------------------------------------------------------------------- */

static uint64_t take(k3_ranks_t *g, uint64_t bytes)
{
    uint64_t at = g->buffer;

    g->buffer = k3_round_up(k3_add(g->buffer, bytes), ALIGN);
    return at;
}

/* The library sizes an fp8 record as if each 32 values had a scale. Dispatch and combine share the memory;
 * send areas are there only where some peer is not mapped. */
static void plan_deepep_v2(const k3_cell_t *cell, k3_ranks_t *g)
{
    const k3_profile_t *p = cell->profile;
    uint64_t            scales = k3_format_scale_bytes(cell->dispatch_format, g->width);
    uint64_t            packs =
        cell->dispatch_format == K3_FORMAT_FP8 ? 4 * k3_ceil_div(g->width, 32) : scales;
    uint64_t slot = g->record - k3_round_up(scales, p->pad) + k3_round_up(packs, p->pad);
    uint64_t back_slots = smaller(g->ranks, g->topk);
    uint64_t rows = k3_mul(g->m, g->ranks), back_rows = k3_mul(g->m, back_slots);
    uint64_t dispatch = k3_mul(slot, k3_add(rows, g->staged ? g->m : 0));
    uint64_t combine = k3_mul(g->result, k3_add(back_rows, g->staged ? rows : 0));

    g->send = g->staged ? k3_mul(slot, rows) : K3_NO_AREA;
    g->back_send = g->staged ? k3_mul(g->result, back_rows) : K3_NO_AREA;
    g->buffer = k3_round_up(larger(dispatch, combine), V2_UNIT);
}

/* Buffers of R * M rows: what leaves (both ways), what arrives, what comes back. Without queue pairs rows are
 * stored from where they are, and there are two. */
static void plan_mori(const k3_cell_t *cell, k3_ranks_t *g)
{
    uint64_t one = k3_mul(k3_mul(g->ranks, g->m), larger(g->record, g->result));

    g->buffer = 0;
    if (cell->profile->qp_count != K3_QPS_ZERO) {
        g->send = g->back_send = take(g, one);
    }
    g->recv[0] = take(g, one);
    g->back_recv[0] = take(g, one);
    if (g->back == K3_BACK_PULLED) {
        g->back_send = g->back_recv[0];
    }
}

static void plan_nccl_ep(const k3_cell_t *cell, k3_ranks_t *g)
{
    uint64_t rows = k3_mul(g->ranks, g->m);

    (void)cell;
    g->buffer = 0;
    g->send = take(g, k3_mul(g->m, g->record));
    g->back_send = take(g, k3_mul(k3_mul(rows, smaller(g->topk, g->local)), g->result));
    for (unsigned i = 0; i < g->sets; i++) {
        g->recv[i] = take(g, k3_mul(rows, g->record));
        g->back_recv[i] = take(g, k3_mul(k3_mul(g->topk, g->m), g->result));
    }
}

/* Two windows of R * M rows, each padded to 128 bytes. */
static void plan_flashinfer(const k3_cell_t *cell, k3_ranks_t *g)
{
    uint64_t rows = k3_mul(g->ranks, g->m);

    (void)cell;
    g->buffer = 0;
    g->recv[0] = take(g, k3_mul(rows, g->record));
    g->back_send = take(g, k3_mul(rows, g->result));
}

/* Private ranges of int(ceil(M K / E) 1.2) L rows for each source, then as many rows as all sources can send
 * at most; the expert side needs no padding between experts. */
static void plan_pplx_garden(const k3_cell_t *cell, k3_ranks_t *g)
{
    uint64_t all = k3_mul(g->m, g->ranks), rows;

    (void)cell;
    g->private_rows = k3_ceil_div(k3_mul(g->m, g->topk), g->experts) * 12 / 10 * g->local;
    g->shared_rows = larger(k3_mul(all, smaller(g->topk, g->local)), g->local);
    g->unit = larger(g->record, g->result);
    rows = k3_add(k3_mul(g->private_rows, g->ranks), g->shared_rows);
    g->buffer = 0;
    g->send = g->back_send = take(g, k3_mul(rows, g->unit));
    g->recv[0] = g->back_recv[0] = take(g, k3_mul(rows, g->unit));
}

static void plan_areas(const k3_cell_t *cell, k3_ranks_t *g)
{
    g->send = g->back_send = K3_NO_AREA;
    switch (cell->profile->buffer_formula) {
    case K3_BUFFER_DEEPEP_V2:
        plan_deepep_v2(cell, g);
        break;
    case K3_BUFFER_MORI:
        plan_mori(cell, g);
        break;
    case K3_BUFFER_NCCL_EP:
        plan_nccl_ep(cell, g);
        break;
    case K3_BUFFER_FLASHINFER:
        plan_flashinfer(cell, g);
        break;
    default:
        plan_pplx_garden(cell, g);
        break;
    }
}

/* --- words ----------------------------------------------------------------------------------- */

static uint32_t word_count(const k3_ranks_t *g, k3_signal_when_t when)
{
    switch (when) {
    case K3_WHEN_PER_EXPERT:
        return g->experts;
    case K3_WHEN_PER_QP:
        return g->ranks * g->qps;
    default:
        return g->ranks;
    }
}

static k3_words_t take_words(k3_ranks_t *g, uint32_t count, uint32_t bytes)
{
    k3_words_t words = {g->bytes, count, bytes};

    g->bytes = k3_round_up(k3_add(g->bytes, (uint64_t)count * bytes), ALIGN);
    return words;
}

/* From offset `at` on. */
static void plan_words(const k3_cell_t *cell, k3_ranks_t *g, uint64_t at)
{
    const k3_profile_t *p = cell->profile;
    uint32_t back = p->combine_signal_bytes > 0 ? p->combine_signal_bytes : p->signal_bytes;
    bool     split = p->slots == K3_SLOTS_SPLIT;

    g->bytes = at;
    for (int i = 0; i < K3_WORDS_COUNT; i++) {
        g->words[i] = (k3_words_t){.at = K3_NO_AREA};
    }
    if (p->completion == K3_DONE_BARRIER || split) {
        g->words[K3_WORDS_BARRIER] = take_words(g, g->ranks, p->signal_bytes);
    }
    if (p->completion != K3_DONE_BARRIER) {
        g->words[K3_WORDS_DISPATCH] =
            take_words(g, word_count(g, p->dispatch_when), p->signal_bytes);
        g->words[K3_WORDS_COMBINE] = take_words(g, word_count(g, p->combine_when), back);
    }
    g->counts = g->reserve = K3_NO_AREA;
    if (split) {
        g->words[K3_WORDS_NOTIFY] = take_words(g, g->ranks, p->signal_bytes);
        g->counts = take_words(g, g->ranks * g->experts, sizeof(uint32_t)).at;
    } else if (p->notify) {
        g->counts = take_words(g, g->ranks * (1 + g->local), sizeof(uint64_t)).at;
    }
    if (p->slots == K3_SLOTS_COMPACT) {
        g->reserve = take_words(g, 1, sizeof(uint64_t)).at;
    }
}

uint64_t k3_ranks_part_words(const k3_cell_t *cell, k3_ranks_t *g)
{
    plan_words(cell, g, 0);
    return g->bytes;
}

static bool any_lane_unmapped(const k3_cell_t *cell)
{
    return cell->on_device || (cell->layout.tp > 1 && (!cell->p2p || cell->nodes > 1));
}

void k3_ranks_plan(const k3_cell_t *cell, k3_ranks_t *g)
{
    *g = (k3_ranks_t){
        .experts = cell->model.experts,
        .ranks = cell->layout.tp,
        .local = cell->model.experts / cell->layout.tp,
        .topk = cell->model.topk,
        .width = cell->model.latent,
        .m = cell->max_tokens,
        .qps = cell->qps.active > 0 ? cell->qps.active : 1,
        .channels = cell->profile->channels,
        .staged = any_lane_unmapped(cell),
        .sets = cell->profile->buffers > 1 ? 2 : 1,
    };
    g->copies = smaller(g->ranks, g->topk);
    g->back = back_place(cell, g);
    plan_record(cell, g);
    plan_areas(cell, g);
    for (unsigned i = g->sets; i < 2; i++) {
        g->recv[i] = g->recv[0];
        g->back_recv[i] = g->back_recv[0];
    }
    plan_words(cell, g, k3_round_up(g->buffer, ALIGN));
    if (g->buffer == K3_TOO_BIG) {
        g->bytes = K3_TOO_BIG;
    }
}
