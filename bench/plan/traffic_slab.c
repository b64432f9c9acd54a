/* Slab: one message for each (row, expert), one signal for each (expert, source). */
#include "bench/plan/slab.h"
#include "bench/plan/traffic_internal.h"

static void add_range(const k3_profile_t *p, uint64_t n, uint64_t record, uint64_t payload,
                      uint64_t signal_bytes, bool rings, k3_flow_t *flow)
{
    uint64_t bells = k3_range_doorbells(p, n);

    flow->messages += n;
    flow->signals += 1;
    flow->payload += n * payload;
    flow->wire += n * record + signal_bytes;
    if (rings) {
        flow->doorbells = bells == K3_DOORBELLS_UNKNOWN ? bells : flow->doorbells + bells;
    }
}

static void visit_slab_peer(const k3_traffic_t *t, const k3_slab_t *s, uint32_t origin,
                            uint32_t peer, bool back, k3_flow_visit_t visit, void *arg)
{
    const k3_cell_t *cell = t->cell;
    bool             rings = !k3_cell_mapped(cell, origin, peer);
    uint32_t         lanes = s->qps < s->local ? s->qps : s->local;

    for (uint32_t qp = 0; qp < lanes; qp++) {
        k3_flow_t flow = {.phase = back ? K3_TRAFFIC_COMBINE : K3_TRAFFIC_DISPATCH,
                          .src = back ? peer : origin,
                          .dst = back ? origin : peer,
                          .qp = qp};

        for (uint32_t e = qp; e < s->local; e += s->qps) {
            add_range(cell->profile, t->rows_to[peer * s->local + e], back ? s->result : s->record,
                      back ? s->result_payload : s->record_payload, s->signal_bytes, rings, &flow);
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
