/* k3bench run: executes cells on the ranks of a launch, prints the table, writes one record. */
#include <stdlib.h>
#include <string.h>

#include "bench/commands/command.h"
#include "bench/commands/partial.h"
#include "bench/commands/run.h"
#include "bench/region/oracle.h"
#include "bench/report/outputs.h"
#include "bench/report/record.h"
#include "bench/report/table.h"
#include "harness/base/log.h"
#include "harness/mpi/watchdog.h"
#include "harness/record/document.h"
#include "kernels/threads.h"

/* Beyond --timeout, for the processes to come up; far more ranks than cores take their time. */
#define START_SECONDS 20.0

/* Opens the global clock and decides how iterations begin. Where ranks take all cores, whatever else runs on the
 * node takes one of theirs, and a rank that waits for a moment misses it: a barrier then. What decides are facts
 * of the machine alone: launches of one set must not begin in different ways. */
static k3_status_t open_sync(k3_run_t *run, k3_error_t *err)
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
static k3_status_t start_watchdog(k3_run_t *run, k3_error_t *err)
{
    run->roll = k3_rollcall_open(&run->world);
    k3_watchdog_roll(run->roll);
    k3_watchdog_tick("set-up of the launch", 0);
    k3_watchdog_start(&run->world, run->measuring.timeout, err);
    return k3_world_agree(&run->world, err);
}

static k3_status_t open_transports(k3_run_t *run, k3_error_t *err)
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
static k3_status_t take_places(k3_run_t *run, k3_error_t *err)
{
    k3_place_t own;

    run->environment = run->world.rank == 0 ? k3_environment() : NULL;
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
                                      .load = run->load,
                                      .environment = run->environment,
                                      .argc = run->argc,
                                      .argv = run->argv,
                                      .isa = run->region.isa,
                                      .device = &run->device};
    return err->status;
}

static void begin_record(k3_run_t *run)
{
    k3_partial_t partial = {&run->requests, run->measuring.rotate, &run->launch, run->out};

    if (run->world.rank == 0) {
        k3_partial_begin(&partial);
        k3_watchdog_on_fire(k3_partial_leave, NULL);
    }
}

static k3_status_t run_cells(k3_run_t *run, k3_error_t *err)
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
        k3_run_cell(run, &run->requests.items[(i + run->measuring.rotate) % run->requests.count],
                    err);
    }
    return err->status;
}

/* Rank 0. What is not the table goes to standard output alone. */
static void write_record(k3_run_t *run, json_t *cells, k3_error_t *err)
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
    } else if (err->status == K3_OK && run->out[0] == '\0') {
        fprintf(run->measuring.format == K3_OUTPUT_TEXT ? stdout : stderr,
                "no record: there is no folder results/local here; --out FILE keeps one\n");
    }
    (void)fflush(NULL); /* a launcher may kill this rank when another one has ended with an error */
    json_decref(document);
}

/* Rank 0. */
static void end_record(k3_run_t *run, json_t *cells, k3_error_t *err)
{
    if (run->refused < run->requests.count) {
        write_record(run, cells, err);
    } else if (k3_record_refuse_all(cells, run->refused_as, err) == K3_OK) {
        write_record(run, cells, err);
        k3_record_refuse_each(cells, run->refused_as, err);
    }
}

static k3_status_t report(k3_run_t *run, k3_error_t *err)
{
    json_t *cells = run->world.rank == 0 ? k3_partial_complete() : NULL;

    k3_watchdog_tick("the end of the launch", 0);
    if (run->world.rank == 0) {
        end_record(run, cells, err);
    }
    return k3_world_agree(&run->world, err);
}

static void close_run(k3_run_t *run)
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
    json_decref(run->environment);
    free(run->places);
    if (run->options != NULL) {
        k3_options_free(run->options);
    }
    k3_oracle_cache_clear();
    k3_watchdog_tick("the end of MPI", 0);
    k3_world_finalize(&run->world);
    k3_watchdog_stop();
    k3_rollcall_close(run->roll);
    k3_world_free(&run->world);
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
    k3_run_t   run = {.argc = argc + 2, .argv = argv - 2}; /* program and command stand in front */
    k3_error_t err = K3_ERROR_INIT;
    int        help = 0, code, rank;

    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
        return k3_command_options(&k3_command_run, argc, argv, &run.options, &help, &err);
    }
    k3_watchdog_guard(START_SECONDS + asked_timeout(argc, argv));
    if (k3_world_init(&argc, &argv, &run.world, &err) != K3_OK) {
        return k3_world_refused(&run.world, &err);
    }
    k3_clock_init();
    rank = run.world.rank;
    if (k3_command_options(&k3_command_run, argc, argv, &run.options, &help, &err) == K3_OK &&
        help) {
        k3_world_finalize(&run.world);
        k3_world_free(&run.world);
        return 0;
    }
    if (k3_world_agree(&run.world, &err) == K3_OK && k3_run_prepare(&run, &err) == K3_OK &&
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
