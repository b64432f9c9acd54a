/* Options to cells: lists multiply. */
#ifndef K3_PLAN_REQUESTS_H
#define K3_PLAN_REQUESTS_H

#include "bench/plan/cell.h"
#include "harness/base/options.h"

enum { K3_AXES_MAX = 24 };

typedef struct k3_requests {
    k3_cell_request_t *items;
    size_t             count;
    k3_list_t          lists[K3_AXES_MAX]; /* the texts that the items point to */
    size_t             list_count;
} k3_requests_t;

/* World, nodes and the like are taken from `base`. The backend varies fastest, so that rows which
 * are to be compared lie beside each other. */
k3_status_t k3_requests_create(const k3_options_t *options, const k3_cell_request_t *base,
                               k3_requests_t *requests, k3_error_t *err);
void        k3_requests_free(k3_requests_t *requests);

/* Whether `run` takes a list for this option and makes cells of it. */
bool k3_requests_multiply(const char *option);

/* Splits a list of models: what has an '=' and no ':' belongs to the name before it. */
void k3_split_models(const char *text, k3_list_t *list);

#endif
