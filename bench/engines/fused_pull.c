/* The owner reads: sources leave their rows in place and tell the owners which ones they need. The
 * expert applies the weight that came with the row, results go into K slots of the origin. */
#include <sched.h>
#include <string.h>

#include "bench/engines/fused_engine.h"
#include "harness/base/memory.h"

/* Where a row of the pool came from. */
typedef struct pull_source {
    uint32_t rank, row, k;
} pull_source_t;

_Static_assert(sizeof(pull_source_t) == 12, "as planned");

typedef struct pull_state {
    k3_pull_t pull;
    uint32_t *next;    /* [E] rows for each expert, as the source */
    uint32_t *arrived; /* [local][R] rows of the present call, as the owner */
    uint32_t  turn;    /* of the barrier */
    uint8_t  *record;  /* one result in the combine format */
    float    *row;     /* [W] */
    uint16_t *decoded; /* [K][W] results that came in another format than bf16 */
} pull_state_t;

static void pull_destroy(fused_engine_t *e)
{
    pull_state_t *s = e->state;

    k3_free(s->decoded);
    k3_free(s->row);
    k3_free(s->record);
    k3_free(s->arrived);
    k3_free(s->next);
    k3_free(s);
    e->state = NULL;
}

static k3_status_t pull_create(fused_engine_t *e, uint64_t *bytes, k3_error_t *err)
{
    pull_state_t *s;

    if (k3_alloc("pull protocol", 1, sizeof(*s), &s, err) != K3_OK) {
        return err->status;
    }
    e->state = s;
    k3_pull_plan(e->env.cell, &s->pull);
    e->row = s->pull.row;
    *bytes = s->pull.bytes;
    if (k3_alloc("rows for each expert", e->row.experts, sizeof(uint32_t), &s->next, err) !=
            K3_OK ||
        k3_alloc("rows arrived", e->row.experts, sizeof(uint32_t), &s->arrived, err) != K3_OK ||
        k3_alloc("result", e->row.result, 1, &s->record, err) != K3_OK ||
        k3_alloc("row", e->row.width, sizeof(float), &s->row, err) != K3_OK ||
        k3_alloc("results of a row", e->row.topk, 2 * (uint64_t)e->row.width, &s->decoded, err) !=
            K3_OK) {
        return err->status;
    }
    return K3_OK;
}

/* --- barrier --------------------------------------------------------------------------------- */

/* Every rank adds 1 to the word of every rank, or takes 1 off the next time; two words take turns, so
 * that a rank which is ahead does not touch the one that another still looks at. */
static k3_status_t barrier(fused_engine_t *e, k3_phase_t phase, k3_error_t *err)
{
    pull_state_t *s = e->state;
    uint32_t      turn = s->turn++, down = turn >> 1 & 1;
    uint64_t      at = k3_pull_barrier_at(&s->pull, turn);
    uint32_t      target = down ? 0 : e->row.ranks, word;

    k3_span_begin(e->env.spans, phase);
    for (uint32_t step = 0; step < e->row.ranks; step++) {
        uint32_t peer = (e->rank + step) % e->row.ranks;

        k3_qps_signal_add32(e->qps, (int)peer, 0, at, down ? UINT32_MAX : 1);
    }
    k3_fused_describe(e, "ranks missing at the barrier", e->row.ranks);
    while ((word = k3_signal_read32(e->block + at)) != target && err->status == K3_OK) {
        e->missing = down ? word : target - word;
        k3_qps_idle(e->qps, err);
    }
    k3_watchdog_describe(NULL, NULL);
    k3_span_end(e->env.spans, phase);
    return err->status;
}

/* --- the source ------------------------------------------------------------------------------ */

static void quantize(fused_engine_t *e, const k3_rows_t *rows)
{
    const pull_state_t *s = e->state;
    const k3_pull_t    *p = &s->pull;
    int64_t            *ids = (int64_t *)(void *)(e->block + p->ids);
    uint64_t            pairs = rows->count * e->row.topk;

    for (uint64_t i = 0; i < rows->count; i++) {
        e->env.kernels->encode(e->env.cell->dispatch_format, rows->latent + i * e->row.width,
                               e->row.width, e->block + p->values + i * e->row.values,
                               e->block + p->scales + i * e->row.scales);
    }
    for (uint64_t i = 0; i < pairs; i++) {
        ids[i] = rows->ids[i];
    }
    memcpy(e->block + p->weights, rows->weights, pairs * sizeof(float));
}

