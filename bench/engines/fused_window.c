/* The source stores: each row goes into the owner's window, behind it a status block for each expert
 * with a flag and a count. The flag is 1.0 in one call and 0.0 in the next, so that nothing has to be
 * cleared; who waits reads all blocks again until the sum of their flags is what it must be. Results
 * come back in the same way, the weights are applied at the origin.
 *
 * Rows of a source lie packed by local expert, and so do the results of an owner: both sides know the
 * counts, so that no index travels. One window for each direction is enough: a source stores the next
 * call's rows after it has seen all status blocks of this call's results, which the owner writes when
 * it is done with the rows; an owner sends the next call's results after it has seen the source's
 * next rows, which are sent when the results were summed. */
#include <sched.h>
#include <string.h>

#include "bench/engines/fused_engine.h"
#include "harness/base/memory.h"

enum { ROWS_HALF, RESULTS_HALF, STATUS_WORDS = 4 };

typedef struct window_state {
    k3_window_t window;
    uint64_t    call;
    uint8_t    *send;    /* [M] records */
    uint32_t   *place;   /* [M][K] index of the row in its owner's area, as the source */
    uint32_t   *first;   /* [E] index of the first row of each expert there, then the next one */
    uint32_t   *arrived; /* [local][R] rows of the present call, as the owner */
    uint32_t   *base;    /* [local][R] index of the first of them in the source's area */
    uint8_t    *seen;    /* [max(R, E)] flags seen in the present wait */
    uint32_t   *from;    /* [K3_FUSED_BLOCK] source of each row of a block, and its index there */
    uint32_t   *at;
} window_state_t;

static void window_destroy(fused_engine_t *e)
{
    window_state_t *s = e->state;

    k3_free(s->at);
    k3_free(s->from);
    k3_free(s->seen);
    k3_free(s->base);
    k3_free(s->arrived);
    k3_free(s->first);
    k3_free(s->place);
    k3_free(s->send);
    k3_free(s);
    e->state = NULL;
}

static k3_status_t window_create(fused_engine_t *e, uint64_t *bytes, k3_error_t *err)
{
    window_state_t *s;

    if (k3_alloc("window protocol", 1, sizeof(*s), &s, err) != K3_OK) {
        return err->status;
    }
    e->state = s;
    k3_window_plan(e->env.cell, &s->window);
    e->row = s->window.row;
    *bytes = s->window.bytes;
    if (k3_alloc("records", e->row.m, e->row.record, &s->send, err) != K3_OK ||
        k3_alloc("places", e->row.m, e->row.topk * sizeof(uint32_t), &s->place, err) != K3_OK ||
        k3_alloc("first rows", e->row.experts, sizeof(uint32_t), &s->first, err) != K3_OK ||
        k3_alloc("rows arrived", e->row.experts, sizeof(uint32_t), &s->arrived, err) != K3_OK ||
        k3_alloc("first rows", e->row.experts, sizeof(uint32_t), &s->base, err) != K3_OK ||
        k3_alloc("flags seen", e->row.experts, 1, &s->seen, err) != K3_OK ||
        k3_alloc("sources", K3_FUSED_BLOCK, sizeof(uint32_t), &s->from, err) != K3_OK ||
        k3_alloc("sources", K3_FUSED_BLOCK, sizeof(uint32_t), &s->at, err) != K3_OK) {
        return err->status;
    }
    e->seen = s->seen;
    return K3_OK;
}

/* --- status ---------------------------------------------------------------------------------- */

static float flag_of_call(const window_state_t *s)
{
    return s->call % 2 == 0 ? 1.0f : 0.0f;
}

/* Word 0 is the flag, word 1 the count: stored together, behind the rows. */
static void send_status(fused_engine_t *e, unsigned half, uint32_t peer, uint32_t mine,
                        uint32_t local, uint32_t count)
{
    const window_state_t *s = e->state;
    float                 flag = flag_of_call(s);
    uint64_t              words[STATUS_WORDS] = {0};
    uint32_t              bits;

    memcpy(&bits, &flag, sizeof(bits));
    words[0] = (uint64_t)count << 32 | bits;
    k3_qps_signal_block(e->qps, (int)peer, 0, k3_window_status_at(&s->window, half, mine, local),
                        words, sizeof(words));
}

