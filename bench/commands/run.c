/* k3bench run: executes cells on the ranks of a launch, prints the table, writes one record. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/commands/command.h"
#include "bench/commands/compute.h"
#include "bench/commands/device.h"
#include "bench/commands/fault.h"
#include "bench/commands/launch.h"
#include "bench/commands/measuring.h"
#include "bench/commands/partial.h"
#include "bench/commands/sources.h"
#include "bench/plan/requests.h"
#include "bench/region/dump.h"
#include "bench/region/measure.h"
#include "bench/report/limits.h"
#include "bench/report/outputs.h"
#include "bench/report/record.h"
#include "bench/report/table.h"
#include "harness/base/log.h"
#include "harness/mpi/watchdog.h"
#include "harness/record/document.h"
#include "kernels/threads.h"

/* Beyond --timeout, for the processes to come up; far more ranks than cores take their time. */
#define START_SECONDS 20.0

typedef struct run {
    k3_world_t          world;
    k3_options_t       *options;
    k3_requests_t       requests;
    k3_sources_t        sources;
    k3_region_options_t region;
    k3_device_plan_t    device;
    k3_measuring_t      measuring;
    k3_weights_t        weights; /* of the last cell */
    k3_fabric_t        *fabric;
    k3_sync_t          *sync;
    k3_place_t         *places; /* rank 0 */
    k3_launch_parts_t   launch;
    k3_rollcall_t      *roll;
    bool                alone;       /* one cell: its refusal ends the command */
    bool                rdma;        /* queue pairs between nodes must be carried by RDMA */
    bool                wrong;       /* a cell failed */
    k3_machine_file_t   machine;     /* rank 0: what phases are held against */
    bool                has_machine; /* rank 0 */
    char                run_id[17], started[21], out[256];
    int                 argc; /* of the command, before MPI saw them */
    char              **argv;
} run_t;

/* --- options --------------------------------------------------------------------------------- */

static bool host_has_rdma(void)
{
    DIR           *dir = opendir("/sys/class/infiniband");
    struct dirent *entry;
    bool           found = false;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        found |= entry->d_name[0] != '.';
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return found;
}

static k3_status_t parse_transport(run_t *run, k3_error_t *err)
{
    static const char *const names[] = {"auto", "any", "rdma", NULL};
    size_t                   index;

    if (k3_parse_name("transport", k3_options_get(run->options, "transport"), names, &index, err) ==
        K3_OK) {
        run->rdma = index == 2 || (index == 0 && host_has_rdma());
    }
    return err->status;
}

static k3_status_t parse_region(run_t *run, k3_error_t *err)
{
    const char *limit = k3_options_get(run->options, "call-timeout");

    if (k3_compute_choose(run->options, &run->world, &run->region.isa, err) != K3_OK ||
        k3_device_plan(run->options, &run->device, err) != K3_OK ||
        k3_parse_switch("accounting", k3_options_get(run->options, "accounting"),
                        &run->region.accounting, err) != K3_OK ||
        k3_fault_parse(k3_options_get(run->options, "fault"), (uint32_t)run->world.size,
                       &run->region.fault, err) != K3_OK ||
        (limit != NULL && k3_parse_double("call-timeout", limit, 0.001, 86400.0,
                                          &run->region.call_timeout, err) != K3_OK)) {
        return err->status;
    }
    run->measuring.options.accounting = run->region.accounting;
    run->region.order_rounds = 64;
    run->region.weights = &run->weights;
    return K3_OK;
}

