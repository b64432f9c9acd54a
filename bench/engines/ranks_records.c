/* Rows as records: what leaves, and what arrived sorted by expert. */
#include <string.h>

#include "bench/engines/blocks.h"
#include "bench/engines/ranks_engine.h"

/* --- at the origin --------------------------------------------------------------------------- */

/* The ranks that get a row, each once. By rank, so that what comes back is added in that order; where
 * results are told apart by position among the K selections, in their order. */
static uint32_t find_targets(ranks_engine_t *e, const int32_t *ids, ranks_target_t *target)
{
    const k3_ranks_t *g = &e->g;
    uint32_t          list[K3_TOPK_MAX], n = 0;

    for (uint32_t k = g->topk; k > 0; k--) {
        e->first_k[k3_holders_of(&e->holders, ids[k - 1])] = k - 1;
    }
    if (g->back != K3_BACK_BY_TOPK) {
        n = k3_holders_list(&e->holders, ids, g->topk, list);
    } else {
        for (uint32_t k = 0; k < g->topk; k++) {
            list[n] = k3_holders_of(&e->holders, ids[k]);
            n += list[n] < g->ranks && e->first_k[list[n]] == k;
        }
    }
    for (uint32_t j = 0; j < n; j++) {
        target[j] =
            (ranks_target_t){.rank = list[j], .slot = e->next[list[j]]++, .k = e->first_k[list[j]]};
    }
    return n;
}

static void count_rows_of_experts(ranks_engine_t *e, const int32_t *ids)
{
    for (uint32_t k = 0; k < e->g.topk; k++) {
        if (ids[k] >= 0) {
            e->expert_rows[ids[k]]++;
        }
    }
}

static void write_ids(const k3_ranks_t *g, const int32_t *ids, uint8_t *meta)
{
    meta += g->ids_at - g->meta_at;
    if (g->id_bytes == sizeof(int32_t)) {
        memcpy(meta, ids, g->topk * sizeof(int32_t));
        return;
    }
    for (uint32_t k = 0; k < g->topk; k++) {
        uint16_t id = (uint16_t)ids[k]; /* -1 becomes the largest */

        memcpy(meta + k * sizeof(id), &id, sizeof(id));
    }
}

/* All of it but the weights, which are memory of the compute. */
static void write_meta(const ranks_engine_t *e, const k3_rows_t *rows, uint64_t i, uint8_t *meta)
{
    const k3_ranks_t *g = &e->g;
    int32_t           source = (int32_t)(e->rank * g->m + i);

    write_ids(g, rows->ids + i * g->topk, meta);
    if (g->source_at != K3_NO_AREA) {
        memcpy(meta + (g->source_at - g->meta_at), &source, sizeof(source));
    }
}

static void encode_row(ranks_engine_t *e, const k3_rows_t *rows, uint64_t i, uint8_t *record)
{
    const k3_ranks_t *g = &e->g;

    e->env.kernels->encode(e->env.cell->dispatch_format, rows->latent + i * g->width, g->width,
                           record + g->values_at, record + g->scales_at);
    write_meta(e, rows, i, record + g->meta_at);
    if (g->weights_at != K3_NO_AREA) {
        memcpy(record + g->weights_at, rows->weights + i * g->topk, g->topk * sizeof(float));
    }
}

static void encode_on_device(ranks_engine_t *e, const k3_rows_t *rows)
{
    const k3_ranks_t      *g = &e->g;
    k3_compute_t          *c = e->env.compute;
    const k3_encode_rows_t to = {.format = e->env.cell->dispatch_format,
                                 .rows = rows->count,
                                 .width = g->width,
                                 .in = rows->latent,
                                 .records = k3_ranks_record(e, 0),
                                 .stride = g->record,
                                 .values_at = g->values_at,
                                 .scales_at = g->scales_at};

    c->ops->encode(c, &to);
    for (uint64_t i = 0; i < rows->count; i++) {
        write_meta(e, rows, i, e->meta + i * g->meta_bytes);
        e->meta_at[i] = k3_ranks_record(e, i) + g->meta_at;
    }
    c->ops->place(c, e->meta_at, e->meta, rows->count, g->meta_bytes);
    for (uint64_t i = 0; i < rows->count && g->weights_at != K3_NO_AREA; i++) {
        c->ops->copy(c, k3_ranks_record(e, i) + g->weights_at, rows->weights + i * g->topk,
                     g->topk * sizeof(float));
    }
    c->ops->copies_done(c);
}

