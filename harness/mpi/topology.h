/* Where the ranks of a launch sit: cores, NUMA node and network device of each, by hwloc. */
#ifndef K3_MPI_TOPOLOGY_H
#define K3_MPI_TOPOLOGY_H

#include <stdbool.h>

#include "harness/base/status.h"
#include "harness/mpi/devices.h"
#include "harness/mpi/placement.h"
#include "harness/mpi/world.h"

enum { K3_CPUS_MAX = 128 };

typedef struct k3_place {
    char cpus[K3_CPUS_MAX]; /* list form of the binding, "0-1"; all allowed cores when not bound */
    int  cores;             /* cores in it */
    int  threads;           /* that the rank computes on; 0 until who knows says so */
    int  numa;              /* -1: spans several or unknown */
    bool bound_here;        /* by k3_place_take; else as the launcher left it */
    char nic[K3_NIC_MAX];   /* what UCX_NET_DEVICES says; "": UCX chooses, nic_reason says why */
    char nic_reason[K3_CPUS_MAX];
    char cpu_model[K3_CPUS_MAX];
    k3_device_choice_t device; /* by k3_place_take, where one is wished for */
} k3_place_t;

/* This process, as it is. */
k3_status_t k3_place_find(k3_place_t *place, k3_error_t *err);

/* Collective, before UCX is opened. Takes a share of the node's cores where the launcher bound no rank of
 * the node and was not told to leave them unbound, and ranks do not outnumber cores; sets UCX_NET_DEVICES to
 * the RDMA device nearest to the chosen device, or to the cores, unless the user set it. Then as
 * k3_place_find. */
k3_status_t k3_place_take(const k3_world_t *world, const k3_device_wish_t *wish, k3_place_t *place,
                          k3_error_t *err);

/* Collective: gathers the places of all ranks at rank 0, places[size] there (NULL elsewhere); rank
 * 0 frees with free(). */
k3_status_t k3_place_gather(const k3_world_t *world, const k3_place_t *own, k3_place_t **places_p,
                            k3_error_t *err);

#endif
