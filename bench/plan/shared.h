/* The shared expert of a cell: which variant, what slice of it a rank holds, on which rows. */
#ifndef K3_PLAN_SHARED_H
#define K3_PLAN_SHARED_H

#include "bench/plan/cell.h"

/* "auto" is what the path says: replicated on the fast path, tp on the fallback. K3_ERR_UNSUPPORTED
 * for a variant that the path, the layout, the model or the component cannot have, and for an
 * overlap with a dispatch that does not send and wait apart: nothing asked for is without effect.
 * The cell's model, layout, profile, path and component are resolved. */
k3_status_t k3_shared_resolve(const k3_cell_request_t *request, k3_cell_t *cell, k3_error_t *err);

/* The rank's slice of the intermediate width; `parts` slices make a whole one. */
uint32_t k3_shared_parts(const k3_cell_t *cell);
void     k3_shared_slice(const k3_cell_t *cell, uint32_t rank, uint32_t *begin, uint32_t *end);

/* Rows that pass it on this rank, padding included. */
uint64_t k3_shared_rows(const k3_cell_t *cell, uint32_t rank);

#endif