void k3_ranks_list_rows(ranks_engine_t *e, const k3_rows_t *rows)
{
    const k3_ranks_t *g = &e->g;

    memset(e->next, 0, g->ranks * sizeof(*e->next));
    memset(e->expert_rows, 0, g->experts * sizeof(*e->expert_rows));
    for (uint64_t i = 0; i < rows->count; i++) {
        ranks_target_t *t = e->target + i * g->copies;

        e->targets[i] = find_targets(e, rows->ids + i * g->topk, t);
        count_rows_of_experts(e, rows->ids + i * g->topk);
        for (uint32_t j = 0; e->packs && j < e->targets[i]; j++) {
            e->leaves[t[j].rank * g->m + t[j].slot] = k3_ranks_record(e, i);
        }
    }
}

k3_status_t k3_ranks_encode(ranks_engine_t *e, const k3_rows_t *rows, uint64_t first, uint64_t end,
                            k3_error_t *err)
{
    if (k3_ranks_on_device(e)) {
        encode_on_device(e, rows);
        return e->env.compute->ops->finish(e->env.compute, err);
    }
    for (uint64_t i = first; i < end; i++) {
        if (e->targets[i] > 0) {
            encode_row(e, rows, i, k3_ranks_record(e, i));
        }
    }
    return err->status;
}

/* --- at the experts -------------------------------------------------------------------------- */

enum { AHEAD = 4 }; /* records whose metadata are on their way from memory */

static void read_ids(const k3_ranks_t *g, const uint8_t *meta, int32_t *ids)
{
    uint16_t narrow[K3_TOPK_MAX];

    meta += g->ids_at - g->meta_at;
    if (g->id_bytes == sizeof(*ids)) {
        memcpy(ids, meta, g->topk * sizeof(*ids));
        return;
    }
    memcpy(narrow, meta, g->topk * sizeof(*narrow));
    for (uint32_t k = 0; k < g->topk; k++) {
        ids[k] = narrow[k] == UINT16_MAX ? -1 : narrow[k];
    }
}

static float weight_of(const k3_ranks_t *g, const uint8_t *meta, uint32_t k)
{
    float weight = 1.0f;

    if (g->weights_at != K3_NO_AREA) {
        memcpy(&weight, meta + (g->weights_at - g->meta_at) + k * sizeof(weight), sizeof(weight));
    }
    return weight;
}

static k3_status_t too_many(const ranks_engine_t *e, k3_error_t *err)
{
    return k3_fail(err, K3_ERR_CHECK,
                   "rank %u: more rows arrive than the %llu (row, expert) pairs that the routing "
                   "brings",
                   e->rank, (unsigned long long)e->cap);
}

static k3_status_t check_ids(const ranks_engine_t *e, const int32_t *ids, const ranks_row_t *row,
                             k3_error_t *err)
{
    for (uint32_t k = 0; k < e->g.topk; k++) {
        if (ids[k] < -1 || ids[k] >= (int32_t)e->g.experts) {
            return k3_fail(err, K3_ERR_CHECK, "slot %u of rank %u: expert %d is outside -1..%u",
                           row->slot, row->source, ids[k], e->g.experts - 1);
        }
    }
    return K3_OK;
}

