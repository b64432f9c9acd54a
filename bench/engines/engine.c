#include "bench/engines/engine.h"

const k3_engine_ops_t *k3_engine_find(k3_engine_id_t engine)
{
    static const k3_engine_ops_t *const engines[K3_ENGINE_ID_COUNT] = {
        [K3_ENGINE_GATHER] = &k3_engine_gather,
        [K3_ENGINE_SLAB] = &k3_engine_slab,
        [K3_ENGINE_MPI] = &k3_engine_mpi,
        [K3_ENGINE_NULL] = &k3_engine_null,
    };

    return engines[engine];
}
