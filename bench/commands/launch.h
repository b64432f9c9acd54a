/* The document of a launch around its cells: options, versions, fingerprint, topology. */
#ifndef K3_COMMANDS_LAUNCH_H
#define K3_COMMANDS_LAUNCH_H

#include <jansson.h>

#include "bench/commands/device.h"
#include "harness/base/options.h"
#include "harness/mpi/topology.h"
#include "harness/mpi/world.h"
#include "harness/record/fingerprint.h"

typedef struct k3_launch_parts {
    const k3_world_t       *world;
    const k3_place_t       *places; /* [world->size] */
    const k3_device_plan_t *device;
    const k3_options_t     *options;
    const char             *run_id;
    const char             *started;     /* UTC */
    double                  load;        /* of rank 0's host then; below 0: not known */
    json_t                 *environment; /* as it was found, before a network device was chosen */
    int                     argc;        /* of the program, as it was started */
    char *const            *argv;
    const char             *isa; /* of the kernels of rank 0 */
} k3_launch_parts_t;

/* At rank 0; not collective, so that it can be made while the other ranks hang. `cells` is referenced, not
 * stolen. */
json_t *k3_launch_document(const k3_launch_parts_t *launch, json_t *cells);

#endif
