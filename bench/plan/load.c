#include "bench/plan/load.h"

#include <string.h>

#include "bench/plan/cell_rows.h"
#include "bench/plan/expect.h"
#include "harness/base/memory.h"

typedef struct filling {
    const k3_cell_t   *cell;
    k3_loads_t        *loads;
    uint32_t           origin, slot; /* expected: whose rows these are, and where they are booked */
    double            *pairs; /* [tp] by stores from the rank that is looked at to each peer */
    uint32_t           pairs_of;
    k3_traffic_phase_t pairs_phase;
} filling_t;

static k3_lane_class_t class_of(const k3_cell_t *cell, const k3_flow_t *flow)
{
    if (flow->src == flow->dst) {
        return K3_CLASS_SELF;
    }
    if (cell->node_of[flow->src] != cell->node_of[flow->dst]) {
        return K3_CLASS_NETWORK;
    }
    return k3_cell_mapped(cell, flow->src, flow->dst) ? K3_CLASS_STORE : K3_CLASS_NODE;
}

static void book(k3_load_t *load, const k3_flow_t *flow, k3_lane_class_t class)
{
    bool rings = class == K3_CLASS_NODE || class == K3_CLASS_NETWORK;

    load->messages[class] += (double)flow->messages;
    load->signals[class] += (double)flow->signals;
    load->payload[class] += (double)flow->payload;
    load->wire[class] += (double)flow->wire;
    load->lanes[class] += 1;
    if (rings) {
        double posts = (double)flow->messages + (double)flow->signals;

        load->lane_posts = posts > load->lane_posts ? posts : load->lane_posts;
        load->doorbells += flow->doorbells == K3_DOORBELLS_UNKNOWN
                               ? (double)(flow->messages + flow->signals)
                               : (double)flow->doorbells;
    }
}

/* Lanes of one source come one after another, peer by peer, but for those that return. */
static void book_pair(filling_t *f, k3_load_t *load, const k3_flow_t *flow)
{
    if (f->pairs_of != flow->src || f->pairs_phase != flow->phase) {
        memset(f->pairs, 0, f->cell->layout.tp * sizeof(*f->pairs));
        f->pairs_of = flow->src;
        f->pairs_phase = flow->phase;
    }
    f->pairs[flow->dst] += (double)flow->wire;
    load->pair_wire = f->pairs[flow->dst] > load->pair_wire ? f->pairs[flow->dst] : load->pair_wire;
}

static void add_flow(const k3_flow_t *flow, void *arg)
{
    filling_t *f = arg;
    k3_lane_class_t class = class_of(f->cell, flow);
    k3_loads_t *l = f->loads;

    if (!l->expected) {
        book(&l->out[flow->phase][flow->src], flow, class);
        book(&l->in[flow->phase][flow->dst], flow, class);
        if (class == K3_CLASS_STORE) {
            book_pair(f, &l->out[flow->phase][flow->src], flow);
        }
        return;
    }
    if (flow->src == f->origin) {
        book(&l->out[flow->phase][f->slot], flow, class);
    }
    if (flow->dst == f->origin) {
        book(&l->in[flow->phase][f->slot], flow, class);
    }
}

/* Over all ranks what is sent is what is received; so where an origin's rows tell one side only, it
 * stands for the other. */
static void mirror(k3_loads_t *l, uint32_t i)
{
    for (int phase = 0; phase < K3_TRAFFIC_COUNT; phase++) {
        k3_load_t *out = &l->out[phase][i], *in = &l->in[phase][i];
        double     sent = 0, received = 0;

        for (int c = K3_CLASS_STORE; c < K3_CLASS_COUNT; c++) {
            sent += out->messages[c] + out->signals[c];
            received += in->messages[c] + in->signals[c];
        }
        if (sent > received) {
            *in = *out;
        } else {
            *out = *in;
        }
    }
}

/* --- experts ----------------------------------------------------------------------------------- */

static void expect_experts(const k3_cell_t *cell, k3_loads_t *l)
{
    uint32_t local = k3_layout_local_experts(&cell->layout, &cell->model);
    double   rows = (double)cell->layout.rows_global * (cell->path.all_rows ? cell->layout.tp : 1);

    for (uint32_t i = 0; i < l->count; i++) {
        uint32_t origin = k3_expected_origin(cell, i);

        l->expert_rows[i] = (double)k3_rows_arriving(cell, origin);
        l->experts_hit[i] = k3_expected_hit(cell->model.experts, local, cell->model.topk, rows);
    }
}

