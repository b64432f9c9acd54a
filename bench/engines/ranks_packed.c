/* Rows packed for each peer, one for each (row, expert), sorted by expert: the counts of all experts go first to
 * all ranks; meanwhile each peer gets what fits the private range that this rank has there, and when all
 * counts are in, the rest goes behind all private ranges, at places that every rank computes alike. Each write
 * carries an immediate, arrivals are counted, no order is needed. One buffer serves both ways: a barrier after
 * each of them frees it, so what arrived is copied out. */
#include <string.h>

#include "bench/engines/ranks_engine.h"
#include "bench/plan/cell_rows.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"

/* Behind the values of a copy: its row, expert and selection. */
typedef struct packed_meta {
    int32_t row, id, k, unused;
} packed_meta_t;

struct packed_rows {
    uint32_t      *place;                /* [own rows][K] of each copy among those that leave */
    const void   **body;                 /* [own rows K] values and scales of each copy, by place */
    packed_meta_t *meta;                 /* [own rows K] what stands behind them */
    uint64_t      *fill;                 /* [E] */
    uint64_t      *pairs;                /* [R][R] rows from one rank to another */
    uint64_t      *from;                 /* [R + 1] rows of each source among those here */
    uint64_t      *expert_at;            /* [R][local] ... and of each of its experts */
    uint8_t       *copies;               /* [cap] records; memory of the compute */
    uint8_t       *rows;                 /* on a device: [own rows] in the format */
    uint64_t       row;                  /* bytes of one */
    uint8_t      **meta_at;              /* [own rows K] where the metadata of each copy goes */
    uint32_t      *want[K3_WORDS_COUNT]; /* [R] immediates of each source so far */
};

void k3_packed_destroy(ranks_engine_t *e)
{
    struct packed_rows *p = e->packed;

    if (p == NULL) {
        return;
    }
    for (int i = 0; i < K3_WORDS_COUNT; i++) {
        k3_free(p->want[i]);
    }
    k3_compute_free(e->env.compute, p->rows);
    k3_compute_free(e->env.compute, p->copies);
    k3_free(p->meta_at);
    k3_free(p->expert_at);
    k3_free(p->from);
    k3_free(p->pairs);
    k3_free(p->fill);
    k3_free(p->meta);
    k3_free(p->body);
    k3_free(p->place);
    k3_free(p);
    e->packed = NULL;
}

k3_status_t k3_packed_create(ranks_engine_t *e, k3_error_t *err)
{
    const k3_ranks_t   *g = &e->g;
    uint64_t            first, rows, cap = k3_rows_arriving(e->env.cell, e->rank);
    struct packed_rows *p;

    k3_cell_dispatched(e->env.cell, e->rank, &first, &rows);
    if (k3_alloc("packed rows", 1, sizeof(*p), &e->packed, err) != K3_OK) {
        return err->status;
    }
    p = e->packed;
    for (int i = 0; i < K3_WORDS_COUNT; i++) {
        if (k3_alloc("immediates expected", g->ranks, sizeof(uint32_t), &p->want[i], err) !=
            K3_OK) {
            return err->status;
        }
    }
    if (k3_alloc("places of the selections", rows * g->topk, sizeof(uint32_t), &p->place, err) !=
            K3_OK ||
        k3_alloc("rows by expert", rows * g->topk, sizeof(void *), &p->body, err) != K3_OK ||
        k3_alloc("metadata by expert", rows * g->topk, sizeof(packed_meta_t), &p->meta, err) !=
            K3_OK ||
        k3_alloc("places", g->experts, sizeof(uint64_t), &p->fill, err) != K3_OK ||
        k3_alloc("rows between ranks", (uint64_t)g->ranks * g->ranks, sizeof(uint64_t), &p->pairs,
                 err) != K3_OK ||
        k3_alloc("source ranges", (uint64_t)g->ranks + 1, sizeof(uint64_t), &p->from, err) !=
            K3_OK ||
        k3_alloc("ranges of experts", g->experts, sizeof(uint64_t), &p->expert_at, err) != K3_OK ||
        k3_compute_alloc(e->env.compute, "copies of the rows", cap, g->record, false, &p->copies,
                         err) != K3_OK) {
        return err->status;
    }
    if (!k3_ranks_on_device(e)) {
        return K3_OK;
    }
    p->row = k3_round_up(g->source_at, 16);
    return k3_alloc("places of metadata", rows * g->topk, sizeof(void *), &p->meta_at, err) == K3_OK
               ? k3_compute_alloc(e->env.compute, "rows in their format", rows, p->row, false,
                                  &p->rows, err)
               : err->status;
}