/* A dump is of one cell, and of values that were checked. */
static k3_status_t parse_dump(run_t *run, k3_error_t *err)
{
    const char *dump = k3_options_get(run->options, "dump");

    run->measuring.options.dump = dump;
    if (dump == NULL) {
        return K3_OK;
    }
    if (run->device.accelerator != NULL) {
        return k3_fail(err, K3_ERR_USAGE, "dump: rows of a device are not dumped (--device %s)",
                       K3_DEVICE_CPU);
    }
    if (run->requests.count > 1) {
        return k3_fail(err, K3_ERR_USAGE, "dump: %zu cells, a dump is of one", run->requests.count);
    }
    if (run->measuring.options.check == K3_CHECK_OFF || run->region.fault.dead_count > 0) {
        return k3_fail(
            err, K3_ERR_USAGE, "dump: %s (a dump holds all rows, checked: --check ends or every)",
            run->measuring.options.check == K3_CHECK_OFF ? "--check off" : "ranks are to die");
    }
    return K3_OK;
}

/* The record's path: as given, or a new file below results/local where that folder is. */
static k3_status_t choose_out(run_t *run, k3_error_t *err)
{
    const char *out = k3_options_get(run->options, "out");
    struct stat st;

    k3_run_id(run->run_id);
    k3_utc_now(run->started);
    if (out != NULL && strcmp(out, "-") == 0 && run->measuring.format != K3_OUTPUT_TEXT) {
        return k3_fail(err, K3_ERR_USAGE, "out -, format %s: both write to standard output",
                       k3_output_format_names[run->measuring.format]);
    }
    if (out != NULL && out[0] == '\0') {
        return k3_fail(err, K3_ERR_USAGE, "out: the text is empty");
    }
    if (out != NULL) {
        snprintf(run->out, sizeof(run->out), "%s", out);
        if (strlen(out) >= sizeof(run->out)) {
            return k3_fail(err, K3_ERR_USAGE, "out: the path is longer than %zu characters",
                           sizeof(run->out) - 1);
        }
    } else if (stat("results/local", &st) == 0 && S_ISDIR(st.st_mode)) {
        snprintf(run->out, sizeof(run->out), "results/local/%s.json", run->run_id);
    }
    return run->out[0] != '\0' && strcmp(run->out, "-") != 0 ? k3_document_check_path(run->out, err)
                                                             : K3_OK;
}

/* Options that differ over ranks would deadlock or compare unlike work. */
static k3_status_t check_same(const run_t *run, k3_error_t *err)
{
    for (size_t i = 0; i < k3_option_count && err->status == K3_OK; i++) {
        const char *value;

        if ((k3_option_defs[i].commands & K3_COMMAND_RUN) != 0) {
            value = k3_options_get(run->options, k3_option_defs[i].name);
            k3_world_same(&run->world, k3_option_defs[i].name, value != NULL ? value : "", err);
        }
    }
    return err->status;
}

/* At rank 0 only: `local` need not lie on every host. */
static k3_status_t choose_machine(run_t *run, k3_error_t *err)
{
    const char *name = k3_options_get(run->options, "machine");

    if (name == NULL && k3_machine_has_local()) {
        name = "local";
    }
    run->has_machine = name != NULL && k3_machine_read(name, &run->machine, err) == K3_OK;
    return err->status;
}

static k3_status_t prepare(run_t *run, k3_error_t *err)
{
    k3_cell_request_t base = {.world = (uint32_t)run->world.size, .node_of = run->world.node_of};

    if (check_same(run, err) != K3_OK ||
        k3_sources_open_all(run->options, &run->world, &run->sources, err) != K3_OK) {
        return err->status;
    }
    base.checkpoint = run->sources.checkpoint;
    base.hidden = run->sources.hidden;
    if (k3_measuring_choose(run->options, &run->measuring, err) == K3_OK &&
        parse_region(run, err) == K3_OK && parse_transport(run, err) == K3_OK &&
        k3_requests_create(run->options, &base, &run->requests, err) == K3_OK &&
        parse_dump(run, err) == K3_OK && run->world.rank == 0 &&
        choose_machine(run, err) == K3_OK) {
        choose_out(run, err);
    }
    return k3_world_agree(&run->world, err);
}

/* --- one cell -------------------------------------------------------------------------------- */

static void keep(run_t *run, json_t *cell)
{
    if (run->world.rank == 0) {
        k3_partial_done(cell);
    } else {
        json_decref(cell);
    }
}

