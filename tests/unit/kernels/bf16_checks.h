/* What the GEMM of a bf16 unit has to do besides: its sums bit for bit, and the expert MLP through the
 * unit's table. */
#ifndef K3_TESTS_KERNELS_BF16_CHECKS_H
#define K3_TESTS_KERNELS_BF16_CHECKS_H

#include "gemm_checks.h"

/* How a unit adds the products of a group of 32 to `sum`. */
typedef float (*k3_group_sum_t)(float sum, const uint16_t *w, const uint16_t *x);

typedef struct k3_bf16_case {
    size_t    rows, columns, m; /* of w, and rows of x */
    uint8_t  *values, *scales;
    uint16_t *w;
    float    *x, *y;
} k3_bf16_case_t;

/* Scales from very small ones, so that products and sums become subnormal, to 2^8. */
static void fill_case(k3_bf16_case_t *c, uint64_t *seed)
{
    for (size_t i = 0; i < c->rows * c->columns / 32; i++) {
        c->scales[i] = (uint8_t)(next_random(seed) % 8 == 0 ? next_random(seed) % 64
                                                            : 120 + next_random(seed) % 16);
    }
    for (size_t i = 0; i < c->rows * c->columns / 2; i++) {
        c->values[i] = (uint8_t)next_random(seed);
    }
    for (size_t i = 0; i < c->rows * c->columns; i++) {
        unsigned code = i % 2 == 0 ? c->values[i / 2] & 15 : c->values[i / 2] >> 4;

        c->w[i] = k3_f32_to_bf16(k3_e2m1_to_f32((uint8_t)code) * k3_e8m0_to_f32(c->scales[i / 32]));
    }
    for (size_t i = 0; i < c->m; i++) {
        for (size_t k = 0; k < c->columns; k++) {
            float value = (float)ldexp(random_value(seed), (int)(next_random(seed) % 20) - 15);

            c->x[i * k3_padded(c->columns) + k] = k3_bf16_to_f32(k3_f32_to_bf16(value));
        }
    }
}

static float sum_of(const k3_bf16_case_t *c, size_t i, size_t j, k3_group_sum_t add_group)
{
    float sum = 0;

    for (size_t k = 0; k < c->columns; k += 32) {
        uint16_t x[32];

        for (size_t d = 0; d < 32; d++) {
            x[d] = k3_f32_to_bf16(c->x[i * k3_padded(c->columns) + k + d]);
        }
        sum = add_group(sum, c->w + j * c->columns + k, x);
    }
    return sum;
}

/* Tails of rows, of columns and of the depth of a panel. */
static void check_sums(const k3_gemm_ops_t *ops, k3_group_sum_t add_group)
{
    static const k3_bf16_case_t shapes[] = {
        {1, 32, 1},    {16, 64, 16},   {33, 96, 17},  {96, 544, 32},
        {70, 512, 33}, {97, 1056, 48}, {40, 160, 63}, {64, 576, 64},
    };
    uint64_t seed = 3;

    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        k3_bf16_case_t c = shapes[s];
        k3_matrix_t    w;

        c.values = block(c.rows * c.columns / 2);
        c.scales = block(c.rows * c.columns / 32);
        c.w = block(sizeof *c.w * c.rows * c.columns);
        c.x = rows_of(c.m, c.columns);
        c.y = rows_of(c.m, c.rows);
        fill_case(&c, &seed);
        w = (k3_matrix_t){K3_WEIGHT_MXFP4, c.values, c.scales, c.rows, c.columns};
        multiply(ops, &w, c.x, c.m, c.y);
        for (size_t i = 0; i < c.m; i++) {
            for (size_t j = 0; j < c.rows; j++) {
                float want = sum_of(&c, i, j, add_group), have = c.y[i * k3_padded(c.rows) + j];

                assert_memory_equal(&have, &want, sizeof have);
            }
        }
        free(c.values);
        free(c.scales);
        free(c.w);
        free(c.x);
        free(c.y);
    }
}

/* --- the expert MLP ---------------------------------------------------------------------------- */

enum { LATENT = 96, INTER = 160, MOST = 70 };

static void run_expert(const k3_kernels_t *kernels, const k3_recipe_t *recipe, const uint8_t *bytes,
                       const uint16_t *x, size_t n, uint16_t *out)
{
    const k3_expert_shape_t shape = {LATENT, INTER, K3_WEIGHT_MXFP4, K3_ACT_SITU};
    k3_expert_weights_t     weights;
    const void             *rows[MOST];
    uint16_t               *to[MOST];
    void                   *work = block(k3_expert_work_bytes(&shape));

    k3_expert_layout(&shape, bytes, &weights);
    for (size_t i = 0; i < n; i++) {
        rows[i] = x + i * LATENT;
        to[i] = out + i * LATENT;
    }
    kernels->expert_mlp(&shape, recipe, &weights, n, K3_FORMAT_BF16, rows, NULL, NULL, to, work);
    free(work);
}

/* Against the scalar path, through one and two passes; a NaN stays in its row. */
static void check_expert(const k3_kernels_t *kernels)
{
    static const k3_recipe_t recipes[] = {
        {"w4a16", K3_FORMAT_BF16, true, K3_FORMAT_BF16},
        {"mxfp8", K3_FORMAT_MXFP8, false, K3_FORMAT_MXFP8},
        {"mxfp4", K3_FORMAT_MXFP4, false, K3_FORMAT_MXFP4},
    };
    const k3_expert_shape_t shape = {LATENT, INTER, K3_WEIGHT_MXFP4, K3_ACT_SITU};
    const size_t            bytes = k3_expert_layout(&shape, NULL, NULL), bad = 3;
    uint64_t                seed = 11;
    uint8_t                *weights = aligned_alloc(64, bytes);
    uint16_t               *x = random_row(&seed, (size_t)MOST * LATENT, 2.0);
    static uint16_t         have[MOST * LATENT], want[MOST * LATENT];
    static double           a[MOST * LATENT], b[MOST * LATENT];

    assert_non_null(weights);
    for (size_t i = 0; i < bytes; i++) {
        weights[i] =
            (uint8_t)(i < k3_expert_value_bytes(&shape) ? next_random(&seed) : 122 + i % 3);
    }
    x[bad * LATENT + 5] = 0x7fc0; /* NaN */
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        for (size_t n = 9; n <= MOST; n += 61) {
            run_expert(kernels, &recipes[r], weights, x, n, have);
            run_expert(k3_kernels_cpu("scalar"), &recipes[r], weights, x, n, want);
            for (size_t i = 0; i < n * LATENT; i++) {
                bool nan = i / LATENT == bad;

                assert_true(isnan(k3_bf16_to_f32(have[i])) == nan);
                a[i] = nan ? 0 : (double)k3_bf16_to_f32(have[i]);
                b[i] = nan ? 0 : (double)k3_bf16_to_f32(want[i]);
            }
            assert_true(relative_error(a, b, n * LATENT) < 2e-3);
        }
    }
    free(weights);
    free(x);
}

#endif
