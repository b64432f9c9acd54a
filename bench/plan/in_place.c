#include "bench/plan/in_place.h"

#include "bench/plan/shared.h"

bool k3_experts_in_place(const k3_cell_t *cell)
{
    return cell->checkpoint != NULL && cell->layout.moe_tp == 1;
}

k3_tensor_part_t k3_tensor_held(const k3_cell_t *cell, uint32_t rank, k3_tensor_t tensor)
{
    k3_tensor_part_t part = {0};
    uint32_t         begin, end;

    k3_tensor_shape(&cell->model, tensor, &part.row_end, &part.column_end);
    k3_shared_slice(cell, rank, &begin, &end);
    switch (tensor) {
    case K3_TENSOR_SHARED_GATE:
    case K3_TENSOR_SHARED_UP:
        part.row_begin = begin;
        part.row_end = end;
        break;
    case K3_TENSOR_SHARED_DOWN:
        part.column_begin = begin;
        part.column_end = end;
        break;
    default:
        break;
    }
    return part;
}

const uint16_t *k3_tensor_in_place(const k3_cell_t *cell, k3_tensor_t tensor, k3_tensor_part_t part)
{
    uint32_t       rows, columns;
    const uint8_t *data;

    k3_tensor_shape(&cell->model, tensor, &rows, &columns);
    if (cell->checkpoint == NULL || part.column_begin != 0 || part.column_end != columns) {
        return NULL;
    }
    data = k3_checkpoint_tensor(cell->checkpoint, tensor) +
           (uint64_t)part.row_begin * columns * sizeof(uint16_t);
    return (uintptr_t)data % sizeof(uint16_t) == 0 ? (const uint16_t *)(const void *)data : NULL;
}

static bool is_needed(const k3_cell_t *cell, k3_tensor_part_t part, k3_tensor_t tensor)
{
    bool latent = tensor == K3_TENSOR_LATENT_DOWN || tensor == K3_TENSOR_LATENT_NORM ||
                  tensor == K3_TENSOR_LATENT_UP;

    return part.row_end > part.row_begin && part.column_end > part.column_begin &&
           (cell->model.latent_step || !latent);
}

uint64_t k3_dense_in_place_bytes(const k3_cell_t *cell, uint32_t rank)
{
    uint64_t bytes = 0;

    for (int t = 0; t < K3_TENSOR_COUNT && cell->checkpoint != NULL; t++) {
        k3_tensor_part_t part = k3_tensor_held(cell, rank, (k3_tensor_t)t);

        if (is_needed(cell, part, (k3_tensor_t)t) &&
            k3_tensor_in_place(cell, (k3_tensor_t)t, part) != NULL) {
            bytes += (uint64_t)(part.row_end - part.row_begin) *
                     (part.column_end - part.column_begin) * sizeof(uint16_t);
        }
    }
    return bytes;
}