/* What the ranks of this node will take together, against what the node has. Weights that stay from
 * the last cell are counted on both sides. */
static k3_status_t check_memory(const run_t *run, const k3_cell_t *cell, k3_error_t *err)
{
    uint32_t    ranks;
    uint64_t    need = k3_memory_of_node(cell, run->world.node_of, run->world.node, &ranks);
    uint64_t    available = k3_node_memory_available() + run->weights.bytes * ranks;
    k3_memory_t own;

    k3_memory_plan(cell, (uint32_t)run->world.rank, &own);
    if (need > available) {
        k3_fail(err, K3_ERR_ENV,
                "%s: needs %llu bytes a rank (%llu of slots and signals), %llu for the %u ranks of "
                "host %s, which has "
                "%llu available",
                cell->profile->name, (unsigned long long)own.host,
                (unsigned long long)(cell->on_device ? 0 : own.block), (unsigned long long)need,
                ranks, run->world.host, (unsigned long long)available);
    }
    return k3_world_agree(&run->world, err);
}

static void judge(run_t *run, json_t *object, const k3_measurement_t *m)
{
    char reason[K3_ERROR_TEXT + 64] = "";

    if (m->check.wrong) {
        snprintf(
            reason, sizeof(reason),
            "check: stage %s of row %llu in iteration %llu, element %u: wanted %.6g, got %.6g%s%s",
            k3_stage_names[m->check.first_stage], (unsigned long long)m->check.first_row,
            (unsigned long long)m->check.first_payload, m->check.first_element, m->check.first_want,
            m->check.first_got, m->check.diagnosis[0] != '\0' ? "; " : "", m->check.diagnosis);
    } else if (m->has_lanes && run->region.accounting && !m->matches_plan) {
        snprintf(reason, sizeof(reason), "measured != plan: %s", m->mismatch.text);
    } else if (m->died < run->region.fault.dead_count) {
        snprintf(reason, sizeof(reason), "fault: rank %d never came to %s in its iteration",
                 run->region.fault.dead_rank[0], k3_phase_names[run->region.fault.dead_phase]);
    } else if (m->timed_allocations > 0) {
        snprintf(reason, sizeof(reason), "%llu allocations inside timed iterations",
                 (unsigned long long)m->timed_allocations);
    }
    run->wrong |= reason[0] != '\0';
    if (reason[0] == '\0' && m->mask_count > 0) {
        k3_record_degraded(object, m, run->world.size);
        return;
    }
    k3_record_status(object, reason[0] != '\0' ? "failed" : "ok",
                     reason[0] != '\0' ? reason : NULL);
}

/* A run that expects RDMA and gets TCP measures something else. */
static k3_status_t check_transport(const run_t *run, const k3_region_t *region, k3_error_t *err)
{
    const k3_cell_t *cell = region->cell;
    k3_qps_t        *qps = region->ops->qps(region->engine);
    int              rank = run->world.rank;

    for (int peer = 0; peer < run->world.size && qps != NULL && run->rdma; peer++) {
        if (cell->node_of[peer] != cell->node_of[rank] && !k3_qps_is_rdma(qps, peer)) {
            k3_fail(err, K3_ERR_ENV,
                    "%s: the queue pairs to rank %d on another node are carried by %s, RDMA was "
                    "expected "
                    "(--transport any allows it)",
                    cell->profile->name, peer, k3_qps_transport(qps, peer));
        }
    }
    return k3_world_agree(&run->world, err);
}

