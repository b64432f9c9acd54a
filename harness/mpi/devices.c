#include "harness/mpi/devices.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include "harness/mpi/placement.h"

/* What a rank sees. */
typedef struct sight {
    int  count;
    char bus[K3_DEVICES_MAX][K3_DEVICE_BUS];
    int  near[K3_DEVICES_MAX];
} sight_t;

static k3_status_t look(const k3_device_kind_t *kind, int rank, hwloc_topology_t topology,
                        hwloc_const_cpuset_t cpus, sight_t *sight, k3_error_t *err)
{
    k3_device_t        probe = {.kind = kind, .index = -1, .rank = rank};
    k3_device_result_t result = kind->count(&sight->count);

    if (result.code != 0) {
        return k3_fail(err, K3_ERR_ENV, "no %s device: %s: %s (code %d), seen by rank %d",
                       kind->name, result.call, kind->describe(result.code), result.code, rank);
    }
    if (sight->count < 1) {
        return k3_fail(err, K3_ERR_ENV, "no %s device: rank %d sees none", kind->name, rank);
    }
    sight->count = sight->count < K3_DEVICES_MAX ? sight->count : K3_DEVICES_MAX;
    for (int d = 0; d < sight->count; d++) {
        k3_device_info_t info = {.bus = ""};

        probe.index = d;
        if (!k3_device_check(&probe, kind->info(d, &info))) {
            return k3_fail(err, K3_ERR_ENV, "%s", probe.fault.text);
        }
        memcpy(sight->bus[d], info.bus, sizeof(info.bus));
        sight->near[d] = k3_topology_nearness(topology, info.bus, cpus);
    }
    return K3_OK;
}

/* --- the devices of a host, as all its ranks see them ------------------------------------------------- */

typedef struct host {
    int      ranks, count;
    char     bus[K3_DEVICES_MAX][K3_DEVICE_BUS];
    sight_t *sights; /* [ranks] */
    int     *near;   /* [ranks][count]; -1: not seen by that rank */
    int     *chosen; /* [ranks] */
} host_t;

static int number_of(host_t *host, const char *bus)
{
    for (int d = 0; d < host->count; d++) {
        if (strcmp(host->bus[d], bus) == 0) {
            return d;
        }
    }
    if (host->count == K3_DEVICES_MAX) {
        return -1;
    }
    memcpy(host->bus[host->count], bus, K3_DEVICE_BUS);
    return host->count++;
}

static bool assign(host_t *host)
{
    for (int r = 0; r < host->ranks; r++) {
        for (int d = 0; d < host->sights[r].count; d++) {
            number_of(host, host->sights[r].bus[d]);
        }
    }
    host->near = malloc((size_t)host->ranks * (size_t)host->count * sizeof(int));
    host->chosen = malloc((size_t)host->ranks * sizeof(int));
    if (host->near == NULL || host->chosen == NULL) {
        return false;
    }
    for (int i = 0; i < host->ranks * host->count; i++) {
        host->near[i] = -1;
    }
    for (int r = 0; r < host->ranks; r++) {
        for (int d = 0; d < host->sights[r].count; d++) {
            int number = number_of(host, host->sights[r].bus[d]);

            if (number >= 0) {
                host->near[r * host->count + number] = host->sights[r].near[d];
            }
        }
    }
    k3_device_assign(host->ranks, host->count, host->near, host->chosen);
    return true;
}

static k3_status_t take(const k3_world_t *world, const k3_device_wish_t *wish, const host_t *host,
                        k3_device_choice_t *choice, k3_error_t *err)
{
    const sight_t *own = &host->sights[world->local_rank];
    int            number = host->chosen[world->local_rank];

    for (int r = 0; r < host->ranks; r++) {
        choice->ranks += host->chosen[r] == number;
    }
    for (int d = 0; d < own->count && number >= 0; d++) {
        if (strcmp(own->bus[d], host->bus[number]) == 0) {
            choice->index = d;
        }
    }
    if (choice->index < 0) {
        return k3_fail(err, K3_ERR_ENV, "rank %d of host %s sees no %s device", world->rank,
                       world->host, wish->kind->name);
    }
    if (choice->ranks > 1 && !wish->share) {
        return k3_fail(err, K3_ERR_ENV,
                       "%d ranks of host %s would share the %s device %s: it has %d for %d ranks "
                       "(--share-device on allows it)",
                       choice->ranks, world->host, wish->kind->name, host->bus[number], host->count,
                       host->ranks);
    }
    wish->kind->info(choice->index, &choice->info);
    return K3_OK;
}

k3_status_t k3_devices_choose(const k3_world_t *world, const k3_device_wish_t *wish,
                              hwloc_topology_t topology, hwloc_const_cpuset_t cpus,
                              k3_device_choice_t *choice, k3_error_t *err)
{
    MPI_Comm node;
    sight_t  own = {0};
    host_t   host = {.ranks = world->local_size};

    *choice = (k3_device_choice_t){.index = -1};
    host.sights = calloc((size_t)world->local_size, sizeof(*host.sights));
    if (host.sights == NULL) {
        k3_fail(err, K3_ERR_ENV, "no memory for the devices of %d ranks", world->local_size);
    } else {
        look(wish->kind, world->rank, topology, cpus, &own, err);
    }
    if (k3_world_agree(world, err) == K3_OK) {
        MPI_Comm_split(world->comm, world->node, world->rank, &node);
        MPI_Allgather(&own, (int)sizeof(own), MPI_BYTE, host.sights, (int)sizeof(own), MPI_BYTE,
                      node);
        MPI_Comm_free(&node);
        if (!assign(&host)) {
            k3_fail(err, K3_ERR_ENV, "no memory for the devices of %d ranks", world->local_size);
        } else {
            take(world, wish, &host, choice, err);
        }
        k3_world_agree(world, err);
    }
    free(host.chosen);
    free(host.near);
    free(host.sights);
    return err->status;
}

bool k3_mpi_reaches(k3_memory_type_t type)
{
    switch (type) {
    case K3_MEMORY_HOST:
        return true;
#if defined(MPIX_CUDA_AWARE_SUPPORT)
    case K3_MEMORY_CUDA:
        return MPIX_Query_cuda_support() != 0;
#endif
#if defined(OMPI_HAVE_MPI_EXT_ROCM)
    case K3_MEMORY_ROCM:
        return MPIX_Query_rocm_support() != 0;
#endif
    default:
        return false;
    }
}
