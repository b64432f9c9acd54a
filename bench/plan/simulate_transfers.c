/* What the simulators start from: the plan's messages, summed for each pair of ranks. */
#include <string.h>

#include "bench/plan/simulate_internal.h"

typedef struct sum {
    uint32_t       ranks;
    unsigned       phases;
    k3_transfer_t *transfer;
} sum_t;

static void add_flow(const k3_flow_t *flow, void *arg)
{
    const sum_t   *s = arg;
    k3_transfer_t *t = &s->transfer[(uint64_t)flow->src * s->ranks + flow->dst];

    if ((s->phases >> flow->phase & 1) != 0) {
        t->bytes += (double)flow->wire;
        t->posts += (double)flow->messages + (double)flow->signals;
    }
}

k3_status_t k3_simulate_transfers(const k3_cell_t *cell, unsigned phases, k3_transfer_t *transfer,
                                  k3_error_t *err)
{
    sum_t        sum = {cell->layout.tp, phases, transfer};
    k3_traffic_t traffic;

    memset(transfer, 0, (uint64_t)sum.ranks * sum.ranks * sizeof(*transfer));
    if (k3_traffic_open(cell, &traffic, err) != K3_OK) {
        return err->status;
    }
    for (uint32_t origin = 0; origin < sum.ranks; origin++) {
        k3_traffic_origin(&traffic, origin, add_flow, &sum);
    }
    k3_traffic_close(&traffic);
    return K3_OK;
}
