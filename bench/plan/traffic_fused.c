/* Fused: dispatch, GEMMs and combine overlap; what moves is as if they did not. */
#include "bench/plan/fused.h"
#include "bench/plan/traffic_internal.h"

enum { INDEX_BYTES = 4, COUNT_BYTES = 8, SUM_BYTES = 8 };

static uint64_t rows_to_peer(const k3_traffic_t *t, uint32_t peer, uint32_t local)
{
    uint64_t n = 0;

    for (uint32_t e = 0; e < local; e++) {
        n += t->rows_to[peer * local + e];
    }
    return n;
}

/* The owner reads: the origin tells it by one index for each (row, expert), one count and one add to
 * a sum for each expert; a barrier before the reading, two around the final sum. */
static void visit_pull(const k3_traffic_t *t, uint32_t origin, uint32_t peer, k3_flow_visit_t visit,
                       void *arg)
{
    const k3_cell_t    *cell = t->cell;
    const k3_profile_t *p = cell->profile;
    uint32_t            local = k3_layout_local_experts(&cell->layout, &cell->model);
    uint32_t            width = cell->model.latent, topk = cell->model.topk;
    uint64_t            n = rows_to_peer(t, peer, local);
    k3_flow_t           flow = {.phase = K3_TRAFFIC_NOTIFY, .src = origin, .dst = peer};

    flow.messages = n + local;
    flow.signals = local;
    flow.wire = n * INDEX_BYTES + (uint64_t)local * (COUNT_BYTES + SUM_BYTES);
    visit(&flow, arg);

    flow = (k3_flow_t){.phase = K3_TRAFFIC_DISPATCH, .src = origin, .dst = peer};
    flow.signals = 1;
    flow.wire = p->signal_bytes;
    visit(&flow, arg);
    if (n > 0) {
        flow.pulled = true;
        flow.signals = 0;
        flow.messages = n;
        flow.payload = n * k3_profile_dispatch_payload(p, cell->dispatch_format, width);
        flow.wire = n * k3_profile_dispatch_record(p, cell->dispatch_format, width, topk);
        visit(&flow, arg);
    }

    flow = (k3_flow_t){.phase = K3_TRAFFIC_COMBINE, .src = peer, .dst = origin};
    flow.messages = n;
    flow.signals = 2;
    flow.payload = n * k3_profile_combine_payload(p, cell->combine_format, width);
    flow.wire =
        n * k3_profile_combine_record(p, cell->combine_format, width, topk) + 2 * p->signal_bytes;
    visit(&flow, arg);
}

/* The origin stores: a record for each (row, expert), a status block for each expert, both ways. */
static void visit_window(const k3_traffic_t *t, uint32_t origin, uint32_t peer,
                         k3_flow_visit_t visit, void *arg)
{
    const k3_cell_t    *cell = t->cell;
    const k3_profile_t *p = cell->profile;
    uint32_t            local = k3_layout_local_experts(&cell->layout, &cell->model);
    uint32_t            width = cell->model.latent, topk = cell->model.topk;
    uint64_t            n = rows_to_peer(t, peer, local);
    uint64_t            status = (uint64_t)local * p->signal_bytes;
    k3_flow_t           flow = {.phase = K3_TRAFFIC_DISPATCH, .src = origin, .dst = peer};

    flow.messages = n;
    flow.signals = local;
    flow.payload = n * k3_profile_dispatch_payload(p, cell->dispatch_format, width);
    flow.wire = n * k3_profile_dispatch_record(p, cell->dispatch_format, width, topk) + status;
    visit(&flow, arg);

    flow.phase = K3_TRAFFIC_COMBINE;
    flow.src = peer;
    flow.dst = origin;
    flow.payload = n * k3_profile_combine_payload(p, cell->combine_format, width);
    flow.wire = n * k3_profile_combine_record(p, cell->combine_format, width, topk) + status;
    visit(&flow, arg);
}

void k3_visit_fused(const k3_traffic_t *t, uint32_t origin, k3_flow_visit_t visit, void *arg)
{
    for (uint32_t peer = 0; peer < t->cell->layout.tp; peer++) {
        if (t->cell->profile->copy == K3_COPY_PULL) {
            visit_pull(t, origin, peer, visit, arg);
        } else {
            visit_window(t, origin, peer, visit, arg);
        }
    }
}