/* A fault that the cell cannot have would test nothing. */
static k3_status_t check_fault(const run_t *run, const k3_cell_t *cell, k3_error_t *err)
{
    const k3_fault_t *f = &run->region.fault;
    uint64_t          first, rows;

    if (f->corrupt_rank >= 0) {
        k3_cell_dispatched(cell, (uint32_t)f->corrupt_rank, &first, &rows);
        if (f->corrupt_row >= rows) {
            return k3_fail(
                err, K3_ERR_USAGE, "fault: row %llu of rank %d: it has %llu rows, from 0",
                (unsigned long long)f->corrupt_row, f->corrupt_rank, (unsigned long long)rows);
        }
    }
    if (f->dead_count > 0 && cell->component == K3_COMPONENT_CONTROL) {
        return k3_fail(err, K3_ERR_USAGE, "fault: component control has no place for a dead rank");
    }
    if (f->slow_node >= 0 && (cell->nodes < 2 || (uint32_t)f->slow_node >= cell->nodes)) {
        return k3_fail(err, K3_ERR_USAGE,
                       "fault: node %d: the cell has %u, and a lane must leave it", f->slow_node,
                       cell->nodes);
    }
    if (f->slow_src >= 0 && f->slow_qp >= cell->qps.active) {
        return k3_fail(err, K3_ERR_USAGE,
                       "fault: QP index %u: %s has %u queue pairs to each peer, from 0", f->slow_qp,
                       cell->profile->name, cell->qps.active);
    }
    return K3_OK;
}

/* Beside each measured phase what the machine allows; a plan that is too large for it is no failure. */
static void record_limits(const run_t *run, const k3_cell_t *cell, json_t *object)
{
    k3_error_t      none = K3_ERROR_INIT;
    k3_loads_t      loads;
    k3_prediction_t prediction;

    if (run->has_machine && k3_loads_plan(cell, &loads, &none) == K3_OK) {
        k3_predict(cell, &loads, &run->machine, &prediction);
        k3_loads_free(&loads);
        k3_record_limits(object, &run->machine, &prediction);
    }
}

static void record_cell(run_t *run, const k3_cell_t *cell, const k3_work_t *work,
                        k3_measurement_t *m)
{
    k3_memory_t memory;
    json_t     *object;

    k3_memory_plan(cell, (uint32_t)run->world.rank, &memory);
    m->accounted = run->region.accounting;
    object = k3_record_plan(cell, work, &memory);
    if (m->trapped.status != K3_OK) {
        k3_record_status(object, "failed", m->trapped.text);
        run->wrong = true;
    } else {
        if (run->world.rank == 0) {
            k3_record_measured(object, cell, work, m, &run->measuring.options);
            record_limits(run, cell, object);
        }
        judge(run, object, m);
    }
    if (run->world.rank == 0) {
        k3_record_faults(object, cell, m, k3_options_get(run->options, "fault"));
    }
    keep(run, object);
}

/* What the record says about the cell when the launch ends in its middle. */
static void announce(const run_t *run, const k3_cell_t *cell, const k3_work_t *work)
{
    k3_memory_t memory;

    if (run->world.rank == 0) {
        k3_memory_plan(cell, 0, &memory);
        k3_partial_running(k3_record_plan(cell, work, &memory));
    }
}

static k3_status_t execute_cell(run_t *run, const k3_cell_t *cell, const k3_work_t *work,
                                k3_error_t *err)
{
    k3_region_t      region;
    k3_measurement_t m;

    announce(run, cell, work);
    if (k3_region_create(cell, &run->world, &run->region, &region, err) != K3_OK) {
        return err->status;
    }
    if (check_transport(run, &region, err) == K3_OK &&
        k3_measure(&region, &run->measuring.options, &m, err) == K3_OK) {
        record_cell(run, cell, work, &m);
        k3_measurement_free(&m);
    }
    k3_region_destroy(&region);
    return err->status;
}

/* *refused: the cell does not fit this machine; every other fault is a failure. Everything is agreed:
 * each rank gets here with the same cell or not at all. */
