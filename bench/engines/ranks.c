/* The ranks family: one copy of a row for each rank that holds at least one of its experts; counts are
 * exchanged apart or with the signals.
 *
 * What differs between its profiles is read from their fields: where a row lies at the receiver (a range for
 * each source, a compact range, private ranges with the rest packed behind), what closes a lane (a barrier
 * behind a flush, a flag behind a drain, a signal for each expert, counted immediates), what goes back (a sum
 * of the rank, a result for each expert) and who moves it (a put, or a read by the origin).
 *
 * What a dispatch cannot do without, in records of a source with T rows that go to C (row, rank) or, where rows
 * are packed by expert, (row, expert) copies: T written once (the format), C posted, and per signal rule the
 * signals of bench/plan/ranks.c. Where a message holds many rows (parts of a rank, ranges of an expert order), the
 * copies for ranks behind a queue pair are packed once more, since a put reads one place; mapped ranks are
 * stored to row by row. Where one buffer serves both ways, every copy that arrives is moved out of it. The
 * receiver reads each record's metadata once. Waits: one round of signals; with barriers two; counts ahead
 * of rows that have no place of their own, one more.
 *
 * A rank's memory is written again by a peer only after it showed, by its next signals or by entering a
 * barrier, that it is done with it: dispatch waits for all ranks, and so does combine. */
#include "bench/engines/ranks_engine.h"
#include "bench/plan/cell_rows.h"
#include "bench/plan/device.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"

static void ranks_destroy(void *engine)
{
    ranks_engine_t *e = engine;
    void *owned[] = {e->leaves,    e->target, e->targets, e->next,  e->expert_rows, e->base,
                     e->counts,    e->row,    e->pair,    e->begin, e->fill,        e->values,
                     e->scales,    e->out,    e->partial, e->part,  e->parts,       e->weights,
                     e->announced, e->kept,   e->seen,    e->meta,  e->meta_at,     e->meta_from,
                     e->sums,      e->coded,  e->first_k};
    void *computed[] = {e->own_results, e->own_send, e->own_back, e->pulled, e->plain};

    k3_packed_destroy(e);
    k3_holders_destroy(&e->holders);
    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++) {
        k3_free(owned[i]);
    }
    for (size_t i = 0; i < sizeof(computed) / sizeof(computed[0]); i++) {
        k3_compute_free(e->env.compute, computed[i]);
    }
    if (e->qps != NULL) {
        k3_qps_destroy(e->qps);
    }
    k3_free(e);
}

static k3_status_t alloc_origin(ranks_engine_t *e, k3_error_t *err)
{
    const k3_ranks_t *g = &e->g;
    uint64_t          first, rows, line = 1 + (uint64_t)g->local;
    bool              announces = e->env.cell->profile->notify && e->packed == NULL;

    k3_cell_dispatched(e->env.cell, e->rank, &first, &rows);
    if (k3_holders_create(&e->holders, g->experts, g->ranks, err) != K3_OK ||
        k3_alloc("targets", rows * g->copies, sizeof(ranks_target_t), &e->target, err) != K3_OK ||
        k3_alloc("first selections", 1 + (uint64_t)g->ranks, sizeof(uint32_t), &e->first_k, err) !=
            K3_OK ||
        k3_alloc("targets of a row", rows, sizeof(uint32_t), &e->targets, err) != K3_OK ||
        k3_alloc("rows for each rank", g->ranks, sizeof(uint32_t), &e->next, err) != K3_OK ||
        k3_alloc("rows for each expert", g->experts, sizeof(uint32_t), &e->expert_rows, err) !=
            K3_OK ||
        k3_alloc("places at the peers", g->ranks, sizeof(uint64_t), &e->base, err) != K3_OK ||
        (announces && k3_alloc("counts to send", g->ranks * line, sizeof(int64_t), &e->announced,
                               err) != K3_OK)) {
        return err->status;
    }
    if (e->packs && k3_alloc("rows for each rank", k3_mul(g->ranks, g->m), sizeof(void *),
                             &e->leaves, err) != K3_OK) {
        return err->status;
    }
    for (uint32_t x = 0; x < g->experts; x++) {
        k3_holders_give(&e->holders, x, x / g->local);
    }
    for (uint32_t r = 0; r < g->ranks; r++) {
        e->base[r] = e->rank * g->m;
    }
    return g->send == K3_NO_AREA ? k3_compute_alloc(e->env.compute, "rows to send", rows, g->record,
                                                    true, &e->own_send, err)
                                 : K3_OK;
}

