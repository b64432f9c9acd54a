/* Where the ranks of a launch sit: host, cores and NUMA node of this rank, by hwloc. */
#ifndef K3_MPI_TOPOLOGY_H
#define K3_MPI_TOPOLOGY_H

#include "harness/base/status.h"
#include "harness/mpi/world.h"

enum { K3_CPUS_MAX = 128 };

typedef struct k3_place {
    char cpus[K3_CPUS_MAX]; /* list form of the binding, "0-1"; all allowed cores when not bound */
    int  cores;             /* cores in it */
    int  threads;           /* that the rank computes on; 0 until who knows says so */
    int  numa;              /* -1: spans several or unknown */
    char cpu_model[K3_CPUS_MAX];
} k3_place_t;

/* This process. */
k3_status_t k3_place_find(k3_place_t *place, k3_error_t *err);

/* Collective: gathers the places of all ranks at rank 0, places[size] there (NULL elsewhere); rank
 * 0 frees with free(). */
k3_status_t k3_place_gather(const k3_world_t *world, const k3_place_t *own, k3_place_t **places_p,
                            k3_error_t *err);

#endif
