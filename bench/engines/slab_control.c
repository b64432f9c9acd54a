/* The control of the slab family: the puts and signals of a dispatch as a flat list, posted by a loop that
 * keeps no books. What it takes is what the messages cost, in full what their rows' format costs too; what a
 * dispatch takes above it is the engine's: addresses, order, accounts. */
#include <string.h>

#include "bench/engines/slab_engine.h"
#include "bench/plan/cell_rows.h"
#include "harness/base/memory.h"

typedef struct raw_put {
    uint8_t *
        mapped; /* NULL: through the queue pair; on a device, whose rows the host cannot store, always */
    const uint8_t *local;
    uint64_t       row, offset;
    int            peer;
    unsigned       qp;
} raw_put_t;

typedef struct raw_signal {
    uint8_t    *mapped;
    int         peer;
    k3_signal_t signal;
} raw_signal_t;

struct slab_raw {
    uint64_t      puts, signals;
    raw_put_t    *put;
    raw_signal_t *signal;
};

void k3_slab_control_destroy(slab_engine_t *e)
{
    if (e->raw != NULL) {
        k3_free(e->raw->signal);
        k3_free(e->raw->put);
        k3_free(e->raw);
        e->raw = NULL;
    }
}

static void add_put(slab_engine_t *e, uint64_t row, uint32_t expert)
{
    const k3_slab_t *s = &e->slab;
    uint32_t         local = expert % s->local, slot = e->next[expert]++;
    int              peer = (int)(expert / s->local);
    uint64_t         offset = s->recv[0] + k3_slab_record_at(s, local, e->rank, slot);
    bool             device = e->env.compute->device != NULL;
    uint8_t         *base = device ? NULL : k3_qps_mapped(e->qps, peer);

    e->raw->put[e->raw->puts++] = (raw_put_t){
        .mapped = base != NULL ? base + offset : NULL,
        .local = k3_slab_own_record(e, e->block + s->send[0], row),
        .row = row,
        .offset = offset,
        .peer = peer,
        .qp = k3_slab_qp(s, local),
    };
}

static void add_signals(slab_engine_t *e)
{
    const k3_slab_t *s = &e->slab;

    for (uint32_t step = 0; step < s->ranks; step++) {
        uint32_t peer = (e->rank + step) % s->ranks;
        uint8_t *base = k3_qps_mapped(e->qps, (int)peer);

        for (uint32_t local = 0; local < s->local; local++) {
            uint64_t offset = s->signal[0] + k3_slab_count_at(s, local, e->rank);
            uint32_t n = e->next[peer * s->local + local];

            e->raw->signal[e->raw->signals++] = (raw_signal_t){
                .mapped = base != NULL ? base + offset : NULL,
                .peer = (int)peer,
                .signal = {offset, k3_slab_count_value(e, n), k3_slab_qp(s, local)},
            };
        }
    }
}

k3_status_t k3_slab_control_create(slab_engine_t *e, k3_error_t *err)
{
    const k3_cell_t *cell = e->env.cell;
    uint64_t         first, count;
    int32_t          ids[K3_TOPK_MAX];

    k3_cell_dispatched(cell, e->rank, &first, &count);
    if (k3_alloc("control", 1, sizeof(*e->raw), &e->raw, err) != K3_OK ||
        k3_alloc("control puts", count * cell->model.topk, sizeof(raw_put_t), &e->raw->put, err) !=
            K3_OK ||
        k3_alloc("control signals", e->slab.experts, sizeof(raw_signal_t), &e->raw->signal, err) !=
            K3_OK) {
        return err->status;
    }
    memset(e->next, 0, e->slab.experts * sizeof(uint32_t));
    for (uint64_t row = 0; row < count; row++) {
        k3_routing_row(cell->routing, first + row, ids);
        for (uint32_t k = 0; k < cell->model.topk; k++) {
            if (ids[k] >= 0) {
                add_put(e, row, (uint32_t)ids[k]);
            }
        }
    }
    add_signals(e);
    return K3_OK;
}

/* The words are zero, so that an add and a write leave the same. */
static inline void store_signal(const raw_signal_t *s, bool wide)
{
    if (wide) {
        __atomic_fetch_add((uint64_t *)(void *)s->mapped, s->signal.value, __ATOMIC_RELEASE);
    } else {
        __atomic_fetch_add((uint32_t *)(void *)s->mapped, (uint32_t)s->signal.value,
                           __ATOMIC_RELEASE);
    }
}

/* The puts from number `next` on, of rows below `end`; returns the number of the next. */
static uint64_t post_puts(slab_engine_t *e, uint64_t next, uint64_t end)
{
    uint64_t bytes = e->slab.record;

    for (; next < e->raw->puts && e->raw->put[next].row < end; next++) {
        const raw_put_t *p = &e->raw->put[next];

        if (p->mapped != NULL) {
            memcpy(p->mapped, p->local, bytes);
        } else {
            k3_qps_put(e->qps, p->peer, p->qp, p->local, p->offset, bytes, bytes);
        }
    }
    return next;
}

/* Block by block, as the engine does. */
static k3_status_t post_quantized(slab_engine_t *e, const k3_rows_t *rows, k3_error_t *err)
{
    k3_compute_t *c = e->env.compute;
    uint64_t      next = 0, end;

    for (uint64_t first = 0; first < rows->count && err->status == K3_OK; first = end) {
        end = k3_block_end(c, first, rows->count);
        k3_slab_quantize(e, rows, first, end, e->block + e->slab.send[0]);
        if (c->ops->finish(c, err) == K3_OK) {
            next = post_puts(e, next, end);
        }
    }
    return err->status;
}

static void post_signals(slab_engine_t *e)
{
    bool wide = e->slab.signal_bytes == 8;

    for (uint64_t i = 0; i < e->raw->signals; i++) {
        const raw_signal_t *s = &e->raw->signal[i];

        if (s->mapped != NULL) {
            store_signal(s, wide);
        } else {
            k3_slab_signals(e, s->peer, &s->signal, 1, false);
        }
    }
}

/* The caller separates the calls of all ranks by barriers, so one half serves and its words can be cleared
 * at once. */
static void clear_words(slab_engine_t *e, uint8_t *words)
{
    for (uint32_t i = 0; i < e->slab.experts; i++) {
        if (e->slab.signal_bytes == 8) {
            k3_signal_clear64(words + i * e->slab.signal_bytes);
        } else {
            k3_signal_clear32(words + i * e->slab.signal_bytes);
        }
    }
}

k3_status_t k3_slab_control(void *engine, const k3_rows_t *rows, bool in_full, k3_error_t *err)
{
    slab_engine_t *e = engine;
    k3_compute_t  *c = e->env.compute;
    uint8_t       *words = e->words + e->slab.signal[0];

    if (!in_full) {
        post_puts(e, 0, rows->count);
    } else if (post_quantized(e, rows, err) != K3_OK) {
        return err->status;
    }
    c->ops->copies_done(c); /* rows of the own rank */
    post_signals(e);
    k3_slab_wait(e, words, true, err);
    clear_words(e, words);
    if (err->status == K3_OK) {
        c->ops->finish(c, err);
    }
    return k3_engine_finish_span(e->qps, e->soft, err); /* the caller's barrier is one of MPI */
}
