/* Mpi: counts by MPI_Alltoall, packed rows by MPI_Alltoallv, both ways. */
#include "bench/plan/traffic_internal.h"

void k3_visit_mpi(const k3_traffic_t *t, uint32_t origin, k3_flow_visit_t visit, void *arg)
{
    const k3_cell_t *cell = t->cell;
    uint32_t         local = k3_layout_local_experts(&cell->layout, &cell->model);
    uint32_t         width = cell->model.latent, topk = cell->model.topk;
    uint64_t record = k3_profile_dispatch_record(cell->profile, cell->dispatch_format, width, topk);
    uint64_t payload = k3_profile_dispatch_payload(cell->profile, cell->dispatch_format, width);
    uint64_t result = k3_profile_combine_record(cell->profile, cell->combine_format, width, topk);
    uint64_t back = k3_profile_combine_payload(cell->profile, cell->combine_format, width);

    for (int phase = 0; phase < K3_TRAFFIC_COUNT; phase++) {
        for (uint32_t peer = 0; peer < cell->layout.tp; peer++) {
            bool      returns = phase == K3_TRAFFIC_COMBINE;
            uint64_t  rows = 0;
            k3_flow_t flow = {.phase = (k3_traffic_phase_t)phase,
                              .src = returns ? peer : origin,
                              .dst = returns ? origin : peer,
                              .doorbells = K3_DOORBELLS_UNKNOWN};

            for (uint32_t e = 0; e < local; e++) {
                rows += t->rows_to[peer * local + e];
            }
            if (phase == K3_TRAFFIC_NOTIFY) {
                flow.messages = 1;
                flow.wire = local * sizeof(int32_t);
            } else if (rows > 0) {
                flow.messages = 1;
                flow.payload = rows * (returns ? back : payload);
                flow.wire = rows * (returns ? result : record);
            } else {
                continue;
            }
            visit(&flow, arg);
        }
    }
}