/* --- packing --------------------------------------------------------------------------------- */

static uint32_t *count_line(const ranks_engine_t *e, uint32_t source)
{
    return (uint32_t *)(void *)(e->words + e->g.counts) + (uint64_t)source * e->g.experts;
}

static uint64_t pairs_between(const ranks_engine_t *e, uint32_t source, uint32_t rank)
{
    return e->packed->pairs[(uint64_t)source * e->g.ranks + rank];
}

static uint64_t beyond_private(const ranks_engine_t *e, uint32_t source, uint32_t rank)
{
    uint64_t n = pairs_between(e, source, rank);

    return n > e->g.private_rows ? n - e->g.private_rows : 0;
}

/* Where the rows from `source` to `rank` begin among all that leave the source. */
static uint64_t leaves_at(const ranks_engine_t *e, uint32_t source, uint32_t rank)
{
    uint64_t at = 0;

    for (uint32_t r = 0; r < rank; r++) {
        at += pairs_between(e, source, r);
    }
    return at;
}

static void add_pairs(ranks_engine_t *e, uint32_t source)
{
    const k3_ranks_t *g = &e->g;
    const uint32_t   *line = count_line(e, source);

    for (uint32_t r = 0; r < g->ranks; r++) {
        uint64_t n = 0;

        for (uint32_t x = 0; x < g->local; x++) {
            n += line[r * g->local + x];
        }
        e->packed->pairs[(uint64_t)source * g->ranks + r] = n;
    }
}

/* The own line of counts, and where the rows of each expert begin. */
static void count_rows(ranks_engine_t *e, const k3_rows_t *rows)
{
    const k3_ranks_t *g = &e->g;
    uint32_t         *line = count_line(e, e->rank);
    uint64_t          at = 0;

    memset(line, 0, g->experts * sizeof(*line));
    for (uint64_t i = 0; i < rows->count * g->topk; i++) {
        if (rows->ids[i] >= 0) {
            line[rows->ids[i]]++;
        }
    }
    for (uint32_t x = 0; x < g->experts; x++) {
        e->packed->fill[x] = at;
        at += line[x];
    }
    add_pairs(e, e->rank);
}

static void encode_row(ranks_engine_t *e, const k3_rows_t *rows, uint64_t i, uint8_t *body)
{
    const k3_ranks_t *g = &e->g;

    e->env.kernels->encode(e->env.cell->dispatch_format, rows->latent + i * g->width, g->width,
                           body + g->values_at, body + g->scales_at);
}

/* On a device rows are brought to their format apart, and all copies are made together. */
static k3_status_t pack_on_device(ranks_engine_t *e, const k3_rows_t *rows, uint64_t copies,
                                  k3_error_t *err)
{
    const k3_ranks_t      *g = &e->g;
    struct packed_rows    *p = e->packed;
    k3_compute_t          *c = e->env.compute;
    const k3_encode_rows_t to = {.format = e->env.cell->dispatch_format,
                                 .rows = rows->count,
                                 .width = g->width,
                                 .in = rows->latent,
                                 .records = p->rows,
                                 .stride = p->row,
                                 .values_at = g->values_at,
                                 .scales_at = g->scales_at};

    c->ops->encode(c, &to);
    for (uint64_t place = 0; place < copies; place++) {
        uint8_t *record = e->send + place * g->record;

        c->ops->copy(c, record, p->body[place], g->source_at);
        p->meta_at[place] = record + g->source_at;
    }
    c->ops->place(c, p->meta_at, p->meta, copies, sizeof(packed_meta_t));
    return c->ops->finish(c, err);
}

