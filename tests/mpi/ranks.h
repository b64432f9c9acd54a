/* What the MPI tests share: a check that ends the whole job, and a launch. */
#ifndef K3_TESTS_MPI_RANKS_H
#define K3_TESTS_MPI_RANKS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/mpi/clock.h"
#include "harness/mpi/qp.h"
#include "harness/mpi/world.h"

static k3_world_t world;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: rank %d: check failed: %s\n", __FILE__, __LINE__, world.rank,  \
                    #condition);                                                                   \
            fflush(stderr);                                                                        \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
            _Exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define CHECK_OK(call)                                                                             \
    do {                                                                                           \
        k3_error_t  check_err = K3_ERROR_INIT;                                                     \
        k3_error_t *err = &check_err;                                                              \
        if ((call) != K3_OK) {                                                                     \
            fprintf(stderr, "%s:%d: rank %d: %s: %s\n", __FILE__, __LINE__, world.rank, #call,     \
                    err->text);                                                                    \
            fflush(stderr);                                                                        \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
            _Exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static inline void begin(int *argc, char ***argv)
{
    CHECK_OK(k3_world_init(argc, argv, &world, err));
    k3_clock_init();
}

static inline int finish(const char *name)
{
    if (world.rank == 0) {
        printf("%s: passed with %d ranks\n", name, world.size);
    }
    k3_world_finalize(&world);
    k3_world_free(&world);
    return 0;
}

static inline k3_qps_config_t basic_config(uint64_t bytes, unsigned qps_per_peer, bool p2p)
{
    k3_qps_config_t config = {0};

    config.bytes = bytes;
    config.qps_per_peer = qps_per_peer;
    config.banks = 2;
    config.p2p = p2p;
    config.node_of = world.node_of;
    config.accounting = true;
    config.slow_peer = -1;
    return config;
}

#endif
