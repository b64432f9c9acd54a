/* Where launches of a sweep can run: hosts with slots for ranks, or the cores of this host. A launch takes
 * whole ones, so that launches beside each other share none. */
#ifndef K3_SWEEP_HOSTS_H
#define K3_SWEEP_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/base/status.h"

enum { K3_HOST_NAME_MAX = 256, K3_HOSTS_MAX = 65536 };

typedef enum k3_hosts_kind {
    K3_HOSTS_HERE,  /* this host, one launch at a time; any number of ranks */
    K3_HOSTS_CORES, /* this host, each core apart */
    K3_HOSTS_FILE,  /* a hostfile */
    K3_HOSTS_SLURM  /* the allocation that this program runs in */
} k3_hosts_kind_t;

typedef struct k3_host {
    char     name[K3_HOST_NAME_MAX];
    uint32_t slots; /* ranks that it takes */
    int      cpu;   /* of K3_HOSTS_CORES, else -1 */
    int      user;  /* the job that has it; -1: free */
} k3_host_t;

typedef struct k3_hosts {
    k3_hosts_kind_t kind;
    k3_host_t      *items;
    size_t          count;
} k3_hosts_t;

/* Of `hostfile`, else of the Slurm allocation, else this host: as a whole, or by cores when several jobs are
 * asked for. */
k3_status_t k3_hosts_find(const char *hostfile, uint64_t jobs, k3_hosts_t *hosts, k3_error_t *err);
void        k3_hosts_free(k3_hosts_t *hosts);

/* Ranks that a host takes, as the plan of a cell wants it. */
uint32_t k3_hosts_ranks_per_node(const k3_hosts_t *hosts, uint32_t ranks);

/* K3_ERR_UNSUPPORTED when so many ranks never fit, with both numbers. */
k3_status_t k3_hosts_check(const k3_hosts_t *hosts, uint32_t ranks, k3_error_t *err);

/* Takes free hosts, in order, for the ranks of a job; false and nothing taken when too few are free. */
bool k3_hosts_take(k3_hosts_t *hosts, int job, uint32_t ranks);
void k3_hosts_release(k3_hosts_t *hosts, int job);

/* --- parsing --------------------------------------------------------------------------------- */

/* "HOST slots=N" or "HOST:N" a line, '#' begins a comment. `path` for messages. */
k3_status_t k3_hosts_parse(const char *path, const char *text, k3_hosts_t *hosts, k3_error_t *err);

/* Names, one a line, with the tasks of each node as Slurm gives them: "8(x2),4". */
k3_status_t k3_hosts_parse_slurm(const char *names, const char *tasks, k3_hosts_t *hosts,
                                 k3_error_t *err);

#endif
