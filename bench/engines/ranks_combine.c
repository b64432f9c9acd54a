/* Combine: what a rank's experts made of a row goes back to its origin, as one sum of the rank or as one
 * result for each expert, or is read from there; the origin adds up. */
#include <string.h>

#include "bench/engines/ranks_engine.h"
#include "harness/base/arith.h"

/* --- the experts' side ----------------------------------------------------------------------- */

static size_t meta_at(const ranks_engine_t *e)
{
    return k3_round_up(k3_format_row_bytes(e->env.cell->combine_format, e->g.width),
                       e->env.cell->profile->pad);
}

static size_t meta_bytes(const ranks_engine_t *e)
{
    return (size_t)e->g.topk * e->env.cell->profile->combine_meta_topk_bytes;
}

/* The ids and weights that travel back with a sum; nobody reads them. */
static void write_meta(const ranks_engine_t *e, const ranks_row_t *row, uint8_t *out)
{
    const k3_profile_t *p = e->env.cell->profile;

    if (p->combine_meta_topk_bytes == 0) {
        return;
    }
    memset(out, 0, meta_bytes(e));
    for (uint32_t j = 0; j < row->pairs; j++) {
        const ranks_pair_t *pair = &e->pair[row->pair + j];
        uint8_t            *meta = out + (size_t)pair->k * p->combine_meta_topk_bytes;

        memcpy(meta, &pair->expert, sizeof(pair->expert));
        memcpy(meta + sizeof(pair->expert), &pair->weight, sizeof(pair->weight));
    }
}

static const uint16_t *result_at(const ranks_engine_t *e, uint64_t pair)
{
    return (const uint16_t *)(const void *)(e->results + pair * e->result_stride);
}

/* bf16(sum over the rank's experts of the row of weight * result), in the combine format. */
static void make_partial(ranks_engine_t *e, const ranks_row_t *row, uint8_t *out)
{
    const k3_ranks_t *g = &e->g;
    k3_format_t       format = e->env.cell->combine_format;

    for (uint32_t j = 0; j < row->pairs; j++) {
        e->parts[j] = result_at(e, row->pair + j);
        e->weights[j] = e->pair[row->pair + j].weight;
    }
    write_meta(e, row, out + meta_at(e));
    if (format == K3_FORMAT_BF16) {
        e->env.kernels->combine(e->parts, e->weights, row->pairs, g->width,
                                (uint16_t *)(void *)out);
        return;
    }
    e->env.kernels->combine(e->parts, e->weights, row->pairs, g->width, e->partial);
    e->env.compute->ops->encode_to(e->env.compute, format, e->partial, 1, g->width, &out);
}

/* Where the sum of a row leaves from. Stores are done when they are posted, so one record serves where all
 * peers are mapped and nothing reads it later; on a device each has its own. */
static uint8_t *back_at(const ranks_engine_t *e, const ranks_row_t *row)
{
    const k3_ranks_t *g = &e->g;

    if (e->own_back != NULL) {
        return e->own_back + (k3_ranks_on_device(e) ? (uint64_t)(row - e->row) * g->result : 0);
    }
    return e->back + (e->env.cell->profile->slots == K3_SLOTS_COMPACT
                          ? row->slot
                          : row->source * g->m + row->slot) *
                         g->result;
}

/* On a device the sums of all rows are made together, in front of the first post. */
static k3_status_t make_partials(ranks_engine_t *e, k3_error_t *err)
{
    k3_compute_t *c = e->env.compute;
    k3_format_t   format = e->env.cell->combine_format;
    uint32_t      most = 0;

    for (uint64_t i = 0; i < e->rows_here; i++) {
        most = e->row[i].pairs > most ? e->row[i].pairs : most;
    }
    for (uint64_t i = 0; i < e->rows_here; i++) {
        const ranks_row_t *row = &e->row[i];
        uint8_t           *out = back_at(e, row);

        for (uint32_t j = 0; j < most; j++) {
            bool there = j < row->pairs;

            e->parts[i * most + j] = there ? result_at(e, row->pair + j) : NULL;
            e->weights[i * most + j] = there ? e->pair[row->pair + j].weight : 0.0f;
        }
        e->sums[i] = (uint16_t *)(void *)out;
        if (format != K3_FORMAT_BF16) {
            e->sums[i] = e->plain + i * e->g.width;
            e->coded[i] = out;
        }
        e->meta_at[i] = out + meta_at(e);
        write_meta(e, row, e->meta + i * meta_bytes(e));
    }
    c->ops->combine_to(c, e->parts, e->weights, e->rows_here, most, e->g.width, e->sums);
    if (format != K3_FORMAT_BF16) {
        c->ops->encode_to(c, format, e->plain, e->rows_here, e->g.width, e->coded);
    }
    if (meta_bytes(e) > 0) {
        c->ops->place(c, e->meta_at, e->meta, e->rows_here, meta_bytes(e));
    }
    return c->ops->finish(c, err);
}

