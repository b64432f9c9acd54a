#include "bench/plan/cell_rows.h"

void k3_cell_dispatched(const k3_cell_t *cell, uint32_t rank, uint64_t *first, uint64_t *count)
{
    *first = cell->path.all_rows ? 0 : cell->layout.first_row[rank];
    *count = cell->path.all_rows ? cell->layout.rows_global : cell->layout.rows[rank];
}

uint64_t k3_rows_arriving(const k3_cell_t *cell, uint32_t rank)
{
    uint64_t n = cell->arriving[rank / cell->layout.moe_tp];

    return cell->path.all_rows ? n * cell->layout.tp : n;
}

uint64_t k3_front_rows(const k3_cell_t *cell, uint32_t rank)
{
    const k3_layout_t *l = &cell->layout;

    return cell->path.fast ? l->rows[rank] + l->padding[rank] : l->rows_global;
}

uint64_t k3_group_slots(const k3_cell_t *cell, uint32_t rank)
{
    const k3_layout_t *l = &cell->layout;
    uint32_t           first = k3_layout_group_first(l, rank);
    uint64_t           n = 0;

    for (uint32_t r = first; r < first + l->attn_tp; r++) {
        n += l->rows[r] + l->padding[r];
    }
    return n;
}

bool k3_splits_context(const k3_cell_t *cell)
{
    return !cell->path.fast && cell->layout.cp > 1;
}

uint32_t k3_expected_origins(const k3_cell_t *cell)
{
    return cell->layout.tp < K3_EXPECTED_ORIGINS ? cell->layout.tp : K3_EXPECTED_ORIGINS;
}

uint32_t k3_expected_origin(const k3_cell_t *cell, uint32_t i)
{
    return (uint32_t)((uint64_t)i * cell->layout.tp / k3_expected_origins(cell));
}
