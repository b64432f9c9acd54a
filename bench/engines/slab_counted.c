/* Slab profiles that count arrivals. Every message carries its own signal, an add on a counter of
 * (expert, DP group) or of a row; how many there will be is set apart, in notify, by the first rank of
 * the group. Nothing relies on the order of messages.
 *
 * One block serves every call. What guards it: at the end of its combine a rank sets its flag at every
 * rank, and no rank sends before it has seen the flags of all from the call before. By then all words
 * and slots of that call are consumed: counts, arrivals and row counters are cleared by their owner
 * before it sets its flags. The flag holds the number of the call, where upstream sets 1: a rank can
 * finish the next call before a late one has looked, and a 1 that comes twice would be lost. */
#include <stdio.h>

#include "bench/engines/slab_engine.h"
#include "bench/plan/cell_rows.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"

/* --- set-up ---------------------------------------------------------------------------------- */

static uint64_t plan(slab_engine_t *e)
{
    k3_counted_plan(e->env.cell, &e->counted);
    e->rows_cap = k3_mul(e->counted.groups, e->counted.group_m);
    return e->counted.bytes;
}

static uint64_t part_words(slab_engine_t *e)
{
    return k3_counted_part_words(&e->counted);
}

/* The rows of the group in the routing: what each expert and each row gets, and what comes before the
 * own rows. */
static void count_group(slab_engine_t *e)
{
    const k3_counted_t *c = &e->counted;
    const k3_cell_t    *cell = e->env.cell;
    uint32_t            first_rank = e->rank - e->rank % c->group_ranks;
    uint64_t            row = 0, first, count;
    int32_t             ids[K3_TOPK_MAX];

    memset(e->due, 0, e->group_rows * sizeof(*e->due));
    memset(e->total, 0, c->experts * sizeof(*e->total));
    memset(e->base, 0, c->experts * sizeof(*e->base));
    for (uint32_t rank = first_rank; rank < first_rank + c->group_ranks; rank++) {
        k3_cell_dispatched(cell, rank, &first, &count);
        for (uint64_t i = 0; i < count; i++, row++) {
            k3_routing_row(cell->routing, first + i, ids);
            for (uint32_t k = 0; k < cell->model.topk; k++) {
                if (ids[k] >= 0) {
                    e->due[row]++;
                    e->total[ids[k]]++;
                    e->base[ids[k]] += rank < e->rank;
                }
            }
        }
    }
}

static void rerouted(slab_engine_t *e)
{
    const k3_counted_t *c = &e->counted;

    count_group(e);
    for (uint32_t x = 0; x < c->experts; x++) {
        e->target[x] = (slab_target_t){
            .offset =
                k3_counted_record_at(c, x % c->local, k3_counted_group(c, e->rank), e->base[x]),
            .peer = (int)(x / c->local),
        };
    }
}

static k3_status_t alloc(slab_engine_t *e, k3_error_t *err)
{
    const k3_counted_t *c = &e->counted;
    uint32_t            first_rank = e->rank - e->rank % c->group_ranks;
    uint64_t            first, count, own = 0, wait = k3_mul(c->local, c->groups);

    for (uint32_t rank = first_rank; rank < first_rank + c->group_ranks; rank++) {
        k3_cell_dispatched(e->env.cell, rank, &first, &count);
        e->own_first += rank < e->rank ? count : 0;
        e->group_rows += count;
        own = rank == e->rank ? count : own;
    }
    wait = wait > e->group_rows ? wait : e->group_rows;
    wait = wait > c->ranks ? wait : c->ranks;
    e->arriving = k3_rows_arriving(e->env.cell, e->rank);
    if (k3_alloc("signals seen", wait, 1, &e->seen, err) != K3_OK ||
        k3_alloc("records arrived", e->arriving, sizeof(*e->records), &e->records, err) != K3_OK ||
        k3_alloc("sources of records", e->arriving > own ? e->arriving : own, sizeof(*e->origins),
                 &e->origins, err) != K3_OK ||
        k3_alloc("numbers of rows", own, sizeof(*e->placed), &e->placed, err) != K3_OK ||
        k3_alloc("parts of rows", e->env.compute->device != NULL ? own : 1,
                 e->env.cell->model.topk * sizeof(*e->parts), &e->parts, err) != K3_OK ||
        k3_compute_alloc(e->env.compute, "results", c->outputs, 1, false, &e->results, err) !=
            K3_OK ||
        k3_alloc("rows of earlier ranks", c->experts, sizeof(uint32_t), &e->base, err) != K3_OK ||
        k3_alloc("rows of the group", c->experts, sizeof(uint32_t), &e->total, err) != K3_OK ||
        k3_alloc("results due", e->group_rows, sizeof(uint32_t), &e->due, err) != K3_OK) {
        return err->status;
    }
    rerouted(e);
    return K3_OK;
}

