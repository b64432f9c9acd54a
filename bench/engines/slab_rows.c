/* Slab profiles with one signal for each (expert, source), also for no row. Two halves of the block
 * alternate, so that a half is written again only after every rank has shown, by its next signals, that
 * it is done with it. */
#include "bench/engines/slab_engine.h"
#include "bench/plan/cell_rows.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"

/* --- set-up ---------------------------------------------------------------------------------- */

static uint64_t plan(slab_engine_t *e)
{
    k3_slab_plan(e->env.cell, &e->slab);
    /* An expert can get at most all rows of every source. */
    e->rows_cap = k3_mul(e->slab.ranks, e->slab.m);
    return e->slab.bytes;
}

static uint64_t part_words(slab_engine_t *e)
{
    return k3_slab_part_words(&e->slab);
}

static k3_status_t alloc(slab_engine_t *e, k3_error_t *err)
{
    const k3_slab_t *s = &e->slab;

    e->arriving = k3_rows_arriving(e->env.cell, e->rank);
    e->kind = e->env.cell->signal_op == K3_SIGNAL_ADD
                  ? (s->signal_bytes == 8 ? K3_ADD64 : K3_ADD32)
                  : (s->signal_bytes == 8 ? K3_WRITE64 : K3_WRITE32);
    if (k3_alloc("signals seen", s->experts, 1, &e->seen, err) != K3_OK ||
        k3_alloc("signals to a peer", s->local, sizeof(*e->counts), &e->counts, err) != K3_OK ||
        k3_alloc("parts of rows", k3_slab_rows_at_once(e, s->m),
                 e->env.cell->model.topk * sizeof(*e->parts), &e->parts, err) != K3_OK ||
        k3_alloc("records arrived", e->arriving, sizeof(*e->records), &e->records, err) != K3_OK ||
        k3_alloc("origins of records", e->arriving, sizeof(*e->origins), &e->origins, err) !=
            K3_OK ||
        (s->results > 0 && k3_compute_alloc(e->env.compute, "results", s->results, 1, false,
                                            &e->results, err) != K3_OK) ||
        (s->decoded > 0 && k3_alloc("decoded results", s->decoded, 1, &e->decoded, err) != K3_OK) ||
        (s->decoded > 0 && k3_alloc("bytes of results", e->arriving, sizeof(*e->lengths),
                                    &e->lengths, err) != K3_OK) ||
        (s->decoded > 0 && e->env.compute->device != NULL &&
         k3_alloc("results to encode", e->arriving, sizeof(*e->messages), &e->messages, err) !=
             K3_OK)) {
        return err->status;
    }
    for (uint32_t x = 0; x < s->experts; x++) {
        e->target[x] = (slab_target_t){
            .offset = k3_slab_record_at(s, x % s->local, e->rank, 0),
            .peer = (int)(x / s->local),
            .qp = k3_slab_qp(s, x % s->local),
        };
    }
    return K3_OK;
}

/* --- dispatch -------------------------------------------------------------------------------- */

/* Each row is brought to its record once; all its copies are sent from there. */
void k3_slab_quantize(slab_engine_t *e, const k3_rows_t *rows, uint64_t first, uint64_t end,
                      uint8_t *send)
{
    const k3_slab_t       *s = &e->slab;
    uint32_t               width = e->env.cell->model.latent;
    const k3_encode_rows_t to = {
        .format = e->env.cell->dispatch_format,
        .rows = end - first,
        .width = width,
        .in = rows->latent + first * width,
        .records = k3_slab_own_record(e, send, first),
        .stride = s->record,
        .numbered = true,
        .number = (uint32_t)first,
        .values_at = s->record_values,
        .scales_at = s->record_scales,
    };

    e->env.compute->ops->encode(e->env.compute, &to);
}