static void send_indices(fused_engine_t *e, const k3_rows_t *rows)
{
    pull_state_t *s = e->state;
    uint64_t      pairs = rows->count * e->row.topk;

    memset(s->next, 0, e->row.experts * sizeof(uint32_t));
    for (uint64_t i = 0; i < pairs; i++) {
        int32_t  id = rows->ids[i];
        uint32_t index = (uint32_t)i, local;

        if (id >= 0) {
            local = (uint32_t)id % e->row.local;
            k3_qps_put(e->qps, id / (int32_t)e->row.local, 0, &index,
                       k3_pull_list_at(&s->pull, local, e->rank, s->next[id]++), sizeof(index), 0);
        }
    }
}

static void send_counts(fused_engine_t *e)
{
    const pull_state_t *s = e->state;

    for (uint32_t step = 0; step < e->row.ranks; step++) {
        uint32_t peer = (e->rank + step) % e->row.ranks;

        for (uint32_t local = 0; local < e->row.local; local++) {
            uint64_t n = s->next[peer * e->row.local + local];

            k3_qps_put(e->qps, (int)peer, 0, &n, k3_pull_received_at(&s->pull, e->rank, local),
                       sizeof(n), 0);
            k3_qps_signal_add64(e->qps, (int)peer, 0, k3_pull_sum_at(&s->pull, local),
                                UINT64_C(1) << 32 | n);
        }
    }
}

static void notify(fused_engine_t *e, const k3_rows_t *rows)
{
    k3_span_begin(e->env.spans, K3_PHASE_NOTIFY);
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_NOTIFY);
    send_indices(e, rows);
    send_counts(e);
    k3_span_end(e->env.spans, K3_PHASE_NOTIFY);
}

/* --- the owner ------------------------------------------------------------------------------- */

static k3_status_t read_counts(fused_engine_t *e, k3_error_t *err)
{
    pull_state_t *s = e->state;

    for (uint32_t local = 0; local < e->row.local; local++) {
        uint64_t sum = 0, told = k3_signal_read64(e->block + k3_pull_sum_at(&s->pull, local));

        for (uint32_t source = 0; source < e->row.ranks; source++) {
            uint64_t n = k3_signal_read64(e->block + k3_pull_received_at(&s->pull, source, local));

            if (n > e->row.m) {
                return k3_fail(err, K3_ERR_CHECK,
                               "local expert %u: rank %u announced %llu rows, the bound is %llu",
                               local, source, (unsigned long long)n, (unsigned long long)e->row.m);
            }
            s->arrived[local * e->row.ranks + source] = (uint32_t)n;
            sum += n;
        }
        if (told != ((uint64_t)e->row.ranks << 32 | sum)) {
            return k3_fail(err, K3_ERR_CHECK,
                           "local expert %u: %llu rows from %llu ranks in the sum, %llu in counts",
                           local, (unsigned long long)(told & UINT32_MAX),
                           (unsigned long long)(told >> 32), (unsigned long long)sum);
        }
    }
    return K3_OK;
}

static uint64_t rows_of(const fused_engine_t *e, uint32_t local)
{
    const pull_state_t *s = e->state;
    uint64_t            n = 0;

    for (uint32_t source = 0; source < e->row.ranks; source++) {
        n += s->arrived[local * e->row.ranks + source];
    }
    return n;
}

static pull_source_t *source_at(const fused_engine_t *e, uint64_t row)
{
    const pull_state_t *s = e->state;

    return (pull_source_t *)(void *)(e->block + s->pull.source) + row;
}

/* Until the main thread is done with the row whose place in the ring this one takes. */
static void wait_for_room(fused_engine_t *e, uint64_t row)
{
    const pull_state_t *s = e->state;
    uint64_t            begin;

    if (row < __atomic_load_n(&e->out_of, __ATOMIC_ACQUIRE) + s->pull.ring) {
        return;
    }
    begin = k3_clock_now();
    while (row >= __atomic_load_n(&e->out_of, __ATOMIC_ACQUIRE) + s->pull.ring) {
        sched_yield();
    }
    e->waited += k3_clock_now() - begin;
}