/* --- waiting --------------------------------------------------------------------------------- */

static const char waits_for_flags[] = "ranks not done with the call before";
static const char waits_for_rows[] = "counts or their rows missing";
static const char waits_for_results[] = "rows without all results";

static void describe(const void *arg, char *text, unsigned size)
{
    const slab_engine_t *e = arg;
    unsigned             i = 0;

    while (e->seen[i] && e->missing > 0) {
        i++;
    }
    if (e->waiting_for == waits_for_rows) {
        snprintf(text, size, "%llu %s, first: local expert %u from DP group %u",
                 (unsigned long long)e->missing, e->waiting_for, i / e->counted.groups,
                 i % e->counted.groups);
    } else {
        snprintf(text, size, "%llu %s, first: %u", (unsigned long long)e->missing, e->waiting_for,
                 i);
    }
}

/* What a wait looks at: true when item i is complete. */
typedef bool (*is_done_t)(slab_engine_t *e, uint64_t i);
/* The source whose wait that is. */
typedef uint32_t (*source_t)(const slab_engine_t *e, uint64_t i);

static k3_status_t wait_for(slab_engine_t *e, const char *what, uint64_t n, is_done_t is_done,
                            source_t source, k3_wait_t *waits, k3_error_t *err)
{
    uint64_t begin = k3_clock_now();

    memset(e->seen, 0, n);
    e->missing = n;
    e->waiting_for = what;
    k3_watchdog_describe(describe, e);
    while (e->missing > 0 && err->status == K3_OK) {
        uint64_t before = e->missing;

        for (uint64_t i = 0; i < n; i++) {
            if (!e->seen[i] && is_done(e, i)) {
                e->seen[i] = 1;
                e->missing--;
                if (source != NULL) {
                    k3_wait_note(&waits[source(e, i)], k3_clock_now() - begin);
                }
            }
        }
        if (e->missing != before) {
            k3_watchdog_alive();
        } else {
            k3_qps_idle(e->qps, err);
        }
    }
    k3_watchdog_describe(NULL, NULL);
    return err->status;
}

static uint8_t *word_at(const slab_engine_t *e, uint64_t area, uint64_t i)
{
    return e->words + area + i * K3_COUNTED_SIGNAL;
}

static bool flag_is_set(slab_engine_t *e, uint64_t rank)
{
    return k3_signal_read64(word_at(e, e->counted.flags, rank)) >= e->call - 1;
}

/* A count that the block cannot hold ends the wait and is refused by its reader. */
static bool rows_are_here(slab_engine_t *e, uint64_t slot)
{
    uint64_t count = k3_signal_read64(word_at(e, e->counted.counts, slot));

    if (count == 0) {
        return false;
    }
    e->arrived[slot] = count - 1 > e->counted.group_m ? UINT32_MAX : (uint32_t)(count - 1);
    return e->arrived[slot] == UINT32_MAX ||
           k3_signal_read64(word_at(e, e->counted.arrivals, slot)) >= e->arrived[slot];
}

static bool results_are_here(slab_engine_t *e, uint64_t row)
{
    return k3_signal_read64(word_at(e, e->counted.row_counts, row)) >= e->due[row];
}

static uint32_t source_of_slot(const slab_engine_t *e, uint64_t slot)
{
    return (uint32_t)(slot % e->counted.groups) * e->counted.group_ranks;
}

/* --- dispatch -------------------------------------------------------------------------------- */

static k3_status_t quantize(slab_engine_t *e, const k3_rows_t *rows, k3_error_t *err)
{
    const k3_counted_t    *c = &e->counted;
    k3_compute_t          *compute = e->env.compute;
    const k3_encode_rows_t to = {.format = e->env.cell->dispatch_format,
                                 .rows = rows->count,
                                 .width = e->env.cell->model.latent,
                                 .in = rows->latent,
                                 .records = e->block + c->send,
                                 .stride = c->record,
                                 .scales_at = c->record_scales};

    compute->ops->encode(compute, &to);
    for (uint64_t i = 0; i < rows->count; i++) {
        e->origins[i] = (int32_t)(e->own_first + i);
        e->placed[i] = e->block + c->send + i * c->record + c->record_source;
    }
    compute->ops->place(compute, e->placed, e->origins, rows->count, sizeof(*e->origins));
    return compute->ops->finish(compute, err);
}

