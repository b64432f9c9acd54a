#define _GNU_SOURCE /* asprintf */

#include "bench/sweep/execute.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/sweep/execute_internal.h"
#include "bench/sweep/launcher.h"
#include "harness/base/memory.h"

/* From SIGTERM, which mpirun and srun pass on and wait for, to SIGKILL. */
static const double grace = 10.0;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- starting -------------------------------------------------------------------------------- */

static void add_run_words(const k3_sweep_t *sweep, const k3_variant_t *variant, const char *rotate,
                          const char *out, k3_list_t *words)
{
    char text[PATH_MAX + 16];

    k3_list_add(words, sweep->program);
    k3_list_add(words, "run");
    for (size_t i = 0; i < variant->words.count; i++) {
        k3_list_add(words, variant->words.items[i]);
    }
    (void)snprintf(text, sizeof(text), "--rotate=%s", rotate);
    k3_list_add(words, text);
    k3_list_add(words, "--progress=off");
    (void)snprintf(text, sizeof(text), "--out=%s", out);
    k3_list_add(words, text);
}

static k3_status_t make_words(const k3_sweep_t *sweep, const job_t *job, k3_list_t *words,
                              k3_error_t *err)
{
    k3_launcher_t launcher = {.text = job->item->variant->launcher,
                              .hosts = sweep->hosts,
                              .job = job->number,
                              .ranks = job->item->variant->ranks,
                              .hostfile = job->hostfile};

    if (k3_launcher_words(&launcher, words, err) == K3_OK) {
        add_run_words(sweep, job->item->variant, job->rotate, job->out, words);
    }
    return err->status;
}

char *k3_sweep_command(const k3_sweep_t *sweep, const k3_variant_t *variant, k3_error_t *err)
{
    k3_launch_item_t item = {.variant = variant};
    job_t            job = {.item = &item, .rotate = "0", .out = "FILE", .hostfile = "HOSTS"};
    k3_list_t        words;
    char            *text = NULL;
    size_t           size = 0;
    FILE            *out;

    if (!k3_hosts_take(sweep->hosts, 0, variant->ranks)) {
        k3_fail(err, K3_ERR_ENV, "%u ranks: too few hosts are free", variant->ranks);
        return NULL;
    }
    if (make_words(sweep, &job, &words, err) == K3_OK) {
        out = open_memstream(&text, &size);
        for (size_t i = 0; out != NULL && i < words.count; i++) {
            (void)fprintf(out, "%s%s", i > 0 ? " " : "", words.items[i]);
        }
        if (out != NULL) {
            (void)fclose(out);
        }
        k3_list_free(&words);
    }
    k3_hosts_release(sweep->hosts, 0);
    return text;
}

/* What mpirun reads of the hosts of the job; nothing where there are none to choose from. */
static k3_status_t write_hostfile(const k3_sweep_t *sweep, const job_t *job, k3_error_t *err)
{
    char *text;
    FILE *file;
    bool  good;

    if (sweep->hosts->kind == K3_HOSTS_HERE || sweep->hosts->kind == K3_HOSTS_CORES) {
        return K3_OK;
    }
    text = k3_launcher_hostfile(sweep->hosts, job->number);
    file = fopen(job->hostfile, "we");
    good = file != NULL && text != NULL && fputs(text, file) >= 0;
    if (file != NULL && fclose(file) != 0) {
        good = false;
    }
    free(text);
    return good ? K3_OK : k3_fail(err, K3_ERR_IO, "%.300s: %s", job->hostfile, strerror(errno));
}

/* Cores of the job, ended by -1; NULL where it has whole hosts. */
static int *cpus_of(const k3_hosts_t *hosts, int job)
{
    int   *cpus;
    size_t count = 0;

    if (hosts->kind != K3_HOSTS_CORES) {
        return NULL;
    }
    cpus = calloc(hosts->count + 1, sizeof(*cpus));
    for (size_t i = 0; i < hosts->count && cpus != NULL; i++) {
        if (hosts->items[i].user == job) {
            cpus[count++] = hosts->items[i].cpu;
        }
    }
    if (cpus != NULL) {
        cpus[count] = -1;
    }
    return cpus;
}

