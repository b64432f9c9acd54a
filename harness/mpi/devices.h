/* Which device each rank takes, and whether MPI takes addresses of its memory. */
#ifndef K3_MPI_DEVICES_H
#define K3_MPI_DEVICES_H

#include <hwloc.h>

#include "harness/device/device.h"
#include "harness/mpi/world.h"

enum { K3_DEVICES_MAX = 32 }; /* of a host */

typedef struct k3_device_wish {
    const k3_device_kind_t *kind;  /* NULL: the processor computes */
    bool                    share; /* several ranks may take the same */
} k3_device_wish_t;

typedef struct k3_device_choice {
    int              index; /* as this process sees them; -1: none */
    int              ranks; /* of the host that take the same one */
    k3_device_info_t info;
} k3_device_choice_t;

/* Collective. Each rank of a host the nearest device (hwloc, from `cpus`) of those that it sees and fewest
 * others have taken. Devices are told apart by their place on the bus, so that ranks which see one each
 * count as well as ranks that see all. K3_ERR_ENV where there is none, or ranks would share one and may
 * not; all ranks leave with the same status. */
k3_status_t k3_devices_choose(const k3_world_t *world, const k3_device_wish_t *wish,
                              hwloc_topology_t topology, hwloc_const_cpuset_t cpus,
                              k3_device_choice_t *choice, k3_error_t *err);

/* Whether MPI says that it takes addresses of this memory. */
bool k3_mpi_reaches(k3_memory_type_t type);

#endif
