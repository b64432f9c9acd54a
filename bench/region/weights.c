#include "bench/region/weights.h"

#include <stdio.h>
#include <string.h>

#include "bench/plan/buffers.h"
#include "bench/plan/cell_rows.h"
#include "bench/plan/in_place.h"
#include "bench/plan/shared.h"
#include "harness/base/memory.h"
#include "harness/mpi/clock.h"
#include "harness/mpi/watchdog.h"

void k3_weights_destroy(k3_weights_t *w)
{
    k3_dense_t  *dense[] = {w->gate.host,        w->down.host,      w->up.host,
                            w->shared_gate.host, w->shared_up.host, w->shared_down.host};
    k3_device_t *device = w->device;

    for (size_t i = 0; i < sizeof(dense) / sizeof(dense[0]); i++) {
        k3_dense_destroy(dense[i]);
    }
    k3_weights_drop(w);
    for (int t = 0; t < K3_TENSOR_COUNT; t++) {
        k3_free(w->copy[t]);
    }
    k3_free(w->bias);
    k3_free(w->block);
    memset(w, 0, sizeof(*w));
    w->device = device;
}

/* --- experts --------------------------------------------------------------------------------- */

/* Bytes of values and scales of one row of a matrix with `columns` columns. */
static void row_bytes(k3_weight_format_t format, uint32_t columns, size_t *values, size_t *scales)
{
    *values = format == K3_WEIGHT_MXFP4 ? columns / 2 : columns;
    *scales = format == K3_WEIGHT_MXFP4 ? columns / 32 : columns / 128 * sizeof(float);
}

static void fill_matrix(const k3_cell_t *cell, uint32_t expert, k3_expert_matrix_t matrix,
                        uint32_t row0, uint32_t rows, uint32_t begin, uint32_t end, uint8_t *values,
                        uint8_t *scales)
{
    k3_source_t        source = k3_cell_source(cell);
    k3_weight_format_t format = cell->model.weights;
    size_t             value_bytes, scale_bytes;

    row_bytes(format, end - begin, &value_bytes, &scale_bytes);
    for (uint32_t r = 0; r < rows; r++) {
        /* A block scale belongs to 128 rows. */
        size_t scale_row = format == K3_WEIGHT_MXFP4 ? r : r / 128;

        k3_source_expert_row(&source, expert, matrix, row0 + r, begin, end,
                             values + r * value_bytes, scales + scale_row * scale_bytes);
    }
}

static k3_status_t fill_experts(const k3_cell_t *cell, uint32_t rank, k3_weights_t *w,
                                k3_error_t *err)
{
    uint32_t first = k3_layout_first_expert(&cell->layout, &cell->model, rank);
    uint32_t begin, end;

    k3_layout_expert_slice(&cell->layout, &cell->model, rank, &begin, &end);
    w->shape = (k3_expert_shape_t){cell->model.latent, end - begin, cell->model.weights,
                                   cell->model.activation};
    w->experts = k3_layout_local_experts(&cell->layout, &cell->model);
    w->pitch = k3_expert_layout(&w->shape, NULL, NULL);
    w->first = first;
    if (k3_experts_in_place(cell)) {
        w->checkpoint = cell->checkpoint;
        return K3_OK;
    }
    if (k3_alloc("expert weights", w->device == NULL ? w->experts : 1, w->pitch, &w->block, err) !=
            K3_OK ||
        (w->device != NULL && k3_weights_open(w, err) != K3_OK)) {
        return err->status;
    }
    for (uint32_t x = 0; x < w->experts && err->status == K3_OK; x++) {
        k3_expert_weights_t e;

        k3_watchdog_tick("set-up: expert weights", x);
        k3_expert_layout(&w->shape, w->block + (w->device == NULL ? x : 0) * w->pitch, &e);
        /* The block is ours: the views are const for the kernels only. */
        fill_matrix(cell, first + x, K3_MATRIX_W1, begin, end - begin, 0, w->shape.latent,
                    w->block + (e.w1 - w->block),
                    w->block + ((const uint8_t *)e.w1_scale - w->block));
        fill_matrix(cell, first + x, K3_MATRIX_W3, begin, end - begin, 0, w->shape.latent,
                    w->block + (e.w3 - w->block),
                    w->block + ((const uint8_t *)e.w3_scale - w->block));
        fill_matrix(cell, first + x, K3_MATRIX_W2, 0, w->shape.latent, begin, end,
                    w->block + (e.w2 - w->block),
                    w->block + ((const uint8_t *)e.w2_scale - w->block));
        if (w->device != NULL) {
            k3_weights_send(w, x, &e, err);
        }
    }
    return err->status;
}

