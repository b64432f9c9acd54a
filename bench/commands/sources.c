#include "bench/commands/sources.h"

#include <stdio.h>
#include <string.h>

static k3_status_t open_files(const k3_options_t *options, k3_sources_t *sources, k3_error_t *err)
{
    const char *weights = k3_options_get(options, "weights");
    const char *hidden = k3_options_get(options, "hidden");

    *sources = (k3_sources_t){0};
    if (weights[0] == '\0' || (hidden != NULL && hidden[0] == '\0')) {
        return k3_fail(err, K3_ERR_USAGE, "%s: the text is empty",
                       weights[0] == '\0' ? "weights" : "hidden");
    }
    if ((strcmp(weights, "synthetic") != 0 &&
         k3_checkpoint_open(weights, &sources->checkpoint, err) != K3_OK) ||
        (hidden != NULL && k3_hidden_open(hidden, &sources->hidden, err) != K3_OK)) {
        k3_sources_close(sources);
    }
    return err->status;
}

k3_status_t k3_sources_open(const k3_options_t *options, k3_sources_t *sources, k3_error_t *err)
{
    k3_checkpoint_t *c;

    if (open_files(options, sources, err) == K3_OK && sources->checkpoint != NULL) {
        c = sources->checkpoint;
        k3_checkpoint_identify(c, k3_checkpoint_digest_dense(c),
                               k3_checkpoint_digest_experts(c, 0, k3_checkpoint_experts(c)));
    }
    return err->status;
}

k3_status_t k3_sources_check(const k3_options_t *options, k3_error_t *err)
{
    k3_sources_t sources = {0};

    open_files(options, &sources, err);
    k3_sources_close(&sources);
    return err->status;
}

/* Dense weights are read by every rank, and must be the same on all hosts; of the experts each rank reads a
 * share, mostly the one that it will hold, and all add up what they found. */
static k3_status_t identify(k3_checkpoint_t *c, const k3_world_t *world, k3_error_t *err)
{
    uint64_t experts = k3_checkpoint_experts(c), dense = k3_checkpoint_digest_dense(c), sum;
    uint64_t rank = (uint64_t)world->rank, size = (uint64_t)world->size;
    char     text[64];

    snprintf(text, sizeof(text), "%016llx (%llu experts)", (unsigned long long)dense,
             (unsigned long long)experts);
    if (k3_world_same(world, "weights: digest of the dense tensors", text, err) != K3_OK) {
        return err->status;
    }
    sum = k3_checkpoint_digest_experts(c, (uint32_t)(experts * rank / size),
                                       (uint32_t)(experts * (rank + 1) / size));
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, world->comm);
    k3_checkpoint_identify(c, dense, sum);
    return K3_OK;
}

k3_status_t k3_sources_open_all(const k3_options_t *options, const k3_world_t *world,
                                k3_sources_t *sources, k3_error_t *err)
{
    open_files(options, sources, err);
    if (k3_world_agree(world, err) == K3_OK && sources->checkpoint != NULL) {
        identify(sources->checkpoint, world, err);
    }
    if (err->status != K3_OK) {
        k3_sources_close(sources);
    }
    return err->status;
}

void k3_sources_close(k3_sources_t *sources)
{
    k3_checkpoint_close(sources->checkpoint);
    k3_hidden_close(sources->hidden);
    *sources = (k3_sources_t){0};
}
