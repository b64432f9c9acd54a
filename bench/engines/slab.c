/* The slab family: one message for each (row, expert) into a slot that belongs to (expert, source),
 * one signal for each (expert, source) also for no row, results back into the slot (expert, row) of
 * the origin, weighted sum there. Two halves of the block alternate, so that a half is written
 * again only after every rank has shown, by its next signals, that it is done with it.
 *
 * What differs between deepep:ll and mooncake (number and choice of QPs, doorbells, slot strides,
 * buffer size) comes from the profile through k3_slab_t. */
#include <stdio.h>
#include <string.h>

#include "bench/engines/slab_engine.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"

/* --- set-up ---------------------------------------------------------------------------------- */

static void slab_destroy(void *engine)
{
    slab_engine_t *e = engine;

    k3_slab_control_destroy(e);
    k3_free(e->out);
    k3_free(e->scales);
    k3_free(e->values);
    k3_free(e->seen);
    k3_free(e->arrived);
    k3_free(e->next);
    k3_free(e->target);
    if (e->qps != NULL) {
        k3_qps_destroy(e->qps);
    }
    k3_free(e);
}

static k3_status_t alloc_tables(slab_engine_t *e, k3_error_t *err)
{
    const k3_slab_t *s = &e->slab;

    /* An expert can get at most all rows of every source. */
    e->rows_cap = k3_mul(s->ranks, s->m);
    if (k3_alloc("targets", s->experts, sizeof(slab_target_t), &e->target, err) != K3_OK ||
        k3_alloc("slots used", s->experts, sizeof(uint32_t), &e->next, err) != K3_OK ||
        k3_alloc("rows arrived", s->experts, sizeof(uint32_t), &e->arrived, err) != K3_OK ||
        k3_alloc("signals seen", s->experts, 1, &e->seen, err) != K3_OK ||
        k3_alloc("row pointers", e->rows_cap, sizeof(void *), &e->values, err) != K3_OK ||
        k3_alloc("row pointers", e->rows_cap, sizeof(void *), &e->scales, err) != K3_OK ||
        k3_alloc("row pointers", e->rows_cap, sizeof(void *), &e->out, err) != K3_OK) {
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

static bool any_soft_lane(const slab_engine_t *e)
{
    int soft = 0;

    for (int peer = 0; peer < e->env.world->size; peer++) {
        soft |= k3_qps_needs_progress(e->qps, peer);
    }
    MPI_Allreduce(MPI_IN_PLACE, &soft, 1, MPI_INT, MPI_LOR, e->env.world->comm);
    return soft != 0;
}

static k3_status_t slab_create(const k3_engine_env_t *env, void **engine_p, k3_error_t *err)
{
    slab_engine_t *e = NULL;

    if (k3_alloc("slab engine", 1, sizeof(*e), &e, err) == K3_OK) {
        e->env = *env;
        e->rank = (uint32_t)env->world->rank;
        k3_slab_plan(env->cell, &e->slab);
        alloc_tables(e, err);
    }
    if (k3_world_agree(env->world, err) == K3_OK) {
        k3_engine_queue_pairs(env, e->slab.bytes, &e->qps, err);
    }
    if (err->status != K3_OK) {
        if (e != NULL) {
            slab_destroy(e);
        }
        return err->status;
    }
    e->block = k3_qps_memory(e->qps);
    e->soft = any_soft_lane(e);
    *engine_p = e;
    return env->cell->component == K3_COMPONENT_CONTROL ? k3_slab_control_create(e, err) : K3_OK;
}

/* --- waiting --------------------------------------------------------------------------------- */

static void describe_wait(const void *arg, char *text, unsigned size)
{
    const slab_engine_t *e = arg;
    uint32_t             i = 0;

    while (i < e->slab.experts && e->seen[i]) {
        i++;
    }
    if (i == e->slab.experts) {
        snprintf(text, size, "all %s seen", e->waiting_for);
    } else if (e->waiting_for[0] == 'c') {
        snprintf(text, size, "%llu of %u %s missing, first: local expert %u from rank %u",
                 (unsigned long long)e->missing, e->slab.experts, e->waiting_for, i / e->slab.ranks,
                 i % e->slab.ranks);
    } else {
        snprintf(text, size, "%llu of %u %s missing, first: expert %u of rank %u",
                 (unsigned long long)e->missing, e->slab.experts, e->waiting_for, i,
                 i / e->slab.local);
    }
}

static void note_wait(k3_wait_t *wait, uint64_t ticks)
{
    double us = k3_clock_us(ticks);

    wait->sum_us += us;
    wait->max_us = us > wait->max_us ? us : wait->max_us;
    wait->count++;
}

k3_status_t k3_slab_wait(slab_engine_t *e, const uint8_t *words, bool dispatch, k3_error_t *err)
{
    const k3_slab_t *s = &e->slab;
    k3_wait_t       *waits = e->env.waits[dispatch ? K3_TRAFFIC_DISPATCH : K3_TRAFFIC_COMBINE];
    uint64_t         begin = k3_clock_now();

    memset(e->seen, 0, s->experts);
    e->missing = s->experts;
    e->waiting_for = dispatch ? "counts" : "flags";
    k3_watchdog_describe(describe_wait, e);
    while (e->missing > 0 && err->status == K3_OK) {
        uint64_t before = e->missing;

        for (uint32_t i = 0; i < s->experts; i++) {
            uint32_t word, source;

            if (e->seen[i] || (word = k3_signal_read32(words + i * s->signal_bytes)) == 0) {
                continue;
            }
            source = dispatch ? i % s->ranks : i / s->local;
            if (dispatch) {
                e->arrived[i] = (uint32_t)(-(int32_t)word - 1);
            }
            note_wait(&waits[source], k3_clock_now() - begin);
            e->seen[i] = 1;
            e->missing--;
        }
        if (e->missing == before) {
            k3_qps_idle(e->qps, err);
        } else {
            k3_watchdog_alive();
        }
    }
    k3_watchdog_describe(NULL, NULL);
    return err->status;
}

/* Where UCX emulates puts in software, a rank that computes or sits in MPI would keep its peers' data
 * back: all finish together, and what that takes belongs to the wait. With hardware or mapped memory
 * nothing is done here. */
static k3_status_t finish_span(slab_engine_t *e, k3_error_t *err)
{
    if (e->soft && err->status == K3_OK && k3_qps_bank_end(e->qps, err) == K3_OK) {
        k3_qps_barrier(e->qps, err);
    }
    return err->status;
}

/* --- dispatch -------------------------------------------------------------------------------- */

/* Each row is brought to its record once; all its copies are sent from there. */
static void quantize(slab_engine_t *e, const k3_rows_t *rows, uint8_t *send)
{
    const k3_slab_t *s = &e->slab;
    uint32_t         width = e->env.cell->model.latent;

    for (uint64_t i = 0; i < rows->count; i++) {
        uint8_t *record = send + i * s->record;
        int32_t  header[4] = {(int32_t)i, 0, 0, 0};

        memcpy(record, header, sizeof(header));
        e->env.kernels->encode(e->env.cell->dispatch_format, rows->latent + i * width, width,
                               record + s->record_values, record + s->record_scales);
    }
}

/* One row to one expert. */
static inline void send_row(slab_engine_t *e, const uint8_t *record, int32_t id, uint64_t recv,
                            uint32_t every)
{
    const slab_target_t *t = &e->target[id];
    uint32_t             slot = e->next[id]++;

    k3_qps_put(e->qps, t->peer, t->qp, record, recv + t->offset + slot * e->slab.record,
               e->slab.record, e->slab.record_payload);
    if ((slot + 1) % every == 0) {
        k3_qps_doorbell(e->qps, t->peer, t->qp);
    }
}

static void send_rows(slab_engine_t *e, const k3_rows_t *rows, const uint8_t *send, unsigned half)
{
    uint32_t topk = e->env.cell->model.topk;
    uint32_t every = e->env.cell->profile->doorbell_every;
    uint64_t n = rows->count * topk;

    memset(e->next, 0, e->slab.experts * sizeof(uint32_t));
    for (uint64_t i = 0; i < n; i++) {
        int32_t id = rows->ids[i], next = i + 1 < n ? rows->ids[i + 1] : -1;

        if (next >= 0) {
            k3_qps_expect(e->qps, e->target[next].peer, e->target[next].qp);
        }
        if (id >= 0) {
            send_row(e, send + i / topk * e->slab.record, id, e->slab.recv[half], every);
        }
    }
}

/* For every expert, also with no row. The order starts at the own rank, so that not every source
 * signals rank 0 first. */
static void send_counts(slab_engine_t *e, unsigned half)
{
    const k3_slab_t *s = &e->slab;
    bool             rings = e->env.cell->profile->doorbell_signal;

    for (uint32_t step = 0; step < s->ranks; step++) {
        uint32_t peer = (e->rank + step) % s->ranks;

        for (uint32_t local = 0; local < s->local; local++) {
            uint32_t n = e->next[peer * s->local + local];

            if (local + 1 < s->local) {
                k3_qps_expect(e->qps, (int)peer, k3_slab_qp(s, local + 1));
            }
            k3_qps_signal_add32(e->qps, (int)peer, k3_slab_qp(s, local),
                                s->signal[half] + k3_slab_count_at(s, local, e->rank),
                                (uint32_t)(-(int32_t)n - 1));
            if (rings) {
                k3_qps_doorbell(e->qps, (int)peer, k3_slab_qp(s, local));
            }
        }
    }
}

/* The words of the half that is not in use are consumed by now; they must be zero before any rank
 * can see this rank's next signals and answer into them. */
static void clear_words(slab_engine_t *e, unsigned half)
{
    const k3_slab_t *s = &e->slab;

    for (uint32_t i = 0; i < s->experts; i++) {
        k3_signal_clear32(e->block + s->signal[half] + i * s->signal_bytes);
    }
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

static k3_status_t slab_dispatch(void *engine, const k3_rows_t *rows, k3_error_t *err)
{
    slab_engine_t *e = engine;
    k3_spans_t    *spans = e->env.spans;
    unsigned       half = e->half;
    uint8_t       *send = e->block + e->slab.send[half];

    k3_span_begin(spans, K3_PHASE_QUANTIZE);
    quantize(e, rows, send);
    k3_span_end(spans, K3_PHASE_QUANTIZE);

    k3_span_begin(spans, K3_PHASE_DISPATCH_SEND);
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_DISPATCH);
    clear_words(e, half ^ 1);
    send_rows(e, rows, send, half);
    send_counts(e, half);
    k3_span_end(spans, K3_PHASE_DISPATCH_SEND);

    if (e->env.after_send != NULL) {
        e->env.after_send(e->env.after_send_arg);
    }

    k3_span_begin(spans, K3_PHASE_DISPATCH_WAIT);
    k3_slab_wait(e, e->block + e->slab.signal[half], true, err);
    finish_span(e, err);
    k3_span_end(spans, K3_PHASE_DISPATCH_WAIT);
    e->half = half ^ 1;
    return err->status == K3_OK ? check_counts(e, err) : err->status;
}

/* --- experts --------------------------------------------------------------------------------- */

/* Rows are consumed where they arrived; results go where the combine sends from. */
static void slab_expert(void *engine, uint32_t local_expert, k3_expert_rows_t *work)
{
    slab_engine_t   *e = engine;
    const k3_slab_t *s = &e->slab;
    const uint8_t   *recv = e->block + s->recv[e->half ^ 1];
    uint8_t         *back = e->block + s->send[e->half];
    size_t           n = 0;

    for (uint32_t source = 0; source < s->ranks; source++) {
        const uint8_t *record = recv + k3_slab_record_at(s, local_expert, source, 0);
        uint8_t       *result = back + k3_slab_staging_at(s, local_expert, source, 0);

        for (uint32_t i = e->arrived[local_expert * s->ranks + source]; i > 0; i--) {
            e->values[n] = record + s->record_values;
            e->scales[n] = record + s->record_scales;
            e->out[n] = (uint16_t *)(void *)result;
            record += s->record;
            result += s->result_stride;
            n++;
        }
    }
    *work = (k3_expert_rows_t){n, e->env.cell->dispatch_format, e->values, e->scales, e->out};
}

/* --- combine --------------------------------------------------------------------------------- */

/* The rows of one (local expert, source) range go back to the source, to the slots (expert, its
 * row). */
static k3_status_t send_range(slab_engine_t *e, uint32_t local, uint32_t source, unsigned half,
                              k3_error_t *err)
{
    const k3_slab_t *s = &e->slab;
    uint32_t         expert = e->rank * s->local + local;
    uint32_t         every = e->env.cell->profile->doorbell_every;
    const uint8_t   *record = e->block + s->recv[half ^ 1] + k3_slab_record_at(s, local, source, 0);
    const uint8_t   *result = e->block + s->send[half] + k3_slab_staging_at(s, local, source, 0);
    unsigned         qp = k3_slab_qp(s, local);

    for (uint32_t i = 0; i < e->arrived[local * s->ranks + source]; i++) {
        int32_t row;

        memcpy(&row, record, sizeof(row));
        if (row < 0 || (uint64_t)row >= s->m) {
            return k3_fail(err, K3_ERR_CHECK,
                           "local expert %u, slot %u of rank %u: source row %d is outside 0..%llu",
                           local, i, source, row, (unsigned long long)s->m - 1);
        }
        k3_qps_put(e->qps, (int)source, qp, result,
                   s->recv[half] + k3_slab_result_at(s, expert, (uint64_t)row), s->result,
                   s->result_payload);
        if ((i + 1) % every == 0) {
            k3_qps_doorbell(e->qps, (int)source, qp);
        }
        record += s->record;
        result += s->result_stride;
    }
    k3_qps_signal_add32(e->qps, (int)source, qp, s->signal[half] + k3_slab_flag_at(s, expert), 1);
    if (e->env.cell->profile->doorbell_signal) {
        k3_qps_doorbell(e->qps, (int)source, qp);
    }
    return K3_OK;
}

static void reduce(slab_engine_t *e, const k3_rows_t *rows, unsigned half, uint16_t *combined)
{
    const k3_slab_t *s = &e->slab;
    uint32_t         topk = e->env.cell->model.topk, width = e->env.cell->model.latent;
    const uint8_t   *recv = e->block + s->recv[half];
    const uint16_t  *parts[K3_TOPK_MAX];

    for (uint64_t i = 0; i < rows->count; i++) {
        for (uint32_t k = 0; k < topk; k++) {
            int32_t id = rows->ids[i * topk + k];

            parts[k] = id < 0 ? NULL
                              : (const uint16_t *)(const void *)(recv + k3_slab_result_at(
                                                                            s, (uint32_t)id, i));
        }
        e->env.kernels->combine(parts, rows->weights + i * topk, topk, width, combined + i * width);
    }
}

static k3_status_t slab_combine(void *engine, const k3_rows_t *rows, uint16_t *combined,
                                k3_error_t *err)
{
    slab_engine_t *e = engine;
    k3_spans_t    *spans = e->env.spans;
    unsigned       half = e->half;

    k3_span_begin(spans, K3_PHASE_COMBINE_SEND);
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_COMBINE);
    clear_words(e, half ^ 1);
    for (uint32_t step = 0; step < e->slab.ranks && err->status == K3_OK; step++) {
        for (uint32_t local = 0; local < e->slab.local && err->status == K3_OK; local++) {
            send_range(e, local, (e->rank + step) % e->slab.ranks, half, err);
        }
    }
    k3_span_end(spans, K3_PHASE_COMBINE_SEND);

    k3_span_begin(spans, K3_PHASE_COMBINE_WAIT);
    k3_slab_wait(e, e->block + e->slab.signal[half], false, err);
    finish_span(e, err);
    k3_span_end(spans, K3_PHASE_COMBINE_WAIT);

    k3_span_begin(spans, K3_PHASE_COMBINE_REDUCE);
    if (err->status == K3_OK) {
        reduce(e, rows, half, combined);
    }
    k3_span_end(spans, K3_PHASE_COMBINE_REDUCE);
    e->half = half ^ 1;
    return err->status;
}

static k3_qps_t *slab_qps(void *engine)
{
    return ((slab_engine_t *)engine)->qps;
}

static k3_status_t slab_settle(void *engine, k3_error_t *err)
{
    return k3_qps_bank_end(((slab_engine_t *)engine)->qps, err);
}

const k3_engine_ops_t k3_engine_slab = {
    .version = K3_ENGINE_VERSION,
    .name = "slab",
    .create = slab_create,
    .destroy = slab_destroy,
    .dispatch = slab_dispatch,
    .expert = slab_expert,
    .combine = slab_combine,
    .settle = slab_settle,
    .control = k3_slab_control,
    .qps = slab_qps,
};