/* --- dense parts ----------------------------------------------------------------------------- */

/* The part of a tensor that this rank holds. */
static k3_status_t fill_tensor(const k3_cell_t *cell, uint32_t rank, k3_tensor_t tensor,
                               k3_weights_t *w, k3_error_t *err)
{
    k3_source_t      source = k3_cell_source(cell);
    k3_tensor_part_t part = k3_tensor_held(cell, rank, tensor);
    uint64_t         columns = part.column_end - part.column_begin;

    w->tensor[tensor] = k3_tensor_in_place(cell, tensor, part);
    w->tensor_bytes[tensor] = (part.row_end - part.row_begin) * columns * sizeof(uint16_t);
    if (w->tensor[tensor] != NULL) {
        return K3_OK;
    }
    if (k3_alloc("dense weights", part.row_end - part.row_begin, columns * sizeof(uint16_t),
                 &w->copy[tensor], err) != K3_OK) {
        return err->status;
    }
    k3_watchdog_tick("set-up: dense weights", (uint64_t)tensor);
    for (uint32_t r = part.row_begin; r < part.row_end; r++) {
        k3_source_tensor_row(&source, tensor, r, part.column_begin, part.column_end,
                             w->copy[tensor] + (r - part.row_begin) * columns);
    }
    w->tensor[tensor] = w->copy[tensor];
    return K3_OK;
}

static k3_status_t prepare(const k3_weights_t *w, k3_tensor_t tensor, uint64_t n, uint64_t k,
                           uint64_t rows, k3_layer_t *layer, k3_error_t *err)
{
    *layer = (k3_layer_t){.n = (uint32_t)n, .k = (uint32_t)k};
    if (w->device != NULL) {
        return K3_OK;
    }
    layer->host = k3_dense_create(w->tensor[tensor], n, k, rows);
    if (layer->host == NULL) {
        return k3_fail(err, K3_ERR_ENV, "%s refused a dense layer of %llu x %llu for %llu rows",
                       k3_dense_library(), (unsigned long long)n, (unsigned long long)k,
                       (unsigned long long)rows);
    }
    return K3_OK;
}

static k3_status_t fill_front(const k3_cell_t *cell, uint32_t rank, k3_weights_t *w,
                              k3_error_t *err)
{
    const k3_model_t *m = &cell->model;
    k3_source_t       source = k3_cell_source(cell);
    uint64_t          rows = k3_front_rows(cell, rank);

    w->experts_of_gate = m->experts;
    if (k3_alloc("router bias", m->experts, sizeof(float), &w->bias, err) != K3_OK ||
        fill_tensor(cell, rank, K3_TENSOR_GATE, w, err) != K3_OK ||
        prepare(w, K3_TENSOR_GATE, m->experts, m->hidden, rows, &w->gate, err) != K3_OK) {
        return err->status;
    }
    for (uint32_t e = 0; e < m->experts; e++) {
        w->bias[e] = k3_source_bias(&source, e);
    }
    if (!m->latent_step) {
        return K3_OK;
    }
    if (fill_tensor(cell, rank, K3_TENSOR_LATENT_DOWN, w, err) != K3_OK ||
        fill_tensor(cell, rank, K3_TENSOR_LATENT_NORM, w, err) != K3_OK ||
        fill_tensor(cell, rank, K3_TENSOR_LATENT_UP, w, err) != K3_OK ||
        prepare(w, K3_TENSOR_LATENT_DOWN, m->latent, m->hidden, rows, &w->down, err) != K3_OK ||
        prepare(w, K3_TENSOR_LATENT_UP, m->hidden, m->latent, rows, &w->up, err) != K3_OK) {
        return err->status;
    }
    return K3_OK;
}

