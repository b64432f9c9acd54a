/* The watchdog. Each case is a child process, this program once more, that is a world of one rank;
 * so the exit code and what it prints can be looked at. */
#define _GNU_SOURCE /* pipe2 */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness/mpi/watchdog.h"

extern char **environ;

static void sleep_seconds(double seconds)
{
    struct timespec t;

    t.tv_sec = (time_t)seconds;
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    while (nanosleep(&t, &t) != 0) {
    }
}

/* --- the child ------------------------------------------------------------------------------- */

static void describe(const void *arg, char *text, unsigned size)
{
    snprintf(text, size, "%d of 112 signals missing", *(const int *)arg);
}

static void on_fire(void *arg, const char *reason)
{
    fprintf(stderr, "partial record %s: %s\n", (const char *)arg, reason);
}

static void hang(void *arg, const char *reason)
{
    (void)arg;
    (void)reason;
    sleep_seconds(60);
}

static int child(int argc, char **argv)
{
    static char name[] = "r.json";
    const char *what = argv[1];
    k3_world_t  world;
    k3_error_t  err = K3_ERROR_INIT;
    int         missing = 4;
    double      limit = strcmp(what, "stopped") == 0 ? 1.0 : strcmp(what, "term") == 0 ? 20.0 : 0.5;

    if (k3_world_init(&argc, &argv, &world, &err) != K3_OK ||
        k3_watchdog_start(&world, limit, &err) != K3_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 99;
    }
    k3_watchdog_tick("cell 3, dispatch", 17);
    if (strcmp(what, "fire") == 0 || strcmp(what, "term") == 0) {
        k3_watchdog_describe(describe, &missing);
        k3_watchdog_on_fire(on_fire, name);
        fprintf(stderr, "started\n");
        sleep_seconds(30);
    } else if (strcmp(what, "hang") == 0) {
        k3_watchdog_on_fire(hang, NULL);
        sleep_seconds(60);
    }
    for (int i = 0; i < 20; i++) { /* alive and stopped: two seconds of small steps */
        sleep_seconds(0.1);
        k3_watchdog_alive();
    }
    k3_watchdog_stop();
    k3_watchdog_stop();
    k3_world_finalize(&world);
    k3_world_free(&world);
    return 0;
}

/* --- the parent ------------------------------------------------------------------------------ */

typedef struct run {
    pid_t pid;
    FILE *out; /* its stderr */
} run_t;

static char output[8192];
static int  failures;

static run_t start(const char *what)
{
    static char                program[] = "/proc/self/exe";
    run_t                      run;
    char                       word[16];
    char                      *arguments[] = {program, word, NULL};
    int                        ends[2];
    posix_spawn_file_actions_t actions;

    snprintf(word, sizeof(word), "%s", what);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        exit(1);
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    if (posix_spawn(&run.pid, program, &actions, NULL, arguments, environ) != 0) {
        exit(1);
    }
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    run.out = fdopen(ends[0], "r");
    return run;
}

static int end(const run_t *run)
{
    int status;

    waitpid(run->pid, &status, 0);
    output[fread(output, 1, sizeof(output) - 1, run->out)] = '\0';
    fclose(run->out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void check(const char *what, int code, int expected, const char *text)
{
    if (code != expected || strstr(output, text) == NULL) {
        fprintf(stderr, "%s: exit code %d, expected %d with \"%s\"; output:\n%s\n", what, code,
                expected, text, output);
        failures++;
    }
}

/* They mostly sleep, so all of them at a time. */
int main(int argc, char **argv)
{
    run_t hang, stopped, alive, term, fire;
    int   code;

    if (argc > 1) {
        return child(argc, argv);
    }
    hang = start("hang");
    stopped = start("stopped");
    alive = start("alive");
    term = start("term");
    fire = start("fire");
    sleep_seconds(1.0);
    kill(stopped.pid, SIGSTOP);
    code = end(&fire);
    check("fire", code, 4, "no progress");
    check("fire", code, 4, "in cell 3, dispatch, step 17: 4 of 112 signals missing");
    check("fire", code, 4, "partial record r.json: no progress for 0.");
    check("term", fgets(output, sizeof(output), term.out) != NULL, 1, "started");
    kill(term.pid, SIGTERM);
    check("term", end(&term), 1000 + SIGTERM, "partial record r.json: ended by SIGTERM on rank 0");
    sleep_seconds(2.0);
    kill(stopped.pid, SIGCONT);
    check("stopped", end(&stopped), 0, "");
    check("alive", end(&alive), 0, "");
    check("hang", end(&hang), 4, "no progress");
    return failures == 0 ? 0 : 1;
}
