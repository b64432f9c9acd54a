/* The control of engines that have none of their own: what the plan says that this rank posts in a
 * dispatch (with its counts), as a flat list on queue pairs of its own, posted by a loop that keeps no
 * books. Messages of a lane have their mean size and lie one behind the other, where they come from and where
 * they go; no byte is read or moved but by the posts and, in the last, by the protocol.
 * Three times:
 *
 *   bare     all posts at once, a flush, a barrier. What it takes is what the messages cost; what a dispatch
 *            takes above it is the engine's and the protocol's.
 *   ordered  the same posts in stages, in the order that the protocol cannot do without: what a rank posts in
 *            a stage, it posts when all that the plan sends it in the stages before has been signalled. The
 *            stages are the barrier in front, the counts by rail, the counts inside the node, the first hop,
 *            the second hop (or the one there is) and the barrier behind; a profile has those that it needs.
 *            What a dispatch takes above it is the engine's and the copies of the protocol.
 *   floor    ordered, and with the bytes that the protocol moves besides: each own row is brought to its
 *            format once, rows that share a message are packed in front of a queue pair, and what has arrived
 *            is copied out of rings and of a buffer that serves both ways. What a dispatch takes above it is
 *            the engine's: metadata, sorting, looking for what has come.
 *
 * Signals say that something has arrived as they do in the protocol; where a stage has messages without one, one
 * add for each pair of ranks stands for the look at the messages themselves. */
#ifndef K3_ENGINES_CONTROL_H
#define K3_ENGINES_CONTROL_H

#include "bench/engines/engine.h"

typedef struct k3_control k3_control_t;

/* Collective. */
k3_status_t k3_control_create(const k3_engine_env_t *env, k3_control_t **control_p,
                              k3_error_t *err);
void        k3_control_destroy(k3_control_t *control);

/* Collective. */
k3_status_t k3_control_bare(k3_control_t *control, k3_error_t *err);
k3_status_t k3_control_ordered(k3_control_t *control, k3_error_t *err);
k3_status_t k3_control_floor(k3_control_t *control, const k3_rows_t *rows, k3_error_t *err);

#endif
