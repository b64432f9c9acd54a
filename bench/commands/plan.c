/* k3bench plan: traffic, work and memory of cells for any number of ranks, without MPI. */
#include <string.h>

#include "bench/commands/command.h"
#include "bench/commands/sources.h"
#include "bench/plan/requests.h"
#include "bench/report/record.h"
#include "bench/report/table.h"
#include "harness/record/document.h"

/* The rank that needs most; `plan` speaks about one rank. */
static void largest_memory(const k3_cell_t *cell, k3_memory_t *memory)
{
    k3_memory_t one;

    k3_memory_plan(cell, 0, memory);
    for (uint32_t r = 1; r < cell->layout.tp; r++) {
        k3_memory_plan(cell, r, &one);
        if (one.total > memory->total) {
            *memory = one;
        }
    }
}

static k3_status_t plan_cell(const k3_cell_request_t *request, bool alone, json_t *cells,
                             k3_error_t *err)
{
    k3_error_t  fault = K3_ERROR_INIT;
    k3_cell_t   cell;
    k3_work_t   work;
    k3_memory_t memory;

    if (k3_cell_create(request, &cell, &fault) != K3_OK) {
        if (alone || fault.status == K3_ERR_USAGE || fault.status == K3_ERR_IO) {
            *err = fault;
            return err->status;
        }
        json_array_append_new(cells, k3_record_refused(request, &fault));
        return K3_OK;
    }
    if (k3_work_plan(&cell, &work, err) == K3_OK) {
        largest_memory(&cell, &memory);
        json_array_append_new(cells, k3_record_plan(&cell, &work, &memory));
    }
    k3_cell_destroy(&cell);
    return err->status;
}

static k3_status_t plan_requests(const k3_options_t *options, const k3_sources_t *sources,
                                 json_t *cells, k3_error_t *err)
{
    k3_cell_request_t base = {.checkpoint = sources->checkpoint, .hidden = sources->hidden};
    k3_requests_t     requests;

    if (k3_requests_create(options, &base, &requests, err) != K3_OK) {
        return err->status;
    }
    for (size_t i = 0; i < requests.count && err->status == K3_OK; i++) {
        plan_cell(&requests.items[i], requests.count == 1, cells, err);
    }
    k3_record_refuse_all(cells, err);
    k3_requests_free(&requests);
    return err->status;
}

static k3_status_t plan_all(const k3_options_t *options, json_t *cells, k3_error_t *err)
{
    k3_sources_t sources;

    if (k3_sources_open(options, &sources, err) == K3_OK) {
        plan_requests(options, &sources, cells, err);
        k3_sources_close(&sources);
    }
    return err->status;
}

static int run_plan(int argc, char **argv)
{
    k3_error_t    err = K3_ERROR_INIT;
    k3_options_t *options = NULL;
    int           help = 0;
    const char   *path;
    json_t       *cells;

    if (k3_command_options(&k3_command_plan, argc, argv, &options, &help, &err) != K3_OK || help) {
        return k3_command_end(&err);
    }
    cells = json_array();
    path = k3_options_get(options, "json");
    if (plan_all(options, cells, &err) == K3_OK) {
        if (path != NULL) {
            json_t *document = json_pack("{s:s, s:O}", "schema", K3_SCHEMA, "cells", cells);

            k3_document_write(document, path, &err);
            json_decref(document);
        } else {
            k3_table_plan(cells, stdout);
        }
    }
    json_decref(cells);
    k3_options_free(options);
    return k3_command_end(&err);
}

const k3_command_t k3_command_plan = {
    .id = K3_COMMAND_PLAN,
    .name = "plan",
    .usage = "[OPTIONS]",
    .what = "traffic, work and memory of cells, for any number of ranks, without MPI",
    .run = run_plan,
};