/* Where the copies of one row go, by the slots that come next. */
static unsigned address(slab_engine_t *e, const int32_t *ids, k3_copy_t *to)
{
    uint32_t topk = e->env.cell->model.topk;
    uint32_t every = e->env.cell->profile->doorbell_every;
    uint64_t recv = e->slab.recv[e->half];
    unsigned n = 0;

    for (uint32_t k = 0; k < topk; k++) {
        const slab_target_t *t;
        uint32_t             slot;

        if (ids[k] < 0) {
            continue;
        }
        t = &e->target[ids[k]];
        if (e->masked > 0 && k3_slab_skips(e, (uint32_t)t->peer)) {
            continue;
        }
        slot = e->next[ids[k]]++;
        to[n++] = (k3_copy_t){
            .offset = recv + t->offset + slot * e->slab.record,
            .peer = t->peer,
            .qp = t->qp,
            .rings = k3_rings(every, slot),
        };
    }
    return n;
}

static void send_rows(slab_engine_t *e, const k3_rows_t *rows, uint64_t first, uint64_t end,
                      uint8_t *send)
{
    uint32_t  topk = e->env.cell->model.topk;
    k3_copy_t to[K3_TOPK_MAX];

    for (uint64_t i = first; i < end; i++) {
        unsigned n = address(e, rows->ids + i * topk, to);

        k3_block_fetch_ahead(rows, e->env.cell->model.latent, i);
        k3_qps_put_copies(e->qps, to, n, k3_slab_own_record(e, send, i), e->slab.record,
                          e->slab.record_payload);
    }
}

/* For every expert, also with no row. The order starts at the own rank, so that not every source
 * signals rank 0 first. */
static void send_counts(slab_engine_t *e, unsigned half)
{
    const k3_slab_t *s = &e->slab;

    for (uint32_t step = 0; step < s->ranks; step++) {
        uint32_t peer = (e->rank + step) % s->ranks;

        if (k3_slab_skips(e, peer)) {
            continue;
        }
        for (uint32_t local = 0; local < s->local; local++) {
            e->counts[local] = (k3_signal_t){
                .offset = s->signal[half] + k3_slab_count_at(s, local, e->rank),
                .value = k3_slab_count_value(e, e->next[peer * s->local + local]),
                .qp = k3_slab_qp(s, local),
            };
        }
        k3_slab_signals(e, (int)peer, e->counts, s->local, e->env.cell->profile->doorbell_signal);
    }
}

/* The words of the half that is not in use are consumed by now; they must be zero before any rank
 * can see this rank's next signals and answer into them. */
static void clear_words(slab_engine_t *e, unsigned half)
{
    const k3_slab_t *s = &e->slab;
    uint8_t         *words = e->words + s->signal[half];

    for (uint32_t i = 0; i < s->experts; i++) {
        if (s->signal_bytes == 8) {
            k3_signal_clear64(words + i * s->signal_bytes);
        } else {
            k3_signal_clear32(words + i * s->signal_bytes);
        }
    }
}

/* All blocks and, behind the last one, the counts. Without rows there is one block of none. */
static k3_status_t send_all(slab_engine_t *e, const k3_rows_t *rows, k3_error_t *err)
{
    k3_spans_t   *spans = e->env.spans;
    k3_compute_t *compute = e->env.compute;
    uint8_t      *send = e->block + e->slab.send[e->half];
    uint64_t      first = 0, end;

    do {
        end = k3_block_end(compute, first, rows->count);
        k3_span_begin(spans, K3_PHASE_QUANTIZE);
        k3_slab_quantize(e, rows, first, end, send);
        k3_span_end(spans, K3_PHASE_QUANTIZE);
        if (compute->ops->finish(compute, err) != K3_OK) {
            return err->status;
        }

        k3_span_begin(spans, K3_PHASE_DISPATCH_SEND);
        if (first == 0) {
            k3_qps_bank_begin(e->qps, K3_TRAFFIC_DISPATCH);
            memset(e->next, 0, e->slab.experts * sizeof(uint32_t));
        }
        if (first == 0 && !k3_slab_passive(e)) {
            clear_words(e, e->half ^ 1);
        }
        if (!k3_slab_passive(e)) {
            send_rows(e, rows, first, end, send);
        }
        if (end == rows->count && !k3_slab_passive(e)) {
            compute->ops->copies_done(compute);
            send_counts(e, e->half);
        }
        k3_span_end(spans, K3_PHASE_DISPATCH_SEND);
        first = end;
    } while (end < rows->count);
    return K3_OK;
}

