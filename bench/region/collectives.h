/* The collectives around the experts, on rows of bf16 values. Sums are f32 in rank order with one
 * rounding to bf16, whatever the algorithm of MPI: an all-to-all of the contributions, the sum, and
 * for an all-reduce an all-gather. So the result has one defined value that the oracle can follow.
 *
 * Values are memory of the compute; MPI takes the addresses of a device as they are. The sums are started,
 * not waited for; what MPI reads has been. */
#ifndef K3_REGION_COLLECTIVES_H
#define K3_REGION_COLLECTIVES_H

#include <mpi.h>
#include <stdint.h>

#include "bench/engines/compute.h"
#include "harness/base/status.h"

enum { K3_UNIT = 16 }; /* bf16 values that are never cut */

/* A group of ranks that reduces or gathers, with tables so that no call allocates. */
typedef struct k3_group {
    MPI_Comm         comm; /* owned */
    int              rank, size;
    MPI_Datatype     unit;                                        /* K3_UNIT values */
    int             *send_count, *send_at, *recv_count, *recv_at; /* [size] in units */
    const uint16_t **parts;                                       /* [size] */
} k3_group_t;

/* Collective over `parent`: ranks of the same color, in rank order. */
k3_status_t k3_group_create(MPI_Comm parent, int color, int rank, k3_group_t *group,
                            k3_error_t *err);
void        k3_group_destroy(k3_group_t *group);

/* Every rank brings `values` of all shares; rank i receives the sum of share i. share[i] in units;
 * `exchange` holds size * own share. */
void k3_reduce_scatter(const k3_group_t *group, k3_compute_t *compute, const uint16_t *values,
                       const uint64_t *share, uint16_t *exchange, uint16_t *out);

/* out receives the shares of all ranks in rank order; own may lie at its place in out. */
void k3_all_gather(const k3_group_t *group, k3_compute_t *compute, const uint16_t *own,
                   const uint64_t *share, uint16_t *out);

/* In place, n values (a multiple of K3_UNIT); `exchange` holds n + size * K3_UNIT values. */
void k3_all_reduce(const k3_group_t *group, k3_compute_t *compute, uint16_t *values, uint64_t n,
                   uint16_t *exchange);

#endif
