/* The control of engines that have none of their own: what the plan says that this rank posts in a
 * dispatch (with its counts), as a flat list on queue pairs of its own, posted by a loop that keeps no
 * books and waits for nobody. Messages of a lane have their mean size and lie one behind the other, where
 * they come from and where they go. What it takes is what the messages cost; what a dispatch takes above it is the engine's and
 * the protocol's: quantisation, waits, hops that follow each other. */
#ifndef K3_ENGINES_CONTROL_H
#define K3_ENGINES_CONTROL_H

#include "bench/engines/engine.h"

typedef struct k3_control k3_control_t;

/* Collective. */
k3_status_t k3_control_create(const k3_engine_env_t *env, k3_control_t **control_p,
                              k3_error_t *err);
void        k3_control_destroy(k3_control_t *control);

/* Posts everything and waits until it has completed everywhere. Collective. */
k3_status_t k3_control_run(k3_control_t *control, k3_error_t *err);

#endif
