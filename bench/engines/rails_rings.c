#include "bench/engines/rails_rings.h"

#include <stdio.h>
#include <string.h>

#include "harness/base/arith.h"
#include "harness/base/memory.h"

/* --- set-up ---------------------------------------------------------------------------------- */

void k3_rings_destroy(rails_engine_t *e)
{
    rings_t *g = e->rings;
    void    *memory[] = {g->list_first, g->part_rows,  g->send,       g->take,        g->inside,
                         g->arrive,     g->results,    g->parts,      g->open,        g->stream,
                         g->next,       g->left_nodes, g->left_local, g->rail_counts, g->node_counts};

    for (unsigned i = 0; i < sizeof(memory) / sizeof(memory[0]); i++) {
        k3_free(memory[i]);
    }
    k3_compute_free(e->env.compute, e->rings->through);
    k3_compute_free(e->env.compute, e->records);
    k3_compute_free(e->env.compute, e->returned);
    k3_free(g);
}

typedef struct table {
    const char *what;
    uint64_t    count, size;
    void       *memory_p;
} table_t;

static k3_status_t alloc_tables(rails_engine_t *e, k3_error_t *err)
{
    rings_t          *g = e->rings;
    const k3_rails_t *r = &e->rails;
    k3_compute_t     *k = e->env.compute;
    uint64_t          c = g->plan.channels, n = r->per_node, nodes = r->nodes;
    bool              through = nodes > 1 && !e->env.cell->p2p;
    const table_t     tables[] = {
            {"rows of channels", nodes * (c + 1), sizeof(uint32_t), &g->list_first},
            {"rows of channels", nodes * c * n, sizeof(uint32_t), &g->part_rows},
            {"counts", nodes * g->plan.rail_words, sizeof(uint32_t), &g->rail_counts},
            {"counts", n * g->plan.node_words, sizeof(uint32_t), &g->node_counts},
            {"rings", nodes * c, sizeof(ring_end_t), &g->send},
            {"rings", nodes * c, sizeof(ring_end_t), &g->take},
            {"rings", c * n, sizeof(ring_end_t), &g->inside},
            {"rings", c * n, sizeof(ring_end_t), &g->arrive},
            {"rings", c * n * nodes, sizeof(ring_end_t), &g->results},
            {"streams", c * nodes, sizeof(uint32_t), &g->parts},
            {"streams", c, sizeof(uint32_t), &g->open},
            {"streams", c * n * nodes, sizeof(ring_stream_t), &g->stream},
            {"streams", nodes, sizeof(uint32_t), &g->left_nodes},
            {"streams", n, sizeof(uint32_t), &g->left_local},
            {"records of streams", e->rows_cap, sizeof(uint32_t), &g->next},
    };

    for (unsigned i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        if (k3_alloc(tables[i].what, tables[i].count, tables[i].size, tables[i].memory_p, err) !=
            K3_OK) {
            break;
        }
    }
    if (err->status != K3_OK ||
        k3_compute_alloc(k, "own records", r->m, r->record, true, &e->records, err) != K3_OK ||
        k3_compute_alloc(k, "sums of nodes", k3_mul(r->m, r->nodes_of_row), r->result, false,
                         &e->returned, err) != K3_OK) {
        return err->status;
    }
    return k3_compute_alloc(k, "records passed on", through ? k3_mul(nodes, r->slots) : 0,
                            r->record, true, &g->through, err);
}

k3_status_t k3_rings_create(rails_engine_t *e, k3_error_t *err)
{
    if (k3_alloc("rings", 1, sizeof(*e->rings), &e->rings, err) == K3_OK) {
        k3_rings_plan(e->env.cell, &e->rings->plan);
        e->rails.bytes = e->rings->plan.bytes;
        alloc_tables(e, err);
    }
    return err->status;
}

void k3_rings_copied(rails_engine_t *e)
{
    k3_compute_t *c = e->env.compute;
    k3_error_t    kept = K3_ERROR_INIT; /* a device keeps it */

    c->ops->copies_done(c);
    c->ops->finish(c, &kept);
}

