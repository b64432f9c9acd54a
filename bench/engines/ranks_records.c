/* Rows as records: what leaves, and what arrived sorted by expert. */
#include <string.h>

#include "bench/engines/ranks_engine.h"

/* --- at the origin --------------------------------------------------------------------------- */

/* The ranks that get row i, each once. By rank, so that what comes back is added in that order; where
 * results are told apart by position among the K selections, in their order. */
static uint32_t find_targets(ranks_engine_t *e, const int32_t *ids, ranks_target_t *target)
{
    const k3_ranks_t *g = &e->g;
    uint32_t          n = 0;

    for (uint32_t k = 0; k < g->topk; k++) {
        uint32_t rank, at = 0;

        if (ids[k] < 0) {
            continue;
        }
        rank = (uint32_t)ids[k] / g->local;
        e->expert_rows[ids[k]]++;
        while (at < n && target[at].rank != rank) {
            at++;
        }
        if (at < n) {
            continue;
        }
        for (; g->back != K3_BACK_BY_TOPK && at > 0 && target[at - 1].rank > rank; at--) {
            target[at] = target[at - 1];
        }
        target[at] = (ranks_target_t){.rank = rank, .slot = e->next[rank]++, .k = k};
        n++;
    }
    return n;
}

static void write_ids(const k3_ranks_t *g, const int32_t *ids, uint8_t *record)
{
    if (g->id_bytes == sizeof(int32_t)) {
        memcpy(record + g->ids_at, ids, g->topk * sizeof(int32_t));
        return;
    }
    for (uint32_t k = 0; k < g->topk; k++) {
        uint16_t id = (uint16_t)ids[k]; /* -1 becomes the largest */

        memcpy(record + g->ids_at + k * sizeof(id), &id, sizeof(id));
    }
}

static void encode_row(ranks_engine_t *e, const k3_rows_t *rows, uint64_t i, uint8_t *record)
{
    const k3_ranks_t *g = &e->g;
    int32_t           source = (int32_t)(e->rank * g->m + i);

    e->env.kernels->encode(e->env.cell->dispatch_format, rows->latent + i * g->width, g->width,
                           record + g->values_at, record + g->scales_at);
    write_ids(g, rows->ids + i * g->topk, record);
    if (g->weights_at != K3_NO_AREA) {
        memcpy(record + g->weights_at, rows->weights + i * g->topk, g->topk * sizeof(float));
    }
    if (g->source_at != K3_NO_AREA) {
        memcpy(record + g->source_at, &source, sizeof(source));
    }
}

void k3_ranks_encode(ranks_engine_t *e, const k3_rows_t *rows)
{
    const k3_ranks_t *g = &e->g;

    memset(e->next, 0, g->ranks * sizeof(*e->next));
    memset(e->expert_rows, 0, g->experts * sizeof(*e->expert_rows));
    for (uint64_t i = 0; i < rows->count; i++) {
        ranks_target_t *t = e->target + i * g->copies;
        uint32_t        n = find_targets(e, rows->ids + i * g->topk, t);

        e->targets[i] = n;
        if (n > 0) {
            encode_row(e, rows, i, k3_ranks_record(e, i));
        }
        for (uint32_t j = 0; e->packs && j < n; j++) {
            e->leaves[t[j].rank * g->m + t[j].slot] = k3_ranks_record(e, i);
        }
    }
}

/* --- at the experts -------------------------------------------------------------------------- */

static int32_t read_id(const k3_ranks_t *g, const uint8_t *record, uint32_t k)
{
    int32_t  id;
    uint16_t narrow;

    if (g->id_bytes == sizeof(int32_t)) {
        memcpy(&id, record + g->ids_at + k * sizeof(id), sizeof(id));
        return id;
    }
    memcpy(&narrow, record + g->ids_at + k * sizeof(narrow), sizeof(narrow));
    return narrow == UINT16_MAX ? -1 : narrow;
}

static k3_status_t too_many(const ranks_engine_t *e, k3_error_t *err)
{
    return k3_fail(err, K3_ERR_CHECK,
                   "rank %u: more rows arrive than the %llu (row, expert) pairs that the routing "
                   "brings",
                   e->rank, (unsigned long long)e->cap);
}

/* The row's pairs with local experts, behind those of the rows before. */
static k3_status_t take_pairs(ranks_engine_t *e, const uint8_t *record, ranks_row_t *row,
                              k3_error_t *err)
{
    const k3_ranks_t *g = &e->g;
    uint32_t          first = e->rank * g->local;

    row->pair = e->pairs_here;
    row->pairs = 0;
    for (uint32_t k = 0; k < g->topk; k++) {
        int32_t id = read_id(g, record, k);
        float   weight = 1.0f;

        if (id < -1 || id >= (int32_t)g->experts) {
            return k3_fail(err, K3_ERR_CHECK, "slot %u of rank %u: expert %d is outside -1..%u",
                           row->slot, row->source, id, g->experts - 1);
        }
        if (id < (int32_t)first || id >= (int32_t)(first + g->local)) {
            continue;
        }
        if (e->pairs_here == e->cap) {
            return too_many(e, err);
        }
        if (g->weights_at != K3_NO_AREA) {
            memcpy(&weight, record + g->weights_at + k * sizeof(weight), sizeof(weight));
        }
        e->pair[e->pairs_here++] = (ranks_pair_t){(uint32_t)id - first, k, weight};
        e->begin[(uint32_t)id - first + 1]++;
        row->pairs++;
    }
    return K3_OK;
}

/* Whose row it is, by its metadata; `source`: by its place, R where that says nothing. */
static k3_status_t take_source(const k3_ranks_t *g, const uint8_t *record, uint32_t source,
                               ranks_row_t *row, k3_error_t *err)
{
    int32_t flat = (int32_t)(source * g->m);

    if (g->source_at != K3_NO_AREA) {
        memcpy(&flat, record + g->source_at, sizeof(flat));
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

/* The metadata behind the values of the next record are fetched while this one's are read. */
static void expect_row(const k3_ranks_t *g, const uint8_t *next)
{
    for (uint64_t at = g->ids_at; at < g->record + 64; at += 64) {
        __builtin_prefetch(next + at);
    }
}

static k3_status_t take_row(ranks_engine_t *e, const uint8_t *record, uint32_t source,
                            uint32_t slot, k3_error_t *err)
{
    ranks_row_t *row = &e->row[e->rows_here];

    expect_row(&e->g, record + e->g.record);
    if (e->rows_here == e->cap) {
        return too_many(e, err);
    }
    row->slot = slot;
    if (take_source(&e->g, record, source, row, err) == K3_OK &&
        take_pairs(e, record, row, err) == K3_OK && row->pairs == 0) {
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
    uint64_t total = 0;

    for (uint32_t s = 0; s < e->g.ranks; s++) {
        total += e->counts[s];
    }
    if (total > e->g.ranks * e->g.m) {
        return too_many(e, err);
    }
    for (uint64_t at = 0; at < total && err->status == K3_OK; at++) {
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
    const uint8_t *recv = e->block + e->g.recv[e->set];

    e->rows_here = e->pairs_here = 0;
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