/* The row's pairs with local experts, behind those of the rows before. */
static k3_status_t take_pairs(ranks_engine_t *e, const uint8_t *meta, ranks_row_t *row,
                              k3_error_t *err)
{
    const k3_ranks_t *g = &e->g;
    uint32_t          first = e->rank * g->local;
    int32_t           ids[K3_TOPK_MAX];
    uint64_t          mine;

    read_ids(g, meta, ids);
    if (k3_holders_outside(ids, g->topk, g->experts)) {
        return check_ids(e, ids, row, err);
    }
    mine = k3_holders_mine(ids, g->topk, first, g->local);
    row->pair = e->pairs_here;
    row->pairs = (uint32_t)__builtin_popcountll(mine);
    if (row->pairs > e->cap - e->pairs_here) {
        return too_many(e, err);
    }
    for (; mine != 0; mine &= mine - 1) {
        uint32_t k = (uint32_t)__builtin_ctzll(mine), local = (uint32_t)ids[k] - first;

        e->pair[e->pairs_here++] = (ranks_pair_t){local, k, weight_of(g, meta, k)};
        e->begin[local + 1]++;
    }
    return K3_OK;
}

/* Whose row it is, by its metadata; `source`: by its place, R where that says nothing. */
static k3_status_t take_source(const k3_ranks_t *g, const uint8_t *meta, uint32_t source,
                               ranks_row_t *row, k3_error_t *err)
{
    int32_t flat = (int32_t)(source * g->m);

    if (g->source_at != K3_NO_AREA) {
        memcpy(&flat, meta + (g->source_at - g->meta_at), sizeof(flat));
    }
    if (flat < 0 || (uint64_t)flat >= g->ranks * g->m ||
        (source < g->ranks && (uint64_t)flat / g->m != source)) {
        return k3_fail(err, K3_ERR_CHECK,
                       "slot %u of rank %u: source row %d is not among the %llu of each rank",
                       row->slot, source, flat, (unsigned long long)g->m);
    }
    row->source = (uint32_t)((uint64_t)flat / g->m);
    row->row = (uint32_t)((uint64_t)flat % g->m);
    return K3_OK;
}

/* The metadata behind the values of the records that come next are fetched while this one's are read. */
static void expect_rows(const ranks_engine_t *e, const uint8_t *record, uint64_t from, uint64_t to)
{
    const k3_ranks_t *g = &e->g;

    for (uint64_t i = from; i < to && !k3_ranks_on_device(e); i++) {
        k3_block_expect(record + i * g->record + g->meta_at, g->meta_bytes);
    }
}

/* On a device the metadata of all rows that can have arrived are brought to the host; a source that announced
 * pairs sent no more rows than that. */
static k3_status_t fetch_meta(ranks_engine_t *e, uint8_t *recv, k3_error_t *err)
{
    const k3_ranks_t *g = &e->g;
    k3_compute_t     *c = e->env.compute;
    uint64_t          n = 0;
    bool              compact = e->env.cell->profile->slots == K3_SLOTS_COMPACT;

    for (uint32_t s = 0; s < g->ranks; s++) {
        uint64_t rows = e->counts[s] < g->m ? e->counts[s] : g->m;

        if (rows > e->cap - n) {
            return too_many(e, err);
        }
        e->meta_from[s] = n;
        for (uint64_t i = 0; i < rows; i++) {
            uint64_t place = compact ? k3_ranks_compact_place(e, n) : s * g->m + i;

            e->meta_at[n++] = recv + place * g->record + g->meta_at;
        }
    }
    c->ops->fetch(c, e->meta, (const uint8_t *const *)e->meta_at, n, g->meta_bytes);
    return err->status;
}

/* `source` R: in a compact range, whose rows are taken in their order. */
static const uint8_t *meta_of(const ranks_engine_t *e, const uint8_t *record, uint32_t source,
                              uint32_t slot)
{
    uint64_t i;

    if (!k3_ranks_on_device(e)) {
        return record + e->g.meta_at;
    }
    i = source < e->g.ranks ? e->meta_from[source] + slot : e->rows_here;
    return e->meta + i * e->g.meta_bytes;
}

