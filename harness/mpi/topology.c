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

k3_status_t k3_place_find(k3_place_t *place, k3_error_t *err)
{
    hwloc_topology_t topology = NULL;
    hwloc_bitmap_t   cpus = NULL;
    k3_status_t      status = K3_OK;

    memset(place, 0, sizeof(*place));
    place->numa = -1;
    if (hwloc_topology_init(&topology) != 0) {
        return k3_fail(err, K3_ERR_ENV, "hwloc cannot be initialised");
    }
    if (hwloc_topology_load(topology) != 0 || (cpus = hwloc_bitmap_alloc()) == NULL) {
        status = k3_fail(err, K3_ERR_ENV, "hwloc cannot read the topology of this machine");
        goto out;
    }
    if (hwloc_get_cpubind(topology, cpus, HWLOC_CPUBIND_PROCESS) != 0 ||
        hwloc_bitmap_iszero(cpus)) {
        hwloc_bitmap_copy(cpus, hwloc_topology_get_allowed_cpuset(topology));
    }
    hwloc_bitmap_and(cpus, cpus, hwloc_topology_get_allowed_cpuset(topology));
    write_cpus(cpus, place->cpus, sizeof(place->cpus));
    place->cores = hwloc_bitmap_weight(cpus);
    place->numa = find_numa(topology, cpus);
    find_model(topology, place->cpu_model, sizeof(place->cpu_model));
out:
    hwloc_bitmap_free(cpus);
    hwloc_topology_destroy(topology);
    return status;
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
