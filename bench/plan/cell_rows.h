/* How many rows each rank of a cell has: to send, to get, and in the steps around the dispatch. */
#ifndef K3_PLAN_CELL_ROWS_H
#define K3_PLAN_CELL_ROWS_H

#include "bench/plan/cell.h"

/* The global rows that `rank` dispatches: its own on the fast path, all on the fallback. */
void k3_cell_dispatched(const k3_cell_t *cell, uint32_t rank, uint64_t *first, uint64_t *count);

/* (row, expert) pairs that arrive at `rank` from all sources: what packed receive buffers hold. The
 * cell has them counted. */
uint64_t k3_rows_arriving(const k3_cell_t *cell, uint32_t rank);

/* Rows that pass the front (router, latent down) on `rank`: own rows + padding, or all global rows.
 */
uint64_t k3_front_rows(const k3_cell_t *cell, uint32_t rank);

/* Rows of the rank's attention group with padding: what the attention leaves on each of its ranks. */
uint64_t k3_group_slots(const k3_cell_t *cell, uint32_t rank);

/* Whether the fallback gathers rows over cp and scatters the sums back. */
bool k3_splits_context(const k3_cell_t *cell);

/* The ranks whose rows are drawn where counts are expected: number `i` of `count`. */
uint32_t k3_expected_origins(const k3_cell_t *cell);
uint32_t k3_expected_origin(const k3_cell_t *cell, uint32_t i);

#endif