static k3_status_t take_row(ranks_engine_t *e, const uint8_t *record, uint32_t source,
                            uint32_t slot, k3_error_t *err)
{
    ranks_row_t   *row = &e->row[e->rows_here];
    const uint8_t *meta = meta_of(e, record, source, slot);

    expect_rows(e, record, AHEAD, AHEAD + 1);
    if (e->rows_here == e->cap) {
        return too_many(e, err);
    }
    row->slot = slot;
    if (take_source(&e->g, meta, source, row, err) == K3_OK &&
        take_pairs(e, meta, row, err) == K3_OK && row->pairs == 0) {
        k3_fail(err, K3_ERR_CHECK, "slot %u of rank %u: no expert of rank %u", slot, source,
                e->rank);
    }
    e->rows_here++;
    return err->status;
}

/* Rows of a source are taken until it has shown what it announced: so many rows, or, where it signals for
 * each expert, so many pairs. */
static k3_status_t take_source_rows(ranks_engine_t *e, uint32_t source, const uint8_t *recv,
                                    k3_error_t *err)
{
    bool     pairs = e->env.cell->profile->dispatch_when == K3_WHEN_PER_EXPERT;
    uint64_t before = e->pairs_here, n = e->counts[source];
    uint32_t slot = 0;

    expect_rows(e, recv + source * e->g.m * e->g.record, 0, n < AHEAD ? n : AHEAD);
    while (err->status == K3_OK && (pairs ? e->pairs_here - before : slot) < n) {
        if (slot == e->g.m) {
            return k3_fail(
                err, K3_ERR_CHECK, "rank %u announced %llu %s, its range holds %llu rows", source,
                (unsigned long long)n, pairs ? "pairs" : "rows", (unsigned long long)e->g.m);
        }
        take_row(e, recv + (source * e->g.m + slot) * e->g.record, source, slot, err);
        slot++;
    }
    return err->status;
}

static k3_status_t take_compact_rows(ranks_engine_t *e, const uint8_t *recv, k3_error_t *err)
{
    uint64_t total = k3_ranks_compact_rows(e);

    if (total > e->g.ranks * e->g.m) {
        return too_many(e, err);
    }
    for (uint64_t i = 0; i < total && err->status == K3_OK; i++) {
        uint64_t at = k3_ranks_compact_place(e, i);

        take_row(e, recv + at * e->g.record, e->g.ranks, (uint32_t)at, err);
    }
    return err->status;
}

/* Pointers for the experts: values where they arrived, results by pair. */
static void sort_by_expert(ranks_engine_t *e, const uint8_t *recv)
{
    const k3_ranks_t *g = &e->g;
    bool              compact = e->env.cell->profile->slots == K3_SLOTS_COMPACT;

    for (uint32_t x = 0; x < g->local; x++) {
        e->fill[x] = e->begin[x];
        e->begin[x + 1] += e->begin[x];
    }
    for (uint64_t i = 0; i < e->rows_here; i++) {
        const ranks_row_t *row = &e->row[i];
        uint64_t           place = (compact ? 0 : row->source * g->m) + row->slot;
        const uint8_t     *record = recv + place * g->record;

        for (uint32_t j = 0; j < row->pairs; j++) {
            uint64_t pair = row->pair + j, at = e->fill[e->pair[pair].expert]++;

            e->values[at] = record + g->values_at;
            e->scales[at] = record + g->scales_at;
            e->out[at] = (uint16_t *)(void *)(e->results + pair * e->result_stride);
        }
    }
}

k3_status_t k3_ranks_index(ranks_engine_t *e, k3_error_t *err)
{
    uint8_t *recv = e->block + e->g.recv[e->set];

    e->rows_here = e->pairs_here = 0;
    if (k3_ranks_on_device(e) && fetch_meta(e, recv, err) != K3_OK) {
        return err->status;
    }
    memset(e->begin, 0, (e->g.local + 1) * sizeof(*e->begin));
    if (e->env.cell->profile->slots == K3_SLOTS_COMPACT) {
        take_compact_rows(e, recv, err);
    } else {
        for (uint32_t s = 0; s < e->g.ranks && err->status == K3_OK; s++) {
            take_source_rows(e, s, recv, err);
        }
    }
    if (err->status == K3_OK) {
        sort_by_expert(e, recv);
    }
    return err->status;
}
