/* Waiting for signals, barriers. */
#include <stdio.h>
#include <string.h>

#include "bench/engines/ranks_engine.h"

static uint32_t source_of(const ranks_engine_t *e, uint32_t word)
{
    return e->wait_div > 0 ? word / e->wait_div : word % e->g.ranks;
}

/* The source's queue pair that brings the word. */
static uint32_t lane_of(const ranks_engine_t *e, uint32_t word)
{
    if (e->wait_div == 1) {
        return e->wait_qp;
    }
    return (e->wait_div > 0 ? word % e->wait_div : word / e->g.ranks) % e->g.qps;
}

static void describe_wait(const void *arg, char *text, unsigned size)
{
    const ranks_engine_t *e = arg;
    uint32_t              i = 0;

    while (i < e->wait_words && e->seen[i]) {
        i++;
    }
    if (i == e->wait_words) {
        snprintf(text, size, "all %s seen", e->waiting_for);
    } else {
        snprintf(text, size,
                 "%llu of %u %s missing, first: number %u, from rank %u by queue pair %u",
                 (unsigned long long)e->missing, e->wait_words, e->waiting_for, i, source_of(e, i),
                 lane_of(e, i));
    }
}

static uint64_t read_word(const uint8_t *word, uint32_t bytes)
{
    return bytes == sizeof(uint32_t) ? k3_signal_read32(word) : k3_signal_read64(word);
}

static void clear_word(uint8_t *word, uint32_t bytes)
{
    if (bytes == sizeof(uint32_t)) {
        k3_signal_clear32(word);
    } else {
        k3_signal_clear64(word);
    }
}

/* One look at word i; nothing is noted for a source from which nothing was to come. */
static bool look(ranks_engine_t *e, const ranks_wait_t *w, uint32_t i, uint64_t begin)
{
    uint8_t *word = e->words + w->words->at + (uint64_t)i * w->words->bytes;
    uint64_t value = read_word(word, w->words->bytes);
    uint64_t want = w->wants != NULL ? w->wants[i] : w->want;

    if (value >> w->shift < want) {
        return false;
    }
    e->kept[i] = value;
    if (w->clear) {
        clear_word(word, w->words->bytes);
    }
    if (want > 0) {
        k3_wait_note(&e->env.waits[w->phase][source_of(e, i)], k3_clock_now() - begin);
    }
    e->seen[i] = 1;
    e->missing--;
    return true;
}

k3_status_t k3_ranks_wait(ranks_engine_t *e, const ranks_wait_t *w, k3_error_t *err)
{
    uint64_t begin = k3_clock_now();

    memset(e->seen, 0, w->words->count);
    e->missing = w->words->count;
    e->wait_words = w->words->count;
    e->wait_div = w->div;
    e->wait_qp = w->qp;
    e->waiting_for = w->what;
    k3_watchdog_describe(describe_wait, e);
    while (e->missing > 0 && err->status == K3_OK) {
        uint64_t before = e->missing;

        for (uint32_t i = 0; i < w->words->count; i++) {
            if (!e->seen[i]) {
                look(e, w, i, begin);
            }
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

void k3_ranks_signal(ranks_engine_t *e, uint32_t peer, uint32_t qp, const k3_words_t *words,
                     uint32_t word, uint64_t value, bool add)
{
    uint64_t at = words->at + (uint64_t)word * words->bytes;
    bool     narrow = words->bytes == sizeof(uint32_t);

    if (add && narrow) {
        k3_qps_signal_add32(e->qps, (int)peer, qp, at, (uint32_t)value);
    } else if (add) {
        k3_qps_signal_add64(e->qps, (int)peer, qp, at, value);
    } else if (narrow) {
        k3_qps_signal_write32(e->qps, (int)peer, qp, at, (uint32_t)value);
    } else {
        k3_qps_signal_write64(e->qps, (int)peer, qp, at, value);
    }
}

/* One word for each source, counted up: a rank that is a barrier ahead cannot stand in for one that is
 * behind. */
k3_status_t k3_ranks_barrier(ranks_engine_t *e, k3_traffic_phase_t phase, bool flush,
                             k3_error_t *err)
{
    const k3_words_t *words = &e->g.words[K3_WORDS_BARRIER];
    ranks_wait_t      wait = {.words = words, .div = 1, .phase = phase, .what = "barrier signals"};

    if (flush && k3_qps_flush(e->qps, err) != K3_OK) {
        return err->status;
    }
    wait.want = ++e->barriers;
    for (uint32_t step = 0; step < e->g.ranks; step++) {
        k3_ranks_signal(e, (e->rank + step) % e->g.ranks, 0, words, e->rank, 1, true);
    }
    return k3_ranks_wait(e, &wait, err);
}
