/* Bringing values of ranks together. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "harness/mpi/world.h"

enum { FETCH_TAG = 7, FETCH_MAX = 1 << 30 };

k3_status_t k3_world_fetch(const k3_world_t *world, int from, const void *data, size_t bytes,
                           void **all, size_t *all_bytes, k3_error_t *err)
{
    uint64_t count = bytes;

    *all = NULL;
    *all_bytes = 0;
    MPI_Bcast(&count, 1, MPI_UINT64_T, from, world->comm);
    if (world->rank == 0) {
        *all = count <= FETCH_MAX ? malloc(count + 1) : NULL;
        if (*all == NULL) {
            k3_fail(err, K3_ERR_ENV, "no memory for %llu bytes of rank %d",
                    (unsigned long long)count, from);
        }
    }
    if (k3_world_agree(world, err) != K3_OK) {
        free(*all);
        *all = NULL;
        return err->status;
    }
    if (world->rank == 0) {
        *all_bytes = count;
        if (from == 0) {
            memcpy(*all, data, count);
        } else {
            MPI_Recv(*all, (int)count, MPI_BYTE, from, FETCH_TAG, world->comm, MPI_STATUS_IGNORE);
        }
    } else if (world->rank == from) {
        MPI_Send(data, (int)count, MPI_BYTE, 0, FETCH_TAG, world->comm);
    }
    return K3_OK;
}

int k3_world_first(const k3_world_t *world, int value)
{
    MPI_Bcast(&value, 1, MPI_INT, 0, world->comm);
    return value;
}

double k3_world_mean(const k3_world_t *world, double value)
{
    double sums[2] = {value > 0 ? value : 0, value > 0};

    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, world->comm);
    return sums[1] > 0 ? sums[0] / sums[1] : 0;
}