static k3_status_t fill_shared(const k3_cell_t *cell, uint32_t rank, k3_weights_t *w,
                               k3_error_t *err)
{
    const k3_model_t *m = &cell->model;
    uint64_t          rows = k3_shared_rows(cell, rank);
    uint32_t          begin, end;

    k3_shared_slice(cell, rank, &begin, &end);
    if (end == begin) {
        return K3_OK;
    }
    if (fill_tensor(cell, rank, K3_TENSOR_SHARED_GATE, w, err) != K3_OK ||
        fill_tensor(cell, rank, K3_TENSOR_SHARED_UP, w, err) != K3_OK ||
        fill_tensor(cell, rank, K3_TENSOR_SHARED_DOWN, w, err) != K3_OK ||
        prepare(w, K3_TENSOR_SHARED_GATE, end - begin, m->hidden, rows, &w->shared_gate, err) !=
            K3_OK ||
        prepare(w, K3_TENSOR_SHARED_UP, end - begin, m->hidden, rows, &w->shared_up, err) !=
            K3_OK ||
        prepare(w, K3_TENSOR_SHARED_DOWN, m->hidden, end - begin, rows, &w->shared_down, err) !=
            K3_OK) {
        return err->status;
    }
    return K3_OK;
}

/* --- which weights a cell needs -------------------------------------------------------------- */

static void write_key(const k3_cell_t *cell, uint32_t rank, char key[K3_WEIGHTS_KEY_MAX])
{
    const k3_layout_t *l = &cell->layout;

    snprintf(key, K3_WEIGHTS_KEY_MAX, "%s s%llu w%llx ep%u.%u.%u rows%llu.%llu %s%s%s%u",
             cell->model.name, (unsigned long long)cell->seed,
             cell->checkpoint != NULL ? (unsigned long long)k3_checkpoint_identity(cell->checkpoint)
                                      : 0ull,
             l->ep, l->moe_tp, rank, (unsigned long long)k3_front_rows(cell, rank),
             (unsigned long long)k3_shared_rows(cell, rank),
             k3_needs_experts(cell) ? "experts " : "", k3_needs_dense(cell) ? "dense " : "",
             k3_shared_names[cell->shared], k3_shared_parts(cell));
}

void k3_weights_release(const k3_cell_t *cell, uint32_t rank, k3_weights_t *weights)
{
    char key[K3_WEIGHTS_KEY_MAX];

    write_key(cell, rank, key);
    if (strcmp(key, weights->key) != 0) {
        k3_weights_destroy(weights);
    }
}

k3_status_t k3_weights_ensure(const k3_cell_t *cell, uint32_t rank, k3_weights_t *weights,
                              k3_error_t *err)
{
    uint64_t    begin = k3_clock_now();
    k3_memory_t memory;

    k3_weights_release(cell, rank, weights);
    if (weights->key[0] != '\0') {
        weights->fill_us = 0.0;
        return K3_OK;
    }
    if ((k3_needs_experts(cell) && fill_experts(cell, rank, weights, err) != K3_OK) ||
        (k3_needs_dense(cell) && (fill_front(cell, rank, weights, err) != K3_OK ||
                                  fill_shared(cell, rank, weights, err) != K3_OK)) ||
        (weights->device != NULL && k3_weights_upload(weights, err) != K3_OK)) {
        k3_weights_destroy(weights);
        return err->status;
    }
    if (weights->device == NULL) {
        weights->route_bias = weights->bias;
        weights->norm_gain = weights->tensor[K3_TENSOR_LATENT_NORM];
    }
    k3_memory_plan(cell, rank, &memory);
    weights->bytes = weights->device != NULL
                         ? 0
                         : memory.expert_weights + memory.shared_expert + memory.dense_weights +
                               memory.buffer[K3_BUF_DENSE_WORK] - memory.mapped_experts -
                               memory.mapped_dense;
    weights->fill_us = k3_clock_us(k3_clock_now() - begin);
    write_key(cell, rank, weights->key);
    return K3_OK;
}
