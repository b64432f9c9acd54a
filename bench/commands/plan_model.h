/* What plan does with a machine: predictions, the search for layouts, what-if. */
#ifndef K3_COMMANDS_PLAN_MODEL_H
#define K3_COMMANDS_PLAN_MODEL_H

#include <jansson.h>
#include <stdio.h>

#include "bench/plan/predict.h"

/* The cell of a request as the record has it, with "prediction" and "memory.device" where a machine is given,
 * and "simulation" where it is asked for. K3_ERR_UNSUPPORTED and others as k3_cell_create. */
k3_status_t k3_plan_one(const k3_cell_request_t *request, const k3_machine_file_t *machine,
                        bool simulate, json_t **object_p, k3_error_t *err);

/* Layouts that were refused, and why one of them was. */
typedef struct k3_refusals {
    uint64_t count;
    char     reason[K3_ERROR_TEXT];
} k3_refusals_t;

/* Adds a cell for every legal dp and ep of the request's tp. */
k3_status_t k3_plan_fit(const k3_cell_request_t *request, const k3_machine_file_t *machine,
                        json_t *cells, k3_refusals_t *refused, k3_error_t *err);

/* Orders what fits by predicted time; what does not fit comes last. K3_ERR_UNSUPPORTED with the numbers where
 * nothing is legal, or nothing fits. */
k3_status_t k3_plan_sort(json_t *cells, const k3_refusals_t *refused, k3_error_t *err);

/* Rules NAME=VALUE, separated by commas, each turned alone and then all together: a list of {rule,
 * hypothetical, reason, phases[{name, before, after, bound_by}], buffers{before, after}}. Rules are
 * those of plan_rules.h, every figure of a machine, and as:BACKEND, which stands for each rule in which that
 * backend's profile differs. */
k3_status_t k3_plan_whatif(const k3_cell_request_t *request, const k3_machine_file_t *machine,
                           const char *rules, json_t **list_p, k3_error_t *err);
void        k3_whatif_print(const json_t *list, FILE *out);

#endif
