/* A program in a session of its own, so that it and all that it starts on this host can be ended together by
 * their ids. It is told to end (SIGTERM) when this program dies. */
#ifndef K3_SWEEP_PROCESS_H
#define K3_SWEEP_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "harness/base/status.h"

typedef struct k3_process {
    pid_t pid; /* also of its process group and session; 0: none */
} k3_process_t;

/* argv ends with NULL and is looked up in PATH; the output goes to a new file at `log`. cpus: a list of
 * processors that ends with -1, or NULL for all. Variables that begin with `hidden` are not handed down. Signals
 * are handed down unblocked. K3_ERR_ENV when the program cannot be started. */
typedef struct k3_start {
    char *const *argv;
    const char  *log;
    const int   *cpus;
    const char  *hidden;
} k3_start_t;
k3_status_t k3_process_start(const k3_start_t *start, k3_process_t *process, k3_error_t *err);

/* To every process of its session, also after the first one has ended. Returns how many there were. */
int k3_process_signal(const k3_process_t *process, int number);

/* True when it has ended; *status as by waitpid. */
bool k3_process_ended(const k3_process_t *process, int *status);

#endif