static float read_status(const fused_engine_t *e, unsigned half, uint32_t rank, uint32_t local,
                         uint32_t *count)
{
    const window_state_t *s = e->state;
    uint64_t              at = k3_window_status_at(&s->window, half, rank, local);
    uint64_t              word = k3_signal_read64(e->block + at);
    uint32_t              bits = (uint32_t)word;
    float                 flag;

    *count = (uint32_t)(word >> 32);
    memcpy(&flag, &bits, sizeof(flag));
    return flag;
}

static bool near(float a, float b)
{
    return a - b < 0.5f && b - a < 0.5f;
}

/* --- the source ------------------------------------------------------------------------------ */

static void quantize(fused_engine_t *e, const k3_rows_t *rows)
{
    window_state_t *s = e->state;

    for (uint64_t i = 0; i < rows->count; i++) {
        uint8_t *record = s->send + i * e->row.record;

        e->env.kernels->encode(e->env.cell->dispatch_format, rows->latent + i * e->row.width,
                               e->row.width, record, record + e->row.values);
    }
}

/* first[x]: index of the first row of expert x among this rank's rows for the owner of x. */
static void place_rows(fused_engine_t *e, const k3_rows_t *rows)
{
    window_state_t *s = e->state;
    uint64_t        pairs = rows->count * e->row.topk;

    memset(s->first, 0, e->row.experts * sizeof(uint32_t));
    for (uint64_t i = 0; i < pairs; i++) {
        if (rows->ids[i] >= 0) {
            s->first[rows->ids[i]]++;
        }
    }
    for (uint32_t peer = 0; peer < e->row.ranks; peer++) {
        uint32_t at = 0;

        for (uint32_t local = 0; local < e->row.local; local++) {
            uint32_t *x = &s->first[peer * e->row.local + local], n = *x;

            *x = at;
            at += n;
        }
    }
}

static void send_rows(fused_engine_t *e, const k3_rows_t *rows)
{
    window_state_t *s = e->state;
    uint64_t        pairs = rows->count * e->row.topk;

    for (uint64_t i = 0; i < pairs; i++) {
        int32_t id = rows->ids[i];

        if (id >= 0) {
            s->place[i] = s->first[id]++;
            k3_qps_put(e->qps, id / (int32_t)e->row.local, 0,
                       s->send + i / e->row.topk * e->row.record,
                       k3_window_row_at(&s->window, ROWS_HALF, e->rank, s->place[i]), e->row.record,
                       e->row.record_payload);
        }
    }
}

/* For every expert, also with no row. By now first[x] is the end of x, the first one of its follower. */
static void send_counts(fused_engine_t *e)
{
    window_state_t *s = e->state;

    for (uint32_t step = 0; step < e->row.ranks; step++) {
        uint32_t        peer = (e->rank + step) % e->row.ranks, begin = 0;
        const uint32_t *end = s->first + peer * e->row.local;

        for (uint32_t local = 0; local < e->row.local; local++) {
            send_status(e, ROWS_HALF, peer, e->rank, local, end[local] - begin);
            begin = end[local];
        }
    }
}

/* --- the owner ------------------------------------------------------------------------------- */

/* All sources' status of one local expert, until their flags add up. */
static void wait_for_expert(fused_engine_t *e, uint32_t local)
{
    window_state_t *s = e->state;
    k3_wait_t      *waits = e->env.waits[K3_TRAFFIC_DISPATCH];
    float           flag = flag_of_call(s), target = flag * (float)e->row.ranks, sum;
    uint64_t        begin = k3_clock_now();

    memset(s->seen, 0, e->row.ranks);
    e->seen_count = e->row.ranks;
    for (;;) {
        sum = 0.0f;
        for (uint32_t source = 0; source < e->row.ranks; source++) {
            uint32_t *count = &s->arrived[local * e->row.ranks + source];
            float     got = read_status(e, ROWS_HALF, source, local, count);

            sum += got;
            if (!s->seen[source] && near(got, flag)) {
                s->seen[source] = 1;
                k3_wait_note(&waits[source], k3_clock_now() - begin);
            }
        }
        if (near(sum, target)) {
            return;
        }
        sched_yield();
    }
}