/* The first rank of a group announces its rows to every expert, also none. */
static void announce(slab_engine_t *e)
{
    const k3_counted_t *c = &e->counted;
    uint32_t            group = k3_counted_group(c, e->rank);

    for (uint32_t step = 0; step < c->ranks && e->rank % c->group_ranks == 0; step++) {
        uint32_t peer = (e->rank + step) % c->ranks;

        for (uint32_t local = 0; local < c->local; local++) {
            k3_qps_signal_write64(e->qps, (int)peer, 0,
                                  c->counts + k3_counted_slot(c, local, group) * K3_COUNTED_SIGNAL,
                                  (uint64_t)e->total[peer * c->local + local] + 1);
        }
    }
}

static void send_rows(slab_engine_t *e, const k3_rows_t *rows)
{
    const k3_counted_t *c = &e->counted;
    uint32_t            topk = e->env.cell->model.topk, group = k3_counted_group(c, e->rank);

    memset(e->next, 0, c->experts * sizeof(uint32_t));
    for (uint64_t i = 0; i < rows->count * topk; i++) {
        int32_t        id = rows->ids[i];
        const uint8_t *record = e->block + c->send + i / topk * c->record;

        if (id >= 0) {
            const slab_target_t *t = &e->target[id];
            uint64_t             slot = k3_counted_slot(c, (uint32_t)id % c->local, group);

            k3_qps_put(e->qps, t->peer, 0, record, t->offset + e->next[id]++ * c->record, c->record,
                       c->record_payload);
            k3_qps_signal_add64(e->qps, t->peer, 0, c->arrivals + slot * K3_COUNTED_SIGNAL, 1);
        }
    }
}

/* Consumed: the next call's may come once this rank has set its flags. */
static void clear_words(slab_engine_t *e, uint64_t area, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        k3_signal_clear64(word_at(e, area, i));
    }
}

static k3_status_t check_counts(const slab_engine_t *e, k3_error_t *err)
{
    for (uint32_t i = 0; i < e->counted.local * e->counted.groups; i++) {
        if (e->arrived[i] > e->counted.group_m) {
            return k3_fail(
                err, K3_ERR_CHECK,
                "local expert %u: DP group %u announced more than the %llu rows that the "
                "slab holds",
                i / e->counted.groups, i % e->counted.groups,
                (unsigned long long)e->counted.group_m);
        }
    }
    return K3_OK;
}

static k3_status_t dispatch(slab_engine_t *e, const k3_rows_t *rows, k3_error_t *err)
{
    k3_spans_t *spans = e->env.spans;
    uint64_t    slots = (uint64_t)e->counted.local * e->counted.groups;

    k3_span_begin(spans, K3_PHASE_QUANTIZE);
    quantize(e, rows, err);
    k3_span_end(spans, K3_PHASE_QUANTIZE);
    if (err->status != K3_OK) {
        return err->status;
    }

    k3_span_begin(spans, K3_PHASE_NOTIFY);
    wait_for(e, waits_for_flags, e->counted.ranks, flag_is_set, NULL, NULL, err);
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_NOTIFY);
    announce(e);
    k3_span_end(spans, K3_PHASE_NOTIFY);

    k3_span_begin(spans, K3_PHASE_DISPATCH_SEND);
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_DISPATCH);
    send_rows(e, rows);
    e->env.compute->ops->copies_done(e->env.compute);
    k3_span_end(spans, K3_PHASE_DISPATCH_SEND);

    k3_engine_sent(&e->env);
    k3_span_begin(spans, K3_PHASE_DISPATCH_WAIT);
    wait_for(e, waits_for_rows, slots, rows_are_here, source_of_slot,
             e->env.waits[K3_TRAFFIC_DISPATCH], err);
    clear_words(e, e->counted.counts, slots);
    clear_words(e, e->counted.arrivals, slots);
    k3_engine_finish_span(e->qps, e->soft, err);
    k3_span_end(spans, K3_PHASE_DISPATCH_WAIT);
    return err->status == K3_OK ? check_counts(e, err) : err->status;
}

/* --- experts --------------------------------------------------------------------------------- */

