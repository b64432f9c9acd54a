/* Which engine executes a profile. */
#include "bench/engines/engine.h"

const k3_engine_ops_t *k3_engine_find(k3_engine_id_t engine)
{
    static const k3_engine_ops_t *const engines[K3_ENGINE_ID_COUNT] = {
        [K3_ENGINE_GATHER] = &k3_engine_gather, [K3_ENGINE_SLAB] = &k3_engine_slab,
        [K3_ENGINE_RANKS] = &k3_engine_ranks,   [K3_ENGINE_RAILS] = &k3_engine_rails,
        [K3_ENGINE_FUSED] = &k3_engine_fused,   [K3_ENGINE_MPI] = &k3_engine_mpi,
        [K3_ENGINE_NULL] = &k3_engine_null,
    };

    return engines[engine];
}

k3_status_t k3_engine_check_device(const k3_cell_t *cell, k3_error_t *err)
{
    const k3_engine_ops_t *ops = k3_engine_find(cell->profile->engine);
    const char            *why = ops->refuses_device != NULL ? ops->refuses_device(cell)
                                                             : "it reads and writes rows with the processor";

    if (why != NULL) {
        return k3_fail(err, K3_ERR_UNSUPPORTED, "%s on a device: the engine %s cannot: %s",
                       cell->profile->name, ops->name, why);
    }
    return K3_OK;
}