static k3_status_t alloc_experts(ranks_engine_t *e, k3_error_t *err)
{
    const k3_ranks_t *g = &e->g;
    bool              own = e->env.cell->profile->weights_at == K3_WEIGHTS_AT_EXPERT;

    e->cap = k3_rows_arriving(e->env.cell, e->rank);
    e->result_stride = own ? (uint64_t)g->width * sizeof(uint16_t) : g->result;
    if (k3_alloc("rows arrived", g->ranks, sizeof(uint32_t), &e->counts, err) != K3_OK ||
        k3_alloc("rows here", e->cap, sizeof(ranks_row_t), &e->row, err) != K3_OK ||
        k3_alloc("pairs here", e->cap, sizeof(ranks_pair_t), &e->pair, err) != K3_OK ||
        k3_alloc("expert ranges", (uint64_t)g->local + 1, sizeof(uint64_t), &e->begin, err) !=
            K3_OK ||
        k3_alloc("expert ranges", g->local, sizeof(uint64_t), &e->fill, err) != K3_OK ||
        k3_alloc("row pointers", e->cap, sizeof(void *), &e->values, err) != K3_OK ||
        k3_alloc("row pointers", e->cap, sizeof(void *), &e->scales, err) != K3_OK ||
        k3_alloc("row pointers", e->cap, sizeof(void *), &e->out, err) != K3_OK) {
        return err->status;
    }
    return own ? k3_compute_alloc(e->env.compute, "results", e->cap, e->result_stride, false,
                                  &e->own_results, err)
               : K3_OK;
}

/* On a device the sums of all rows are started together: those of what arrived, padded to as many experts as
 * a row can have here, and those of the own rows. */
static uint64_t parts_at_once(const ranks_engine_t *e)
{
    const k3_ranks_t *g = &e->g;
    uint64_t          first, rows, here, own;

    if (!k3_ranks_on_device(e)) {
        return g->topk;
    }
    k3_cell_dispatched(e->env.cell, e->rank, &first, &rows);
    own = rows * g->topk;
    here = e->cap * (g->local < g->topk ? g->local : g->topk);
    return own > here ? own : here;
}

static k3_status_t alloc_coded(ranks_engine_t *e, k3_error_t *err)
{
    uint64_t first, rows, results;

    if (!k3_ranks_on_device(e) || e->env.cell->combine_format == K3_FORMAT_BF16) {
        return K3_OK;
    }
    k3_cell_dispatched(e->env.cell, e->rank, &first, &rows);
    results = k3_mul(rows, e->g.copies);
    results = results > e->cap ? results : e->cap;
    return k3_alloc("results", results, sizeof(void *), &e->coded, err) == K3_OK
               ? k3_compute_alloc(e->env.compute, "results as bf16", results,
                                  (uint64_t)e->g.width * sizeof(uint16_t), false, &e->plain, err)
               : err->status;
}

static k3_status_t alloc_meta(ranks_engine_t *e, k3_error_t *err)
{
    uint64_t first, rows;

    if (!k3_ranks_on_device(e)) {
        return K3_OK;
    }
    k3_cell_dispatched(e->env.cell, e->rank, &first, &rows);
    rows = rows > e->cap ? rows : e->cap;
    if (k3_alloc("metadata", rows, k3_meta_bytes(e->env.cell), &e->meta, err) != K3_OK ||
        k3_alloc("places of metadata", rows, sizeof(void *), &e->meta_at, err) != K3_OK ||
        k3_alloc("metadata of sources", e->g.ranks, sizeof(uint64_t), &e->meta_from, err) !=
            K3_OK ||
        k3_alloc("places of sums", e->cap, sizeof(void *), &e->sums, err) != K3_OK) {
        return err->status;
    }
    return K3_OK;
}

/* One record and one row's results at a time; on a device those of all rows. */
static k3_status_t alloc_results(ranks_engine_t *e, k3_error_t *err)
{
    const k3_ranks_t *g = &e->g;
    k3_compute_t     *c = e->env.compute;
    bool              together = k3_ranks_on_device(e);
    uint64_t          first, rows;

    k3_cell_dispatched(e->env.cell, e->rank, &first, &rows);
    if (g->back == K3_BACK_PULLED &&
        k3_compute_alloc(c, "rows read", k3_mul(together ? rows : 1, g->copies), g->result, true,
                         &e->pulled, err) != K3_OK) {
        return err->status;
    }
    return g->back_send == K3_NO_AREA
               ? k3_compute_alloc(c, "results to send", together ? e->cap : 1, g->result, true,
                                  &e->own_back, err)
               : K3_OK;
}

