/* k3bench sweep: many launches of many cells, interleaved, resumable. */
#define _GNU_SOURCE /* sched_getaffinity */

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/commands/command.h"
#include "bench/commands/fault.h"
#include "bench/commands/measuring.h"
#include "bench/commands/sources.h"
#include "bench/commands/version.h"
#include "bench/plan/machine.h"
#include "bench/sweep/overview.h"
#include "harness/base/log.h"

typedef struct sweep {
    k3_options_t     *options;
    k3_sweep_source_t source;
    k3_hosts_t        hosts;
    k3_variants_t     variants;
    k3_folder_t       folder;
    k3_schedule_t     schedule;
    k3_sweep_t        plan;
    char              build[128], program[PATH_MAX], out[PATH_MAX];
    bool              dry_run;
} sweep_t;

/* --- options --------------------------------------------------------------------------------- */

static k3_status_t read_numbers(sweep_t *w, k3_error_t *err)
{
    const char *limit = k3_options_get(w->options, "launch-limit");
    const char *budget = k3_options_get(w->options, "budget");

    w->plan.limit = NAN;
    w->plan.budget = INFINITY;
    if (k3_parse_u64("jobs", k3_options_get(w->options, "jobs"), 1, K3_JOBS_MAX, &w->plan.jobs,
                     err) != K3_OK ||
        (strcmp(limit, "auto") != 0 &&
         k3_parse_double("launch-limit", limit, 0.01, 1e6, &w->plan.limit, err) != K3_OK) ||
        (budget != NULL &&
         k3_parse_double("budget", budget, 0.0, 1e7, &w->plan.budget, err) != K3_OK)) {
        return err->status;
    }
    return K3_OK;
}

/* "a/b/night.ini" gives "night", below results/local where that folder is. */
static k3_status_t choose_out(sweep_t *w, k3_error_t *err)
{
    const char *out = k3_options_get(w->options, "out");
    const char *slash = strrchr(w->source.file, '/');
    const char *name = slash != NULL ? slash + 1 : w->source.file;
    const char *dot = strrchr(name, '.');
    int         length = dot != NULL && dot != name ? (int)(dot - name) : (int)strlen(name);
    struct stat facts;
    bool        local = stat("results/local", &facts) == 0 && S_ISDIR(facts.st_mode);

    if (out != NULL && out[0] == '\0') {
        return k3_fail(err, K3_ERR_USAGE, "out: the text is empty");
    }
    if (out == NULL && dot == NULL && !local) {
        return k3_fail(err, K3_ERR_USAGE, "out: --out DIR is missing: %.200s has no ending to drop",
                       w->source.file);
    }
    if (out != NULL) {
        (void)snprintf(w->out, sizeof(w->out), "%s", out);
    } else {
        (void)snprintf(w->out, sizeof(w->out), "%s%.*s", local ? "results/local/" : "", length,
                       name);
    }
    return K3_OK;
}

static k3_status_t find_program(sweep_t *w, k3_error_t *err)
{
    ssize_t length = readlink("/proc/self/exe", w->program, sizeof(w->program) - 1);

    if (length <= 0) {
        return k3_fail(err, K3_ERR_ENV, "the path of k3bench itself cannot be found");
    }
    w->program[length] = '\0';
    return K3_OK;
}

static k3_status_t read_options(sweep_t *w, int argc, char **argv, k3_error_t *err)
{
    if (k3_options_positional_count(w->options) != 1) {
        return k3_fail(err, K3_ERR_USAGE, "sweep: one FILE is wanted, not %zu",
                       k3_options_positional_count(w->options));
    }
    (void)snprintf(w->build, sizeof(w->build), "%s %s", k3_version_text, k3_version_git);
    w->source = (k3_sweep_source_t){.table = k3_command_table(&k3_command_sweep),
                                    .run = K3_COMMAND_RUN,
                                    .argc = argc,
                                    .argv = argv,
                                    .file = k3_options_positional(w->options, 0),
                                    .build = w->build};
    w->dry_run = k3_options_on(w->options, "dry-run");
    /* `run` would read them once more, behind what is settled here. */
    (void)unsetenv("K3BENCH_OPTIONS");
    return read_numbers(w, err) == K3_OK && find_program(w, err) == K3_OK ? choose_out(w, err)
                                                                          : err->status;
}

/* The file's own values, before the first head, of what concerns the sweep as a whole. */
static k3_status_t read_file(sweep_t *w, int argc, char **argv, k3_error_t *err)
{
    k3_option_table_t table = k3_command_table(&k3_command_sweep);
    k3_options_t     *whole = NULL;

    table.file = k3_options_positional(w->options, 0);
    table.section = "";
    if (table.file == NULL) {
        return k3_fail(err, K3_ERR_USAGE, "sweep: FILE is missing: the cells to be measured");
    }
    if (k3_options_parse(&table, argc, argv, &whole, err) == K3_OK) {
        k3_options_free(w->options);
        w->options = whole;
    }
    return err->status;
}

/* --- the sweep ------------------------------------------------------------------------------- */

/* Before the folder is made: what can be said without it. */
static k3_status_t check(const sweep_t *w, k3_error_t *err)
{
    for (size_t i = 0; i < w->variants.count && err->status == K3_OK; i++) {
        free(k3_sweep_command(&w->plan, &w->variants.items[i], err));
    }
    if (w->variants.count == 0) {
        k3_fail(err, K3_ERR_UNSUPPORTED, "no cell can be done; the first reason: %s",
                w->variants.refusals[0].reason);
    }
    return err->status;
}