static k3_status_t measure_cell(run_t *run, const k3_cell_t *cell, bool *refused, k3_error_t *err)
{
    k3_work_t work;

    k3_watchdog_tick("set-up of a cell", 0);
    k3_weights_release(cell, (uint32_t)run->world.rank, &run->weights);
    MPI_Barrier(run->world.comm); /* what the other ranks free counts too */
    if (check_fault(run, cell, err) != K3_OK ||
        (run->measuring.options.dump != NULL &&
         k3_dump_check(cell, &run->world, run->measuring.options.dump, err) != K3_OK)) {
        return err->status;
    }
    *refused = k3_region_check_device(cell, run->region.device, err) != K3_OK ||
               check_memory(run, cell, err) != K3_OK ||
               k3_device_check_memory(&run->world, &run->device, cell, err) != K3_OK;
    if (!*refused) {
        k3_watchdog_hold(true); /* planning can take long and waits for nobody */
        k3_work_plan(cell, &work, err);
        k3_watchdog_hold(false);
        k3_world_agree(&run->world, err);
    }
    if (err->status == K3_OK) {
        /* A call may lawfully take its own limit, in dispatch and in combine. */
        k3_watchdog_limit(run->measuring.timeout + 2.0 * k3_region_limit(cell, &run->region));
        execute_cell(run, cell, &work, err);
        k3_watchdog_limit(run->measuring.timeout);
    }
    return err->status;
}

/* A cell that cannot be done is a row with a reason; a name that does not exist, or the only cell,
 * ends the command. */
/* Every rank resolves the cell by itself, some of it from files that hosts may hold differently. */
static k3_status_t create_cell(const run_t *run, const k3_cell_request_t *request, k3_cell_t *cell,
                               k3_error_t *err)
{
    bool created = k3_cell_create(request, cell, err) == K3_OK;

    if (k3_world_agree(&run->world, err) == K3_OK) {
        char hash[17];

        k3_routing_hash(cell->routing, hash);
        if (k3_world_same(&run->world, "cell", cell->key, err) == K3_OK) {
            k3_world_same(&run->world, "routing", hash, err);
        }
    }
    if (created && err->status != K3_OK) {
        k3_cell_destroy(cell);
    }
    return err->status;
}

static k3_status_t run_cell(run_t *run, const k3_cell_request_t *request, k3_error_t *err)
{
    k3_error_t  fault = K3_ERROR_INIT;
    bool        refused = false;
    k3_cell_t   cell;
    json_t     *object;
    k3_work_t   work;
    k3_memory_t memory;

    k3_watchdog_hold(true);
    create_cell(run, request, &cell, &fault);
    k3_watchdog_hold(false);
    if (fault.status != K3_OK) {
        if (run->alone || fault.status == K3_ERR_USAGE || fault.status == K3_ERR_IO) {
            *err = fault;
            return err->status;
        }
        keep(run, k3_record_refused(request, &fault));
        return K3_OK;
    }
    if (measure_cell(run, &cell, &refused, &fault) != K3_OK &&
        (run->alone || fault.status == K3_ERR_USAGE)) {
        *err = fault;
    } else if (fault.status != K3_OK) {
        k3_error_t none = K3_ERROR_INIT;

        k3_memory_plan(&cell, 0, &memory);
        k3_work_plan(&cell, &work, &none);
        object = k3_record_plan(&cell, &work, &memory);
        k3_record_status(object, refused ? "unsupported" : "failed", fault.text);
        run->wrong |= !refused;
        keep(run, object);
    }
    k3_cell_destroy(&cell);
    return err->status;
}

/* --- the launch ------------------------------------------------------------------------------ */

/* Opens the global clock and decides how iterations begin. Where ranks take all cores, whatever else runs on the
 * node takes one of theirs, and a rank that waits for a moment misses it: a barrier then. What decides are facts
 * of the machine alone: launches of one set must not begin in different ways. */
static k3_status_t open_sync(run_t *run, k3_error_t *err)
{
    int crowded = run->world.local_size >= run->world.cores;

    if (k3_sync_open(&run->world, &run->sync, err) != K3_OK) {
        return err->status;
    }
    MPI_Allreduce(MPI_IN_PLACE, &crowded, 1, MPI_INT, MPI_MAX, run->world.comm);
    run->measuring.options.sync = run->sync;
    run->measuring.options.start_reason = run->measuring.start != K3_START_AUTO ? "asked for"
                                          : crowded ? "no core is left beside the ranks"
                                                    : "a core is left beside the ranks";
    if (run->measuring.start == K3_START_ROUND ||
        (run->measuring.start == K3_START_AUTO && !crowded)) {
        run->region.sync = run->sync;
    }
    return K3_OK;
}