static k3_status_t check_counts(const slab_engine_t *e, k3_error_t *err)
{
    for (uint32_t i = 0; i < e->slab.experts; i++) {
        if (e->arrived[i] > e->slab.m) {
            return k3_fail(err, K3_ERR_CHECK,
                           "local expert %u: rank %u announced %u rows, the slab holds %llu",
                           i / e->slab.ranks, i % e->slab.ranks, e->arrived[i],
                           (unsigned long long)e->slab.m);
        }
    }
    return K3_OK;
}

static k3_status_t dispatch(slab_engine_t *e, const k3_rows_t *rows, k3_error_t *err)
{
    k3_spans_t *spans = e->env.spans;
    unsigned    half = e->half;

    if (send_all(e, rows, err) != K3_OK) {
        return err->status;
    }

    k3_engine_sent(&e->env);
    k3_span_begin(spans, K3_PHASE_DISPATCH_WAIT);
    if (!k3_slab_passive(e)) {
        k3_slab_wait(e, e->words + e->slab.signal[half], true, err);
    }
    if (k3_slab_passive(e)) {
        memset(e->arrived, 0, e->slab.experts * sizeof(*e->arrived));
    }
    k3_engine_finish_span(e->qps, e->soft, err);
    k3_span_end(spans, K3_PHASE_DISPATCH_WAIT);
    e->half = half ^ 1;
    return err->status == K3_OK ? check_counts(e, err) : err->status;
}

/* --- experts --------------------------------------------------------------------------------- */

/* Rows are consumed where they arrived. */
static void expert(slab_engine_t *e, uint32_t local_expert, k3_expert_rows_t *work)
{
    const k3_slab_t *s = &e->slab;
    const uint8_t   *recv = e->block + s->recv[e->half ^ 1];
    size_t           n = 0;

    for (uint32_t source = 0; source < s->ranks && !k3_slab_passive(e); source++) {
        const uint8_t *record = recv + k3_slab_record_at(s, local_expert, source, 0);
        uint64_t       stride;
        uint8_t       *result = k3_slab_output(e, local_expert, source, &stride);

        for (uint32_t i = e->arrived[local_expert * s->ranks + source]; i > 0; i--) {
            e->values[n] = record + s->record_values;
            e->scales[n] = record + s->record_scales;
            e->out[n] = (uint16_t *)(void *)result;
            record += s->record;
            result += stride;
            n++;
        }
    }
    *work = (k3_expert_rows_t){n, e->env.cell->dispatch_format, e->values, e->scales, e->out};
}

/* --- combine --------------------------------------------------------------------------------- */

static k3_status_t combine(slab_engine_t *e, const k3_rows_t *rows, uint16_t *combined,
                           k3_error_t *err)
{
    k3_spans_t *spans = e->env.spans;
    unsigned    half = e->half;
    uint64_t    bytes = rows->count * e->slab.output;

    k3_span_begin(spans, K3_PHASE_COMBINE_SEND);
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_COMBINE);
    if (!k3_slab_passive(e)) {
        clear_words(e, half ^ 1);
        k3_slab_send_results(e, half, err);
    }
    k3_span_end(spans, K3_PHASE_COMBINE_SEND);

    k3_span_begin(spans, K3_PHASE_COMBINE_WAIT);
    if (!k3_slab_passive(e) && err->status == K3_OK) {
        k3_slab_wait(e, e->words + e->slab.signal[half], false, err);
    }
    k3_engine_finish_span(e->qps, e->soft, err);
    k3_span_end(spans, K3_PHASE_COMBINE_WAIT);

    k3_span_begin(spans, K3_PHASE_COMBINE_REDUCE);
    if (k3_slab_passive(e)) {
        e->env.compute->ops->zero(e->env.compute, combined, bytes);
    } else if (err->status == K3_OK) {
        k3_slab_reduce(e, rows, half, combined);
    }
    k3_span_end(spans, K3_PHASE_COMBINE_REDUCE);
    e->half = half ^ 1;
    return err->status == K3_OK ? e->env.compute->ops->finish(e->env.compute, err) : err->status;
}

const slab_form_t k3_slab_rows = {plan, part_words, alloc, NULL, dispatch, expert, combine};