/* Each row is brought to its format once, at the place of its first copy. */
static k3_status_t sort_rows(ranks_engine_t *e, const k3_rows_t *rows, k3_error_t *err)
{
    const k3_ranks_t   *g = &e->g;
    struct packed_rows *p = e->packed;
    uint64_t            copies = 0;

    for (uint64_t i = 0; i < rows->count; i++) {
        uint8_t *body = p->rows != NULL ? p->rows + i * p->row : NULL;

        for (uint32_t k = 0; k < g->topk; k++) {
            int32_t  id = rows->ids[i * g->topk + k];
            uint64_t place;

            if (id < 0) {
                continue;
            }
            place = p->fill[id]++;
            p->place[i * g->topk + k] = (uint32_t)place;
            if (body == NULL) {
                body = e->send + place * g->record;
                encode_row(e, rows, i, body);
            }
            p->body[place] = body;
            p->meta[place] = (packed_meta_t){.row = (int32_t)i, .id = id, .k = (int32_t)k};
            copies++;
        }
    }
    return p->rows != NULL ? pack_on_device(e, rows, copies, err) : K3_OK;
}

/* --- immediates ------------------------------------------------------------------------------ */

static void immediate(ranks_engine_t *e, uint32_t peer, uint32_t qp, k3_words_kind_t kind)
{
    if (peer != e->rank) {
        k3_ranks_signal(e, peer, qp, &e->g.words[kind], e->rank, 1, true);
    }
}

static void expect(ranks_engine_t *e, k3_words_kind_t kind, uint32_t source, uint32_t times)
{
    if (source != e->rank) {
        e->packed->want[kind][source] += times;
    }
}

static k3_status_t wait_for(ranks_engine_t *e, k3_words_kind_t kind, k3_traffic_phase_t phase,
                            const char *what, k3_error_t *err)
{
    bool         rows = kind == K3_WORDS_DISPATCH || kind == K3_WORDS_COMBINE;
    ranks_wait_t wait = {.words = &e->g.words[kind],
                         .div = 1,
                         .qp = rows ? k3_ranks_bulk_qp(&e->g) : 0,
                         .wants = e->packed->want[kind],
                         .phase = phase,
                         .what = what};

    return k3_ranks_wait(e, &wait, err);
}

/* The buffer is free when all ranks have read what they had in theirs. */
static k3_status_t free_buffer(ranks_engine_t *e, k3_traffic_phase_t phase, k3_error_t *err)
{
    for (uint32_t step = 1; step < e->g.ranks; step++) {
        uint32_t peer = (e->rank + step) % e->g.ranks;

        immediate(e, peer, 0, K3_WORDS_BARRIER);
        expect(e, K3_WORDS_BARRIER, peer, 1);
    }
    return wait_for(e, K3_WORDS_BARRIER, phase, "barrier immediates", err);
}

/* --- dispatch -------------------------------------------------------------------------------- */

static void send_counts(ranks_engine_t *e)
{
    const k3_ranks_t *g = &e->g;
    uint64_t          bytes = g->experts * sizeof(uint32_t);

    for (uint32_t step = 1; step < g->ranks; step++) {
        uint32_t peer = (e->rank + step) % g->ranks;

        k3_qps_put_words(e->qps, (int)peer, 0, count_line(e, e->rank), g->counts + e->rank * bytes,
                         bytes);
        immediate(e, peer, 0, K3_WORDS_NOTIFY);
        expect(e, K3_WORDS_NOTIFY, peer, 1);
    }
}

/* The copies at the places from `at` on, as they leave through a queue pair; packed just before it reads them,
 * if they are not yet. */
