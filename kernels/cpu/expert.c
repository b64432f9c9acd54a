/* The expert MLP's steps and rounding points, the same for every ISA. */
#include <string.h>

#include "kernels/cpu/cpu.h"

/* Work space of one pass. f32 rows are padded; `gate` is overwritten by the packed middle rows and
 * `x` by the output rows, once they are no longer needed. */
typedef struct k3_expert_work {
    float    *x, *gate, *up, *panel, *row;
    uint16_t *bf16;
    uint8_t  *values;
    void     *scales;
    size_t    bytes;
} k3_expert_work_t;

static size_t longest(const k3_expert_shape_t *shape)
{
    return k3_padded(shape->latent > shape->inter ? shape->latent : shape->inter);
}

static void *take(char *base, size_t *used, size_t bytes)
{
    void *part = base == NULL ? NULL : base + *used;

    *used += (bytes + 63) / 64 * 64;
    return part;
}

/* base NULL: only the size. */
static k3_expert_work_t divide(const k3_expert_shape_t *shape, char *base)
{
    size_t           row = longest(shape);
    size_t           latent = sizeof(float) * K3_EXPERT_CHUNK * k3_padded(shape->latent);
    size_t           inter = sizeof(float) * K3_EXPERT_CHUNK * k3_padded(shape->inter);
    size_t           panel = row > K3_PANEL_FLOATS ? row : K3_PANEL_FLOATS;
    k3_expert_work_t work = {0};

    work.x = take(base, &work.bytes, latent);
    work.gate = take(base, &work.bytes, inter);
    work.up = take(base, &work.bytes, inter);
    work.panel = take(base, &work.bytes, sizeof(float) * panel);
    work.row = take(base, &work.bytes, sizeof(float) * row);
    work.bf16 = take(base, &work.bytes, sizeof(uint16_t) * row);
    work.values = take(base, &work.bytes, row);
    work.scales = take(base, &work.bytes, row / 8);
    return work;
}

size_t k3_expert_work_bytes(const k3_expert_shape_t *shape)
{
    return divide(shape, NULL).bytes + 64; /* the caller's block may start anywhere */
}

/* bf16 values to `format` and back into work->row. */
static void through_format(const k3_expert_ops_t *ops, k3_format_t format, const uint16_t *row,
                           size_t n, k3_expert_work_t *work)
{
    if (format == K3_FORMAT_BF16) {
        ops->decode(K3_FORMAT_BF16, row, NULL, n, work->row);
        return;
    }
    ops->encode(format, row, n, work->values, work->scales);
    ops->decode(format, work->values, work->scales, n, work->row);
}

/* A row as it arrived to the f32 values that the first GEMM reads, in work->row. */
static void read_input(const k3_expert_ops_t *ops, k3_format_t input, k3_format_t arrived,
                       const void *values, const void *scales, size_t n, k3_expert_work_t *work)
{
    if (arrived == K3_FORMAT_BF16) {
        through_format(ops, input, values, n, work);
        return;
    }
    ops->decode(arrived, values, scales, n, work->row);
    if (arrived != input) {
        ops->round(work->row, n, work->bf16);
        through_format(ops, input, work->bf16, n, work);
    }
}

static void middle(const k3_expert_ops_t *ops, const k3_expert_shape_t *shape,
                   const k3_recipe_t *recipe, float weight, float *gate, float *up,
                   k3_expert_work_t *work)
{
    if (recipe->round_gate_up) {
        ops->round(gate, shape->inter, work->bf16);
        ops->decode(K3_FORMAT_BF16, work->bf16, NULL, shape->inter, gate);
        ops->round(up, shape->inter, work->bf16);
        ops->decode(K3_FORMAT_BF16, work->bf16, NULL, shape->inter, up);
    }
    ops->activate(shape->activation, gate, up, weight, shape->inter, work->bf16);
    through_format(ops, recipe->middle, work->bf16, shape->inter, work);
    ops->pack(shape->weights, work->row, shape->inter, gate);
}

static void run_chunk(const k3_expert_ops_t *ops, const k3_expert_shape_t *shape,
                      const k3_recipe_t *recipe, const k3_expert_weights_t *weights, size_t n,
                      k3_format_t format, const void *const *rows, const void *const *scales,
                      const float *row_weights, uint16_t *const *out, k3_expert_work_t *work)
{
    size_t      latent = k3_padded(shape->latent), inter = k3_padded(shape->inter);
    k3_matrix_t w1 = {shape->weights, weights->w1, weights->w1_scale, shape->inter, shape->latent};
    k3_matrix_t w3 = {shape->weights, weights->w3, weights->w3_scale, shape->inter, shape->latent};
    k3_matrix_t w2 = {shape->weights, weights->w2, weights->w2_scale, shape->latent, shape->inter};

    for (size_t i = 0; i < n; i++) {
        read_input(ops, recipe->input, format, rows[i], scales == NULL ? NULL : scales[i],
                   shape->latent, work);
        ops->pack(shape->weights, work->row, shape->latent, work->x + i * latent);
    }
    ops->gemm(&w1, work->x, n, work->gate, work->panel);
    ops->gemm(&w3, work->x, n, work->up, work->panel);
    for (size_t i = 0; i < n; i++) {
        middle(ops, shape, recipe, row_weights == NULL ? 1.0f : row_weights[i],
               work->gate + i * inter, work->up + i * inter, work);
    }
    ops->gemm(&w2, work->gate, n, work->x, work->panel);
    for (size_t i = 0; i < n; i++) {
        ops->round(work->x + i * latent, shape->latent, out[i]);
    }
}

void k3_expert_run(const k3_expert_ops_t *ops, const k3_expert_shape_t *shape,
                   const k3_recipe_t *recipe, const k3_expert_weights_t *weights, size_t n,
                   k3_format_t format, const void *const *rows, const void *const *scales,
                   const float *row_weights, uint16_t *const *out, void *work)
{
    k3_expert_work_t parts;

    if (shape->inter == 0) {
        for (size_t i = 0; i < n; i++) {
            memset(out[i], 0, sizeof(uint16_t) * shape->latent);
        }
        return;
    }
    parts = divide(shape, (char *)work + (64 - (uintptr_t)work % 64) % 64);
    for (size_t i = 0; i < n; i += K3_EXPERT_CHUNK) {
        size_t count = n - i < K3_EXPERT_CHUNK ? n - i : K3_EXPERT_CHUNK;

        run_chunk(ops, shape, recipe, weights, count, format, rows + i,
                  scales == NULL ? NULL : scales + i, row_weights == NULL ? NULL : row_weights + i,
                  out + i, &parts);
    }
}
