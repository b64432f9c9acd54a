#include "bench/plan/device.h"

#include "bench/plan/cell_rows.h"

enum { ROW_UNIT = 16, RESULTS_AT_ONCE = 256 };

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Metadata of a record where the first hop falls away. */
static uint64_t one_node_meta(const k3_cell_t *cell)
{
    const k3_profile_t *p = cell->profile;

    return p->rings != NULL && cell->nodes == 1
               ? p->one_node_meta_bytes + (uint64_t)p->one_node_meta_topk_bytes * cell->model.topk
               : 0;
}

bool k3_rows_aligned(const k3_cell_t *cell)
{
    const k3_profile_t *p = cell->profile;

    return p->header_bytes % ROW_UNIT == 0 && one_node_meta(cell) == 0 &&
           k3_profile_dispatch_record(p, cell->dispatch_format, cell->model.latent,
                                      cell->model.topk) %
                   ROW_UNIT ==
               0;
}

uint64_t k3_results_at_once(const k3_cell_t *cell, uint32_t rank)
{
    return cell->combine_format == K3_FORMAT_LOGFMT10 ? k3_rows_arriving(cell, rank)
                                                      : RESULTS_AT_ONCE;
}

uint64_t k3_meta_bytes(const k3_cell_t *cell)
{
    const k3_profile_t *p = cell->profile;
    uint32_t            width = cell->model.latent, topk = cell->model.topk;
    uint64_t            out = k3_profile_dispatch_record(p, cell->dispatch_format, width, topk) -
                   k3_profile_dispatch_payload(p, cell->dispatch_format, width);
    uint64_t back = k3_profile_combine_record(p, cell->combine_format, width, topk) -
                    k3_profile_combine_payload(p, cell->combine_format, width);

    return larger(larger(larger(out, back), one_node_meta(cell)), ROW_UNIT);
}
