/* The expert MLP's steps and rounding points, the same for every ISA. */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/threads.h"

/* Work space of one pass. f32 rows are padded; `gate` is overwritten by the packed middle rows and
 * `x` by the output rows, once they are no longer needed. The others are where a row passes through
 * a format; each row has its own, as threads take different rows. */
typedef struct k3_expert_work {
    float    *x, *gate, *up;
    uint16_t *spread; /* what gemm reads, where that is not the packed rows */
    uint16_t *bf16;
    uint8_t  *values, *scales;
    size_t    longest; /* of a row in the last three: so many values, a byte of scales for 8 */
    size_t    bytes;
} k3_expert_work_t;

/* One pass: up to K3_EXPERT_CHUNK rows of one expert. */
typedef struct k3_expert_pass {
    const k3_expert_ops_t   *ops;
    const k3_expert_shape_t *shape;
    const k3_recipe_t       *recipe;
    k3_matrix_t              w1, w3, w2;
    size_t                   n;
    k3_format_t              format;
    const void *const *rows, *const *scales;
    const float     *row_weights;
    uint16_t *const *out;
    k3_expert_work_t work;
} k3_expert_pass_t;

static void *take(char *base, size_t *used, size_t bytes)
{
    void *part = base == NULL ? NULL : base + *used;

    *used += (bytes + 63) / 64 * 64;
    return part;
}

/* base NULL: only the size. */
static k3_expert_work_t divide(const k3_expert_shape_t *shape, char *base)
{
    size_t           latent = K3_EXPERT_CHUNK * k3_padded(shape->latent);
    size_t           inter = K3_EXPERT_CHUNK * k3_padded(shape->inter);
    size_t           most = latent > inter ? latent : inter;
    k3_expert_work_t work = {.longest = most / K3_EXPERT_CHUNK};

    work.x = take(base, &work.bytes, sizeof(float) * latent);
    work.gate = take(base, &work.bytes, sizeof(float) * inter);
    work.up = take(base, &work.bytes, sizeof(float) * inter);
    work.bf16 = take(base, &work.bytes, sizeof(uint16_t) * most);
    work.values = take(base, &work.bytes, most);
    work.scales = take(base, &work.bytes, most / 8);
    work.spread = take(base, &work.bytes, sizeof(uint16_t) * most);
    return work;
}

size_t k3_expert_work_bytes(const k3_expert_shape_t *shape)
{
    return divide(shape, NULL).bytes + 64; /* the caller's block may start anywhere */
}

/* --- rows ------------------------------------------------------------------------------------ */

/* bf16 values of row i to `format` and back to f32. */
static void through_format(const k3_expert_pass_t *p, size_t i, k3_format_t format,
                           const uint16_t *row, size_t n, float *to)
{
    const k3_expert_work_t *work = &p->work;
    uint8_t                *values = work->values + i * work->longest;
    uint8_t                *scales = work->scales + i * work->longest / 8;

    if (format == K3_FORMAT_BF16) {
        p->ops->decode(K3_FORMAT_BF16, row, NULL, n, to);
        return;
    }
    p->ops->encode(format, row, n, values, scales);
    p->ops->decode(format, values, scales, n, to);
}

/* Row i as it arrived to the values that the first GEMM reads. */
static void read_row(void *pass, size_t i)
{
    const k3_expert_pass_t *p = pass;
    size_t                  n = p->shape->latent;
    const void             *scales = p->scales == NULL ? NULL : p->scales[i];
    float                  *to = p->work.x + i * k3_padded(n);
    uint16_t               *bf16 = p->work.bf16 + i * p->work.longest;

    if (p->format == K3_FORMAT_BF16) {
        through_format(p, i, p->recipe->input, p->rows[i], n, to);
    } else {
        p->ops->decode(p->format, p->rows[i], scales, n, to);
        if (p->format != p->recipe->input) {
            p->ops->round(to, n, bf16);
            through_format(p, i, p->recipe->input, bf16, n, to);
        }
    }
    p->ops->pack(p->shape->weights, to, n);
}

static void round_row(const k3_expert_pass_t *p, float *row, uint16_t *bf16)
{
    p->ops->round(row, p->shape->inter, bf16);
    p->ops->decode(K3_FORMAT_BF16, bf16, NULL, p->shape->inter, row);
}

/* The activation of row i, to the values that the second GEMM reads. */
static void activate_row(void *pass, size_t i)
{
    const k3_expert_pass_t *p = pass;
    size_t                  n = p->shape->inter;
    float                  *gate = p->work.gate + i * k3_padded(n);
    float                  *up = p->work.up + i * k3_padded(n);
    uint16_t               *bf16 = p->work.bf16 + i * p->work.longest;
    float                   weight = p->row_weights == NULL ? 1.0f : p->row_weights[i];

    if (p->recipe->round_gate_up) {
        round_row(p, gate, bf16);
        round_row(p, up, bf16);
    }
    p->ops->activate(p->shape->activation, gate, up, weight, n, bf16);
    through_format(p, i, p->recipe->middle, bf16, n, gate);
    p->ops->pack(p->shape->weights, gate, n);
}