static double limit_of(const k3_sweep_t *sweep, const k3_variant_t *variant)
{
    double      timeout = 60.0;
    k3_error_t  unused = K3_ERROR_INIT;
    const char *text = k3_options_get(variant->options, "timeout");

    if (isfinite(sweep->limit)) {
        return sweep->limit;
    }
    (void)k3_parse_double("timeout", text, 0.0, 1e6, &timeout, &unused);
    return 60.0 + timeout + 4.0 * k3_schedule_expect(sweep->schedule, variant);
}

static k3_status_t start_process(state_t *s, job_t *job, k3_error_t *err)
{
    k3_list_t words;
    char      log[PATH_MAX], **argv;
    int      *cpus = cpus_of(s->sweep->hosts, job->number);

    k3_folder_file(s->sweep->folder, K3_LOGS, job->item->id, job->attempt, log);
    if (make_words(s->sweep, job, &words, err) == K3_OK) {
        k3_start_t start = {.log = log, .cpus = cpus, .hidden = "K3BENCH_"};

        argv = calloc(words.count + 1, sizeof(*argv));
        if (argv != NULL) {
            memcpy(argv, words.items, words.count * sizeof(*argv));
            start.argv = argv;
            k3_process_start(&start, &job->process, err);
        } else {
            k3_fail(err, K3_ERR_ENV, "sweep: no memory");
        }
        free(argv);
        k3_list_free(&words);
    }
    free(cpus);
    return err->status;
}

static k3_status_t start_job(state_t *s, job_t *job, k3_launch_item_t *item, k3_error_t *err)
{
    const k3_folder_t *folder = s->sweep->folder;

    job->item = item;
    job->attempt = item->past.attempts + 1;
    job->stage = JOB_RUNNING;
    k3_folder_file(folder, K3_RUNNING, item->id, job->attempt, job->out);
    (void)snprintf(job->hostfile, sizeof(job->hostfile), "%s/running/hosts.%d", folder->path,
                   job->number);
    (void)snprintf(job->rotate, sizeof(job->rotate), "%llu",
                   (unsigned long long)(item->round - 1) % item->variant->cells);
    if (k3_folder_check_space(folder, err) != K3_OK ||
        write_hostfile(s->sweep, job, err) != K3_OK ||
        k3_journal_begin(&s->sweep->folder->journal, item->id, job->attempt, err) != K3_OK) {
        return err->status;
    }
    item->past.attempts = job->attempt;
    job->begun = now();
    job->deadline = job->begun + limit_of(s->sweep, item->variant);
    return start_process(s, job, err);
}

static job_t *idle_job(state_t *s)
{
    for (uint64_t j = 0; j < s->sweep->jobs; j++) {
        if (s->jobs[j].stage == JOB_IDLE) {
            return &s->jobs[j];
        }
    }
    return NULL;
}

/* In order, so that the launches of a round stay together: the next one waits until its hosts are free. */
static k3_status_t start_some(state_t *s, k3_error_t *err)
{
    job_t *job;

    while (!s->stopping && (job = idle_job(s)) != NULL) {
        while (s->next < s->sweep->schedule->count &&
               !k3_launch_is_open(s->sweep->schedule, &s->sweep->schedule->items[s->next])) {
            s->next++;
        }
        if (s->next == s->sweep->schedule->count) {
            return K3_OK;
        }
        if (now() - s->begun > s->sweep->budget) {
            s->result->out_of_budget = s->stopping = true;
            return K3_OK;
        }
        if (!k3_hosts_take(s->sweep->hosts, job->number,
                           s->sweep->schedule->items[s->next].variant->ranks)) {
            return K3_OK;
        }
        if (start_job(s, job, &s->sweep->schedule->items[s->next++], err) != K3_OK) {
            job->stage = JOB_IDLE;
            return err->status;
        }
    }
    return K3_OK;
}

/* --- waiting --------------------------------------------------------------------------------- */

static void end_when_late(job_t *job, double time)
{
    if (job->stage == JOB_IDLE || time < job->deadline) {
        return;
    }
    (void)k3_process_signal(&job->process, job->stage == JOB_RUNNING ? SIGTERM : SIGKILL);
    /* A stopped process does not see SIGTERM. */
    (void)k3_process_signal(&job->process, SIGCONT);
    job->late = true;
    job->stage = JOB_ENDING;
    job->deadline = time + grace;
}

