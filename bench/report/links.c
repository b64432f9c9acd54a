/* What crosses the links between nodes: the rates of a node, not of the launch. */
#include "bench/report/record.h"
#include "bench/report/values.h"
#include "harness/base/memory.h"
#include "harness/record/json_values.h"

typedef struct link_bytes {
    uint64_t out, in;
} link_bytes_t;

static const struct {
    k3_phase_t         phase;
    k3_traffic_phase_t traffic;
} timed[] = {{K3_PHASE_DISPATCH, K3_TRAFFIC_DISPATCH}, {K3_PHASE_COMBINE, K3_TRAFFIC_COMBINE}};

enum { TIMED = sizeof(timed) / sizeof(timed[0]) };

static json_t *rate_of(uint64_t bytes, const k3_phase_result_t *phase)
{
    return phase->summary.valid && phase->summary.median > 0.0
               ? k3_json_number((double)bytes / phase->summary.median / 1e3)
               : json_null();
}

static void add_rows(json_t *rows, const char *name, const link_bytes_t *nodes, uint32_t count,
                     const k3_phase_result_t *phase)
{
    for (uint32_t n = 0; n < count; n++) {
        json_array_append_new(rows,
                              json_pack("[s, i, I, I, o, o]", name, (int)n,
                                        (json_int_t)nodes[n].out, (json_int_t)nodes[n].in,
                                        rate_of(nodes[n].out, phase), rate_of(nodes[n].in, phase)));
    }
}

static void sum_lanes(const k3_cell_t *cell, const k3_measurement_t *m, k3_traffic_phase_t traffic,
                      link_bytes_t *nodes)
{
    for (uint64_t i = 0; i < m->lane_count; i++) {
        const k3_lane_row_t *lane = &m->lanes[i];
        int                  from = cell->node_of[lane->src], to = cell->node_of[lane->dst];

        if (lane->phase == (int32_t)traffic && from != to) {
            nodes[from].out += lane->wire;
            nodes[to].in += lane->wire;
        }
    }
}

json_t *k3_record_links(const k3_cell_t *cell, const k3_measurement_t *m)
{
    k3_error_t    err = K3_ERROR_INIT;
    link_bytes_t *nodes = NULL;
    json_t       *rows;

    if (cell->nodes < 2 || k3_alloc("bytes of the nodes' links", (uint64_t)cell->nodes * TIMED,
                                    sizeof(*nodes), &nodes, &err) != K3_OK) {
        return NULL;
    }
    rows = json_array();
    for (size_t t = 0; t < TIMED; t++) {
        link_bytes_t *of_phase = nodes + t * cell->nodes;

        if (m->phase[timed[t].phase].present) {
            sum_lanes(cell, m, timed[t].traffic, of_phase);
            add_rows(rows, k3_phase_names[timed[t].phase], of_phase, cell->nodes,
                     &m->phase[timed[t].phase]);
        }
    }
    k3_free(nodes);
    return json_pack("{s:[s, s, s, s, s, s], s:o}", "columns", "phase", "node", "bytes_out",
                     "bytes_in", "out_GBps", "in_GBps", "rows", rows);
}