static void put_result(ranks_engine_t *e, const ranks_row_t *row, uint32_t qp, uint32_t k,
                       const uint8_t *result)
{
    const k3_ranks_t *g = &e->g;

    k3_qps_put(e->qps, (int)row->source, qp, result,
               g->back_recv[e->set] +
                   k3_ranks_back_at(g, e->rank, k, row->row, row->slot) * g->result,
               g->result, g->result_payload);
}

static void send_row(ranks_engine_t *e, const ranks_row_t *row)
{
    const k3_ranks_t *g = &e->g;

    if (e->env.cell->profile->combine_copy == K3_COPY_PER_EXPERT) {
        for (uint64_t pair = row->pair; pair < row->pair + row->pairs; pair++) {
            put_result(e, row, k3_ranks_expert_qp(g, e->pair[pair].expert), e->pair[pair].k,
                       e->results + pair * e->result_stride);
        }
        return;
    }

    uint8_t *out = back_at(e, row);

    if (!k3_ranks_on_device(e)) {
        make_partial(e, row, out);
    }
    if (g->back != K3_BACK_PACKED && g->back != K3_BACK_PULLED) {
        put_result(e, row, k3_ranks_back_qp(e->env.cell, g, row->slot), e->pair[row->pair].k, out);
    }
}

/* Beginning with the first row of the own or a later rank, so that not every rank writes to rank 0 first. */
static void send_rows(ranks_engine_t *e)
{
    uint64_t first = 0;

    while (first < e->rows_here && e->row[first].source < e->rank) {
        first++;
    }
    for (uint64_t i = first; i < e->rows_here; i++) {
        send_row(e, &e->row[i]);
    }
    for (uint64_t i = 0; i < first; i++) {
        send_row(e, &e->row[i]);
    }
}

static void send_parts(ranks_engine_t *e)
{
    const k3_ranks_t *g = &e->g;

    for (uint32_t step = 0; step < g->ranks; step++) {
        uint32_t peer = (e->rank + step) % g->ranks;

        for (uint32_t q = 0; q < g->qps; q++) {
            uint64_t first, n = k3_ranks_part(g, e->counts[peer], q, &first);

            if (n > 0) {
                k3_qps_put(e->qps, (int)peer, q, e->back + (peer * g->m + first) * g->result,
                           g->back_recv[e->set] + (e->rank * g->m + first) * g->result,
                           n * g->result, n * g->result_payload);
            }
        }
    }
}

static void signal_experts(ranks_engine_t *e)
{
    const k3_ranks_t *g = &e->g;

    for (uint32_t step = 0; step < g->ranks; step++) {
        for (uint32_t x = 0; x < g->local; x++) {
            k3_ranks_signal(e, (e->rank + step) % g->ranks, k3_ranks_expert_qp(g, x),
                            &g->words[K3_WORDS_COMBINE], e->rank * g->local + x, 1, true);
        }
    }
}

