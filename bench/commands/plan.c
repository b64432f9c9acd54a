/* k3bench plan: traffic, work and memory of cells for any number of ranks, without MPI; their times on a
 * machine. */
#include <string.h>

#include "bench/commands/command.h"
#include "bench/commands/device.h"
#include "bench/commands/plan_model.h"
#include "bench/commands/sources.h"
#include "bench/plan/effect.h"
#include "bench/plan/requests.h"
#include "bench/report/plan_notes.h"
#include "bench/report/prediction.h"
#include "bench/report/record.h"
#include "bench/report/table.h"
#include "bench/report/values.h"
#include "harness/base/arith.h"
#include "harness/base/log.h"
#include "harness/mpi/world.h"
#include "harness/record/document.h"

typedef struct plan {
    const k3_options_t *options;
    k3_sources_t        sources; /* the requests point into them */
    k3_requests_t       requests;
    k3_machine_file_t   machine;
    bool                has_machine, fit, simulate;
    const char         *what_if;
    json_t             *cells;
} plan_t;

static k3_status_t plan_cell(plan_t *plan, const k3_cell_request_t *request, k3_error_t *err)
{
    const k3_machine_file_t *machine = plan->has_machine ? &plan->machine : NULL;
    k3_error_t               fault = K3_ERROR_INIT;
    json_t                  *object = NULL, *list = NULL;

    if (k3_plan_one(request, machine, plan->simulate, &object, &fault) != K3_OK) {
        if (plan->requests.count == 1 || fault.status != K3_ERR_UNSUPPORTED) {
            *err = fault;
            return err->status;
        }
        json_array_append_new(plan->cells, k3_record_refused(request, &fault));
        return K3_OK;
    }
    json_array_append_new(plan->cells, object);
    if (plan->what_if != NULL) {
        k3_plan_whatif(request, machine, plan->what_if, &list, err);
        json_object_set_new(object, "what_if", list);
    }
    return err->status;
}

/* --- all --------------------------------------------------------------------------------------- */

/* Up to so many (row, expert) pairs and ranks every row is drawn. */
#define EXACT_PAIRS (UINT64_C(1) << 22)
#define EXACT_RANKS 2048

static void choose_counting(const char *asked, k3_cell_request_t *request)
{
    uint64_t ranks = request->tp != 0 ? request->tp : 8;
    bool     given = request->routing != NULL && (strncmp(request->routing, "trace:", 6) == 0 ||
                                              strcmp(request->routing, "gate") == 0);
    /* Top-k is at most K3_TOPK_MAX; most models have 8 or 16. */
    bool many = k3_mul(k3_mul(ranks, request->tokens), 16) > EXACT_PAIRS || ranks > EXACT_RANKS;

    request->expected =
        !given && (strcmp(asked, "expected") == 0 || (strcmp(asked, "auto") == 0 && many));
}

static k3_status_t read_options(plan_t *plan, k3_error_t *err)
{
    static const char *const countings[] = {"auto", "exact", "expected", NULL};
    const char              *machine = k3_options_get(plan->options, "machine");
    const char              *ranks = k3_options_get(plan->options, "ranks");
    const char              *counting = k3_options_get(plan->options, "counting");
    k3_cell_request_t        base = {0};
    size_t                   index;
    uint64_t                 tp = 0;
    char                     busy[300];

    plan->fit = k3_options_on(plan->options, "fit");
    plan->simulate = k3_options_on(plan->options, "simulate");
    plan->what_if = k3_options_get(plan->options, "what-if");
    plan->has_machine = machine != NULL;
    if (k3_parse_name("counting", counting, countings, &index, err) != K3_OK ||
        (machine != NULL && k3_machine_read(machine, &plan->machine, err) != K3_OK)) {
        return err->status;
    }
    if (machine != NULL && k3_machine_busy(&plan->machine, busy, sizeof(busy))) {
        k3_log_warn("%s", busy);
    }
    if (machine == NULL && (plan->fit || plan->simulate || plan->what_if != NULL)) {
        return k3_fail(err, K3_ERR_USAGE, "%s: times need --machine NAME",
                       plan->fit        ? "fit"
                       : plan->simulate ? "simulate"
                                        : "what-if");
    }
    if (ranks != NULL && k3_options_get(plan->options, "tp") != NULL) {
        return k3_fail(err, K3_ERR_USAGE,
                       "ranks: it is another word for --tp here; give one of them");
    }
    if (ranks != NULL && k3_parse_u64("ranks", ranks, 1, 1u << 20, &tp, err) != K3_OK) {
        return err->status;
    }
    if (k3_device_known(plan->options, err) != K3_OK ||
        k3_sources_open(plan->options, &plan->sources, err) != K3_OK) {
        return err->status;
    }
    base.checkpoint = plan->sources.checkpoint;
    base.hidden = plan->sources.hidden;
    base.ranks_per_node =
        machine != NULL ? (uint32_t)k3_figure(&plan->machine, K3_FIG_RANKS_PER_NODE, 0) : 0;
    if (k3_requests_create(plan->options, &base, &plan->requests, err) != K3_OK ||
        k3_effect_check(plan->options, &plan->requests, err) != K3_OK) {
        return err->status;
    }
    for (size_t i = 0; i < plan->requests.count; i++) {
        plan->requests.items[i].tp = tp > 0 ? tp : plan->requests.items[i].tp;
        choose_counting(counting, &plan->requests.items[i]);
    }
    return K3_OK;
}