static k3_status_t take_ended(state_t *s, k3_error_t *err)
{
    for (uint64_t j = 0; j < s->sweep->jobs; j++) {
        job_t *job = &s->jobs[j];
        int    status = 0;

        if (job->stage == JOB_IDLE || !k3_process_ended(&job->process, &status)) {
            continue;
        }
        (void)k3_process_signal(&job->process, SIGKILL); /* what it left behind */
        job->seconds = now() - job->begun;
        if (s->broken) { /* nothing more is noted: it is started again by the next sweep */
            job->stage = JOB_IDLE;
        } else {
            k3_job_finish(s, job, status, err);
        }
        k3_hosts_release(s->sweep->hosts, job->number);
        s->broken = s->broken || err->status != K3_OK;
    }
    return err->status;
}

static bool any_running(const state_t *s)
{
    for (uint64_t j = 0; j < s->sweep->jobs; j++) {
        if (s->jobs[j].stage != JOB_IDLE) {
            return true;
        }
    }
    return false;
}

/* Ends all that runs, at once. */
static void end_all(state_t *s)
{
    for (uint64_t j = 0; j < s->sweep->jobs; j++) {
        if (s->jobs[j].stage == JOB_RUNNING) {
            s->jobs[j].deadline = 0.0;
        }
    }
    s->stopping = s->broken = true;
}

/* Until a child ends, a limit passes or a signal comes. */
static void wait_for_news(state_t *s, k3_error_t *err)
{
    struct timespec second = {1, 0};
    double          time = now(), first = time + 1.0, rest;
    int             number;

    for (uint64_t j = 0; j < s->sweep->jobs; j++) {
        if (s->jobs[j].stage != JOB_IDLE && s->jobs[j].deadline < first) {
            first = s->jobs[j].deadline;
        }
    }
    rest = first > time ? first - time : 0.0;
    if (rest < 1.0) {
        second = (struct timespec){0, (long)(rest * 1e9)};
    }
    number = sigtimedwait(&s->signals, NULL, &second);
    if (number > 0 && number != SIGCHLD) {
        k3_fail(err, K3_ERR_ENV, "ended by signal %d (%s); the same command goes on", number,
                strsignal(number));
        end_all(s);
    }
}

static k3_status_t loop(state_t *s, k3_error_t *err)
{
    while (true) {
        if (err->status == K3_OK && start_some(s, err) != K3_OK) {
            end_all(s);
        }
        if (!any_running(s)) {
            return err->status;
        }
        wait_for_news(s, err);
        if (take_ended(s, err) != K3_OK && !s->stopping) {
            end_all(s);
        }
        for (uint64_t j = 0; j < s->sweep->jobs; j++) {
            end_when_late(&s->jobs[j], now());
        }
    }
}

/* --- all ------------------------------------------------------------------------------------- */

/* A blocked signal arrives even if it was to be ignored, as nohup and shells ask for. */
static void choose_signals(sigset_t *signals)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action;

    sigemptyset(signals);
    sigaddset(signals, SIGCHLD);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        if (sigaction(ends[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            sigaddset(signals, ends[i]);
        }
    }
}

k3_status_t k3_sweep_execute(k3_sweep_t *sweep, k3_sweep_result_t *result, k3_error_t *err)
{
    state_t  s = {.sweep = sweep, .result = result, .begun = now()};
    sigset_t before;

    memset(result, 0, sizeof(*result));
    choose_signals(&s.signals);
    sigprocmask(SIG_BLOCK, &s.signals, &before);
    s.jobs = calloc(sweep->jobs, sizeof(*s.jobs));
    s.carried = calloc(sweep->schedule->variants->count + 1, sizeof(*s.carried));
    if (s.jobs == NULL || s.carried == NULL) {
        k3_fail(err, K3_ERR_ENV, "sweep: no memory");
    }
    for (uint64_t j = 0; s.jobs != NULL && j < sweep->jobs; j++) {
        s.jobs[j].number = (int)j;
    }
    if (err->status == K3_OK && k3_resume(&s, err) == K3_OK) {
        loop(&s, err);
    }
    for (size_t i = 0; s.carried != NULL && i < sweep->schedule->variants->count; i++) {
        free(s.carried[i]);
    }
    free(s.carried);
    free(s.jobs);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return err->status;
}