static const uint8_t *pack(ranks_engine_t *e, uint64_t at, uint64_t n)
{
    const k3_ranks_t *g = &e->g;

    for (uint64_t i = at; i < at + n && !k3_ranks_on_device(e); i++) {
        uint8_t *record = e->send + i * g->record;

        if (e->packed->body[i] != record) {
            memcpy(record, e->packed->body[i], g->source_at);
        }
        memcpy(record + g->source_at, &e->packed->meta[i], sizeof(packed_meta_t));
    }
    return e->send + at * g->record;
}

/* `n` rows to the peer, from `first` on of those that leave for it, to row `to` of its buffer. Mapped memory
 * is stored to from where they lie. */
static void send_range(ranks_engine_t *e, uint32_t peer, uint64_t first, uint64_t n, uint64_t to)
{
    const k3_ranks_t *g = &e->g;
    uint64_t          at = leaves_at(e, e->rank, peer) + first;
    uint64_t          offset = g->recv[0] + to * g->record, payload = n * g->record_payload;
    uint32_t          qp = k3_ranks_bulk_qp(g);

    if (n == 0) {
        return;
    }
    if (k3_qps_mapped(e->qps, (int)peer) != NULL && !k3_ranks_on_device(e)) {
        k3_gather_t from = {.rows = e->packed->body + at,
                            .row_bytes = g->source_at,
                            .tails = (const char *)(e->packed->meta + at),
                            .tail_bytes = sizeof(packed_meta_t),
                            .count = n};

        k3_qps_put_gather(e->qps, (int)peer, qp, &from, offset, payload);
    } else {
        k3_qps_put(e->qps, (int)peer, qp, pack(e, at, n), offset, n * g->record, payload);
    }
    immediate(e, peer, qp, K3_WORDS_DISPATCH);
}

static void send_private(ranks_engine_t *e)
{
    const k3_ranks_t *g = &e->g;

    for (uint32_t step = 0; step < g->ranks; step++) {
        uint32_t peer = (e->rank + step) % g->ranks;
        uint64_t n = pairs_between(e, e->rank, peer);

        send_range(e, peer, 0, n < g->private_rows ? n : g->private_rows,
                   e->rank * g->private_rows);
    }
}

/* Where the rest of a source's rows lies at `rank`. */
static uint64_t shared_at(const ranks_engine_t *e, uint32_t source, uint32_t rank)
{
    uint64_t at = e->g.private_rows * e->g.ranks;

    for (uint32_t s = 0; s < source; s++) {
        at += beyond_private(e, s, rank);
    }
    return at;
}

static void place_experts(ranks_engine_t *e, uint32_t source)
{
    const k3_ranks_t *g = &e->g;
    const uint32_t   *line = count_line(e, source) + e->rank * g->local;
    uint64_t          at = e->packed->from[source];

    for (uint32_t x = 0; x < g->local; x++) {
        e->packed->expert_at[(uint64_t)source * g->local + x] = at;
        at += line[x];
    }
}

static k3_status_t read_counts(ranks_engine_t *e, k3_error_t *err)
{
    const k3_ranks_t *g = &e->g;

    for (uint32_t s = 0; s < g->ranks; s++) {
        const uint32_t *line = count_line(e, s);

        for (uint32_t x = 0; x < g->experts; x++) {
            if (line[x] > g->m) {
                return k3_fail(err, K3_ERR_CHECK,
                               "rank %u announced %u rows for expert %u, at most %llu can be", s,
                               line[x], x, (unsigned long long)g->m);
            }
        }
        add_pairs(e, s);
        e->packed->from[s + 1] = e->packed->from[s] + pairs_between(e, s, e->rank);
        place_experts(e, s);
    }
    for (uint32_t r = 0; r < g->ranks; r++) {
        if (shared_at(e, g->ranks, r) > g->private_rows * g->ranks + g->shared_rows) {
            return k3_fail(err, K3_ERR_CHECK, "rank %u: more rows were announced than fit", r);
        }
    }
    if (e->packed->from[g->ranks] > e->cap) {
        return k3_fail(err, K3_ERR_CHECK, "%llu rows announced, the routing brings %llu",
                       (unsigned long long)e->packed->from[g->ranks], (unsigned long long)e->cap);
    }
    return K3_OK;
}