/* Where each source's rows of this expert begin: behind those of the expert before. */
static bool place_arrived(fused_engine_t *e, uint32_t local)
{
    window_state_t *s = e->state;

    for (uint32_t source = 0; source < e->row.ranks; source++) {
        uint64_t i = (uint64_t)local * e->row.ranks + source;
        uint64_t base =
            local == 0 ? 0 : (uint64_t)s->base[i - e->row.ranks] + s->arrived[i - e->row.ranks];

        if (s->arrived[i] > e->row.m || base + s->arrived[i] > s->window.rows_from) {
            k3_fused_fail(e,
                          "local expert %u: rank %u announced %u rows behind %llu, the window "
                          "holds %llu of a rank",
                          local, source, s->arrived[i], (unsigned long long)base,
                          (unsigned long long)s->window.rows_from);
            return false;
        }
        s->base[i] = (uint32_t)base;
    }
    return true;
}

static void window_help(void *engine)
{
    fused_engine_t *e = engine;

    for (uint32_t local = 0; local < e->row.local; local++) {
        wait_for_expert(e, local);
        if (!place_arrived(e, local)) {
            break;
        }
        __atomic_store_n(&e->in, (uint64_t)local + 1, __ATOMIC_RELEASE);
    }
    e->last_in = k3_clock_now();
}

/* --- blocks ---------------------------------------------------------------------------------- */

/* Rows are used where they were stored. */
static k3_expert_rows_t block_of(fused_engine_t *e, uint64_t n)
{
    const window_state_t *s = e->state;

    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *record =
            e->block + k3_window_row_at(&s->window, ROWS_HALF, s->from[i], s->at[i]);

        e->values[i] = record;
        e->scales[i] = record + e->row.values;
    }
    return (k3_expert_rows_t){.count = n,
                              .format = e->env.cell->dispatch_format,
                              .values = e->values,
                              .scales = e->row.scales > 0 ? e->scales : NULL,
                              .out = e->out};
}

static void push_block(fused_engine_t *e, uint64_t n)
{
    const window_state_t *s = e->state;

    k3_fused_push_begin(e);
    for (uint64_t i = 0; i < n; i++) {
        k3_qps_put(e->qps, (int)s->from[i], 0, e->out[i],
                   k3_window_row_at(&s->window, RESULTS_HALF, e->rank, s->at[i]), e->row.result,
                   e->row.result_payload);
    }
    k3_fused_push_end(e);
}

static void run_block(fused_engine_t *e, uint32_t local, uint64_t n, k3_expert_fn_t expert,
                      void *arg)
{
    k3_expert_rows_t work = block_of(e, n);

    expert(arg, local, &work);
    push_block(e, n);
}

static void run_expert(fused_engine_t *e, uint32_t local, k3_expert_fn_t expert, void *arg)
{
    window_state_t *s = e->state;
    uint64_t        n = 0, total = 0, most;

    for (uint32_t source = 0; source < e->row.ranks; source++) {
        total += s->arrived[(uint64_t)local * e->row.ranks + source];
    }
    most = k3_fused_block_rows(total);
    for (uint32_t step = 0; step < e->row.ranks; step++) {
        uint32_t source = (e->rank + step) % e->row.ranks;
        uint64_t i = (uint64_t)local * e->row.ranks + source;

        for (uint32_t row = 0; row < s->arrived[i]; row++) {
            s->from[n] = source;
            s->at[n++] = s->base[i] + row;
            if (n == most) {
                run_block(e, local, n, expert, arg);
                n = 0;
            }
        }
    }
    if (n > 0) {
        run_block(e, local, n, expert, arg);
    }
    k3_fused_push_begin(e);
    for (uint32_t step = 0; step < e->row.ranks; step++) {
        uint32_t origin = (e->rank + step) % e->row.ranks;

        send_status(e, RESULTS_HALF, origin, e->rank, local,
                    s->arrived[(uint64_t)local * e->row.ranks + origin]);
    }
    k3_fused_push_end(e);
}

/* --- the origin ------------------------------------------------------------------------------ */

