#include "bench/commands/launch.h"

#include <stdlib.h>
#include <string.h>

#include "bench/commands/command.h"
#include "bench/commands/compute.h"
#include "bench/commands/version.h"
#include "bench/report/record.h"
#include "bench/report/values.h"
#include "harness/base/sysfiles.h"
#include "harness/record/json_values.h"
#include "kernels/threads.h"

static json_t *record_options(const k3_options_t *options)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < k3_option_count; i++) {
        const char *name = k3_option_defs[i].name;

        if ((k3_option_defs[i].commands & K3_COMMAND_RUN) != 0) {
            json_array_append_new(rows,
                                  json_pack("{s:s, s:o, s:s}", "name", name, "value",
                                            k3_json_string(k3_options_get(options, name)), "origin",
                                            k3_origin_name(k3_options_origin(options, name))));
        }
    }
    return rows;
}

static json_t *record_launch(const k3_world_t *world)
{
    json_t *hosts = json_array();

    for (int node = 0; node < world->nodes; node++) {
        for (int r = 0; r < world->size; r++) {
            if (world->node_of[r] == node) {
                json_array_append_new(hosts, k3_json_string(world->host_of[r]));
                break;
            }
        }
    }
    return json_pack("{s:s, s:i, s:o}", "launcher", world->launcher, "ranks", world->size, "hosts",
                     hosts);
}

static json_t *record_topology(const k3_world_t *world, const char *kind, const k3_place_t *places)
{
    json_t *ranks = json_array();
    int    *local = calloc((size_t)world->nodes, sizeof(int));

    for (int r = 0; r < world->size && local != NULL; r++) {
        const k3_place_t *p = &places[r];
        json_t *row = json_pack("{s:i, s:o, s:i, s:i, s:o, s:i, s:o, s:s}", "rank", r, "host",
                                k3_json_string(world->host_of[r]), "node", world->node_of[r],
                                "local_rank", local[world->node_of[r]]++, "cpus",
                                k3_json_string(p->cpus), "threads", p->threads, "numa",
                                p->numa >= 0 ? json_integer(p->numa) : json_null(), "device", kind);
        json_t *accelerator = k3_device_record_choice(&p->device);

        if (!json_is_null(accelerator)) {
            json_object_set(row, "accelerator", accelerator);
        }
        json_decref(accelerator);
        json_object_set_new(row, "bound_here", json_boolean(p->bound_here));
        if (p->nic[0] != '\0') {
            json_object_set_new(row, "nic", k3_json_string(p->nic));
        } else {
            k3_set_null(row, "nic", p->nic_reason);
        }
        json_array_append_new(ranks, row);
    }
    free(local);
    return json_pack("{s:o, s:b}", "ranks", ranks, "oversubscribed", world->oversubscribed);
}

/* Set-up times of all cells, each the slowest rank's. */
static json_t *record_setup(const json_t *cells)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *setup = json_object_get(json_array_get(cells, i), "setup");

        for (size_t s = 0; s < json_array_size(setup); s++) {
            json_t *row = json_copy(json_array_get(setup, s));

            json_object_set_new(row, "cell", json_integer((json_int_t)i));
            json_array_append_new(rows, row);
        }
    }
    return rows;
}

json_t *k3_launch_document(const k3_launch_parts_t *launch, json_t *cells)
{
    const k3_world_t *world = launch->world;
    k3_machine_t      machine = {.nodes = world->nodes, .ranks = world->size};
    const char       *kind = K3_DEVICE_CPU;
    json_t           *run, *fingerprint;

    machine.cpu_model = launch->places[0].cpu_model;
    machine.cores = world->cores;
    if (launch->device->accelerator != NULL) {
        kind = launch->device->wish.kind->name;
        machine.device = launch->places[0].device.info.name;
    }
    machine.numa_nodes = 1;
    for (int r = 0; r < world->size; r++) {
        machine.numa_nodes = launch->places[r].numa + 1 > machine.numa_nodes
                                 ? launch->places[r].numa + 1
                                 : machine.numa_nodes;
    }
    run = json_pack(
        "{s:s, s:s, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "id", launch->run_id,
        "started_utc", launch->started, "argv",
        k3_json_list_of_strings((const char *const *)launch->argv, (size_t)launch->argc), "options",
        record_options(launch->options), "version", k3_version_text, "git_sha", k3_version_git,
        "build", k3_version_build(), "loaded", k3_version_loaded(), "launch", record_launch(world),
        "environment", json_incref(launch->environment), "kernels", k3_compute_record(launch->isa));
    if (launch->device->accelerator != NULL) {
        json_object_set_new(run, "device", k3_device_record(launch->device));
    }
    fingerprint = k3_fingerprint(&machine);
    if (launch->load >= 0.0) { /* what stands there is of the end, and of these ranks too */
        json_object_set_new(json_object_get(fingerprint, "volatile"), "load_at_start",
                            k3_json_number(launch->load));
        json_object_set_new(json_object_get(fingerprint, "volatile"), "cores_online",
                            json_integer(k3_sys_cores()));
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:O}", "schema", K3_SCHEMA, "run", run,
                     "fingerprint", fingerprint, "topology",
                     record_topology(world, kind, launch->places), "setup", record_setup(cells),
                     "cells", cells);
}