static void expert(slab_engine_t *e, uint32_t local_expert, k3_expert_rows_t *work)
{
    const k3_counted_t *c = &e->counted;
    size_t              n = 0;

    for (uint32_t group = 0; group < c->groups; group++) {
        const uint8_t *record = e->block + k3_counted_record_at(c, local_expert, group, 0);
        uint8_t       *result = e->results + k3_counted_output_at(c, local_expert, group, 0);

        for (uint32_t i = e->arrived[k3_counted_slot(c, local_expert, group)]; i > 0; i--) {
            e->values[n] = record;
            e->scales[n] = record + c->record_scales;
            e->out[n] = (uint16_t *)(void *)result;
            record += c->record;
            result += c->output;
            n++;
        }
    }
    *work = (k3_expert_rows_t){n, e->env.cell->dispatch_format, e->values, e->scales, e->out};
}

/* --- combine --------------------------------------------------------------------------------- */

/* One result to one rank of its group: copied to the send area once, mapped peers are stored to
 * straight from where the expert wrote. */
static void send_result(slab_engine_t *e, const uint8_t *output, const uint8_t *staging,
                        uint32_t peer, uint32_t expert_id, uint32_t row)
{
    const k3_counted_t *c = &e->counted;
    bool                mapped = k3_qps_mapped(e->qps, (int)peer) != NULL;

    k3_qps_put(e->qps, (int)peer, 0, mapped ? output : staging,
               k3_counted_result_at(c, expert_id, row), c->result, c->result);
    k3_qps_signal_add64(e->qps, (int)peer, 0, c->row_counts + (uint64_t)row * K3_COUNTED_SIGNAL, 1);
}

static k3_status_t check_source_row(const slab_engine_t *e, uint32_t local, uint32_t group,
                                    uint32_t slot, uint32_t row, k3_error_t *err)
{
    if (row >= e->counted.group_m) {
        return k3_fail(err, K3_ERR_CHECK,
                       "local expert %u, slot %u of DP group %u: source row %u is outside 0..%llu",
                       local, slot, group, row, (unsigned long long)e->counted.group_m - 1);
    }
    return K3_OK;
}

static k3_status_t send_slot(slab_engine_t *e, uint32_t local, uint32_t group,
                             const int32_t *origins, k3_error_t *err)
{
    const k3_counted_t *c = &e->counted;
    bool                here = e->env.compute->device == NULL;

    for (uint32_t i = 0; i < e->arrived[k3_counted_slot(c, local, group)]; i++) {
        const uint8_t *output = e->results + k3_counted_output_at(c, local, group, i);
        uint8_t       *staging = e->block + k3_counted_staging_at(c, local, group, i);
        uint32_t       row = (uint32_t)origins[i];

        if (check_source_row(e, local, group, i, row, err) != K3_OK) {
            return err->status;
        }
        if (here) {
            memcpy(staging, output, c->output);
        }
        for (uint32_t s = 0; s < c->group_ranks; s++) {
            /* Each source begins with another rank of the group. */
            send_result(e, output, staging, group * c->group_ranks + (e->rank + s) % c->group_ranks,
                        e->rank * c->local + local, row);
        }
    }
    return K3_OK;
}

/* Calls `visit` for every slot, in the order in which results are sent. */
typedef k3_status_t (*visit_t)(slab_engine_t *e, uint32_t local, uint32_t group, uint64_t before,
                               k3_error_t *err);

static k3_status_t for_each_slot(slab_engine_t *e, visit_t visit, k3_error_t *err)
{
    const k3_counted_t *c = &e->counted;
    uint64_t            before = 0;

    for (uint32_t step = 0; step < c->groups; step++) {
        uint32_t group = (k3_counted_group(c, e->rank) + step) % c->groups;

        for (uint32_t local = 0; local < c->local; local++) {
            if (visit(e, local, group, before, err) != K3_OK) {
                return err->status;
            }
            before += e->arrived[k3_counted_slot(c, local, group)];
        }
    }
    return K3_OK;
}

static k3_status_t list_slot(slab_engine_t *e, uint32_t local, uint32_t group, uint64_t before,
                             k3_error_t *err)
{
    const k3_counted_t *c = &e->counted;
    uint32_t            count = e->arrived[k3_counted_slot(c, local, group)];

    if (count > e->arriving - before) {
        return k3_fail(
            err, K3_ERR_CHECK, "%llu rows and more arrived at rank %u, the routing sends %llu",
            (unsigned long long)(before + count), e->rank, (unsigned long long)e->arriving);
    }
    for (uint32_t i = 0; i < count; i++) {
        e->records[before + i] =
            e->block + k3_counted_record_at(c, local, group, i) + c->record_source;
    }
    e->listed = before + count;
    return K3_OK;
}

