/* Slab: one message for each (row, expert), one signal for each (expert, source). */
#include "bench/plan/slab.h"
#include "bench/plan/traffic_internal.h"

typedef struct row_bytes {
    uint64_t wire, payload, spare;
} row_bytes_t;

static void add_range(const k3_profile_t *p, uint64_t n, const row_bytes_t *row,
                      uint64_t signal_bytes, bool rings, k3_flow_t *flow)
{
    uint64_t bells = k3_range_doorbells(p, n);

    flow->messages += n;
    flow->signals += 1;
    flow->payload += n * row->payload;
    flow->payload_spare += n * row->spare;
    flow->wire += n * row->wire + signal_bytes;
    flow->wire_spare += n * row->spare;
    if (rings) {
        flow->doorbells = bells == K3_DOORBELLS_UNKNOWN ? bells : flow->doorbells + bells;
    }
}

static void visit_slab_peer(const k3_traffic_t *t, const k3_slab_t *s, uint32_t origin,
                            uint32_t peer, bool back, k3_flow_visit_t visit, void *arg)
{
    const k3_cell_t *cell = t->cell;
    bool             rings = !k3_cell_mapped(cell, origin, peer);
    row_bytes_t      record = {s->record, s->record_payload, 0};
    row_bytes_t      result = {s->result, s->result_payload, s->result_spare};

    for (uint32_t qp = 0; qp < k3_slab_lanes(s); qp++) {
        k3_flow_t flow = {.phase = back ? K3_TRAFFIC_COMBINE : K3_TRAFFIC_DISPATCH,
                          .src = back ? peer : origin,
                          .dst = back ? origin : peer,
                          .qp = qp};

        for (uint32_t e = 0; e < s->local; e++) {
            if (k3_slab_qp(s, e) == qp) {
                add_range(cell->profile, t->rows_to[peer * s->local + e], back ? &result : &record,
                          s->signal_bytes, rings, &flow);
            }
        }
        visit(&flow, arg);
    }
}

void k3_visit_slab(const k3_traffic_t *t, uint32_t origin, k3_flow_visit_t visit, void *arg)
{
    k3_slab_t slab;

    k3_slab_plan(t->cell, &slab);
    for (int back = 0; back < 2; back++) {
        for (uint32_t peer = 0; peer < slab.ranks; peer++) {
            visit_slab_peer(t, &slab, origin, peer, back != 0, visit, arg);
        }
    }
}