/* Values, scales and the weight of one (row, expert). */
static bool pull_row(fused_engine_t *e, uint32_t local, uint32_t source, uint32_t index,
                     uint64_t row)
{
    const pull_state_t *s = e->state;
    const k3_pull_t    *p = &s->pull;
    uint32_t  word = k3_signal_read32(e->block + k3_pull_list_at(p, local, source, index));
    uint64_t  slot = row % p->ring, from = word / e->row.topk;
    k3_part_t parts[3] = {
        {e->block + p->ring_values + slot * e->row.values, p->values + from * e->row.values,
         e->row.values},
        {e->block + p->ring_weights + 4 * slot, p->weights + 4 * (uint64_t)word, 4},
        {e->block + p->ring_scales + slot * e->row.scales, p->scales + from * e->row.scales,
         e->row.scales},
    };

    if (from >= e->row.m || row >= p->pool) {
        k3_fused_fail(e, "local expert %u: rank %u listed row %llu, the bound is %llu", local,
                      source, (unsigned long long)from, (unsigned long long)e->row.m);
        return false;
    }
    wait_for_room(e, row);
    k3_qps_get_parts(e->qps, (int)source, 0, parts, e->row.scales > 0 ? 3 : 2,
                     e->row.record_payload);
    *source_at(e, row) = (pull_source_t){source, (uint32_t)from, word % e->row.topk};
    __atomic_store_n(&e->in, row + 1, __ATOMIC_RELEASE);
    return true;
}

/* One row of each source in turn, while it has any; the own rank first. */
static bool pull_expert(fused_engine_t *e, uint32_t local, uint64_t *row)
{
    const pull_state_t *s = e->state;
    const uint32_t     *arrived = s->arrived + local * e->row.ranks;
    uint64_t            left = rows_of(e, local);

    for (uint32_t index = 0; left > 0; index++) {
        for (uint32_t step = 0; step < e->row.ranks; step++) {
            uint32_t source = (e->rank + step) % e->row.ranks;

            if (index < arrived[source]) {
                if (!pull_row(e, local, source, index, *row)) {
                    return false;
                }
                ++*row;
                left--;
            }
        }
    }
    return true;
}

static void pull_help(void *engine)
{
    fused_engine_t *e = engine;
    uint64_t        row = 0;

    for (uint32_t local = 0; local < e->row.local && pull_expert(e, local, &row); local++) {
    }
    e->last_in = k3_clock_now();
}

/* --- blocks ---------------------------------------------------------------------------------- */

static k3_expert_rows_t block_of(fused_engine_t *e, uint64_t at, uint64_t n)
{
    const pull_state_t *s = e->state;
    const k3_pull_t    *p = &s->pull;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t slot = (at + i) % p->ring;

        e->values[i] = e->block + p->ring_values + slot * e->row.values;
        e->scales[i] = e->block + p->ring_scales + slot * e->row.scales;
        memcpy(&e->weights[i], e->block + p->ring_weights + 4 * slot, sizeof(float));
    }
    return (k3_expert_rows_t){.count = n,
                              .format = e->env.cell->dispatch_format,
                              .values = e->values,
                              .scales = e->row.scales > 0 ? e->scales : NULL,
                              .out = e->out,
                              .weights = e->weights};
}

static void push_block(fused_engine_t *e, uint64_t at, uint64_t n)
{
    pull_state_t *s = e->state;
    k3_format_t   format = e->env.cell->combine_format;
    size_t        values = k3_format_value_bytes(format, e->row.width);

    k3_fused_push_begin(e);
    for (uint64_t i = 0; i < n; i++) {
        const pull_source_t *from = source_at(e, at + i);
        const void          *result = e->out[i];

        if (format != K3_FORMAT_BF16) {
            e->env.kernels->encode(format, e->out[i], e->row.width, s->record, s->record + values);
            result = s->record;
        }
        k3_qps_put(e->qps, (int)from->rank, 0, result,
                   k3_pull_result_at(&s->pull, from->k, from->row), e->row.result,
                   e->row.result_payload);
    }
    __atomic_store_n(&e->out_of, at + n, __ATOMIC_RELEASE);
    k3_fused_push_end(e);
}