/* On a device all results are brought to the send area by one kernel, in front of the first post. */
static k3_status_t stage_slot(slab_engine_t *e, uint32_t local, uint32_t group, uint64_t before,
                              k3_error_t *err)
{
    const k3_counted_t *c = &e->counted;

    (void)before;
    for (uint32_t i = 0; i < e->arrived[k3_counted_slot(c, local, group)]; i++) {
        e->env.compute->ops->copy(e->env.compute,
                                  e->block + k3_counted_staging_at(c, local, group, i),
                                  e->results + k3_counted_output_at(c, local, group, i), c->output);
    }
    return err->status;
}

static k3_status_t visit_send(slab_engine_t *e, uint32_t local, uint32_t group, uint64_t before,
                              k3_error_t *err)
{
    return send_slot(e, local, group, e->origins + before, err);
}

static k3_status_t send_results(slab_engine_t *e, k3_error_t *err)
{
    k3_compute_t *compute = e->env.compute;

    e->listed = 0;
    if (for_each_slot(e, list_slot, err) != K3_OK) {
        return err->status;
    }
    compute->ops->fetch(compute, e->origins, e->records, e->listed, sizeof(*e->origins));
    if (compute->device != NULL) {
        for_each_slot(e, stage_slot, err);
        compute->ops->copies_done(compute);
    }
    if (compute->ops->finish(compute, err) == K3_OK) {
        for_each_slot(e, visit_send, err);
    }
    compute->ops->copies_done(compute);
    return err->status;
}

static void reduce(slab_engine_t *e, const k3_rows_t *rows, uint16_t *combined)
{
    uint32_t topk = e->env.cell->model.topk, width = e->env.cell->model.latent;
    uint64_t at_once = e->env.compute->device != NULL ? rows->count : 1;

    for (uint64_t first = 0; first < rows->count; first += at_once) {
        for (uint64_t i = 0; i < at_once * topk; i++) {
            uint64_t at = first * topk + i;
            int32_t  id = rows->ids[at];

            e->parts[i] = id < 0 ? NULL
                                 : e->block + k3_counted_result_at(&e->counted, (uint32_t)id,
                                                                   e->own_first + at / topk);
        }
        e->env.compute->ops->combine(
            e->env.compute, (const uint16_t *const *)(const void *)e->parts,
            rows->weights + first * topk, at_once, topk, width, combined + first * width);
    }
}

static void set_flags(slab_engine_t *e)
{
    const k3_counted_t *c = &e->counted;

    for (uint32_t step = 0; step < c->ranks; step++) {
        k3_qps_signal_write64(e->qps, (int)((e->rank + step) % c->ranks), 0,
                              c->flags + (uint64_t)e->rank * K3_COUNTED_SIGNAL, e->call);
    }
}

static k3_status_t combine(slab_engine_t *e, const k3_rows_t *rows, uint16_t *combined,
                           k3_error_t *err)
{
    k3_spans_t         *spans = e->env.spans;
    const k3_counted_t *c = &e->counted;

    k3_span_begin(spans, K3_PHASE_COMBINE_SEND);
    k3_qps_bank_begin(e->qps, K3_TRAFFIC_COMBINE);
    send_results(e, err);
    k3_span_end(spans, K3_PHASE_COMBINE_SEND);

    k3_span_begin(spans, K3_PHASE_COMBINE_WAIT);
    if (err->status == K3_OK) {
        wait_for(e, waits_for_results, e->group_rows, results_are_here, NULL, NULL, err);
    }
    clear_words(e, c->row_counts, e->group_rows);
    k3_span_end(spans, K3_PHASE_COMBINE_WAIT);

    k3_span_begin(spans, K3_PHASE_COMBINE_REDUCE);
    if (err->status == K3_OK) {
        reduce(e, rows, combined);
        e->env.compute->ops->finish(e->env.compute, err); /* results are read by now */
        set_flags(e);
        k3_engine_finish_span(e->qps, e->soft, err);
    }
    k3_span_end(spans, K3_PHASE_COMBINE_REDUCE);
    return err->status == K3_OK ? e->env.compute->ops->finish(e->env.compute, err) : err->status;
}

const slab_form_t k3_slab_counted = {plan, part_words, alloc, rerouted, dispatch, expert, combine};
