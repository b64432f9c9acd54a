#define _GNU_SOURCE /* sched_setaffinity, pipe2, execvpe */

#include "bench/sweep/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* --- starting -------------------------------------------------------------------------------- */

static char **environment_without(const char *hidden)
{
    size_t count = 0, kept = 0;
    char **all;

    while (environ[count] != NULL) {
        count++;
    }
    all = calloc(count + 1, sizeof(*all));
    for (size_t i = 0; i < count && all != NULL; i++) {
        if (strncmp(environ[i], hidden, strlen(hidden)) != 0) {
            all[kept++] = environ[i];
        }
    }
    return all;
}

/* In the child. Returns only when something failed, with errno. */
static void become(const k3_start_t *start, char **environment, pid_t parent)
{
    sigset_t  none;
    cpu_set_t set;
    int       log = open(start->log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    int       null = open("/dev/null", O_RDONLY);

    CPU_ZERO(&set);
    for (const int *cpu = start->cpus; cpu != NULL && *cpu >= 0; cpu++) {
        CPU_SET((size_t)*cpu, &set);
    }
    sigemptyset(&none);
    if (log < 0 || null < 0 || setsid() < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 ||
        (start->cpus != NULL && sched_setaffinity(0, sizeof(set), &set) != 0) ||
        dup2(null, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 ||
        dup2(log, STDERR_FILENO) < 0) {
        return;
    }
    if (log > STDERR_FILENO) {
        (void)close(log);
    }
    if (null > STDERR_FILENO) {
        (void)close(null);
    }
    signal(SIGXFSZ, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (getppid() != parent) { /* it died before the prctl */
        _exit(EXIT_FAILURE);
    }
    execvpe(start->argv[0], start->argv, environment);
}

/* What the child says over the pipe: nothing once the program has replaced it, else its errno. */
static int fault_of(int pipe_end)
{
    int     fault = 0;
    ssize_t count;

    do {
        count = read(pipe_end, &fault, sizeof(fault));
    } while (count < 0 && errno == EINTR);
    return count == (ssize_t)sizeof(fault) ? fault : 0;
}

k3_status_t k3_process_start(const k3_start_t *start, k3_process_t *process, k3_error_t *err)
{
    int    ends[2], fault;
    pid_t  self = getpid();
    char **environment = environment_without(start->hidden);

    process->pid = 0;
    if (environment == NULL || pipe2(ends, O_CLOEXEC) != 0) {
        free(environment);
        return k3_fail(err, K3_ERR_ENV, "%.200s: %s", start->argv[0], strerror(errno));
    }
    process->pid = fork();
    if (process->pid == 0) {
        become(start, environment, self);
        fault = errno;
        if (write(ends[1], &fault, sizeof(fault)) < 0) {
            _exit(EXIT_FAILURE);
        }
        _exit(EXIT_FAILURE);
    }
    fault = process->pid < 0 ? errno : 0;
    (void)close(ends[1]);
    free(environment);
    if (process->pid > 0 && (fault = fault_of(ends[0])) != 0) {
        (void)waitpid(process->pid, NULL, 0);
    }
    (void)close(ends[0]);
    if (fault != 0) {
        process->pid = 0;
        return k3_fail(err, K3_ERR_ENV, "%.200s cannot be started (log %.200s): %s", start->argv[0],
                       start->log, strerror(fault));
    }
    return K3_OK;
}

/* --- ending ---------------------------------------------------------------------------------- */

/* Session of a process; 0 when it is gone. The name in brackets may hold anything, so the fields are counted
 * from the last bracket. */
static pid_t session_of(const char *id)
{
    char   path[64], text[1024];
    FILE  *file;
    size_t length;
    int    session = 0;

    (void)snprintf(path, sizeof(path), "/proc/%.20s/stat", id);
    file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    length = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    text[length] = '\0';

    const char *rest = strrchr(text, ')');

    if (rest == NULL || sscanf(rest + 1, " %*c %*d %*d %d", &session) != 1) {
        return 0;
    }
    return session;
}

int k3_process_signal(const k3_process_t *process, int number)
{
    DIR           *all = opendir("/proc");
    struct dirent *entry;
    int            count = 0;

    while (all != NULL && (entry = readdir(all)) != NULL) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            session_of(entry->d_name) == process->pid) {
            count += kill((pid_t)strtol(entry->d_name, NULL, 10), number) == 0;
        }
    }
    if (all != NULL) {
        (void)closedir(all);
    } else {
        count += kill(-process->pid, number) == 0;
    }
    return count;
}

bool k3_process_ended(const k3_process_t *process, int *status)
{
    pid_t got;

    do {
        got = waitpid(process->pid, status, WNOHANG);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        *status = 0; /* taken by somebody else: cannot happen, and must not hang */
    }
    return got != 0;
}
