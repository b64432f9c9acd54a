/* What the two simulators share: one of links and NICs, one of cores that ranks share. */
#ifndef K3_PLAN_SIMULATE_INTERNAL_H
#define K3_PLAN_SIMULATE_INTERNAL_H

#include "bench/plan/predict_internal.h"
#include "bench/plan/simulate.h"

/* What one rank sends to another. */
typedef struct k3_transfer {
    double bytes, posts;
} k3_transfer_t;

/* Messages of `phases` (bits of k3_traffic_phase_t) from each rank to each, [R][R] by source. */
k3_status_t k3_simulate_transfers(const k3_cell_t *cell, unsigned phases, k3_transfer_t *transfer,
                                  k3_error_t *err);

/* On a machine whose ranks share cores. */
k3_status_t k3_simulate_cores(const k3_predict_model_t *model, k3_simulation_t *out,
                              k3_error_t *err);

#endif