/* The status of the results of all experts. */
static k3_status_t wait_for_results(fused_engine_t *e, k3_error_t *err)
{
    window_state_t *s = e->state;
    k3_wait_t      *waits = e->env.waits[K3_TRAFFIC_COMBINE];
    float           flag = flag_of_call(s), target = flag * (float)e->row.experts, sum;
    uint64_t        begin = k3_clock_now(), before;

    memset(s->seen, 0, e->row.experts);
    e->seen_count = e->row.experts;
    k3_fused_describe(e, "flags of experts missing", e->row.experts);
    for (;;) {
        sum = 0.0f;
        before = e->missing;
        for (uint32_t x = 0; x < e->row.experts; x++) {
            uint32_t count, owner = x / e->row.local;
            float    got = read_status(e, RESULTS_HALF, owner, x % e->row.local, &count);

            sum += got;
            if (!s->seen[x] && near(got, flag)) {
                s->seen[x] = 1;
                k3_wait_note(&waits[owner], k3_clock_now() - begin);
                e->missing--;
            }
        }
        if (near(sum, target) || k3_qps_idle(e->qps, err) != K3_OK) {
            break;
        }
        if (e->missing != before) {
            k3_watchdog_alive();
        }
    }
    k3_watchdog_describe(NULL, NULL);
    return err->status;
}

static void reduce(fused_engine_t *e, const k3_rows_t *rows, uint16_t *combined)
{
    const window_state_t *s = e->state;
    uint32_t              topk = e->row.topk;
    const uint16_t       *parts[K3_TOPK_MAX];

    for (uint64_t i = 0; i < rows->count; i++) {
        for (uint32_t k = 0; k < topk; k++) {
            int32_t  id = rows->ids[i * topk + k];
            uint32_t owner = id < 0 ? 0 : (uint32_t)id / e->row.local;

            parts[k] =
                id < 0 ? NULL
                       : (const uint16_t *)(const void *)(e->block +
                                                          k3_window_row_at(&s->window, RESULTS_HALF,
                                                                           owner,
                                                                           s->place[i * topk + k]));
        }
        e->env.kernels->combine(parts, rows->weights + i * topk, topk, e->row.width,
                                combined + i * e->row.width);
    }
}

static void dispatch(fused_engine_t *e, const k3_rows_t *rows)
{
    k3_spans_t *spans = e->env.spans;

    k3_span_begin(spans, K3_PHASE_QUANTIZE);
    quantize(e, rows);
    k3_span_end(spans, K3_PHASE_QUANTIZE);
    k3_span_begin(spans, K3_PHASE_DISPATCH_SEND);
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_DISPATCH);
    place_rows(e, rows);
    send_rows(e, rows);
    send_counts(e);
    k3_span_end(spans, K3_PHASE_DISPATCH_SEND);
}

static k3_status_t window_run(fused_engine_t *e, const k3_rows_t *rows, k3_expert_fn_t expert,
                              void *arg, uint16_t *combined, k3_error_t *err)
{
    window_state_t *s = e->state;
    k3_spans_t     *spans = e->env.spans;
    uint64_t        experts_end;

    k3_fused_begin(e);
    dispatch(e, rows);
    k3_fused_start_helper(e);
    for (uint32_t local = 0; local < e->row.local; local++) {
        if (k3_fused_wait_in(e, local + 1, "experts without all counts", err) != K3_OK) {
            return err->status;
        }
        run_expert(e, local, expert, arg);
    }
    if (k3_fused_all_in(e, err) != K3_OK) {
        return err->status;
    }
    experts_end = k3_clock_now();

    k3_span_begin(spans, K3_PHASE_COMBINE_WAIT);
    wait_for_results(e, err);
    k3_span_end(spans, K3_PHASE_COMBINE_WAIT);
    k3_span_begin(spans, K3_PHASE_COMBINE_REDUCE);
    if (err->status == K3_OK) {
        reduce(e, rows, combined);
    }
    k3_span_end(spans, K3_PHASE_COMBINE_REDUCE);
    k3_fused_complete(e, experts_end);
    s->call++;
    return err->status;
}

const fused_protocol_t k3_fused_window = {
    .create = window_create,
    .destroy = window_destroy,
    .help = window_help,
    .run = window_run,
};
