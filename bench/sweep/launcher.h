/* The command line of a launch: the launcher's words with what changes from launch to launch filled in. */
#ifndef K3_SWEEP_LAUNCHER_H
#define K3_SWEEP_LAUNCHER_H

#include "bench/sweep/hosts.h"
#include "harness/base/options.h"

/* The words of `text`, or of the usual launcher where it is NULL, for a job's ranks on the hosts that it has
 * taken. {hostfile} is `hostfile`. Blanks part words; an unknown {name} is refused. Free with k3_list_free. */
typedef struct k3_launcher {
    const char       *text;
    const k3_hosts_t *hosts;
    int               job;
    uint32_t          ranks;
    const char       *hostfile;
} k3_launcher_t;
k3_status_t k3_launcher_words(const k3_launcher_t *launcher, k3_list_t *words, k3_error_t *err);

/* The hosts of a job, one a line, as mpirun reads them. Free it. */
char *k3_launcher_hostfile(const k3_hosts_t *hosts, int job);

#endif
