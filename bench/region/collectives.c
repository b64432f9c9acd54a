#include "bench/region/collectives.h"

#include <string.h>

#include "harness/base/memory.h"

k3_status_t k3_group_create(MPI_Comm parent, int color, int rank, k3_group_t *group,
                            k3_error_t *err)
{
    uint64_t n;

    memset(group, 0, sizeof(*group));
    group->comm = MPI_COMM_NULL;
    group->unit = MPI_DATATYPE_NULL;
    MPI_Comm_split(parent, color, rank, &group->comm);
    MPI_Comm_rank(group->comm, &group->rank);
    MPI_Comm_size(group->comm, &group->size);
    MPI_Type_contiguous(K3_UNIT, MPI_UINT16_T, &group->unit);
    MPI_Type_commit(&group->unit);
    n = (uint64_t)group->size;
    if (k3_alloc("group tables", n, sizeof(int), &group->send_count, err) != K3_OK ||
        k3_alloc("group tables", n, sizeof(int), &group->send_at, err) != K3_OK ||
        k3_alloc("group tables", n, sizeof(int), &group->recv_count, err) != K3_OK ||
        k3_alloc("group tables", n, sizeof(int), &group->recv_at, err) != K3_OK ||
        k3_alloc("group tables", n, sizeof(void *), &group->parts, err) != K3_OK) {
        k3_group_destroy(group);
    }
    return err->status;
}

void k3_group_destroy(k3_group_t *group)
{
    k3_free(group->parts);
    k3_free(group->recv_at);
    k3_free(group->recv_count);
    k3_free(group->send_at);
    k3_free(group->send_count);
    if (group->comm != MPI_COMM_NULL) {
        MPI_Type_free(&group->unit);
        MPI_Comm_free(&group->comm);
    }
    memset(group, 0, sizeof(*group));
    group->comm = MPI_COMM_NULL;
}

/* MPI knows nothing of what was started on a device. */
static void complete(k3_compute_t *compute)
{
    k3_error_t kept = K3_ERROR_INIT; /* the device keeps it */

    compute->ops->finish(compute, &kept);
}

void k3_reduce_scatter(const k3_group_t *group, k3_compute_t *compute, const uint16_t *values,
                       const uint64_t *share, uint16_t *exchange, uint16_t *out)
{
    uint64_t own = share[group->rank];
    int      at = 0;

    for (int i = 0; i < group->size; i++) {
        group->send_count[i] = (int)share[i];
        group->send_at[i] = at;
        group->recv_count[i] = (int)own;
        group->recv_at[i] = (int)own * i;
        group->parts[i] = exchange + own * (uint64_t)i * K3_UNIT;
        at += (int)share[i];
    }
    complete(compute);
    MPI_Alltoallv(k3_compute_reach(compute, values), group->send_count, group->send_at, group->unit,
                  k3_compute_reach(compute, exchange), group->recv_count, group->recv_at,
                  group->unit, group->comm);
    compute->ops->sum(compute, group->parts, (uint32_t)group->size, own * K3_UNIT, out);
}

void k3_all_gather(const k3_group_t *group, k3_compute_t *compute, const uint16_t *own,
                   const uint64_t *share, uint16_t *out)
{
    const void *from = k3_compute_reach(compute, own);
    int         at = 0;

    for (int i = 0; i < group->size; i++) {
        group->recv_count[i] = (int)share[i];
        group->recv_at[i] = at;
        at += (int)share[i];
    }
    if (own == out + (uint64_t)group->recv_at[group->rank] * K3_UNIT) {
        from = MPI_IN_PLACE;
    }
    complete(compute);
    MPI_Allgatherv(from, group->recv_count[group->rank], group->unit,
                   k3_compute_reach(compute, out), group->recv_count, group->recv_at, group->unit,
                   group->comm);
}

/* Equal shares, the last one shorter. */
static uint64_t even_share(uint64_t units, uint64_t ranks, uint64_t rank)
{
    uint64_t each = (units + ranks - 1) / ranks;
    uint64_t begin = rank * each < units ? rank * each : units;

    return begin + each < units ? each : units - begin;
}

void k3_all_reduce(const k3_group_t *group, k3_compute_t *compute, uint16_t *values, uint64_t n,
                   uint16_t *exchange)
{
    uint64_t units = n / K3_UNIT, ranks = (uint64_t)group->size;
    uint64_t own = even_share(units, ranks, (uint64_t)group->rank);
    int      at = 0;

    for (int i = 0; i < group->size; i++) {
        group->send_count[i] = (int)even_share(units, ranks, (uint64_t)i);
        group->send_at[i] = at;
        group->recv_count[i] = (int)own;
        group->recv_at[i] = (int)own * i;
        group->parts[i] = exchange + own * (uint64_t)i * K3_UNIT;
        at += group->send_count[i];
    }
    complete(compute);
    MPI_Alltoallv(k3_compute_reach(compute, values), group->send_count, group->send_at, group->unit,
                  k3_compute_reach(compute, exchange), group->recv_count, group->recv_at,
                  group->unit, group->comm);
    compute->ops->sum(compute, group->parts, (uint32_t)group->size, own * K3_UNIT,
                      values + (uint64_t)group->send_at[group->rank] * K3_UNIT);
    complete(compute);
    MPI_Allgatherv(MPI_IN_PLACE, 0, group->unit, k3_compute_reach(compute, values),
                   group->send_count, group->send_at, group->unit, group->comm);
}
