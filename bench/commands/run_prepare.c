/* The options of a launch: parsed and checked on all ranks before anything is allocated. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/commands/command.h"
#include "bench/commands/compute.h"
#include "bench/commands/fault.h"
#include "bench/commands/run.h"
#include "bench/plan/effect.h"
#include "bench/report/outputs.h"
#include "harness/base/log.h"
#include "harness/base/sysfiles.h"
#include "harness/record/document.h"
#include "harness/record/fingerprint.h"
#include "harness/record/run_id.h"

/* Until a layer of a checkpoint has been read, from the slowest disk. */
#define READING_SECONDS 3600.0

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

static k3_status_t parse_transport(k3_run_t *run, k3_error_t *err)
{
    static const char *const names[] = {"auto", "any", "rdma", NULL};
    size_t                   index;

    if (k3_parse_name("transport", k3_options_get(run->options, "transport"), names, &index, err) ==
        K3_OK) {
        run->rdma = index == 2 || (index == 0 && host_has_rdma());
    }
    return err->status;
}

static k3_status_t parse_region(k3_run_t *run, k3_error_t *err)
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
static k3_status_t parse_dump(k3_run_t *run, k3_error_t *err)
{
    const char *dump = k3_options_get(run->options, "dump");

    run->measuring.options.dump = dump;
    if (dump == NULL) {
        return K3_OK;
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

/* A name that no other launch has; names of one folder sort by the start. 2026-11-30T04:05:06Z loses what
 * some file systems do not take. */
static void name_record(k3_run_t *run)
{
    char   time[sizeof(run->started)];
    size_t n = 0;

    for (const char *c = run->started; *c != '\0'; c++) {
        if (*c != '-' && *c != ':') {
            time[n++] = *c;
        }
    }
    time[n] = '\0';
    snprintf(run->out, sizeof(run->out), "results/local/%s-%s.json", time, run->run_id);
}

/* The record's path: as given, or a new file below results/local where that folder is. */
static k3_status_t choose_out(k3_run_t *run, k3_error_t *err)
{
    const char *out = k3_options_get(run->options, "out");
    double      load;
    struct stat st;

    k3_run_id(run->run_id);
    k3_utc_now(run->started);
    run->load = k3_sys_load("", &load) ? load : -1.0;
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
        name_record(run);
    }
    return run->out[0] != '\0' && strcmp(run->out, "-") != 0 ? k3_document_check_path(run->out, err)
                                                             : K3_OK;
}

/* Options that differ over ranks would deadlock or compare unlike work. */
static k3_status_t check_same(const k3_run_t *run, k3_error_t *err)
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

/* The limits of a GPU beside times of a CPU are true, and of no use. */
static void warn_of_machine(const k3_run_t *run)
{
    const k3_machine_file_t *m = &run->machine;
    char                     busy[300];

    if (run->has_machine && run->device.accelerator == NULL && m->figure[K3_FIG_SMS].known) {
        k3_log_warn(
            "machine %s: its ranks are GPUs, these are processes on a CPU: the limits say how "
            "far apart the two are, not how well this machine is used",
            m->name);
    }
    if (run->has_machine && k3_machine_busy(m, busy, sizeof(busy))) {
        k3_log_warn("%s", busy);
    }
}

/* At rank 0 only: `local` need not lie on every host. */
static k3_status_t choose_machine(k3_run_t *run, k3_error_t *err)
{
    const char *name = k3_options_get(run->options, "machine");

    if (name == NULL && k3_machine_has_local()) {
        name = "local";
    }
    run->has_machine = name != NULL && k3_machine_read(name, &run->machine, err) == K3_OK;
    warn_of_machine(run);
    return err->status;
}

k3_status_t k3_run_prepare(k3_run_t *run, k3_error_t *err)
{
    k3_cell_request_t base = {.world = (uint32_t)run->world.size, .node_of = run->world.node_of};

    if (check_same(run, err) != K3_OK) {
        return err->status;
    }
    if (k3_options_get(run->options, "weights") != NULL) {
        k3_watchdog_guard(READING_SECONDS); /* all bytes of a layer are read for its digest */
    }
    if (k3_sources_open_all(run->options, &run->world, &run->sources, err) != K3_OK) {
        return err->status;
    }
    base.checkpoint = run->sources.checkpoint;
    base.hidden = run->sources.hidden;
    if (k3_measuring_choose(run->options, &run->measuring, err) == K3_OK &&
        parse_region(run, err) == K3_OK && parse_transport(run, err) == K3_OK &&
        k3_requests_create(run->options, &base, &run->requests, err) == K3_OK &&
        k3_effect_check(run->options, &run->requests, err) == K3_OK &&
        parse_dump(run, err) == K3_OK && run->world.rank == 0 &&
        choose_machine(run, err) == K3_OK) {
        choose_out(run, err);
    }
    return k3_world_agree(&run->world, err);
}
