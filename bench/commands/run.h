/* What the files of the command run share: one launch, from its options to its record. */
#ifndef K3_COMMANDS_RUN_H
#define K3_COMMANDS_RUN_H

#include "bench/commands/device.h"
#include "bench/commands/launch.h"
#include "bench/commands/measuring.h"
#include "bench/commands/sources.h"
#include "bench/plan/machine.h"
#include "bench/plan/requests.h"
#include "bench/region/region.h"
#include "harness/mpi/rollcall.h"

typedef struct k3_run {
    k3_world_t          world;
    k3_options_t       *options;
    k3_requests_t       requests;
    k3_sources_t        sources;
    k3_region_options_t region;
    k3_device_plan_t    device;
    k3_measuring_t      measuring;
    k3_weights_t        weights; /* of the last cell */
    k3_fabric_t        *fabric;
    k3_sync_t          *sync;
    k3_place_t         *places; /* rank 0 */
    k3_launch_parts_t   launch;
    k3_rollcall_t      *roll;
    bool                alone;       /* one cell: its refusal ends the command */
    bool                rdma;        /* queue pairs between nodes must be carried by RDMA */
    bool                wrong;       /* a cell failed */
    size_t              refused;     /* cells that cannot be done here */
    k3_status_t         refused_as;  /* the first of them */
    k3_machine_file_t   machine;     /* rank 0: what phases are held against */
    bool                has_machine; /* rank 0 */
    char                run_id[17], started[21], out[256];
    double              load;        /* rank 0: when it started */
    json_t             *environment; /* rank 0: as it was found */
    int                 argc;        /* of the command, before MPI saw them */
    char              **argv;
} k3_run_t;

/* Collective: the options of all ranks, checked; what they name is opened. */
k3_status_t k3_run_prepare(k3_run_t *run, k3_error_t *err);

/* Collective: one cell, measured or refused; either way one row of the record. K3_OK unless the command ends
 * with it. */
k3_status_t k3_run_cell(k3_run_t *run, const k3_cell_request_t *request, k3_error_t *err);

#endif