static k3_status_t run_experts(fused_engine_t *e, k3_expert_fn_t expert, void *arg, k3_error_t *err)
{
    uint64_t at = 0;

    for (uint32_t local = 0; local < e->row.local; local++) {
        uint64_t end = at + rows_of(e, local), most = k3_fused_block_rows(end - at);

        while (at < end) {
            uint64_t         n = end - at < most ? end - at : most;
            k3_expert_rows_t work;

            if (k3_fused_wait_in(e, at + n, "rows still to read", err) != K3_OK) {
                return err->status;
            }
            work = block_of(e, at, n);
            expert(arg, local, &work);
            push_block(e, at, n);
            at += n;
        }
    }
    return K3_OK;
}

/* --- the sum --------------------------------------------------------------------------------- */

/* A result in the combine format as bf16 values. */
static const uint16_t *decoded(fused_engine_t *e, uint32_t k, const uint8_t *result)
{
    pull_state_t *s = e->state;
    k3_format_t   format = e->env.cell->combine_format;
    uint16_t     *out = s->decoded + (uint64_t)k * e->row.width;

    if (format == K3_FORMAT_BF16) {
        return (const uint16_t *)(const void *)result;
    }
    e->env.kernels->decode(format, result, result + k3_format_value_bytes(format, e->row.width),
                           e->row.width, s->row);
    for (uint32_t j = 0; j < e->row.width; j++) {
        out[j] = k3_f32_to_bf16(s->row[j]);
    }
    return out;
}

static void reduce(fused_engine_t *e, const k3_rows_t *rows, uint16_t *combined)
{
    const pull_state_t *s = e->state;
    uint32_t            topk = e->row.topk;
    const uint16_t     *parts[K3_TOPK_MAX];

    for (uint64_t i = 0; i < rows->count; i++) {
        for (uint32_t k = 0; k < topk; k++) {
            parts[k] = rows->ids[i * topk + k] < 0
                           ? NULL
                           : decoded(e, k, e->block + k3_pull_result_at(&s->pull, k, i));
        }
        e->env.kernels->combine(parts, NULL, topk, e->row.width, combined + i * e->row.width);
    }
}

static void clean_up(fused_engine_t *e)
{
    const pull_state_t *s = e->state;

    memset(e->block + s->pull.received, 0, 8 * (uint64_t)e->row.experts);
    for (uint32_t local = 0; local < e->row.local; local++) {
        k3_signal_clear64(e->block + k3_pull_sum_at(&s->pull, local));
    }
}

static k3_status_t pull_run(fused_engine_t *e, const k3_rows_t *rows, k3_expert_fn_t expert,
                            void *arg, uint16_t *combined, k3_error_t *err)
{
    k3_spans_t *spans = e->env.spans;
    uint64_t    experts_end;

    k3_fused_begin(e);
    k3_span_begin(spans, K3_PHASE_QUANTIZE);
    quantize(e, rows);
    k3_span_end(spans, K3_PHASE_QUANTIZE);
    notify(e, rows);
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_DISPATCH);
    if (barrier(e, K3_PHASE_DISPATCH_WAIT, err) != K3_OK || read_counts(e, err) != K3_OK) {
        return err->status;
    }

    k3_span_begin(spans, K3_PHASE_DISPATCH_SEND);
    k3_fused_start_helper(e);
    if (run_experts(e, expert, arg, err) != K3_OK || k3_fused_all_in(e, err) != K3_OK) {
        return err->status;
    }
    k3_span_end_at(spans, K3_PHASE_DISPATCH_SEND, e->last_in - e->waited);
    experts_end = k3_clock_now();

    k3_fused_push_begin(e); /* also without a row */
    k3_fused_push_end(e);
    if (barrier(e, K3_PHASE_COMBINE_WAIT, err) == K3_OK) {
        k3_span_begin(spans, K3_PHASE_COMBINE_REDUCE);
        reduce(e, rows, combined);
        k3_span_end(spans, K3_PHASE_COMBINE_REDUCE);
        k3_fused_complete(e, experts_end);
        clean_up(e);
        barrier(e, K3_PHASE_COMBINE_WAIT, err);
    }
    return err->status;
}

const fused_protocol_t k3_fused_pull = {
    .create = pull_create,
    .destroy = pull_destroy,
    .help = pull_help,
    .run = pull_run,
};
