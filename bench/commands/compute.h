/* What a rank computes with: CPU kernels and threads. */
#ifndef K3_COMMANDS_COMPUTE_H
#define K3_COMMANDS_COMPUTE_H

#include <jansson.h>

#include "harness/base/options.h"
#include "harness/mpi/world.h"

/* Takes --isa and --threads; *isa_p is the name of the kernels that were chosen. A rank's share are
 * the cores it is bound to, but no more than those of its node divided by the node's ranks, and at
 * least one. `auto` is the share, more are refused. */
k3_status_t k3_compute_choose(const k3_options_t *options, const k3_world_t *world,
                              const char **isa_p, k3_error_t *err);

/* {isa, dense}: names for the record. */
json_t *k3_compute_record(const char *isa);

#endif