static k3_status_t count_experts(const k3_cell_t *cell, k3_loads_t *l, k3_error_t *err)
{
    uint32_t local = k3_layout_local_experts(&cell->layout, &cell->model);
    uint8_t *hit = NULL;
    int32_t  ids[K3_TOPK_MAX];

    if (k3_alloc("experts that are hit", cell->model.experts, 1, (void **)&hit, err) != K3_OK) {
        return err->status;
    }
    for (uint64_t row = 0; row < cell->layout.rows_global; row++) {
        k3_routing_row(cell->routing, row, ids);
        for (uint32_t k = 0; k < cell->model.topk; k++) {
            if (ids[k] >= 0) {
                hit[ids[k]] = 1;
            }
        }
    }
    for (uint32_t rank = 0; rank < l->count; rank++) {
        uint32_t first = k3_layout_first_expert(&cell->layout, &cell->model, rank);

        l->expert_rows[rank] = (double)k3_rows_arriving(cell, rank);
        for (uint32_t e = 0; e < local; e++) {
            l->experts_hit[rank] += hit[first + e];
        }
    }
    k3_free(hit);
    return K3_OK;
}

/* --- all --------------------------------------------------------------------------------------- */

static k3_status_t open_loads(const k3_cell_t *cell, k3_loads_t *l, k3_error_t *err)
{
    l->expected = cell->expected;
    l->count = cell->expected ? k3_expected_origins(cell) : cell->layout.tp;
    for (int phase = 0; phase < K3_TRAFFIC_COUNT; phase++) {
        if (k3_alloc("loads", l->count, sizeof(k3_load_t), (void **)&l->out[phase], err) != K3_OK ||
            k3_alloc("loads", l->count, sizeof(k3_load_t), (void **)&l->in[phase], err) != K3_OK) {
            return err->status;
        }
    }
    if (k3_alloc("rows of experts", l->count, sizeof(double), (void **)&l->expert_rows, err) ==
        K3_OK) {
        k3_alloc("experts hit", l->count, sizeof(double), (void **)&l->experts_hit, err);
    }
    return err->status;
}

k3_status_t k3_loads_plan(const k3_cell_t *cell, k3_loads_t *l, k3_error_t *err)
{
    filling_t    f = {.cell = cell, .loads = l, .pairs_of = UINT32_MAX};
    k3_traffic_t traffic = {0};

    *l = (k3_loads_t){0};
    if (open_loads(cell, l, err) == K3_OK &&
        k3_alloc("bytes of pairs", cell->layout.tp, sizeof(double), (void **)&f.pairs, err) ==
            K3_OK &&
        k3_traffic_open(cell, &traffic, err) == K3_OK) {
        for (uint32_t i = 0; i < l->count; i++) {
            f.slot = i;
            f.origin = l->expected ? k3_expected_origin(cell, i) : i;
            k3_traffic_origin(&traffic, f.origin, add_flow, &f);
            if (l->expected) {
                mirror(l, i);
            }
        }
        k3_traffic_close(&traffic);
        if (l->expected) {
            expect_experts(cell, l);
        } else {
            count_experts(cell, l, err);
        }
    }
    k3_free(f.pairs);
    if (err->status != K3_OK) {
        k3_loads_free(l);
    }
    return err->status;
}

k3_status_t k3_loads_and_work(const k3_cell_t *cell, k3_loads_t *l, k3_work_t *work,
                              k3_error_t *err)
{
    filling_t f = {.cell = cell, .loads = l, .pairs_of = UINT32_MAX};

    *l = (k3_loads_t){0};
    if (cell->expected || k3_routing_steps(cell->routing) > 1) {
        return k3_work_plan(cell, work, err) == K3_OK ? k3_loads_plan(cell, l, err) : err->status;
    }
    if (open_loads(cell, l, err) == K3_OK &&
        k3_alloc("bytes of pairs", cell->layout.tp, sizeof(double), (void **)&f.pairs, err) ==
            K3_OK &&
        k3_work_plan_seen(cell, work, add_flow, &f, err) == K3_OK) {
        count_experts(cell, l, err);
    }
    k3_free(f.pairs);
    if (err->status != K3_OK) {
        k3_loads_free(l);
    }
    return err->status;
}

void k3_loads_free(k3_loads_t *l)
{
    for (int phase = 0; phase < K3_TRAFFIC_COUNT; phase++) {
        k3_free(l->out[phase]);
        k3_free(l->in[phase]);
    }
    k3_free(l->expert_rows);
    k3_free(l->experts_hit);
    *l = (k3_loads_t){0};
}
