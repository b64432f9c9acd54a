/* Files that the cells of a command read their weights and rows from: opened once for all of them. */
#ifndef K3_COMMANDS_SOURCES_H
#define K3_COMMANDS_SOURCES_H

#include "bench/cell/checkpoint.h"
#include "bench/cell/hidden.h"
#include "harness/base/options.h"
#include "harness/mpi/world.h"

typedef struct k3_sources {
    k3_checkpoint_t *checkpoint; /* NULL: synthetic weights */
    k3_hidden_t     *hidden;     /* NULL: synthetic rows */
} k3_sources_t;

/* What --weights and --hidden name, with the weights' identity. On failure nothing is left open. */
k3_status_t k3_sources_open(const k3_options_t *options, k3_sources_t *sources, k3_error_t *err);

/* Whether they can be opened: nothing stays open. */
k3_status_t k3_sources_check(const k3_options_t *options, k3_error_t *err);

/* The same on all ranks together: collective, each reads a share of the experts for their identity, and all
 * leave with the same status. */
k3_status_t k3_sources_open_all(const k3_options_t *options, const k3_world_t *world,
                                k3_sources_t *sources, k3_error_t *err);
void        k3_sources_close(k3_sources_t *sources);

#endif
