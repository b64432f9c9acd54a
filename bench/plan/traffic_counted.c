/* Slab profiles that count arrivals: each message with a signal of its own, the counts before them by
 * the first rank of a DP group, results to every rank of the origin's group, a flag of every rank at
 * the end. All on QP 0. */
#include <string.h>

#include "bench/plan/cell_rows.h"
#include "bench/plan/counted.h"
#include "bench/plan/traffic_internal.h"

/* Rows of the origin's group for the experts of each rank; kept while the group stays the same. */
static void count_group(const k3_traffic_t *t, const k3_counted_t *c, uint32_t group)
{
    const k3_cell_t *cell = t->cell;
    uint64_t         first, count;
    int32_t          ids[K3_TOPK_MAX];

    if (t->group_to[c->ranks] == (uint64_t)group + 1) {
        return;
    }
    memset(t->group_to, 0, c->ranks * sizeof(*t->group_to));
    for (uint32_t rank = group * c->group_ranks; rank < (group + 1) * c->group_ranks; rank++) {
        k3_cell_dispatched(cell, rank, &first, &count);
        for (uint64_t row = first; row < first + count; row++) {
            k3_routing_row(cell->routing, row, ids);
            for (uint32_t k = 0; k < cell->model.topk; k++) {
                if (ids[k] >= 0) {
                    t->group_to[(uint32_t)ids[k] / c->local]++;
                }
            }
        }
    }
    t->group_to[c->ranks] = (uint64_t)group + 1;
}

static k3_flow_t flow_of(const k3_cell_t *cell, k3_traffic_phase_t phase, uint32_t src,
                         uint32_t dst, uint64_t rows, uint64_t bytes, uint64_t payload,
                         uint64_t signals)
{
    return (k3_flow_t){.phase = phase,
                       .src = src,
                       .dst = dst,
                       .messages = rows,
                       .signals = signals,
                       .doorbells = k3_cell_mapped(cell, src, dst) ? 0 : K3_DOORBELLS_UNKNOWN,
                       .payload = rows * payload,
                       .wire = rows * bytes + signals * K3_COUNTED_SIGNAL};
}

void k3_visit_counted(const k3_traffic_t *t, uint32_t origin, k3_flow_visit_t visit, void *arg)
{
    k3_counted_t c;
    k3_flow_t    flow;

    k3_counted_plan(t->cell, &c);
    if (c.group_ranks > 1) {
        count_group(t, &c, k3_counted_group(&c, origin));
    }
    for (uint32_t peer = 0; peer < c.ranks; peer++) {
        uint64_t rows = 0;

        if (origin % c.group_ranks == 0) {
            flow = flow_of(t->cell, K3_TRAFFIC_NOTIFY, origin, peer, 0, 0, 0, c.local);
            visit(&flow, arg);
        }
        for (uint32_t e = peer * c.local; e < (peer + 1) * c.local; e++) {
            rows += t->rows_to[e];
        }
        if (rows > 0) {
            flow = flow_of(t->cell, K3_TRAFFIC_DISPATCH, origin, peer, rows, c.record,
                           c.record_payload, rows);
            visit(&flow, arg);
        }
        rows = c.group_ranks > 1 ? t->group_to[peer] : rows;
        flow =
            flow_of(t->cell, K3_TRAFFIC_COMBINE, peer, origin, rows, c.result, c.result, rows + 1);
        visit(&flow, arg);
    }
}
