/* Dispatch: rows to the ranks that hold their experts, and how those learn how many there are. */
#include <string.h>

#include "bench/engines/blocks.h"
#include "bench/engines/ranks_engine.h"

/* --- counts in front of the rows ------------------------------------------------------------- */

/* To each rank the number of rows for it, and the numbers for each of its experts: -(n + 1), so that no value
 * is 0. */
static void send_counts(ranks_engine_t *e, int64_t *line)
{
    const k3_ranks_t *g = &e->g;
    uint64_t          bytes = g->local * sizeof(int64_t);

    for (uint32_t step = 0; step < g->ranks; step++) {
        uint32_t peer = (e->rank + step) % g->ranks;
        int64_t *own = line + peer * (1 + (uint64_t)g->local);

        own[0] = -(int64_t)e->next[peer] - 1;
        for (uint32_t x = 0; x < g->local; x++) {
            own[1 + x] = -(int64_t)e->expert_rows[peer * g->local + x] - 1;
        }
        k3_qps_put_words(e->qps, (int)peer, 0, own, g->counts + e->rank * sizeof(int64_t),
                         sizeof(int64_t));
        k3_qps_put_words(e->qps, (int)peer, 0, own + 1,
                         g->counts + g->ranks * sizeof(int64_t) + e->rank * bytes, bytes);
    }
}

/* The rows may be overwritten once all ranks are here: they have read what they had. */
static k3_status_t notify(ranks_engine_t *e, k3_error_t *err)
{
    k3_span_begin(e->env.spans, K3_PHASE_NOTIFY);
    if (k3_ranks_barrier(e, K3_TRAFFIC_DISPATCH, false, err) == K3_OK) {
        k3_qps_bank_begin(e->qps, K3_TRAFFIC_NOTIFY);
        send_counts(e, e->announced);
        k3_qps_bank_begin(e->qps, K3_TRAFFIC_DISPATCH);
    }
    k3_span_end(e->env.spans, K3_PHASE_NOTIFY);
    return err->status;
}

/* The counts arrived before the closing barrier ended. */
static k3_status_t read_counts(ranks_engine_t *e, k3_error_t *err)
{
    const k3_ranks_t *g = &e->g;
    uint8_t          *rows = e->words + g->counts, *experts = rows + g->ranks * sizeof(int64_t);

    e->announced_pairs = 0;
    for (uint32_t s = 0; s < g->ranks; s++) {
        int64_t n = -(int64_t)k3_signal_read64(rows + s * sizeof(int64_t)) - 1;

        if (n < 0 || (uint64_t)n > g->m) {
            return k3_fail(err, K3_ERR_CHECK, "rank %u announced %lld rows, its range holds %llu",
                           s, (long long)n, (unsigned long long)g->m);
        }
        e->counts[s] = (uint32_t)n;
        k3_signal_clear64(rows + s * sizeof(int64_t));
        for (uint32_t x = 0; x < g->local; x++) {
            uint8_t *word = experts + ((uint64_t)s * g->local + x) * sizeof(int64_t);

            e->announced_pairs += (uint64_t)(-(int64_t)k3_signal_read64(word) - 1);
            k3_signal_clear64(word);
        }
    }
    return K3_OK;
}

/* --- rows ------------------------------------------------------------------------------------ */

static void send_rows(ranks_engine_t *e, const k3_rows_t *rows, uint64_t first, uint64_t end)
{
    const k3_ranks_t *g = &e->g;
    uint64_t          recv = g->recv[e->set];
    k3_copy_t         to[K3_TOPK_MAX];

    for (uint64_t i = first; i < end; i++) {
        const ranks_target_t *t = e->target + i * g->copies;

        for (uint32_t j = 0; j < e->targets[i]; j++) {
            to[j] = (k3_copy_t){
                .offset = recv + (e->base[t[j].rank] + t[j].slot) * g->record,
                .peer = (int)t[j].rank,
                .qp = k3_ranks_row_qp(e->env.cell, g, i, t[j].slot),
            };
        }
        k3_block_fetch_ahead(rows, g->width, i);
        k3_qps_put_copies(e->qps, to, e->targets[i], k3_ranks_record(e, i), g->record,
                          g->record_payload);
    }
}

/* A message of n rows, from `first` on of those for the peer. Mapped memory is stored to from where the rows
 * lie; for a queue pair they are packed here, just before it reads them. */
static void send_part(ranks_engine_t *e, uint32_t peer, uint32_t qp, uint64_t first, uint64_t n)
{
    const k3_ranks_t  *g = &e->g;
    const void *const *rows = e->leaves + peer * g->m + first;
    uint8_t           *packed = e->send + (peer * g->m + first) * g->record;
    uint64_t           to = g->recv[e->set] + (e->base[peer] + first) * g->record;

    if (k3_qps_mapped(e->qps, (int)peer) != NULL) {
        k3_gather_t from = {.rows = rows, .row_bytes = g->record, .count = n};

        k3_qps_put_gather(e->qps, (int)peer, qp, &from, to, n * g->record_payload);
        return;
    }
    for (uint64_t i = 0; i < n && !k3_ranks_on_device(e); i++) {
        memcpy(packed + i * g->record, rows[i], g->record);
    }
    k3_qps_put(e->qps, (int)peer, qp, packed, to, n * g->record, n * g->record_payload);
}

