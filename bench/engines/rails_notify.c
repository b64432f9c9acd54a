/* Counts ahead of the rows: by rail to every node, then added up inside the node. They also hold a
 * dispatch back until every rank that its rows reach has ended the iteration before. */
#include <stdio.h>
#include <string.h>

#include "bench/engines/rails_engine.h"

static uint32_t row_words(const rails_engine_t *e)
{
    return 1 + e->rails.local;
}

/* A count travels as its complement, so that none is zero. */
static void count_rows(rails_engine_t *e, const k3_rows_t *rows)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          words = row_words(e);
    uint32_t          places[K3_TOPK_MAX];

    memset(e->notify_rows, 0xff, (size_t)r->ranks * words * sizeof(uint32_t));
    for (uint64_t i = 0; i < rows->count; i++) {
        const int32_t *ids = rows->ids + i * r->topk;
        uint32_t       count = k3_holders_list(&e->places, ids, r->topk, places);

        for (uint32_t t = 0; t < count; t++) {
            e->notify_rows[places[t] * words]--;
        }
        for (uint32_t k = 0; k < r->topk; k++) {
            if (ids[k] >= 0) {
                e->notify_rows[e->count_at[ids[k]]]--;
            }
        }
    }
}

static void add_counts(rails_engine_t *e, const uint32_t *counts, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;

    for (uint32_t i = 0; i < r->per_node * row_words(e); i++) {
        uint32_t count = ~k3_signal_read32(counts + i);

        if (count > r->m) {
            k3_fail(err, K3_ERR_CHECK, "a rank announces %u rows, the bound is %llu", count,
                    (unsigned long long)r->m);
        }
        e->notify_sums[i] += count;
    }
}

static bool poll_counts(rails_engine_t *e, uint32_t node, k3_error_t *err)
{
    uint32_t  words = e->rails.per_node * row_words(e);
    uint32_t *counts = (uint32_t *)(void *)(e->words + e->rails.rail_row) + (size_t)node * words;

    for (uint32_t i = 0; i < words; i++) {
        if (k3_signal_read32(counts + i) == 0) {
            return false;
        }
    }
    add_counts(e, counts, err);
    for (uint32_t i = 0; i < words; i++) {
        k3_signal_clear32(counts + i);
    }
    return true;
}

/* All ranks of the node add to the same words: an arrival in the high half, a count in the low. */
static void send_sums(rails_engine_t *e)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          words = row_words(e);

    for (uint32_t step = 0; step < r->per_node; step++) {
        uint32_t to = (e->index + step) % r->per_node;

        for (uint32_t i = 0; i < words; i++) {
            k3_rails_signal(e, k3_rails_local_rank(e, to), 0, r->row + (uint64_t)i * 8,
                            UINT64_C(1) << 32 | e->notify_sums[to * words + i]);
        }
    }
}

static void describe_sums(const void *arg, char *text, unsigned size)
{
    const rails_engine_t *e = arg;
    uint32_t              word = row_words(e) - e->missing;
    uint64_t              value = k3_signal_read64(e->words + e->rails.row + (uint64_t)word * 8);

    snprintf(text, size,
             "%u of %u counts missing, first: number %u, told by %u of %u ranks of the node",
             e->missing, row_words(e), word, (uint32_t)(value >> 32), e->rails.per_node);
}

static k3_status_t wait_sums(rails_engine_t *e, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;

    e->missing = row_words(e);
    k3_watchdog_describe(describe_sums, e);
    for (uint32_t i = 0; i < row_words(e) && err->status == K3_OK;) {
        uint8_t *word = e->words + r->row + (uint64_t)i * 8;
        uint64_t value = k3_signal_read64(word);

        if (value >> 32 < r->per_node) {
            k3_qps_idle(e->qps, err);
            continue;
        }
        k3_signal_clear64(word);
        e->notify_wants[i++] = value & UINT32_MAX;
        e->missing--;
        k3_watchdog_alive();
    }
    k3_watchdog_describe(NULL, NULL);
    return err->status;
}

k3_status_t k3_rails_notify(rails_engine_t *e, const k3_rows_t *rows, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          words = r->per_node * row_words(e);

    count_rows(e, rows);
    for (uint32_t step = 1; step < r->nodes; step++) {
        uint32_t node = (e->node + step) % r->nodes;

        k3_rails_put_words(e, k3_rails_peer(e, node), 0, e->notify_rows + (size_t)node * words,
                           r->rail_row + (uint64_t)e->node * words * 4, (uint64_t)words * 4);
    }
    memset(e->notify_sums, 0, words * sizeof(uint64_t));
    add_counts(e, e->notify_rows + (size_t)e->node * words, err);
    if (k3_rails_wait(e, "counts", K3_TRAFFIC_NOTIFY, true, poll_counts, err) == K3_OK) {
        send_sums(e);
        wait_sums(e, err);
    }
    return err->status;
}