/* --- posting --------------------------------------------------------------------------------- */

void k3_rings_add(rails_engine_t *e, uint32_t peer, uint32_t qp, uint64_t offset, uint32_t value)
{
    k3_qps_signal_add32(e->qps, (int)peer, qp, offset, value);
    if (e->env.cell->profile->doorbell_signal) {
        k3_qps_doorbell(e->qps, (int)peer, qp);
    }
}

void k3_rings_write(rails_engine_t *e, uint32_t peer, uint32_t qp, uint64_t offset, uint32_t value)
{
    k3_qps_signal_write32(e->qps, (int)peer, qp, offset, value);
    if (e->env.cell->profile->doorbell_signal) {
        k3_qps_doorbell(e->qps, (int)peer, qp);
    }
}

void k3_rings_give_back(rails_engine_t *e, uint32_t index, uint32_t qp, uint64_t offset,
                        uint32_t rows, uint32_t chunk, uint32_t *loose)
{
    uint32_t peer = k3_rails_local_rank(e, index);
    uint8_t *mapped = k3_qps_mapped(e->qps, (int)peer);

    if (mapped != NULL) {
        __atomic_fetch_add((uint32_t *)(void *)(mapped + offset), rows, __ATOMIC_RELEASE);
        return;
    }
    *loose += rows;
    if (*loose >= chunk) {
        k3_rings_add(e, peer, qp, offset, *loose);
        *loose = 0;
    }
}

/* --- the loop -------------------------------------------------------------------------------- */

/* The first stream with another node, or with a rank of the node, that is not over. */
static bool find_stuck(const rails_engine_t *e, rings_stuck_t *stuck)
{
    const rings_t *g = e->rings;
    uint32_t       channels = g->plan.channels;

    for (uint32_t i = 0; i < e->rails.nodes * channels; i++) {
        if (g->left_nodes[i / channels] > 0 && !g->take[i].over) {
            *stuck = (rings_stuck_t){k3_rails_peer(e, i / channels), i % channels,
                                     k3_rings_qp(&g->plan, i % channels)};
            return true;
        }
    }
    for (uint32_t i = 0; i < e->rails.per_node * channels; i++) {
        if (g->left_local[i / channels] > 0 &&
            !g->arrive[k3_rings_nvl_index(g, i % channels, i / channels)].over) {
            *stuck = (rings_stuck_t){k3_rails_local_rank(e, i / channels), i % channels,
                                     k3_rings_local_qp(&g->plan, i % channels)};
            return true;
        }
    }
    return g->combines && k3_rings_stuck_sum(e, stuck);
}

static void describe(const void *arg, char *text, unsigned size)
{
    const rails_engine_t *e = arg;
    rings_stuck_t         stuck;

    if (find_stuck(e, &stuck)) {
        snprintf(text, size,
                 "%s: %u streams left, first: with rank %u by queue pair %u, channel %u",
                 e->waiting_for, e->rings->left, stuck.rank, stuck.qp, stuck.channel);
    } else {
        snprintf(text, size, "%s: %u streams left", e->waiting_for, e->rings->left);
    }
}

void k3_rings_over(rails_engine_t *e, k3_traffic_phase_t traffic, uint32_t rank, uint32_t *left)
{
    e->rings->left--;
    e->rings->moved = true;
    if (--*left == 0) {
        k3_rails_note_wait(e, traffic, rank, e->rings->begin);
    }
}

k3_status_t k3_rings_loop(rails_engine_t *e, const char                                *what,
                          void (*pass)(rails_engine_t *e, k3_error_t *err), k3_error_t *err)
{
    rings_t *g = e->rings;

    e->waiting_for = what;
    g->begin = k3_clock_now();
    k3_watchdog_describe(describe, e);
    while (g->left > 0 && err->status == K3_OK) {
        g->moved = false;
        pass(e, err);
        if (g->moved) {
            k3_watchdog_alive();
            k3_qps_progress(e->qps, err);
        } else {
            k3_qps_idle(e->qps, err);
        }
    }
    k3_watchdog_describe(NULL, NULL);
    return err->status;
}
