#include "bench/plan/rings.h"

#include "harness/base/arith.h"

enum { UNIT = 128, SIZED_TOPK = 128, SIZED_SCALES = 128, SIZED_INDEX = 8 };

/* The last row of the table that does not ask for more ranks, or the first. */
static const k3_ring_tuning_t *tuning_of(const k3_profile_t *p, uint32_t ranks)
{
    const k3_ring_tuning_t *row = p->rings;

    while (row[1].ranks > 0 && row[1].ranks <= ranks) {
        row++;
    }
    return row;
}

static uint64_t area(uint64_t *end, uint64_t count, uint64_t bytes, uint64_t unit)
{
    uint64_t at = k3_round_up(*end, unit);

    *end = k3_add(at, k3_mul(count, bytes));
    return at;
}

static void place_dispatch(k3_rings_t *r, uint64_t *end)
{
    uint64_t streams = (uint64_t)r->channels * r->per_node;
    uint64_t rails = r->nodes > 1 ? (uint64_t)r->channels * r->nodes : 0;

    r->nvl_word = area(end, streams, r->nvl_words * 4, UNIT);
    r->nvl = area(end, streams, r->nvl_ring, 1);
    r->meta_in = area(end, rails, r->meta_words * 4, UNIT);
    r->meta_out = area(end, rails, r->meta_words * 4, 1);
    r->rdma_in = area(end, rails, r->rdma_ring, 1);
    r->rdma_out = area(end, rails, r->rdma_ring, 1);
    r->buffer = k3_round_up(*end, UNIT);
    *end = r->buffer;
}

static void place_words(k3_rings_t *r, uint64_t *end)
{
    uint64_t streams = (uint64_t)r->channels * r->per_node * r->nodes;
    uint64_t rails = r->nodes > 1 ? (uint64_t)r->channels * r->nodes : 0;

    for (int way = 0; way < 2; way++) {
        r->tails[way] = area(end, rails, 4, UNIT);
        r->credits[way] = area(end, rails, 4, UNIT);
    }
    r->back_tail = area(end, streams, 4, UNIT);
    r->back_head = area(end, streams, 4, UNIT);
    r->rail_counts = area(end, r->nodes, r->rail_words * 4, UNIT);
    r->node_counts = area(end, r->per_node, r->node_words * 4, UNIT);
}

static void place_combine(k3_rings_t *r, uint64_t *end)
{
    uint64_t streams = (uint64_t)r->channels * r->per_node * r->nodes;
    uint64_t rails = r->nodes > 1 ? (uint64_t)r->channels * r->nodes : 0;

    r->back_nvl = area(end, streams, r->back_nvl_ring, UNIT);
    r->back_in = area(end, rails, r->back_rdma_ring, UNIT);
    r->back_out = area(end, rails, r->back_rdma_ring, UNIT);
    place_words(r, end);
    r->bytes = k3_round_up(*end, UNIT);
}

uint64_t k3_rings_part_words(k3_rings_t *r)
{
    uint64_t streams = (uint64_t)r->channels * r->per_node, end = 0;
    uint64_t rails = r->nodes > 1 ? (uint64_t)r->channels * r->nodes : 0;

    r->nvl_word = area(&end, streams, r->nvl_words * 4, UNIT);
    r->meta_in = area(&end, rails, r->meta_words * 4, UNIT);
    r->meta_out = area(&end, rails, r->meta_words * 4, UNIT);
    place_words(r, &end);
    return k3_round_up(end, UNIT);
}

void k3_rings_plan(const k3_cell_t *cell, k3_rings_t *r)
{
    const k3_ring_tuning_t *tuning = tuning_of(cell->profile, cell->layout.tp);
    uint32_t                n = cell->node_most, nodes = cell->nodes;
    uint32_t                local = cell->model.experts / cell->layout.tp;
    uint64_t                row, result, end = 0;

    *r = (k3_rings_t){
        .channels = cell->profile->channels,
        .nodes = nodes,
        .per_node = n,
        .qps = cell->qps.active,
        .size = {tuning->dispatch, tuning->combine},
        .nvl_words = 2 * nodes + 3,
        .meta_words = 2 * n + 2,
        .rail_words = n + n * local + 1,
        .node_words = (nodes > 1 ? nodes : n) + local,
    };
    for (int way = 0; way < 2; way++) {
        const k3_ring_sizes_t *s = &r->size[way];

        r->rdma_slots[way] = s->rdma_recv - s->rdma_recv % s->rdma_send;
        r->nvl_slots[way] = way == 0 ? s->nvl_recv : s->nvl_recv / nodes;
    }
    row = 2 * (uint64_t)cell->model.latent + 8 + SIZED_TOPK * (SIZED_INDEX + 4) + SIZED_SCALES * 4;
    result = k3_profile_combine_record(cell->profile, cell->combine_format, cell->model.latent,
                                       cell->model.topk);
    r->nvl_ring = k3_mul(r->size[0].nvl_recv, row);
    r->rdma_ring = k3_mul(r->size[0].rdma_recv, row + 16);
    r->back_nvl_ring = k3_mul(r->nvl_slots[1], result);
    r->back_rdma_ring = k3_mul(r->rdma_slots[1], result);
    place_dispatch(r, &end);
    place_combine(r, &end);
}

uint64_t k3_rings_memory(const k3_rings_t *rings, const k3_rails_t *rails, bool unmapped)
{
    uint64_t through = rings->nodes > 1 && unmapped ? k3_mul(rails->nodes, rails->slots) : 0;

    return k3_add(k3_mul(k3_add(rails->m, through), rails->record),
                  k3_mul(k3_mul(rails->nodes_of_row, rails->m), rails->result));
}