static k3_status_t send(ranks_engine_t *e, k3_error_t *err)
{
    const k3_ranks_t   *g = &e->g;
    const k3_profile_t *p = e->env.cell->profile;

    if (p->completion == K3_DONE_BARRIER &&
        k3_ranks_barrier(e, K3_TRAFFIC_COMBINE, false, err) != K3_OK) {
        return err->status;
    }
    if (k3_ranks_on_device(e) && p->combine_copy != K3_COPY_PER_EXPERT &&
        make_partials(e, err) != K3_OK) {
        return err->status;
    }
    send_rows(e);
    switch (p->combine_when) {
    case K3_WHEN_PER_QP:
        send_parts(e);
        k3_ranks_flag_parts(e, &g->words[K3_WORDS_COMBINE], e->counts, err);
        break;
    case K3_WHEN_PER_EXPERT:
        signal_experts(e);
        break;
    default:
        for (uint32_t step = 0; step < g->ranks && p->completion != K3_DONE_BARRIER; step++) {
            k3_ranks_signal(e, (e->rank + step) % g->ranks, 0, &g->words[K3_WORDS_COMBINE], e->rank,
                            e->round, false);
        }
        break;
    }
    e->env.compute->ops->copies_done(e->env.compute);
    return err->status;
}

static k3_status_t wait_for_results(ranks_engine_t *e, k3_error_t *err)
{
    const k3_profile_t *p = e->env.cell->profile;
    bool                rounds = p->combine_value == K3_VALUE_ROUND;
    ranks_wait_t        w = {.words = &e->g.words[K3_WORDS_COMBINE],
                             .div = p->combine_when == K3_WHEN_PER_QP       ? e->g.qps
                                    : p->combine_when == K3_WHEN_PER_EXPERT ? e->g.local
                                                                            : 1,
                             .want = rounds ? e->round : 1,
                             .clear = !rounds,
                             .phase = K3_TRAFFIC_COMBINE,
                             .what = "flags"};

    return p->completion == K3_DONE_BARRIER ? k3_ranks_barrier(e, K3_TRAFFIC_COMBINE, true, err)
                                            : k3_ranks_wait(e, &w, err);
}

/* --- the origin's side ----------------------------------------------------------------------- */

/* The sum that a rank made of own row i is read from there. */
static void pull(ranks_engine_t *e, const ranks_target_t *t, uint8_t *to)
{
    const k3_ranks_t *g = &e->g;

    k3_qps_get(e->qps, (int)t->rank, 0, to, g->back_send + (e->base[t->rank] + t->slot) * g->result,
               g->result, g->result_payload);
}

/* On a device a rank's memory is not mapped for its peers: all reads are posted together and waited for, in front
 * of the sums. */
static void pull_all(ranks_engine_t *e, uint64_t rows, k3_error_t *err)
{
    const k3_ranks_t *g = &e->g;

    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < e->targets[i]; j++) {
            pull(e, &e->target[i * g->copies + j], e->pulled + (i * g->copies + j) * g->result);
        }
    }
    e->env.compute->ops->copies_done(e->env.compute);
    k3_qps_land(e->qps, err);
}

/* The sum that one rank made of own row i; j numbers the ranks of the row. */
static const uint8_t *result_of(ranks_engine_t *e, uint64_t i, uint32_t j)
{
    const k3_ranks_t     *g = &e->g;
    const ranks_target_t *t = &e->target[i * g->copies + j];
    const uint8_t        *result;

    if (g->back == K3_BACK_PULLED && k3_ranks_on_device(e)) {
        result = e->pulled + (i * g->copies + j) * g->result;
    } else if (g->back == K3_BACK_PULLED) {
        result = e->pulled + j * g->result;
        pull(e, t, e->pulled + j * g->result);
    } else {
        result = e->block + g->back_recv[e->set] +
                 k3_ranks_back_at(g, t->rank, t->k, i, t->slot) * g->result;
    }
    return result;
}

/* What is added for own row i: `count` parts, NULL behind the last. */
static void list_ranks(ranks_engine_t *e, uint64_t i, uint32_t count, const uint16_t **parts)
{
    for (uint32_t j = 0; j < count; j++) {
        parts[j] = j < e->targets[i] ? (const uint16_t *)(const void *)result_of(e, i, j) : NULL;
    }
}

