/* Steps of resolving a cell that have a file of their own. */
#ifndef K3_PLAN_CELL_INTERNAL_H
#define K3_PLAN_CELL_INTERNAL_H

#include "bench/plan/cell.h"

/* cell_transfer.c; after profile and formats. */
k3_status_t k3_cell_resolve_transfer(const k3_cell_request_t *request, k3_cell_t *cell,
                                     k3_error_t *err);

#endif
