#include "bench/commands/compute.h"

#include <string.h>

#include "harness/mpi/topology.h"
#include "harness/record/document.h"
#include "kernels/kernels.h"
#include "kernels/threads.h"

static k3_status_t choose_isa(const char *name, const char **isa_p, k3_error_t *err)
{
    const k3_kernels_t *kernels;
    size_t              index;

    if (k3_parse_name("isa", name, k3_kernels_isa_names, &index, err) != K3_OK) {
        return err->status;
    }
    kernels = k3_kernels_cpu(k3_kernels_isa_names[index]);
    if (kernels == NULL) {
        return k3_fail(err, K3_ERR_USAGE, "isa %s is not usable on this processor, which has %s",
                       name, k3_kernels_usable());
    }
    *isa_p = kernels->isa;
    return K3_OK;
}

static k3_status_t share_of(const k3_world_t *world, uint64_t *share, k3_error_t *err)
{
    k3_place_t place;
    int        part = world->cores / world->local_size;

    if (k3_place_find(&place, err) != K3_OK) {
        return err->status;
    }
    part = place.cores < part ? place.cores : part;
    *share = part < 1 ? 1 : (uint64_t)part;
    return K3_OK;
}

static k3_status_t choose_threads(const char *text, const k3_world_t *world, k3_error_t *err)
{
    uint64_t share = 1, count;

    if (share_of(world, &share, err) != K3_OK) {
        return err->status;
    }
    count = share;
    if (strcmp(text, "auto") != 0 &&
        k3_parse_u64("threads", text, 1, UINT32_MAX, &count, err) != K3_OK) {
        return err->status;
    }
    if (count > share) {
        return k3_fail(err, K3_ERR_USAGE,
                       "threads %llu: a rank's share is %llu (cores that it may use: %d, ranks of "
                       "host %s: %d)",
                       (unsigned long long)count, (unsigned long long)share, world->cores,
                       world->host, world->local_size);
    }
    k3_threads_set((int)count);
    return K3_OK;
}

k3_status_t k3_compute_choose(const k3_options_t *options, const k3_world_t *world,
                              const char **isa_p, k3_error_t *err)
{
    if (choose_isa(k3_options_get(options, "isa"), isa_p, err) == K3_OK) {
        choose_threads(k3_options_get(options, "threads"), world, err);
    }
    return err->status;
}

json_t *k3_compute_record(const char *isa)
{
    return json_pack("{s:s, s:s}", "isa", isa, "dense", k3_dense_path_name());
}
