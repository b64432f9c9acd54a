/* Which experts a row goes to. A routing is a pure function of (specification, seed, model, row),
 * so every rank, every backend and the plan see the same assignments without talking; the hash
 * proves it.
 *
 *   uniform         K distinct experts, all equally likely
 *   zipf:A          expert popularity 1 / position^A, positions shuffled by the seed
 *   khot:N:F        N hot experts (spread by the seed) get the share F of the assignments
 *   lognormal:M     popularity exp(sigma z_e); sigma is found by bisection so that the expected
 *                   max/mean load over experts, minus 1, is M (MaxVio)
 *   hot-rank:R:F    the experts of rank R get the share F of the assignments
 *   trace:FILE.npy  int32 or int64, [rows, K] or [steps, rows, K]: iteration i uses step i modulo
 *                   steps; -1: not sent; every other id must be below E and unique in its row
 *   gate            what the router itself chose at set-up (cell/gate.h)
 *
 * Where popularity is not uniform a row's K experts are drawn without replacement in proportion to
 * it (for khot and hot-rank each slot first decides hot or cold by F, and moves to the other class
 * when one is exhausted: with fewer than K hot experts the share reached stays below F). */
#ifndef K3_CELL_ROUTING_H
#define K3_CELL_ROUTING_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/base/status.h"

typedef struct k3_routing k3_routing_t;

typedef struct k3_routing_request {
    const char *text; /* "uniform", "zipf:1.2", ... */
    uint64_t    seed;
    uint32_t    experts, topk;
    uint32_t    ranks; /* experts are held in consecutive blocks of experts / ranks (hot-rank) */
    uint64_t    rows;  /* global rows that will be asked for; a trace must have at least as many */
    const int32_t *chosen; /* gate: [rows][topk], copied */
} k3_routing_request_t;

/* K3_ERR_USAGE with value and rule; for a trace also file, step, row and value of the first bad
 * entry (every step of the file is checked), and K3_ERR_IO when it cannot be read. Sampling tables
 * are made here; lognormal takes some 40 ms for 896 experts, the other generators well below 1 ms.
 */
k3_status_t k3_routing_create(const k3_routing_request_t *request, k3_routing_t **routing_p,
                              k3_error_t *err);
void        k3_routing_destroy(k3_routing_t *routing);

/* Steps of a trace, 1 for all others. The step in force, 0 at first, is what the next function answers for:
 * one iteration at a time. */
uint64_t k3_routing_steps(const k3_routing_t *routing);
void     k3_routing_select(k3_routing_t *routing, uint64_t step);

/* Whether the ids were given, instead of following from text and seed. */
bool k3_routing_is_given(const k3_routing_t *routing);

/* The topk ids of a global row in the step in force; -1: not sent (only in traces, also for rows past those
 * asked for). Thread-safe, no allocation. */
void k3_routing_row(const k3_routing_t *routing, uint64_t row, int32_t *ids);

/* Draws the rows [0, rows) once for all, if their ids take at most 64 MiB: for a caller that asks for each of
 * them many times. Without memory for them they are drawn as before. */
void k3_routing_remember(k3_routing_t *routing);

/* Every expert is equally likely. */
bool k3_routing_is_uniform(const k3_routing_t *routing);

/* Hash of the ids of rows [0, rows) of all steps as 16 hex digits: the same routing gives the same text,
 * whatever the machine. `text` holds 17 bytes. */
void k3_routing_hash(const k3_routing_t *routing, char text[17]);

/* Valid assignments (ids that are not -1) over all rows of all steps. */
uint64_t k3_routing_assignments(const k3_routing_t *routing);

#endif
