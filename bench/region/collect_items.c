#include "bench/region/collect.h"
#include "harness/base/memory.h"

k3_status_t k3_gather_items(const k3_world_t *world, const void *items, uint64_t count, size_t size,
                            void *all_p, uint64_t *all_count, k3_error_t *err)
{
    MPI_Datatype type;
    int         *counts = NULL, *at = NULL;
    int          own = (int)count;
    void        *all = NULL;

    if (k3_alloc("counts", (uint64_t)world->size, sizeof(int), &counts, err) == K3_OK) {
        k3_alloc("counts", (uint64_t)world->size, sizeof(int), &at, err);
    }
    if (k3_world_agree(world, err) == K3_OK) {
        MPI_Gather(&own, 1, MPI_INT, counts, 1, MPI_INT, 0, world->comm);
        *all_count = 0;
        for (int r = 0; r < world->size && world->rank == 0; r++) {
            at[r] = (int)*all_count;
            *all_count += (uint64_t)counts[r];
        }
        if (world->rank == 0) {
            k3_alloc("gathered rows", *all_count, size, &all, err);
        }
        if (k3_world_agree(world, err) == K3_OK) {
            MPI_Type_contiguous((int)size, MPI_BYTE, &type);
            MPI_Type_commit(&type);
            MPI_Gatherv(items, own, type, all, counts, at, type, 0, world->comm);
            MPI_Type_free(&type);
        }
    }
    *(void **)all_p = all;
    k3_free(at);
    k3_free(counts);
    return err->status;
}
