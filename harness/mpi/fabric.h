/* The inside of a fabric, for the files of this room that use UCX. */
#ifndef K3_MPI_FABRIC_H
#define K3_MPI_FABRIC_H

#include <stdbool.h>
#include <ucp/api/ucp.h>

#include "harness/mpi/qp.h"

struct k3_fabric {
    const k3_world_t *world;
    ucp_context_h     context;
    bool              fresh_memory; /* what ucp_mem_map allocates cannot be recycled memory */
};

#endif
