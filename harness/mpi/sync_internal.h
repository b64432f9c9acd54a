/* The parts of the synchronisation that need no MPI: clocks and peers are pointers, so that tests can
 * drive them with clocks of their own. */
#ifndef K3_MPI_SYNC_INTERNAL_H
#define K3_MPI_SYNC_INTERNAL_H

#include <stdint.h>

#include "harness/mpi/clock_internal.h"
#include "harness/mpi/clock_model.h"

/* A clock as the synchronisation sees it. */
typedef struct k3_clock_source {
    uint64_t (*ticks)(void *arg);
    void (*pause)(void *arg); /* between two looks at the clock while waiting */
    void                   *arg;
    const k3_clock_scale_t *scale;
    uint64_t                origin; /* ticks that are time 0; differences are modulo 2^64 */
} k3_clock_source_t;

double k3_clock_source_at(const k3_clock_source_t *source, uint64_t ticks);
double k3_clock_source_now(const k3_clock_source_t *source);

/* Asks the peer for its time, in ns since its origin, and returns with the answer. */
typedef struct k3_sync_peer {
    double (*ask)(void *arg);
    void *arg;
} k3_sync_peer_t;

/* The best of some exchanges. */
k3_clock_point_t k3_sync_compare(const k3_clock_source_t *own, const k3_sync_peer_t *peer,
                                 unsigned tries);

/* Waits until `start` of the own clock; returns how much later it is then, in ns. */
double k3_sync_wait_until(const k3_clock_source_t *own, double start);

/* The slack after a start at which the latest rank was late by `late` (0: it was not), in ns. Settles
 * where about one start in 45 is late; waiting for the last one would keep the cores busy for nothing. */
double k3_sync_next_slack(double slack, double late);

/* The parent in the tree of `count` leaders, or -1. */
int k3_sync_tree_parent(int leader);

#endif