static k3_status_t check_machine(const k3_options_t *options, k3_error_t *err)
{
    const char       *name = k3_options_get(options, "machine");
    k3_machine_file_t machine;

    return name != NULL ? k3_machine_read(name, &machine, err) : K3_OK;
}

/* What every launch would refuse is refused before the first one; files are looked for where the ranks are to run
 * on this host. */
static k3_status_t check_launch(const k3_variant_t *v, bool here, k3_error_t *err)
{
    k3_measuring_t measuring = {0};
    k3_fault_t     fault;

    if (k3_options_get(v->options, "dump") != NULL) {
        return k3_fail(err, K3_ERR_USAGE,
                       "dump: all launches of a sweep would write to it; a dump is of one `run`");
    }
    if (k3_measuring_choose(v->options, &measuring, err) == K3_OK &&
        k3_fault_parse(k3_options_get(v->options, "fault"), v->ranks, &fault, err) == K3_OK &&
        here && check_machine(v->options, err) == K3_OK) {
        k3_sources_check(v->options, err);
    }
    return err->status;
}

static k3_status_t check_launches(const sweep_t *w, k3_error_t *err)
{
    bool here = w->hosts.kind != K3_HOSTS_FILE && w->hosts.kind != K3_HOSTS_SLURM;

    for (size_t i = 0; i < w->variants.count && err->status == K3_OK; i++) {
        const k3_variant_t *v = &w->variants.items[i];

        check_launch(v, here && v->launcher == NULL, err);
    }
    return err->status;
}

static k3_status_t prepare(sweep_t *w, k3_error_t *err)
{
    const char *progress = k3_options_get(w->options, "progress");

    w->plan.source = &w->source;
    w->plan.program = w->program;
    w->plan.hosts = &w->hosts;
    w->plan.folder = &w->folder;
    w->plan.schedule = &w->schedule;
    w->plan.carried_by = k3_options_get(w->options, "carried-by");
    w->plan.progress = strcmp(progress, "off") == 0 ? NULL : stdout;
    if (k3_hosts_find(k3_options_get(w->options, "hostfile"), w->plan.jobs, &w->hosts, err) !=
            K3_OK ||
        k3_variants_create(&w->source, &w->hosts, &w->variants, err) != K3_OK ||
        check(w, err) != K3_OK || check_launches(w, err) != K3_OK ||
        k3_folder_open(w->out, w->dry_run, &w->folder, err) != K3_OK ||
        k3_schedule_create(&w->variants, &w->folder.journal, k3_options_on(w->options, "retry"),
                           &w->schedule, err) != K3_OK) {
        return err->status;
    }
    return k3_sweep_overview(&w->plan, w->dry_run, stdout, err);
}

/* False when a launch went wrong, now or before. */
static bool print_result(const sweep_t *w, const k3_sweep_result_t *r)
{
    size_t states[K3_LAUNCH_ASIDE + 1] = {0}, wrong = 0;

    for (size_t i = 0; i < w->schedule.count; i++) {
        const k3_launch_past_t *past = &w->schedule.items[i].past;

        states[past->state]++;
        wrong += past->state == K3_LAUNCH_DONE && past->wrong;
    }
    if (r->adopted > 0) {
        printf("%zu launches had finished before without being noted\n", r->adopted);
    }
    if (r->aside > 0) {
        printf("%zu records are no longer asked for: they lie in %s/aside\n", r->aside, w->out);
    }
    printf("%zu launches: %zu done", w->schedule.count, states[K3_LAUNCH_DONE]);
    if (wrong > 0) {
        printf(" (%zu with a failed cell)", wrong);
    }
    printf(", %zu failed, %zu rejected, %zu to go%s\n", states[K3_LAUNCH_FAILED],
           states[K3_LAUNCH_REJECTED], states[K3_LAUNCH_NONE] + states[K3_LAUNCH_ASIDE],
           r->out_of_budget ? " (the budget is used up; the same command goes on)" : "");
    printf("records: %s/records\n", w->out);
    return wrong + states[K3_LAUNCH_FAILED] + states[K3_LAUNCH_REJECTED] == 0;
}

static int run_sweep(int argc, char **argv)
{
    k3_error_t        err = K3_ERROR_INIT;
    sweep_t           w = {.folder = {.lock = -1, .journal = {.fd = -1}}};
    k3_sweep_result_t result = {0};
    int               help = 0, code;
    bool              bad = false;

    if (k3_command_options(&k3_command_sweep, argc, argv, &w.options, &help, &err) != K3_OK ||
        help) {
        return k3_command_end(&err);
    }
    if (read_file(&w, argc, argv, &err) == K3_OK && read_options(&w, argc, argv, &err) == K3_OK &&
        prepare(&w, &err) == K3_OK && !w.dry_run) {
        k3_sweep_execute(&w.plan, &result, &err);
        bad = !print_result(&w, &result);
    }
    k3_schedule_free(&w.schedule);
    k3_folder_close(&w.folder);
    k3_variants_free(&w.variants);
    k3_hosts_free(&w.hosts);
    k3_options_free(w.options);
    code = k3_command_end(&err);
    return code == 0 && bad ? k3_exit_code(K3_ERR_CHECK) : code;
}

const k3_command_t k3_command_sweep = {
    .id = K3_COMMAND_SWEEP,
    .name = "sweep",
    .usage = "FILE [OPTIONS]",
    .what = "many launches of many cells from an ini file: interleaved, limited in time, resumable",
    .files = true,
    .own_first = "of the launches, as `k3bench run` takes them:",
    .run = run_sweep,
};