/* From here on a rank can wait for another, to the end of the launch. */
static k3_status_t start_watchdog(run_t *run, k3_error_t *err)
{
    run->roll = k3_rollcall_open(&run->world);
    k3_watchdog_roll(run->roll);
    k3_watchdog_tick("set-up of the launch", 0);
    k3_watchdog_start(&run->world, run->measuring.timeout, err);
    return k3_world_agree(&run->world, err);
}

static k3_status_t open_transports(run_t *run, k3_error_t *err)
{
    k3_watchdog_tick("set-up: UCX", 0);
    if (k3_fabric_open(&run->world, &run->fabric, err) == K3_OK &&
        k3_device_check_transports(&run->world, run->fabric, &run->device, err) == K3_OK) {
        run->region.fabric = run->fabric;
        open_sync(run, err);
    }
    return err->status;
}

/* Before UCX is opened: it reads which network device it is to take, and finds the GPU in use. */
static k3_status_t take_places(run_t *run, k3_error_t *err)
{
    k3_place_t own;

    if (k3_place_take(&run->world, &run->device.wish, &own, err) == K3_OK &&
        k3_device_take(&run->world, &own, &run->device, &run->region, err) == K3_OK) {
        own.threads = k3_threads();
        k3_place_gather(&run->world, &own, &run->places, err);
    }
    run->launch = (k3_launch_parts_t){.world = &run->world,
                                      .places = run->places,
                                      .options = run->options,
                                      .run_id = run->run_id,
                                      .started = run->started,
                                      .argc = run->argc,
                                      .argv = run->argv,
                                      .isa = run->region.isa,
                                      .device = &run->device};
    return err->status;
}

static void begin_record(run_t *run)
{
    k3_partial_t partial = {&run->requests, run->measuring.rotate, &run->launch, run->out};

    if (run->world.rank == 0) {
        k3_partial_begin(&partial);
        k3_watchdog_on_fire(k3_partial_leave, NULL);
    }
}

static k3_status_t run_cells(run_t *run, k3_error_t *err)
{
    run->alone = run->requests.count == 1;
    run->measuring.options.progress.cells = run->requests.count;
    if (start_watchdog(run, err) != K3_OK || take_places(run, err) != K3_OK) {
        return err->status;
    }
    begin_record(run);
    if (open_transports(run, err) != K3_OK) {
        return err->status;
    }
    for (size_t i = 0; i < run->requests.count && err->status == K3_OK; i++) {
        run->measuring.options.progress.cell = i + 1;
        run_cell(run, &run->requests.items[(i + run->measuring.rotate) % run->requests.count], err);
    }
    return err->status;
}

/* Every cell refused for one and the same reason: the command as a whole cannot be done. */
static k3_status_t refuse_all(const run_t *run, const json_t *cells, k3_error_t *err)
{
    if (run->world.rank == 0) {
        k3_record_refuse_all(cells, err);
    }
    return k3_world_agree(&run->world, err);
}

/* Rank 0. What is not the table goes to standard output alone. */
static void write_record(run_t *run, json_t *cells, k3_error_t *err)
{
    bool        to_stdout = strcmp(run->out, "-") == 0;
    json_t     *document = k3_launch_document(&run->launch, cells);
    k3_output_t output = {.documents = &document, .count = 1, .first = 1};

    if (to_stdout) {
        k3_table_print(document, stderr, false);
    } else {
        /* mpirun gives every rank a terminal of its own, so what the user sees cannot be known: no
         * colours. */
        k3_output_print(&output, run->measuring.format, false, err);
    }
    if (err->status == K3_OK && run->out[0] != '\0' &&
        k3_document_write(document, run->out, err) == K3_OK && !to_stdout) {
        fprintf(run->measuring.format == K3_OUTPUT_TEXT ? stdout : stderr, "record: %s\n",
                run->out);
    }
    json_decref(document);
}