/* Of row i by the processor, in another format than bf16: rounded to it first. */
static void decode_parts(ranks_engine_t *e, uint32_t count, const uint16_t **parts)
{
    for (uint32_t j = 0; j < count && parts[j] != NULL; j++) {
        const uint8_t *result = (const uint8_t *)parts[j];
        uint16_t      *row = e->part + (uint64_t)j * e->g.width;

        e->env.compute->ops->decode_from(e->env.compute, e->env.cell->combine_format, &result, 1,
                                         e->g.width, row);
        parts[j] = row;
    }
}

/* Those of all rows on a device. */
static void decode_all(ranks_engine_t *e, uint64_t count)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < count; i++) {
        if (e->parts[i] != NULL) {
            const uint16_t *row = e->plain + n * e->g.width;

            e->coded[n++] = (uint8_t *)(uintptr_t)e->parts[i];
            e->parts[i] = row;
        }
    }
    e->env.compute->ops->decode_from(e->env.compute, e->env.cell->combine_format,
                                     (const uint8_t *const *)e->coded, n, e->g.width, e->plain);
}

static void list_experts(ranks_engine_t *e, const k3_rows_t *rows, uint64_t i,
                         const uint16_t **parts)
{
    const k3_ranks_t *g = &e->g;
    const uint8_t    *back = e->block + g->back_recv[e->set];

    for (uint32_t k = 0; k < g->topk; k++) {
        const uint8_t *result = back + k3_ranks_back_at(g, 0, k, i, 0) * g->result;

        parts[k] = rows->ids[i * g->topk + k] < 0 ? NULL : (const uint16_t *)(const void *)result;
    }
}

/* Row by row, so that what was listed is still in the cache; on a device all together. */
static void reduce(ranks_engine_t *e, const k3_rows_t *rows, uint16_t *combined)
{
    const k3_ranks_t *g = &e->g;
    k3_compute_t     *c = e->env.compute;
    bool              by_expert = e->env.cell->profile->combine_copy == K3_COPY_PER_EXPERT;
    bool              together = k3_ranks_on_device(e);
    uint64_t          at_once = together ? rows->count : 1;

    for (uint64_t first = 0; first < rows->count; first += at_once) {
        uint32_t count = by_expert ? g->topk : together ? g->copies : e->targets[first];

        for (uint64_t i = 0; i < at_once; i++) {
            if (by_expert) {
                list_experts(e, rows, first + i, e->parts + i * count);
            } else {
                list_ranks(e, first + i, count, e->parts + i * count);
            }
        }
        if (e->env.cell->combine_format != K3_FORMAT_BF16 && together) {
            decode_all(e, at_once * count);
        } else if (e->env.cell->combine_format != K3_FORMAT_BF16) {
            decode_parts(e, count, e->parts);
        }
        c->ops->combine(c, e->parts, by_expert ? rows->weights + first * g->topk : NULL, at_once,
                        count, g->width, combined + first * g->width);
    }
}

k3_status_t k3_ranks_combine(void *engine, const k3_rows_t *rows, uint16_t *combined,
                             k3_error_t *err)
{
    ranks_engine_t *e = engine;
    k3_spans_t     *spans = e->env.spans;

    if (e->packed != NULL) {
        return k3_packed_combine(e, rows, combined, err);
    }
    k3_span_begin(spans, K3_PHASE_COMBINE_SEND);
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_COMBINE);
    send(e, err);
    k3_span_end(spans, K3_PHASE_COMBINE_SEND);

    k3_span_begin(spans, K3_PHASE_COMBINE_WAIT);
    if (err->status == K3_OK && wait_for_results(e, err) == K3_OK && k3_ranks_on_device(e) &&
        e->g.back == K3_BACK_PULLED) {
        pull_all(e, rows->count, err);
    }
    k3_engine_finish_span(e->qps, e->soft, err);
    k3_span_end(spans, K3_PHASE_COMBINE_WAIT);

    k3_span_begin(spans, K3_PHASE_COMBINE_REDUCE);
    if (err->status == K3_OK) {
        reduce(e, rows, combined);
    }
    k3_span_end(spans, K3_PHASE_COMBINE_REDUCE);
    e->set = (e->set + 1) % e->g.sets;
    return err->status == K3_OK ? e->env.compute->ops->finish(e->env.compute, err) : err->status;
}