static void send_rest(ranks_engine_t *e)
{
    const k3_ranks_t *g = &e->g;

    for (uint32_t step = 0; step < g->ranks; step++) {
        uint32_t peer = (e->rank + step) % g->ranks;
        uint64_t n = pairs_between(e, peer, e->rank);

        send_range(e, peer, g->private_rows, beyond_private(e, e->rank, peer),
                   shared_at(e, e->rank, peer));
        expect(e, K3_WORDS_DISPATCH, peer, (n > 0) + (n > g->private_rows));
    }
}

static k3_status_t copy_rows(ranks_engine_t *e, k3_error_t *err)
{
    k3_compute_t     *c = e->env.compute;
    const k3_ranks_t *g = &e->g;
    const uint8_t    *recv = e->block + g->recv[0];

    for (uint32_t s = 0; s < g->ranks; s++) {
        uint8_t *to = e->packed->copies + e->packed->from[s] * g->record;
        uint64_t rest = beyond_private(e, s, e->rank);
        uint64_t n = pairs_between(e, s, e->rank) - rest;

        c->ops->copy(c, to, recv + s * g->private_rows * g->record, n * g->record);
        c->ops->copy(c, to + n * g->record, recv + shared_at(e, s, e->rank) * g->record,
                     rest * g->record);
    }
    c->ops->copies_done(c);
    return c->ops->finish(c, err);
}

/* Counts to all, and what fits the private ranges without waiting for theirs. */
static k3_status_t send_ahead(ranks_engine_t *e, k3_error_t *err)
{
    k3_spans_t *spans = e->env.spans;

    k3_span_begin(spans, K3_PHASE_NOTIFY);
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_NOTIFY);
    send_counts(e);
    k3_span_end(spans, K3_PHASE_NOTIFY);

    k3_span_begin(spans, K3_PHASE_DISPATCH_SEND);
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_DISPATCH);
    send_private(e);
    k3_span_end(spans, K3_PHASE_DISPATCH_SEND);

    k3_span_begin(spans, K3_PHASE_NOTIFY);
    if (wait_for(e, K3_WORDS_NOTIFY, K3_TRAFFIC_NOTIFY, "counts", err) == K3_OK) {
        read_counts(e, err);
    }
    k3_span_end(spans, K3_PHASE_NOTIFY);
    return err->status;
}

k3_status_t k3_packed_dispatch(ranks_engine_t *e, const k3_rows_t *rows, k3_error_t *err)
{
    k3_spans_t *spans = e->env.spans;

    k3_span_begin(spans, K3_PHASE_QUANTIZE);
    count_rows(e, rows);
    sort_rows(e, rows, err);
    k3_span_end(spans, K3_PHASE_QUANTIZE);
    if (err->status != K3_OK || send_ahead(e, err) != K3_OK) {
        return err->status;
    }

    k3_span_begin(spans, K3_PHASE_DISPATCH_SEND);
    send_rest(e);
    k3_span_end(spans, K3_PHASE_DISPATCH_SEND);

    k3_span_begin(spans, K3_PHASE_DISPATCH_WAIT);
    if (wait_for(e, K3_WORDS_DISPATCH, K3_TRAFFIC_DISPATCH, "immediates", err) == K3_OK) {
        e->env.compute->ops->copies_done(e->env.compute); /* rows of the own rank */
        if (copy_rows(e, err) == K3_OK) {
            free_buffer(e, K3_TRAFFIC_DISPATCH, err);
        }
    }
    k3_engine_finish_span(e->qps, e->soft, err);
    k3_span_end(spans, K3_PHASE_DISPATCH_WAIT);
    return err->status;
}

/* --- experts --------------------------------------------------------------------------------- */