static k3_status_t report(run_t *run, k3_error_t *err)
{
    json_t *cells = run->world.rank == 0 ? k3_partial_complete() : NULL;

    k3_watchdog_tick("the end of the launch", 0);
    if (refuse_all(run, cells, err) == K3_OK && run->world.rank == 0) {
        write_record(run, cells, err);
    }
    return k3_world_agree(&run->world, err);
}

static void close_run(run_t *run)
{
    k3_watchdog_over();
    k3_weights_destroy(&run->weights);
    k3_sources_close(&run->sources);
    k3_sync_close(run->sync);
    if (run->fabric != NULL) {
        k3_fabric_close(run->fabric);
    }
    k3_device_leave(&run->device);
    k3_partial_end();
    k3_requests_free(&run->requests);
    free(run->places);
    if (run->options != NULL) {
        k3_options_free(run->options);
    }
    k3_oracle_cache_clear();
    k3_watchdog_tick("the end of MPI", 0);
    k3_world_finalize(&run->world);
    k3_watchdog_stop();
    k3_rollcall_close(run->roll);
}

/* Without a world only the launcher's variables tell the ranks apart; one of them speaks. */
static bool first_of_launch(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "SLURM_PROCID"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *rank = getenv(names[i]);

        if (rank != NULL) {
            return strcmp(rank, "0") == 0;
        }
    }
    return true;
}

/* The time-out before the options are parsed on all ranks; 60, its default, when it is not to be had. */
static double asked_timeout(int argc, char **argv)
{
    k3_option_table_t table = {k3_option_defs, k3_option_count, K3_COMMAND_RUN,
                               k3_command_run.groups};
    k3_options_t     *options = NULL;
    k3_error_t        err = K3_ERROR_INIT;
    double            seconds = 60.0;

    if (k3_options_parse(&table, argc, argv, &options, &err) == K3_OK) {
        k3_parse_double("timeout", k3_options_get(options, "timeout"), 1.0, 86400.0, &seconds,
                        &err);
        k3_options_free(options);
    }
    return err.status == K3_OK ? seconds : 60.0;
}

static int run_run(int argc, char **argv)
{
    run_t      run = {.argc = argc + 2, .argv = argv - 2}; /* program and command stand in front */
    k3_error_t err = K3_ERROR_INIT;
    int        help = 0, code, rank;

    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
        return k3_command_options(&k3_command_run, argc, argv, &run.options, &help, &err);
    }
    k3_watchdog_guard(START_SECONDS + asked_timeout(argc, argv));
    if (k3_world_init(&argc, &argv, &run.world, &err) != K3_OK) {
        return first_of_launch() ? k3_command_end(&err) : k3_exit_code(err.status);
    }
    k3_clock_init();
    rank = run.world.rank;
    if (k3_command_options(&k3_command_run, argc, argv, &run.options, &help, &err) == K3_OK &&
        help) {
        k3_world_finalize(&run.world);
        return 0;
    }
    if (k3_world_agree(&run.world, &err) == K3_OK && prepare(&run, &err) == K3_OK &&
        run_cells(&run, &err) == K3_OK) {
        report(&run, &err);
    }
    code = err.status != K3_OK ? k3_exit_code(err.status)
                               : k3_exit_code(run.wrong ? K3_ERR_CHECK : K3_OK);
    if (rank == 0 && err.status != K3_OK) {
        k3_log_set_rank(-1);
        k3_log_error("%s", err.text);
    }
    close_run(&run);
    return code;
}

const k3_command_t k3_command_run = {
    .id = K3_COMMAND_RUN,
    .name = "run",
    .usage = "[OPTIONS]   (under mpirun or srun)",
    .what = "execute cells, print the table, write one record",
    .run = run_run,
};
