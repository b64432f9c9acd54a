/* The ranks of one launch: launch check, who shares a node with whom, errors on which all agree. */
#ifndef K3_MPI_WORLD_H
#define K3_MPI_WORLD_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "harness/base/status.h"

enum { K3_HOST_MAX = 64 };

typedef struct k3_world {
    MPI_Comm comm; /* a duplicate of MPI_COMM_WORLD, owned */
    int      rank, size;
    char     host[K3_HOST_MAX];
    int      nodes; /* real nodes: groups of ranks with the same host identity */
    int      node;  /* of this rank; nodes are numbered by their lowest rank */
    int      local_rank, local_size;
    int     *node_of;             /* [size], owned */
    char (*host_of)[K3_HOST_MAX]; /* [size], owned */
    bool        oversubscribed;   /* more ranks on a node than cores that they may use */
    int         cores;            /* cores that the ranks of this node may use together */
    const char *launcher;         /* "mpirun", "srun", "singleton" */
} k3_world_t;

/* MPI_Init_thread, then checks that launcher and MPI agree on the number of ranks
 * (OMPI_COMM_WORLD_SIZE, PMI_SIZE, MV2_COMM_WORLD_SIZE, and SLURM_STEP_NUM_TASKS when Slurm itself
 * started the process): K3_ERR_ENV naming both values. A node is known by host name and boot
 * identity, never by counts. */
k3_status_t k3_world_init(int *argc, char ***argv, k3_world_t *world, k3_error_t *err);
void        k3_world_finalize(k3_world_t *world);

/* Behind it, and behind a watchdog, which may still tell who hangs in MPI_Finalize. */
void k3_world_free(k3_world_t *world);

/* Ends what k3_world_init refused and returns the exit code. The launch's first rank tells the fault before any rank
 * leaves: a launcher ends the others when one of them has left. */
int k3_world_refused(k3_world_t *world, const k3_error_t *err);

/* Collective. Every rank brings its own outcome; all leave with the same: the fault of the lowest
 * failing rank, its text preceded by "rank N: " when not every rank failed with the same text. */
k3_status_t k3_world_agree(const k3_world_t *world, k3_error_t *err);

/* Not collective: prints the fault and ends the whole job with its exit code. */
void k3_world_die(const k3_world_t *world, const k3_error_t *err) __attribute__((noreturn));

/* Collective. Refuses texts that differ over ranks (options that must agree): names `what`, the two
 * values (smallest and largest when both are numbers) and a rank that holds each. */
k3_status_t k3_world_same(const k3_world_t *world, const char *what, const char *text,
                          k3_error_t *err);

/* Collective: what rank `from` has in `data` reaches rank 0, in memory that it frees with free(); elsewhere
 * *all is NULL and *all_bytes 0. At most 1 GiB. */
k3_status_t k3_world_fetch(const k3_world_t *world, int from, const void *data, size_t bytes,
                           void **all, size_t *all_bytes, k3_error_t *err);

/* Collective: the value of rank 0. */
int k3_world_first(const k3_world_t *world, int value);

/* Collective: the mean over the ranks that bring a positive value; 0 when none does. */
double k3_world_mean(const k3_world_t *world, double value);

/* Bytes of memory that new allocations on this node may still take: MemAvailable, or what the
 * control group leaves if that is less. */
unsigned long long k3_node_memory_available(void);

#endif