/* The rows of a source are sorted by expert; results lie in the same order, where the combine sends from. */
void k3_packed_expert(ranks_engine_t *e, uint32_t local_expert, k3_expert_rows_t *work)
{
    const k3_ranks_t *g = &e->g;
    size_t            n = 0;

    for (uint32_t s = 0; s < g->ranks; s++) {
        const uint32_t *line = count_line(e, s) + e->rank * g->local;
        uint64_t        at = e->packed->expert_at[(uint64_t)s * g->local + local_expert];

        for (uint32_t i = line[local_expert]; i > 0; i--, at++, n++) {
            const uint8_t *record = e->packed->copies + at * g->record;

            e->values[n] = record + g->values_at;
            e->scales[n] = record + g->scales_at;
            e->out[n] = (uint16_t *)(void *)(e->back + at * g->result);
        }
    }
    *work = (k3_expert_rows_t){n, e->env.cell->dispatch_format, e->values, e->scales, e->out};
}

/* --- combine --------------------------------------------------------------------------------- */

/* One write for each origin, to where its rows left from. */
static void send_results(ranks_engine_t *e)
{
    const k3_ranks_t *g = &e->g;

    for (uint32_t step = 0; step < g->ranks; step++) {
        uint32_t peer = (e->rank + step) % g->ranks;
        uint64_t n = pairs_between(e, peer, e->rank);

        if (n > 0) {
            k3_qps_put(e->qps, (int)peer, k3_ranks_bulk_qp(g),
                       e->back + e->packed->from[peer] * g->result,
                       g->back_recv[0] + leaves_at(e, peer, e->rank) * g->result, n * g->result,
                       n * g->result_payload);
        }
        immediate(e, peer, k3_ranks_bulk_qp(g), K3_WORDS_COMBINE);
        expect(e, K3_WORDS_COMBINE, peer, 1);
    }
}

static void reduce(ranks_engine_t *e, const k3_rows_t *rows, uint16_t *combined)
{
    const k3_ranks_t *g = &e->g;
    const uint8_t    *back = e->block + g->back_recv[0];
    uint64_t          at_once = k3_ranks_on_device(e) ? rows->count : 1;

    for (uint64_t first = 0; first < rows->count; first += at_once) {
        for (uint64_t i = 0; i < at_once * g->topk; i++) {
            uint64_t       at = first * g->topk + i;
            const uint8_t *result = back + e->packed->place[at] * g->result;

            e->parts[i] = rows->ids[at] < 0 ? NULL : (const uint16_t *)(const void *)result;
        }
        e->env.compute->ops->combine(e->env.compute, e->parts, rows->weights + first * g->topk,
                                     at_once, g->topk, g->width, combined + first * g->width);
    }
}

k3_status_t k3_packed_combine(ranks_engine_t *e, const k3_rows_t *rows, uint16_t *combined,
                              k3_error_t *err)
{
    k3_spans_t *spans = e->env.spans;

    k3_span_begin(spans, K3_PHASE_COMBINE_SEND);
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_COMBINE);
    send_results(e);
    e->env.compute->ops->copies_done(e->env.compute);
    k3_span_end(spans, K3_PHASE_COMBINE_SEND);

    k3_span_begin(spans, K3_PHASE_COMBINE_WAIT);
    wait_for(e, K3_WORDS_COMBINE, K3_TRAFFIC_COMBINE, "immediates", err);
    k3_span_end(spans, K3_PHASE_COMBINE_WAIT);
    if (err->status != K3_OK) {
        return err->status;
    }

    k3_span_begin(spans, K3_PHASE_COMBINE_REDUCE);
    reduce(e, rows, combined);
    k3_span_end(spans, K3_PHASE_COMBINE_REDUCE);
    if (e->env.compute->ops->finish(e->env.compute, err) != K3_OK) {
        return err->status;
    }

    k3_span_begin(spans, K3_PHASE_COMBINE_WAIT);
    free_buffer(e, K3_TRAFFIC_COMBINE, err);
    k3_engine_finish_span(e->qps, e->soft, err);
    k3_span_end(spans, K3_PHASE_COMBINE_WAIT);
    return err->status;
}