static k3_status_t alloc_back(ranks_engine_t *e, k3_error_t *err)
{
    const k3_ranks_t *g = &e->g;
    uint64_t          copies = g->copies, words = 0, parts = parts_at_once(e);

    for (int i = 0; i < K3_WORDS_COUNT; i++) {
        words = g->words[i].count > words ? g->words[i].count : words;
    }
    if (k3_alloc("partial sum", g->width, sizeof(uint16_t), &e->partial, err) != K3_OK ||
        k3_alloc("decoded rows", copies * g->width, sizeof(uint16_t), &e->part, err) != K3_OK ||
        k3_alloc("parts", parts, sizeof(void *), &e->parts, err) != K3_OK ||
        k3_alloc("weights of parts", parts, sizeof(float), &e->weights, err) != K3_OK ||
        k3_alloc("words seen", words, sizeof(uint64_t), &e->kept, err) != K3_OK ||
        k3_alloc("words seen", words, 1, &e->seen, err) != K3_OK) {
        return err->status;
    }
    return alloc_results(e, err);
}

static k3_status_t alloc_tables(ranks_engine_t *e, k3_error_t *err)
{
    if (e->env.cell->profile->slots == K3_SLOTS_SPLIT && k3_packed_create(e, err) != K3_OK) {
        return err->status;
    }
    if (alloc_origin(e, err) != K3_OK || alloc_experts(e, err) != K3_OK) {
        return err->status;
    }
    if (alloc_back(e, err) != K3_OK || alloc_coded(e, err) != K3_OK) {
        return err->status;
    }
    return alloc_meta(e, err);
}

static void place_areas(ranks_engine_t *e)
{
    const k3_ranks_t *g = &e->g;

    e->block = k3_qps_rows(e->qps);
    e->words = k3_qps_memory(e->qps);
    e->send = e->own_send != NULL ? e->own_send : e->block + g->send;
    e->back = e->own_back != NULL ? e->own_back : e->block + g->back_send;
    e->results = e->own_results != NULL ? e->own_results : e->back;
}

static k3_status_t ranks_create(const k3_engine_env_t *env, void **engine_p, k3_error_t *err)
{
    ranks_engine_t *e = NULL;
    uint64_t        bytes = 0, rows_bytes = 0;

    if (k3_alloc("ranks engine", 1, sizeof(*e), &e, err) == K3_OK) {
        e->env = *env;
        e->rank = (uint32_t)env->world->rank;
        e->packs = env->cell->profile->qp_map == K3_QP_SPLIT;
        k3_ranks_plan(env->cell, &e->g);
        bytes = e->g.bytes;
        if (k3_ranks_on_device(e)) {
            rows_bytes = e->g.buffer;
            bytes = k3_ranks_part_words(env->cell, &e->g);
        }
        alloc_tables(e, err);
    }
    if (k3_world_agree(env->world, err) == K3_OK) {
        k3_engine_queue_pairs(env, bytes, rows_bytes, &e->qps, err);
    }
    if (err->status != K3_OK) {
        if (e != NULL) {
            ranks_destroy(e);
        }
        return err->status;
    }
    place_areas(e);
    e->soft = k3_engine_soft_lanes(env->world, e->qps);
    *engine_p = e;
    return K3_OK;
}

static void ranks_expert(void *engine, uint32_t local_expert, k3_expert_rows_t *work)
{
    ranks_engine_t *e = engine;
    uint64_t        at = e->begin[local_expert];

    if (e->packed != NULL) {
        k3_packed_expert(e, local_expert, work);
        return;
    }
    *work = (k3_expert_rows_t){e->begin[local_expert + 1] - at, e->env.cell->dispatch_format,
                               e->values + at, e->scales + at, e->out + at};
}

static k3_status_t ranks_settle(void *engine, k3_error_t *err)
{
    return k3_qps_bank_end(((ranks_engine_t *)engine)->qps, err);
}

static k3_qps_t *ranks_qps(void *engine)
{
    return ((ranks_engine_t *)engine)->qps;
}

const k3_engine_ops_t k3_engine_ranks = {
    .version = K3_ENGINE_VERSION,
    .name = "ranks",
    .create = ranks_create,
    .destroy = ranks_destroy,
    .dispatch = k3_ranks_dispatch,
    .expert = ranks_expert,
    .combine = k3_ranks_combine,
    .settle = ranks_settle,
    .qps = ranks_qps,
    .refuses_device = k3_engine_refuses_nothing,
};