static void write_row(void *pass, size_t i)
{
    const k3_expert_pass_t *p = pass;

    p->ops->round(p->work.x + i * k3_padded(p->shape->latent), p->shape->latent, p->out[i]);
}

/* 16 packed rows of x, or of the middle, to what the GEMM reads. */
static void spread_x(void *pass, size_t tile)
{
    const k3_expert_pass_t *p = pass;

    p->ops->spread(p->work.x, p->n, p->shape->latent, tile, p->work.spread);
}

static void spread_middle(void *pass, size_t tile)
{
    const k3_expert_pass_t *p = pass;

    p->ops->spread(p->work.gate, p->n, p->shape->inter, tile, p->work.spread);
}

/* --- columns --------------------------------------------------------------------------------- */

static size_t blocks_of(size_t columns)
{
    return (columns + K3_GEMM_COLUMNS - 1) / K3_GEMM_COLUMNS;
}

static void columns_of(const k3_expert_pass_t *p, const k3_matrix_t *w, const float *x,
                       size_t block, float *y)
{
    size_t      first = block * K3_GEMM_COLUMNS, left = w->rows - first;
    const void *rows = p->ops->spread != NULL ? (const void *)p->work.spread : x;

    p->ops->gemm(w, rows, p->n, first, left < K3_GEMM_COLUMNS ? left : K3_GEMM_COLUMNS, y);
}

/* Blocks of gate, then those of up. */
static void gate_up_block(void *pass, size_t block)
{
    const k3_expert_pass_t *p = pass;
    size_t                  blocks = blocks_of(p->shape->inter);

    if (block < blocks) {
        columns_of(p, &p->w1, p->work.x, block, p->work.gate);
    } else {
        columns_of(p, &p->w3, p->work.x, block - blocks, p->work.up);
    }
}

static void down_block(void *pass, size_t block)
{
    const k3_expert_pass_t *p = pass;

    columns_of(p, &p->w2, p->work.gate, block, p->work.x);
}

/* --- all ------------------------------------------------------------------------------------- */

static void run_pass(k3_expert_pass_t *p)
{
    size_t tiles = p->ops->spread != NULL ? (p->n + K3_SPREAD - 1) / K3_SPREAD : 0;

    k3_parallel(p->n, read_row, p);
    k3_parallel(tiles, spread_x, p);
    k3_parallel(2 * blocks_of(p->shape->inter), gate_up_block, p);
    k3_parallel(p->n, activate_row, p);
    k3_parallel(tiles, spread_middle, p);
    k3_parallel(blocks_of(p->shape->latent), down_block, p);
    k3_parallel(p->n, write_row, p);
}

void k3_expert_run(const k3_expert_ops_t *ops, const k3_expert_shape_t *shape,
                   const k3_recipe_t *recipe, const k3_expert_weights_t *weights, size_t n,
                   k3_format_t format, const void *const *rows, const void *const *scales,
                   const float *row_weights, uint16_t *const *out, void *work)
{
    k3_weight_format_t as = shape->weights;
    k3_expert_pass_t   p = {ops, shape, recipe, .format = format};
    size_t             passes, length;

    if (shape->inter == 0) {
        for (size_t i = 0; i < n; i++) {
            memset(out[i], 0, sizeof(uint16_t) * shape->latent);
        }
        return;
    }
    p.w1 = (k3_matrix_t){as, weights->w1, weights->w1_scale, shape->inter, shape->latent};
    p.w3 = (k3_matrix_t){as, weights->w3, weights->w3_scale, shape->inter, shape->latent};
    p.w2 = (k3_matrix_t){as, weights->w2, weights->w2_scale, shape->latent, shape->inter};
    p.work = divide(shape, (char *)work + (64 - (uintptr_t)work % 64) % 64);
    /* Passes of equal length: all rows of a call are summed in the same order, so that equal rows
     * have equal results. */
    passes = (n + K3_EXPERT_CHUNK - 1) / K3_EXPERT_CHUNK;
    length = passes > 0 ? (n + passes - 1) / passes : 0;
    for (size_t i = 0; i < n; i += length) {
        p.n = n - i < length ? n - i : length;
        p.rows = rows + i;
        p.scales = scales == NULL ? NULL : scales + i;
        p.row_weights = row_weights == NULL ? NULL : row_weights + i;
        p.out = out + i;
        run_pass(&p);
    }
}