static k3_status_t plan_all(plan_t *plan, k3_error_t *err)
{
    k3_refusals_t refused = {0};

    for (size_t i = 0; i < plan->requests.count && err->status == K3_OK; i++) {
        k3_cell_request_t *request = &plan->requests.items[i];

        if (plan->fit) {
            request->tp = request->tp != 0 ? request->tp : 8;
            k3_plan_fit(request, &plan->machine, plan->cells, &refused, err);
        } else {
            plan_cell(plan, request, err);
        }
    }
    if (plan->fit && err->status == K3_OK) {
        return k3_plan_sort(plan->cells, &refused, err);
    }
    return k3_record_refuse_all(plan->cells, K3_ERR_UNSUPPORTED, err);
}

/* Whose devices hold the ranks; NULL: they are processes of this host. */
static const char *devices_of(const plan_t *plan)
{
    return plan->has_machine && k3_figure(&plan->machine, K3_FIG_CORES_PER_NODE, 0) <= 0
               ? plan->machine.name
               : NULL;
}

static void print_all(const plan_t *plan)
{
    if (!plan->fit) {
        k3_table_plan(plan->cells, stdout);
    }
    k3_table_prediction(plan->cells, stdout);
    if (!plan->fit) { /* which puts what does not fit last, and marks it */
        /* What this host has left is not the plan's, and changes. */
        fflush(stdout);
        k3_plan_note_memory(plan->cells, devices_of(plan), k3_node_memory_available(),
                            devices_of(plan) != NULL ? stdout : stderr);
    }
    k3_plan_note_ties(plan->cells, stdout);
    for (size_t i = 0; i < json_array_size(plan->cells); i++) {
        const json_t *cell = json_array_get(plan->cells, i);
        const json_t *list = json_object_get(cell, "what_if");

        if (list != NULL) {
            printf("\n%s", json_string_value(json_object_get(cell, "key")));
            k3_whatif_print(list, stdout);
        }
    }
}

static int run_plan(int argc, char **argv)
{
    k3_error_t    err = K3_ERROR_INIT;
    k3_options_t *options = NULL;
    plan_t        plan = {0};
    int           help = 0;
    const char   *path;

    if (k3_command_options(&k3_command_plan, argc, argv, &options, &help, &err) != K3_OK || help) {
        return k3_command_end(&err);
    }
    plan.options = options;
    plan.cells = json_array();
    path = k3_options_get(options, "json");
    if (read_options(&plan, &err) == K3_OK) {
        plan_all(&plan, &err);
        /* A search that nothing fits still shows what it found. */
        if (path != NULL && err.status == K3_OK) {
            json_t *document = json_pack("{s:s, s:O}", "schema", K3_SCHEMA, "cells", plan.cells);

            k3_document_write(document, path, &err);
            json_decref(document);
        } else if (path == NULL && (err.status == K3_OK || plan.fit)) {
            print_all(&plan);
        }
        k3_record_refuse_each(plan.cells, K3_ERR_UNSUPPORTED, &err);
    }
    json_decref(plan.cells);
    k3_requests_free(&plan.requests);
    k3_sources_close(&plan.sources);
    k3_options_free(options);
    return k3_command_end(&err);
}

const k3_command_t k3_command_plan = {
    .id = K3_COMMAND_PLAN,
    .name = "plan",
    .usage = "[OPTIONS]",
    .what =
        "traffic, work, memory and predicted times of cells, for any number of ranks, without MPI",
    .run = run_plan,
};
