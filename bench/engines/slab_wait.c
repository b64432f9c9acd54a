/* Waiting of the slab family: one word for each (expert, source), limits of a call, masks.
 *
 * A mask stays for the cell: the words of a masked rank are not looked at again, so nothing that it
 * sends late is counted in a later call, and its late rows and results fall into slots that are its
 * own. */
#include <stdio.h>

#include "bench/engines/slab_engine.h"

static uint32_t source_of(const slab_engine_t *e, uint32_t word, bool dispatch)
{
    return dispatch ? word % e->slab.ranks : word / e->slab.local;
}

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

/* A count that no block can hold is kept as the largest number and refused by its reader. */
static uint32_t count_of(const slab_engine_t *e, uint64_t word)
{
    bool    minus = e->env.cell->profile->dispatch_value == K3_VALUE_MINUS_COUNT;
    int64_t value = e->slab.signal_bytes == 8 ? (int64_t)word : (int64_t)(int32_t)word;
    int64_t n = minus ? -value - 1 : value - 1;

    return n < 0 || n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static inline uint64_t read_word(const slab_engine_t *e, const uint8_t *words, uint32_t i)
{
    const uint8_t *word = words + i * e->slab.signal_bytes;

    return e->slab.signal_bytes == 8 ? k3_signal_read64(word) : k3_signal_read32(word);
}

/* One look at all words that were not seen yet. */
static void look(slab_engine_t *e, const uint8_t *words, bool dispatch, uint64_t begin)
{
    k3_wait_t *waits = e->env.waits[dispatch ? K3_TRAFFIC_DISPATCH : K3_TRAFFIC_COMBINE];

    for (uint32_t i = 0; i < e->slab.experts; i++) {
        uint64_t word;

        if (e->seen[i] || (word = read_word(e, words, i)) == 0) {
            continue;
        }
        if (dispatch) {
            e->arrived[i] = count_of(e, word);
        }
        k3_wait_note(&waits[source_of(e, i, dispatch)], k3_clock_now() - begin);
        e->seen[i] = 1;
        e->missing--;
    }
}

/* Words of masked ranks count as seen, with no rows. */
static void leave_out_masked(slab_engine_t *e, bool dispatch)
{
    for (uint32_t i = 0; i < e->slab.experts; i++) {
        if (!k3_slab_is_masked(e, source_of(e, i, dispatch))) {
            continue;
        }
        if (dispatch) {
            e->arrived[i] = 0;
        }
        e->missing -= !e->seen[i];
        e->seen[i] = 1;
    }
}

/* The limit has passed: sources that lack a word are masked as a whole, or this rank is trapped. */
static void give_up(slab_engine_t *e, bool dispatch)
{
    k3_phase_t phase = dispatch ? K3_PHASE_DISPATCH_WAIT : K3_PHASE_COMBINE_WAIT;

    for (uint32_t i = 0; i < e->slab.experts; i++) {
        uint32_t source = source_of(e, i, dispatch);

        if (e->seen[i]) {
            continue;
        }
        if (e->env.cell->fault == K3_FAULT_TRAP) {
            k3_fail(&e->trapped, K3_ERR_CHECK,
                    "%s: trap: %s of rank %u missing after %g s in %s of call %llu",
                    e->env.cell->profile->name, e->waiting_for, source, e->env.limit_s,
                    k3_phase_names[phase], (unsigned long long)e->call);
            e->missing = 0;
            return;
        }
        if (e->masks[source].call == 0) {
            e->masks[source] = (k3_mask_t){e->call, (int32_t)phase};
            e->masked++;
        }
    }
    leave_out_masked(e, dispatch);
}

/* Ticks until which the wait lasts; 0: no limit is in force. */
static uint64_t deadline_of(const slab_engine_t *e, uint64_t begin)
{
    bool first = e->call == 1 && e->env.cell->profile->first_call_unlimited;

    return e->env.limit_s > 0.0 && !first ? begin + k3_clock_ticks(e->env.limit_s * 1e6) : 0;
}

k3_status_t k3_slab_wait(slab_engine_t *e, const uint8_t *words, bool dispatch, k3_error_t *err)
{
    uint64_t begin = k3_clock_now(), deadline = deadline_of(e, begin);

    memset(e->seen, 0, e->slab.experts);
    e->missing = e->slab.experts;
    e->waiting_for = dispatch ? "counts" : "flags";
    if (e->masked > 0) {
        leave_out_masked(e, dispatch);
    }
    k3_watchdog_describe(describe_wait, e);
    while (e->missing > 0 && err->status == K3_OK) {
        uint64_t before = e->missing;

        look(e, words, dispatch, begin);
        if (e->missing != before) {
            k3_watchdog_alive();
        } else if (deadline != 0 && k3_clock_now() > deadline) {
            give_up(e, dispatch);
        } else {
            k3_qps_idle(e->qps, err);
        }
    }
    k3_watchdog_describe(NULL, NULL);
    return err->status;
}
