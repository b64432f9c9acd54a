#include "harness/mpi/topology.h"

#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The list form, cut with "..." where it does not fit. */
static void write_cpus(hwloc_const_bitmap_t set, char *text, size_t size)
{
    int needed = hwloc_bitmap_list_snprintf(text, size, set);

    if (needed >= (int)size) {
        memcpy(text + size - 4, "...", 4);
    }
}

/* hwloc knows the model on most machines; the kernel's own text is the second source. */
static void find_model(hwloc_topology_t topology, char *text, size_t size)
{
    char        line[512];
    FILE       *file;
    hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char *model = package == NULL ? NULL : hwloc_obj_get_info_by_name(package, "CPUModel");

    snprintf(text, size, "%s", model != NULL ? model : "unknown");
    if (model != NULL || (file = fopen("/proc/cpuinfo", "r")) == NULL) {
        return;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            colon[strcspn(colon, "\n")] = '\0';
            snprintf(text, size, "%.*s", (int)size - 1, colon + strspn(colon, ": "));
            break;
        }
    }
    fclose(file);
}

static int find_numa(hwloc_topology_t topology, hwloc_const_bitmap_t cpus)
{
    hwloc_bitmap_t nodes = hwloc_bitmap_alloc();
    int            numa = -1;

    if (nodes == NULL) {
        return -1;
    }
    hwloc_cpuset_to_nodeset(topology, cpus, nodes);
    if (hwloc_bitmap_weight(nodes) == 1) {
        numa = hwloc_bitmap_first(nodes);
    }
    hwloc_bitmap_free(nodes);
    return numa;
}

/* The cores that this process may use now. */
static void find_cpus(hwloc_topology_t topology, hwloc_cpuset_t cpus)
{
    if (hwloc_get_cpubind(topology, cpus, HWLOC_CPUBIND_PROCESS) != 0 ||
        hwloc_bitmap_iszero(cpus)) {
        hwloc_bitmap_copy(cpus, hwloc_topology_get_allowed_cpuset(topology));
    }
    hwloc_bitmap_and(cpus, cpus, hwloc_topology_get_allowed_cpuset(topology));
}

static void describe(hwloc_topology_t topology, hwloc_cpuset_t cpus, k3_place_t *place)
{
    const char *nic = getenv("UCX_NET_DEVICES");

    find_cpus(topology, cpus);
    write_cpus(cpus, place->cpus, sizeof(place->cpus));
    place->cores = hwloc_bitmap_weight(cpus);
    place->numa = find_numa(topology, cpus);
    find_model(topology, place->cpu_model, sizeof(place->cpu_model));
    snprintf(place->nic, sizeof(place->nic), "%s", nic != NULL ? nic : "");
    if (nic == NULL) {
        snprintf(place->nic_reason, sizeof(place->nic_reason),
                 "no RDMA device: the interface is the transport's choice, see qps.transport");
    }
}

static k3_status_t open_topology(hwloc_topology_t *topology, hwloc_cpuset_t *cpus, k3_error_t *err)
{
    *cpus = hwloc_bitmap_alloc();
    *topology = *cpus != NULL ? k3_topology_load(NULL, NULL) : NULL;
    if (*topology == NULL) {
        return k3_fail(err, K3_ERR_ENV, "hwloc cannot read the topology of this machine");
    }
    return K3_OK;
}

static void close_topology(hwloc_topology_t topology, hwloc_cpuset_t cpus)
{
    if (topology != NULL) {
        hwloc_topology_destroy(topology);
    }
    hwloc_bitmap_free(cpus);
}

static void forget(k3_place_t *place)
{
    memset(place, 0, sizeof(*place));
    place->numa = -1;
    place->device.index = -1;
}

k3_status_t k3_place_find(k3_place_t *place, k3_error_t *err)
{
    hwloc_topology_t topology;
    hwloc_cpuset_t   cpus;

    forget(place);
    if (open_topology(&topology, &cpus, err) == K3_OK) {
        describe(topology, cpus, place);
    }
    close_topology(topology, cpus);
    return err->status;
}

/* --- taking a place -------------------------------------------------------------------------- */

/* Left alone by the launcher: may use everything, and nobody asked for that. */
static bool is_unbound(hwloc_topology_t topology, hwloc_cpuset_t cpus)
{
    const char *policy = getenv("OMPI_MCA_hwloc_base_binding_policy");
    const char *slurm = getenv("SLURM_CPU_BIND_TYPE");

    find_cpus(topology, cpus);
    return (policy == NULL || strcmp(policy, "none") != 0) &&
           (slurm == NULL || strncmp(slurm, "none", 4) != 0) &&
           hwloc_bitmap_isequal(cpus, hwloc_topology_get_allowed_cpuset(topology));
}

/* All ranks of a node do it, or none: a share is free only when nobody else sits there. */
static bool whole_node_agrees(const k3_world_t *world, bool mine)
{
    MPI_Comm node;
    int      own = mine, all = 0;

    MPI_Comm_split(world->comm, world->node, world->rank, &node);
    MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_LAND, node);
    MPI_Comm_free(&node);
    return all != 0;
}

static void take_nic(hwloc_topology_t topology, hwloc_cpuset_t cpus, int local_rank,
                     const k3_device_choice_t *device)
{
    int  near = device->index >= 0 ? k3_topology_accelerator_at(topology, device->info.bus) : -1;
    char nic[K3_NIC_MAX];

    find_cpus(topology, cpus);
    if (getenv("UCX_NET_DEVICES") == NULL &&
        k3_nearest_nic(topology, near, cpus, local_rank, nic)) {
        setenv("UCX_NET_DEVICES", nic, 1);
    }
}

k3_status_t k3_place_take(const k3_world_t *world, const k3_device_wish_t *wish, k3_place_t *place,
                          k3_error_t *err)
{
    hwloc_topology_t topology;
    hwloc_cpuset_t   cpus;
    bool             may;

    forget(place);
    open_topology(&topology, &cpus, err);
    if (k3_world_agree(world, err) == K3_OK) {
        may = !world->oversubscribed && world->local_size > 1 && is_unbound(topology, cpus) &&
              k3_share_of_cores(topology, world->local_rank, world->local_size, cpus);
        if (whole_node_agrees(world, may)) {
            place->bound_here = hwloc_set_cpubind(topology, cpus, HWLOC_CPUBIND_PROCESS) == 0;
        }
        find_cpus(topology, cpus);
        if (wish->kind != NULL) {
            k3_devices_choose(world, wish, topology, cpus, &place->device, err);
        }
        take_nic(topology, cpus, world->local_rank, &place->device);
        describe(topology, cpus, place);
    }
    close_topology(topology, cpus);
    return err->status;
}

k3_status_t k3_place_gather(const k3_world_t *world, const k3_place_t *own, k3_place_t **places_p,
                            k3_error_t *err)
{
    k3_error_t  fault = K3_ERROR_INIT;
    k3_place_t *places = NULL;

    *places_p = NULL;
    if (world->rank == 0) {
        places = malloc((size_t)world->size * sizeof(*places));
        if (places == NULL) {
            k3_fail(&fault, K3_ERR_ENV, "no memory for the places of %d ranks", world->size);
        }
    }
    if (k3_world_agree(world, &fault) != K3_OK) {
        free(places);
        return k3_fail(err, fault.status, "%s", fault.text);
    }
    MPI_Gather(own, (int)sizeof(*own), MPI_BYTE, places, (int)sizeof(*own), MPI_BYTE, 0,
               world->comm);
    *places_p = places;
    return K3_OK;
}
