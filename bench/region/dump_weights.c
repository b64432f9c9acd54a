/* The weights of a dump, row by row from where the cell has them. */
#include "bench/plan/shared.h"
#include "bench/region/dump_internal.h"
#include "harness/base/memory.h"

static k3_status_t dump_tensor(k3_dump_t *d, k3_tensor_t tensor, const char *name, const char *what,
                               k3_error_t *err)
{
    k3_source_t source = k3_cell_source(d->region->cell);
    uint32_t    rows, columns;
    uint16_t   *all;
    uint64_t    shape[2];

    k3_tensor_shape(source.model, tensor, &rows, &columns);
    if (k3_alloc("tensor of a dump", rows, (uint64_t)columns * 2, &all, err) != K3_OK) {
        return err->status;
    }
    for (uint32_t r = 0; r < rows; r++) {
        k3_source_tensor_row(&source, tensor, r, 0, columns, all + (uint64_t)r * columns);
    }
    shape[0] = tensor == K3_TENSOR_LATENT_NORM ? columns : rows;
    shape[1] = columns;
    k3_dump_array(d, name, K3_NPY_U16, tensor == K3_TENSOR_LATENT_NORM ? 1 : 2, shape, all, what,
                  err);
    k3_free(all);
    return err->status;
}

static k3_status_t dump_bias(k3_dump_t *d, k3_error_t *err)
{
    k3_source_t source = k3_cell_source(d->region->cell);
    uint64_t    experts = source.model->experts;
    float      *bias;

    if (k3_alloc("bias of a dump", experts, sizeof(float), &bias, err) != K3_OK) {
        return err->status;
    }
    for (uint32_t e = 0; e < experts; e++) {
        bias[e] = k3_source_bias(&source, e);
    }
    k3_dump_array(d, "bias", K3_NPY_F32, 1, &experts, bias,
                  "added to sigmoid(logits) where the router chooses", err);
    k3_free(bias);
    return err->status;
}

/* Values and scales of one matrix of all experts. */
static k3_status_t dump_matrix(k3_dump_t *d, k3_expert_matrix_t matrix, const char *name,
                               const char *what, k3_error_t *err)
{
    k3_source_t       source = k3_cell_source(d->region->cell);
    const k3_model_t *m = source.model;
    bool              down = matrix == K3_MATRIX_W2;
    uint32_t          rows = down ? m->latent : m->intermediate;
    uint32_t          columns = down ? m->intermediate : m->latent;
    uint64_t          shape[3] = {m->experts, rows, columns / 2};
    uint64_t          scale_shape[3] = {m->experts, rows, columns / 32};
    uint8_t          *values = NULL, *scales = NULL;
    char              scale_name[32];

    if (k3_alloc("experts of a dump", m->experts, shape[1] * shape[2], &values, err) == K3_OK &&
        k3_alloc("scales of a dump", m->experts, scale_shape[1] * scale_shape[2], &scales, err) ==
            K3_OK) {
        for (uint32_t e = 0; e < m->experts; e++) {
            for (uint32_t r = 0; r < rows; r++) {
                uint64_t at = (uint64_t)e * rows + r;

                k3_source_expert_row(&source, e, matrix, r, 0, columns, values + at * shape[2],
                                     scales + at * scale_shape[2]);
            }
        }
        snprintf(scale_name, sizeof(scale_name), "%s_scale", name);
        if (k3_dump_array(d, name, K3_NPY_U8, 3, shape, values, what, err) == K3_OK) {
            k3_dump_array(d, scale_name, K3_NPY_U8, 3, scale_shape, scales,
                          "E8M0, one for 32 columns: 2^(code - 127)", err);
        }
    }
    k3_free(scales);
    k3_free(values);
    return err->status;
}

static k3_status_t dump_shared(k3_dump_t *d, k3_error_t *err)
{
    if (d->region->cell->model.shared == 0 ||
        dump_tensor(d, K3_TENSOR_SHARED_GATE, "shared_gate", "shared expert, gate", err) != K3_OK ||
        dump_tensor(d, K3_TENSOR_SHARED_UP, "shared_up", "shared expert, up", err) != K3_OK) {
        return err->status;
    }
    return dump_tensor(d, K3_TENSOR_SHARED_DOWN, "shared_down", "shared expert, down", err);
}

static k3_status_t dump_latent(k3_dump_t *d, k3_error_t *err)
{
    if (!d->region->cell->model.latent_step ||
        dump_tensor(d, K3_TENSOR_LATENT_DOWN, "latent_down", "down projection", err) != K3_OK ||
        dump_tensor(d, K3_TENSOR_LATENT_NORM, "latent_norm", "gain of the norm", err) != K3_OK) {
        return err->status;
    }
    return dump_tensor(d, K3_TENSOR_LATENT_UP, "latent_up", "up projection", err);
}

k3_status_t k3_dump_weights(k3_dump_t *d, k3_error_t *err)
{
    const k3_cell_t *cell = d->region->cell;

    if (cell->model.weights != K3_WEIGHT_MXFP4 ||
        k3_dump_weight_bytes(cell) > K3_DUMP_WEIGHTS_MAX) {
        return K3_OK; /* the README says so */
    }
    if (dump_tensor(d, K3_TENSOR_GATE, "gate", "router", err) != K3_OK ||
        dump_bias(d, err) != K3_OK || dump_latent(d, err) != K3_OK ||
        dump_shared(d, err) != K3_OK ||
        dump_matrix(d, K3_MATRIX_W1, "w1", "experts, gate: E2M1, two a byte, low nibble first",
                    err) != K3_OK ||
        dump_matrix(d, K3_MATRIX_W3, "w3", "experts, up", err) != K3_OK) {
        return err->status;
    }
    return dump_matrix(d, K3_MATRIX_W2, "w2", "experts, down", err);
}