/* On a device all that leaves through queue pairs is packed together, in front of the first post. */
static k3_status_t pack_on_device(ranks_engine_t *e, k3_error_t *err)
{
    const k3_ranks_t *g = &e->g;
    k3_compute_t     *c = e->env.compute;

    for (uint32_t peer = 0; peer < g->ranks; peer++) {
        for (uint64_t i = 0; i < e->next[peer] && peer != e->rank; i++) {
            c->ops->copy(c, e->send + (peer * g->m + i) * g->record, e->leaves[peer * g->m + i],
                         g->record);
        }
    }
    c->ops->copies_done(c);
    return c->ops->finish(c, err);
}

/* One put for each QP of each peer. */
static void send_parts(ranks_engine_t *e)
{
    const k3_ranks_t *g = &e->g;

    for (uint32_t step = 0; step < g->ranks; step++) {
        uint32_t peer = (e->rank + step) % g->ranks;

        for (uint32_t q = 0; q < g->qps; q++) {
            uint64_t first, n = k3_ranks_part(g, e->next[peer], q, &first);

            if (n > 0) {
                send_part(e, peer, q, first, n);
            }
        }
    }
}

/* --- signals --------------------------------------------------------------------------------- */

/* Each QP of each peer is drained, then its flag is written: no order between the two is needed. */
void k3_ranks_flag_parts(ranks_engine_t *e, const k3_words_t *words, const uint32_t *rows,
                         k3_error_t *err)
{
    const k3_ranks_t *g = &e->g;

    for (uint32_t step = 0; step < g->ranks && err->status == K3_OK; step++) {
        uint32_t peer = (e->rank + step) % g->ranks;

        for (uint32_t q = 0; q < g->qps && err->status == K3_OK; q++) {
            if (k3_qps_flush_lane(e->qps, (int)peer, q, err) == K3_OK) {
                k3_ranks_signal(e, peer, q, words, e->rank * g->qps + q, (uint64_t)rows[peer] + 1,
                                false);
            }
        }
    }
}

/* For every expert, also with no row, so that each QP that carried rows is closed. */
static void signal_experts(ranks_engine_t *e)
{
    const k3_ranks_t *g = &e->g;

    for (uint32_t step = 0; step < g->ranks; step++) {
        uint32_t peer = (e->rank + step) % g->ranks;

        for (uint32_t x = 0; x < g->local; x++) {
            k3_ranks_signal(e, peer, k3_ranks_expert_qp(g, x), &g->words[K3_WORDS_DISPATCH],
                            x * g->ranks + e->rank,
                            (uint64_t)e->expert_rows[peer * g->local + x] + 1, true);
        }
    }
}

/* One flag for each peer: the count, alone or below the number of the round. */
static void signal_peers(ranks_engine_t *e, k3_error_t *err)
{
    const k3_ranks_t *g = &e->g;
    bool              rounds = e->env.cell->profile->dispatch_value == K3_VALUE_ROUND;

    if (e->env.cell->profile->completion == K3_DONE_DRAIN_FLAG) {
        k3_qps_flush(e->qps, err);
    }
    for (uint32_t step = 0; step < g->ranks && err->status == K3_OK; step++) {
        uint32_t peer = (e->rank + step) % g->ranks;
        uint64_t n = e->next[peer];

        k3_ranks_signal(e, peer, 0, &g->words[K3_WORDS_DISPATCH], e->rank,
                        rounds ? e->round << 32 | n : n + 1, false);
    }
}

static void signal_rows(ranks_engine_t *e, k3_error_t *err)
{
    const k3_profile_t *p = e->env.cell->profile;

    switch (p->dispatch_when) {
    case K3_WHEN_PER_QP:
        k3_ranks_flag_parts(e, &e->g.words[K3_WORDS_DISPATCH], e->next, err);
        break;
    case K3_WHEN_PER_EXPERT:
        signal_experts(e);
        break;
    default:
        if (p->completion != K3_DONE_BARRIER) {
            signal_peers(e, err);
        }
        break;
    }
}

/* Rows that are packed leave when all are there. */
static k3_status_t send_block(ranks_engine_t *e, const k3_rows_t *rows, uint64_t first,
                              uint64_t end, k3_error_t *err)
{
    if (!e->packs) {
        send_rows(e, rows, first, end);
    } else if (end == rows->count) {
        if (k3_ranks_on_device(e) && pack_on_device(e, err) != K3_OK) {
            return err->status;
        }
        send_parts(e);
    }
    if (end == rows->count) {
        e->env.compute->ops->copies_done(e->env.compute);
        signal_rows(e, err);
    }
    return err->status;
}

