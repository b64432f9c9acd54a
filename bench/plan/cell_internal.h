/* Steps of resolving a cell that have a file of their own. */
#ifndef K3_PLAN_CELL_INTERNAL_H
#define K3_PLAN_CELL_INTERNAL_H

#include "bench/plan/cell.h"

/* cell_names.c */
extern const char *const k3_generation_names[], *const k3_fabric_names[];

static inline const char *k3_text_or(const char *text, const char *fallback)
{
    return text != NULL ? text : fallback;
}

/* cell_transfer.c; after profile and formats. */
k3_status_t k3_cell_resolve_transfer(const k3_cell_request_t *request, k3_cell_t *cell,
                                     k3_error_t *err);

/* cell_source.c; after layout and component: weights, rows and routing. */
k3_status_t k3_cell_resolve_source(const k3_cell_request_t *request, k3_cell_t *cell,
                                   k3_error_t *err);

/* cell_key.c; last. */
void k3_cell_write_key(const k3_cell_request_t *request, k3_cell_t *cell);

/* What the key says of ids that were given, and of weights and rows from files; "": nothing. */
const char *k3_cell_trace_text(const k3_cell_t *cell, char text[24]);
const char *k3_cell_source_text(const k3_cell_t *cell, char text[K3_SHORT_TEXT_MAX]);

#endif
