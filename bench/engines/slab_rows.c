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

/* Rows that are combined together: the processor has room for the decoded results of one. */
static uint64_t rows_at_once(const slab_engine_t *e, uint64_t rows)
{
    return e->slab.decoded > 0 && e->env.compute->device == NULL ? 1 : rows;
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
        k3_alloc("parts of rows", rows_at_once(e, s->m),
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

/* Where the experts write: beside the block, or with zero copy where the combine sends from. */
static uint8_t *output_at(const slab_engine_t *e, uint32_t local, uint32_t source, uint64_t *stride)
{
    const k3_slab_t *s = &e->slab;

    if (e->results != NULL) {
        *stride = s->output;
        return e->results + k3_slab_output_at(s, local, source, 0);
    }
    *stride = s->result_stride;
    return e->block + s->send[e->half] + k3_slab_staging_at(s, local, source, 0);
}

/* Rows are consumed where they arrived. */
static void expert(slab_engine_t *e, uint32_t local_expert, k3_expert_rows_t *work)
{
    const k3_slab_t *s = &e->slab;
    const uint8_t   *recv = e->block + s->recv[e->half ^ 1];
    size_t           n = 0;

    for (uint32_t source = 0; source < s->ranks && !k3_slab_passive(e); source++) {
        const uint8_t *record = recv + k3_slab_record_at(s, local_expert, source, 0);
        uint64_t       stride;
        uint8_t       *result = output_at(e, local_expert, source, &stride);

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

/* What is posted for result `number` of those in the order of origins: encoded or copied into the send area; mapped peers are stored to
 * straight from where the expert wrote. */
static const uint8_t *make_result(slab_engine_t *e, const uint8_t *output, uint8_t *staging,
                                  bool mapped, uint64_t number, uint64_t *bytes, uint64_t *payload)
{
    const k3_slab_t *s = &e->slab;
    k3_compute_t    *c = e->env.compute;

    *bytes = s->result;
    *payload = s->result_payload;
    if (e->decoded != NULL) {
        const uint16_t *row = (const uint16_t *)(const void *)output;

        if (c->device == NULL) {
            c->ops->log_encode(c, &row, 1, e->env.cell->model.latent, &staging,
                               e->lengths + number);
        }
        *bytes = e->lengths[number];
        *payload = *bytes;
        return staging;
    }
    if (e->results == NULL || mapped) {
        return output;
    }
    if (e->env.compute->device == NULL) {
        memcpy(staging, output, s->output); /* on its way out: it is in the cache */
    }
    return staging;
}

static k3_status_t check_source_row(const slab_engine_t *e, uint32_t local, uint32_t source,
                                    uint32_t slot, int32_t row, k3_error_t *err)
{
    if (row < 0 || (uint64_t)row >= e->slab.m) {
        return k3_fail(err, K3_ERR_CHECK,
                       "local expert %u, slot %u of rank %u: source row %d is outside 0..%llu",
                       local, slot, source, row, (unsigned long long)e->slab.m - 1);
    }
    return K3_OK;
}

/* The source's row number of each record that arrived, source by source as they are sent back. */
static k3_status_t read_origins(slab_engine_t *e, unsigned half, k3_error_t *err)
{
    const k3_slab_t *s = &e->slab;
    const uint8_t   *recv = e->block + s->recv[half ^ 1];
    uint64_t         n = 0;

    for (uint32_t step = 0; step < s->ranks; step++) {
        uint32_t source = (e->rank + step) % s->ranks;

        for (uint32_t local = 0; local < s->local; local++) {
            uint32_t       count = e->arrived[local * s->ranks + source];
            const uint8_t *record = recv + k3_slab_record_at(s, local, source, 0);

            if (count > e->arriving - n) {
                return k3_fail(err, K3_ERR_CHECK,
                               "%llu rows and more arrived at rank %u, the routing sends %llu",
                               (unsigned long long)(n + count), e->rank,
                               (unsigned long long)e->arriving);
            }
            for (uint32_t i = 0; i < count; i++) {
                e->records[n++] = record + i * s->record;
            }
        }
    }
    e->env.compute->ops->fetch(e->env.compute, e->origins, e->records, n, sizeof(*e->origins));
    return err->status;
}

/* The rows of one (local expert, source) range go back to the source, to the slots (expert, its
 * row), which are read from `origins`. */
static k3_status_t send_range(slab_engine_t *e, uint32_t local, uint32_t source, unsigned half,
                              const int32_t *origins, k3_error_t *err)
{
    const k3_slab_t *s = &e->slab;
    uint64_t         number = (uint64_t)(origins - e->origins); /* of the first one */
    uint32_t         expert_id = e->rank * s->local + local;
    uint32_t         every = e->env.cell->profile->doorbell_every;
    uint8_t         *staging = e->block + s->send[half] + k3_slab_staging_at(s, local, source, 0);
    uint64_t         stride, bytes, payload;
    const uint8_t   *output = output_at(e, local, source, &stride);
    unsigned         qp = k3_slab_qp(s, local);
    bool             mapped = k3_qps_mapped(e->qps, (int)source) != NULL;
    k3_signal_t      flag;

    for (uint32_t i = 0; i < e->arrived[local * s->ranks + source]; i++) {
        const uint8_t *result;
        int32_t        row = origins[i];

        if (check_source_row(e, local, source, i, row, err) != K3_OK) {
            return err->status;
        }
        result = make_result(e, output, staging, mapped, number + i, &bytes, &payload);
        k3_qps_put(e->qps, (int)source, qp, result,
                   s->recv[half] + k3_slab_result_at(s, expert_id, (uint64_t)row), bytes, payload);
        if (k3_rings(every, i)) {
            k3_qps_doorbell(e->qps, (int)source, qp);
        }
        output += stride;
        staging += s->result_stride;
    }
    flag = (k3_signal_t){s->signal[half] + k3_slab_flag_at(s, expert_id), 1, qp};
    k3_slab_signals(e, (int)source, &flag, 1, e->env.cell->profile->doorbell_signal);
    return K3_OK;
}

/* All results as messages in the send area, in the order of origins; what is for a masked source stays unsent. */
static k3_status_t encode_results(slab_engine_t *e, unsigned half, k3_error_t *err)
{
    const k3_slab_t *s = &e->slab;
    k3_compute_t    *c = e->env.compute;
    uint64_t         n = 0;

    for (uint32_t step = 0; step < s->ranks; step++) {
        uint32_t source = (e->rank + step) % s->ranks;

        for (uint32_t local = 0; local < s->local; local++) {
            uint8_t *staging = e->block + s->send[half] + k3_slab_staging_at(s, local, source, 0);
            uint64_t stride;
            const uint8_t *output = output_at(e, local, source, &stride);

            for (uint32_t i = e->arrived[local * s->ranks + source]; i > 0; i--) {
                e->records[n] = output;
                e->messages[n++] = staging;
                output += stride;
                staging += s->result_stride;
            }
        }
    }
    c->ops->log_encode(c, (const uint16_t *const *)(const void *)e->records, n,
                       e->env.cell->model.latent, e->messages, e->lengths);
    return c->ops->finish(c, err);
}

/* On a device all results are brought to the send area by one kernel, in front of the first post. */
static k3_status_t stage_results(slab_engine_t *e, unsigned half, k3_error_t *err)
{
    const k3_slab_t *s = &e->slab;
    k3_compute_t    *c = e->env.compute;

    for (uint32_t source = 0; source < s->ranks && e->results != NULL; source++) {
        for (uint32_t local = 0; local < s->local && (int)source != (int)e->rank; local++) {
            uint8_t *staging = e->block + s->send[half] + k3_slab_staging_at(s, local, source, 0);
            uint64_t stride;
            const uint8_t *output = output_at(e, local, source, &stride);

            for (uint32_t i = e->arrived[local * s->ranks + source]; i > 0; i--) {
                c->ops->copy(c, staging, output, s->output);
                output += stride;
                staging += s->result_stride;
            }
        }
    }
    c->ops->copies_done(c);
    return c->ops->finish(c, err);
}

/* A masked source gets no flag either: it would vouch for rows that were never computed. A source that
 * is late and not dead then masks this rank too. */
static void send_results(slab_engine_t *e, unsigned half, k3_error_t *err)
{
    const k3_slab_t *s = &e->slab;
    const int32_t   *origins = e->origins;

    read_origins(e, half, err);
    if (e->env.compute->device != NULL && err->status == K3_OK) {
        e->decoded != NULL ? encode_results(e, half, err) : stage_results(e, half, err);
    }
    for (uint32_t step = 0; step < s->ranks && err->status == K3_OK; step++) {
        uint32_t source = (e->rank + step) % s->ranks;

        for (uint32_t local = 0; local < s->local && err->status == K3_OK; local++) {
            if (!k3_slab_is_masked(e, source)) {
                send_range(e, local, source, half, origins, err);
            }
            origins += e->arrived[local * s->ranks + source];
        }
    }
    e->env.compute->ops->copies_done(e->env.compute);
}

/* The result of one selection of an own row, NULL where it is missing. */
static const uint8_t *part_of(const slab_engine_t *e, const uint8_t *recv, int32_t id, uint64_t row)
{
    if (id < 0 || k3_slab_is_masked(e, (uint32_t)e->target[id].peer)) {
        return NULL;
    }
    return recv + k3_slab_result_at(&e->slab, (uint32_t)id, row);
}

static void reduce(slab_engine_t *e, const k3_rows_t *rows, unsigned half, uint16_t *combined)
{
    uint32_t       topk = e->env.cell->model.topk, width = e->env.cell->model.latent;
    const uint8_t *recv = e->block + e->slab.recv[half];
    k3_compute_t  *c = e->env.compute;
    uint64_t       at_once = rows_at_once(e, rows->count);

    for (uint64_t first = 0; first < rows->count; first += at_once) {
        const float *weights = rows->weights + first * topk;
        uint16_t    *to = combined + first * width;

        for (uint64_t i = 0; i < at_once * topk; i++) {
            uint64_t at = first * topk + i;

            e->parts[i] = part_of(e, recv, rows->ids[at], at / topk);
        }
        if (e->decoded != NULL) {
            c->ops->log_combine(c, e->parts, weights, at_once, topk, width,
                                (uint16_t *)(void *)e->decoded, to);
        } else {
            c->ops->combine(c, (const uint16_t *const *)(const void *)e->parts, weights, at_once,
                            topk, width, to);
        }
    }
}

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
        send_results(e, half, err);
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
        reduce(e, rows, half, combined);
    }
    k3_span_end(spans, K3_PHASE_COMBINE_REDUCE);
    e->half = half ^ 1;
    return err->status == K3_OK ? e->env.compute->ops->finish(e->env.compute, err) : err->status;
}

const slab_form_t k3_slab_rows = {plan, part_words, alloc, NULL, dispatch, expert, combine};