static k3_status_t send(ranks_engine_t *e, const k3_rows_t *rows, k3_error_t *err)
{
    k3_spans_t *spans = e->env.spans;
    uint64_t    first = 0, end;

    do {
        end = k3_block_end(e->env.compute, first, rows->count);
        k3_span_begin(spans, K3_PHASE_QUANTIZE);
        k3_ranks_encode(e, rows, first, end, err);
        k3_span_end(spans, K3_PHASE_QUANTIZE);
        k3_span_begin(spans, K3_PHASE_DISPATCH_SEND);
        if (err->status == K3_OK && first == 0 && e->env.cell->profile->slots == K3_SLOTS_COMPACT) {
            k3_ranks_reserve(e, err);
        }
        if (err->status == K3_OK) {
            send_block(e, rows, first, end, err);
        }
        k3_span_end(spans, K3_PHASE_DISPATCH_SEND);
        first = end;
    } while (err->status == K3_OK && end < rows->count);
    return err->status;
}

/* --- waiting --------------------------------------------------------------------------------- */

/* What the words say of each source: rows, or pairs added over its experts. */
static k3_status_t take_counts(ranks_engine_t *e, const ranks_wait_t *w, k3_error_t *err)
{
    const k3_ranks_t   *g = &e->g;
    const k3_profile_t *p = e->env.cell->profile;

    for (uint32_t s = 0; s < g->ranks; s++) {
        uint64_t n = 0;

        for (uint32_t i = 0; i < w->words->count / g->ranks; i++) {
            uint64_t value = e->kept[w->div > 0 ? s * w->div + i : i * g->ranks + s];

            value = p->dispatch_value == K3_VALUE_ROUND ? value & UINT32_MAX : value - 1;
            if (i > 0 && p->dispatch_when == K3_WHEN_PER_QP && value != n) {
                return k3_fail(err, K3_ERR_CHECK, "rank %u: its QPs announce %llu and %llu rows", s,
                               (unsigned long long)n, (unsigned long long)value);
            }
            n = p->dispatch_when == K3_WHEN_PER_EXPERT ? n + value : value;
        }
        if (n > e->cap) {
            return k3_fail(err, K3_ERR_CHECK, "rank %u announced %llu rows, at most %llu can come",
                           s, (unsigned long long)n, (unsigned long long)e->cap);
        }
        e->counts[s] = (uint32_t)n;
    }
    return K3_OK;
}

static k3_status_t wait_for_rows(ranks_engine_t *e, k3_error_t *err)
{
    const k3_profile_t *p = e->env.cell->profile;
    bool                rounds = p->dispatch_value == K3_VALUE_ROUND;
    ranks_wait_t        w = {.words = &e->g.words[K3_WORDS_DISPATCH],
                             .div = p->dispatch_when == K3_WHEN_PER_QP       ? e->g.qps
                                    : p->dispatch_when == K3_WHEN_PER_EXPERT ? 0
                                                                             : 1,
                             .shift = rounds ? 32 : 0,
                             .want = rounds ? e->round : 1,
                             .clear = !rounds,
                             .phase = K3_TRAFFIC_DISPATCH,
                             .what = "counts"};

    if (p->completion == K3_DONE_BARRIER) {
        return k3_ranks_barrier(e, K3_TRAFFIC_DISPATCH, true, err) == K3_OK ? read_counts(e, err)
                                                                            : err->status;
    }
    return k3_ranks_wait(e, &w, err) == K3_OK ? take_counts(e, &w, err) : err->status;
}

k3_status_t k3_ranks_dispatch(void *engine, const k3_rows_t *rows, k3_error_t *err)
{
    ranks_engine_t *e = engine;
    k3_spans_t     *spans = e->env.spans;

    e->round++;
    if (e->packed != NULL) {
        return k3_packed_dispatch(e, rows, err);
    }
    k3_span_begin(spans, K3_PHASE_DISPATCH_SEND);
    k3_ranks_list_rows(e, rows);
    k3_span_end(spans, K3_PHASE_DISPATCH_SEND);

    k3_qps_bank_begin(e->qps, K3_TRAFFIC_DISPATCH);
    if ((e->env.cell->profile->notify && notify(e, err) != K3_OK) || send(e, rows, err) != K3_OK) {
        return err->status;
    }

    k3_span_begin(spans, K3_PHASE_DISPATCH_WAIT);
    if (wait_for_rows(e, err) == K3_OK && k3_ranks_index(e, err) == K3_OK && e->announced != NULL &&
        e->announced_pairs != e->pairs_here) {
        k3_fail(err, K3_ERR_CHECK, "%llu rows announced for the experts, %llu arrived",
                (unsigned long long)e->announced_pairs, (unsigned long long)e->pairs_here);
    }
    if (e->g.reserve != K3_NO_AREA) {
        k3_signal_clear64(e->words + e->g.reserve);
    }
    k3_engine_finish_span(e->qps, e->soft, err);
    k3_span_end(spans, K3_PHASE_DISPATCH_WAIT);
    return err->status;
}
