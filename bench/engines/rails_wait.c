/* What the two-hop engine posts and waits for: puts and signals with the profile's doorbells, signal words, and
 * who of a node holds the experts of a row. */
#include <stdio.h>
#include <string.h>

#include "bench/engines/rails_engine.h"

/* --- posting --------------------------------------------------------------------------------- */

void k3_rails_put(rails_engine_t *e, uint32_t peer, uint32_t qp, const void *local, uint64_t offset,
                  uint64_t bytes, uint64_t payload)
{
    k3_qps_put(e->qps, (int)peer, qp, local, offset, bytes, payload);
    if (e->env.cell->profile->doorbell_every == 1) {
        k3_qps_doorbell(e->qps, (int)peer, qp);
    }
}

void k3_rails_put_words(rails_engine_t *e, uint32_t peer, uint32_t qp, const void *local,
                        uint64_t offset, uint64_t bytes)
{
    k3_qps_put_words(e->qps, (int)peer, qp, local, offset, bytes);
    if (e->env.cell->profile->doorbell_every == 1) {
        k3_qps_doorbell(e->qps, (int)peer, qp);
    }
}

/* Where no rule is documented the signals ring. */
void k3_rails_signal(rails_engine_t *e, uint32_t peer, uint32_t qp, uint64_t offset, uint64_t value)
{
    const k3_profile_t *p = e->env.cell->profile;

    k3_qps_signal_add64(e->qps, (int)peer, qp, offset, value);
    if (p->doorbell_signal || p->doorbell_every == 0) {
        k3_qps_doorbell(e->qps, (int)peer, qp);
    }
}

/* --- waiting --------------------------------------------------------------------------------- */

static uint32_t waited_rank(const rails_engine_t *e, uint32_t i)
{
    return e->wait_nodes ? k3_rails_peer(e, i) : k3_rails_local_rank(e, i);
}

static void describe_wait(const void *arg, char *text, unsigned size)
{
    const rails_engine_t *e = arg;
    uint32_t              i = 0;

    while (i < e->wait_count && e->seen[i]) {
        i++;
    }
    if (i == e->wait_count) {
        snprintf(text, size, "all %s seen", e->waiting_for);
    } else {
        snprintf(text, size, "%s of %u ranks missing, first: rank %u by queue pair %u",
                 e->waiting_for, e->missing, waited_rank(e, i), e->wait_qp[i]);
    }
}

void k3_rails_note_wait(rails_engine_t *e, k3_traffic_phase_t traffic, uint32_t source,
                        uint64_t begin)
{
    k3_wait_note(&e->env.waits[traffic][source], k3_clock_now() - begin);
}

uint64_t k3_rails_take(rails_engine_t *e, uint64_t offset)
{
    uint64_t word = k3_signal_read64(e->words + offset);

    if (word != 0) {
        k3_signal_clear64(e->words + offset);
    }
    return word;
}

static void begin_wait(rails_engine_t *e, const char *what, bool by_node)
{
    e->wait_count = by_node ? e->rails.nodes : e->rails.per_node;
    e->missing = e->wait_count;
    e->wait_nodes = by_node;
    e->waiting_for = what;
    memset(e->seen, 0, e->wait_count);
    memset(e->wait_qp, 0, e->wait_count * sizeof(*e->wait_qp));
    if (by_node) {
        e->seen[e->node] = 1;
        e->missing--;
    }
    k3_watchdog_describe(describe_wait, e);
}

k3_status_t k3_rails_wait(rails_engine_t *e, const char *what, k3_traffic_phase_t traffic,
                          bool by_node, rails_poll_t poll, k3_error_t *err)
{
    uint64_t begin = k3_clock_now();

    begin_wait(e, what, by_node);
    while (e->missing > 0 && err->status == K3_OK) {
        e->moved = false;
        for (uint32_t i = 0; i < e->wait_count && err->status == K3_OK; i++) {
            if (!e->seen[i] && poll(e, i, err)) {
                k3_rails_note_wait(e, traffic, waited_rank(e, i), begin);
                e->seen[i] = 1;
                e->missing--;
                e->moved = true;
            }
        }
        if (e->moved) {
            k3_watchdog_alive();
        } else {
            k3_qps_idle(e->qps, err);
        }
    }
    k3_watchdog_describe(NULL, NULL);
    return err->status;
}

/* --- rows of the node ---------------------------------------------------------------------- */

void k3_rails_here(rails_engine_t *e, const int32_t *ids, rails_here_t *here)
{
    here->count = k3_holders_list(&e->here, ids, e->rails.topk, here->index);
    here->position = k3_holders_number(&e->in_front, ids, e->rails.topk);
}
