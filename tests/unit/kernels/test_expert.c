/* The expert MLP: every recipe, format and count of rows against f64. */
#include "expert_reference.h"

static const k3_recipe_t recipes[] = {
    {"bf16", K3_FORMAT_BF16, false, K3_FORMAT_BF16},
    {"bf16, gate and up rounded", K3_FORMAT_BF16, true, K3_FORMAT_BF16},
    {"fp8", K3_FORMAT_FP8, true, K3_FORMAT_FP8},
    {"mxfp8", K3_FORMAT_MXFP8, false, K3_FORMAT_MXFP8},
    {"mxfp4", K3_FORMAT_MXFP4, true, K3_FORMAT_MXFP4},
    {"int8", K3_FORMAT_INT8, false, K3_FORMAT_INT8},
};

/* An expert with random weights and rows in a format, in blocks of exact size. */
typedef struct k3_case {
    k3_expert_shape_t   shape;
    k3_format_t         format;
    size_t              n;
    uint8_t            *block;
    k3_expert_weights_t weights;
    k3_reference_t      reference;
    void              **rows, **scales;
    float              *row_weights; /* NULL: none */
    double             *values;      /* [n][latent] what the rows stand for */
    uint16_t          **out;
    void               *work;
} k3_case_t;

static void random_weights(k3_case_t *c, uint64_t *seed)
{
    uint64_t bytes = k3_expert_layout(&c->shape, NULL, NULL);
    uint64_t scale = k3_expert_scale_bytes(&c->shape) / 3;

    c->block = block(bytes + 64);
    for (uint64_t i = 0; i < bytes; i++) {
        c->block[i] = (uint8_t)(next_random(seed) & 0xf7 & (c->shape.weights ? 0xbf : 0xff));
    }
    assert_int_equal(k3_expert_layout(&c->shape, c->block, &c->weights), bytes);
    for (int part = 0; part < 3; part++) {
        const void *const parts[] = {c->weights.w1_scale, c->weights.w3_scale, c->weights.w2_scale};
        uint8_t          *to = c->block + ((const uint8_t *)parts[part] - c->block);

        for (uint64_t i = 0; c->shape.weights == K3_WEIGHT_MXFP4 && i < scale; i++) {
            to[i] = (uint8_t)(122 + next_random(seed) % 3);
        }
        for (uint64_t i = 0; c->shape.weights == K3_WEIGHT_FP8_B128 && i < scale / 4; i++) {
            float value = (float)(0.2 + 0.1 * random_value(seed));

            memcpy(to + 4 * i, &value, 4);
        }
    }
}

static void random_rows(k3_case_t *c, uint64_t *seed)
{
    const k3_kernels_t *scalar = k3_kernels_cpu("scalar");
    size_t              latent = c->shape.latent;
    float              *values = block(sizeof *values * latent);

    for (size_t i = 0; i < c->n; i++) {
        uint16_t *row = random_row(seed, latent, 0.5);

        c->rows[i] = block(k3_format_value_bytes(c->format, latent));
        c->scales[i] = block(k3_format_scale_bytes(c->format, latent));
        c->out[i] = block(sizeof(uint16_t) * latent);
        scalar->encode(c->format, row, latent, c->rows[i], c->scales[i]);
        scalar->decode(c->format, c->rows[i], c->scales[i], latent, values);
        for (size_t k = 0; k < latent; k++) {
            c->values[i * latent + k] = (double)values[k];
        }
        free(row);
    }
    free(values);
}

static k3_case_t make_case(k3_expert_shape_t shape, k3_format_t format, size_t n)
{
    uint64_t  seed = 17 + n + shape.latent;
    k3_case_t c = {.shape = shape, .format = format, .n = n};

    c.rows = block(sizeof *c.rows * n);
    c.scales = block(sizeof *c.scales * n);
    c.out = block(sizeof *c.out * n);
    c.values = block(sizeof *c.values * n * shape.latent);
    c.work = block(k3_expert_work_bytes(&shape));
    random_weights(&c, &seed);
    c.reference = reference_make(&shape, &c.weights);
    random_rows(&c, &seed);
    return c;
}

static void drop_case(k3_case_t *c)
{
    for (size_t i = 0; i < c->n; i++) {
        free(c->rows[i]);
        free(c->scales[i]);
        free(c->out[i]);
    }
    free(c->rows);
    free(c->scales);
    free(c->out);
    free(c->values);
    reference_drop(&c->reference);
    free(c->row_weights);
    free(c->work);
    free(c->block);
}

static void run(const k3_kernels_t *kernels, const k3_recipe_t *recipe, k3_case_t *c)
{
    kernels->expert_mlp(&c->shape, recipe, &c->weights, c->n, c->format,
                        (const void *const *)c->rows, (const void *const *)c->scales,
                        c->row_weights, c->out, c->work);
}

/* All rows as the reference has them that rounds as `recipe` says (NULL: not at all). */
static double *reference_rows(const k3_case_t *c, const k3_recipe_t *recipe)
{
    size_t  latent = c->shape.latent;
    double *want = block(sizeof *want * c->n * latent);

    for (size_t i = 0; i < c->n; i++) {
        reference_expert(&c->shape, recipe, &c->reference, c->format, c->values + i * latent,
                         c->row_weights == NULL ? 1.0 : (double)c->row_weights[i],
                         want + i * latent);
    }
    return want;
}

static double error_of(const k3_case_t *c, const double *want)
{
    size_t  latent = c->shape.latent;
    double *have = block(sizeof *have * c->n * latent), error;

    for (size_t i = 0; i < c->n * latent; i++) {
        have[i] = (double)k3_bf16_to_f32(c->out[i / latent][i % latent]);
    }
    error = relative_error(have, want, c->n * latent);
    free(have);
    return error;
}

static void check_case(k3_case_t c, const k3_recipe_t *recipe, double limit)
{
    double *want = reference_rows(&c, recipe), *plain = reference_rows(&c, NULL);

    for (size_t i = 1; k3_kernels_isa_names[i] != NULL; i++) {
        const k3_kernels_t *kernels = k3_kernels_cpu(k3_kernels_isa_names[i]);
        double              error;

        if (kernels == NULL) {
            continue;
        }
        run(kernels, recipe, &c);
        error = error_of(&c, want);
        if (!(error < limit)) {
            fail_msg("%s: %s, rows %s x %zu, %u x %u, weights %d: error %g", kernels->isa,
                     recipe->name, k3_format_names[c.format], c.n, c.shape.latent, c.shape.inter,
                     (int)c.shape.weights, error);
        }
        if (recipe->input == K3_FORMAT_BF16) {
            assert_true(error_of(&c, plain) < 1e-2);
        }
    }
    free(want);
    free(plain);
    drop_case(&c);
}

/* Most cases where instructions are emulated. */
static bool is_left_out(void)
{
    static unsigned turn;

    return turn++ % THINNED != 0;
}

static void check(k3_expert_shape_t shape, const k3_recipe_t *recipe, k3_format_t format, size_t n)
{
    if (!is_left_out()) {
        check_case(make_case(shape, format, n), recipe, 2e-3);
    }
}

static void test_recipes(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        for (k3_format_t format = 0; format < K3_FORMAT_LOGFMT10; format++) {
            for (int weights = 0; weights < 2; weights++) {
                k3_expert_shape_t shape = {256, 160, (k3_weight_format_t)weights,
                                           r % 2 == 0 ? K3_ACT_SITU : K3_ACT_SWIGLU};

                check(shape, &recipes[r], format, 3);
                check(shape, &recipes[r], format, 6);
            }
        }
    }
}

static void test_counts(void **state)
{
    static const size_t counts[] = {0, 1, 2, 3, 4, 5, 7, 8, 64, 65, 130};

    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (int weights = 0; weights < 2; weights++) {
            k3_expert_shape_t shape = {96, 64, (k3_weight_format_t)weights, K3_ACT_SITU};

            check(shape, &recipes[1], K3_FORMAT_BF16, counts[i]);
        }
    }
}

/* Lengths that end within a block of 64, a group of 128, a panel of 512 and a quarter of it. */
static void test_lengths(void **state)
{
    static const uint32_t lengths[] = {32, 64, 96, 224, 288, 512, 544, 608, 1120};

    (void)state;
    for (size_t a = 0; a < sizeof lengths / sizeof *lengths; a++) {
        for (size_t b = 0; b < 3; b++) {
            k3_expert_shape_t shape = {lengths[a], lengths[(a + 4 * b) % 9],
                                       b % 2 == 0 ? K3_WEIGHT_MXFP4 : K3_WEIGHT_FP8_B128,
                                       K3_ACT_SITU};

            check(shape, &recipes[a % 5], K3_FORMAT_BF16, 1);
            check(shape, &recipes[a % 5], K3_FORMAT_BF16, 6);
        }
    }
}

/* w1 row 0 = (6, -0.5, 0...), w3 row 0 = (1, 1, 0...), w2 column 0 = (2, 4, 0...), scales 1; x =
 * (1, 2): gate 5, up 3; SwiGLU 5 sigmoid(5) 3 = 14.8996, bf16 14.875; out (29.75, 59.5). */
static void test_by_hand(void **state)
{
    k3_expert_shape_t shape = {32, 32, K3_WEIGHT_MXFP4, K3_ACT_SWIGLU};
    uint8_t           w1[512] = {0x17 | 0x80}, w3[512] = {0x22}, w2[512] = {0};
    uint8_t           scale[32];
    uint16_t          x[32] = {k3_f32_to_bf16(1), k3_f32_to_bf16(2)}, out[32];
    const void       *rows[] = {x};
    uint16_t         *outs[] = {out};
    void             *work = block(k3_expert_work_bytes(&shape));

    (void)state;
    memset(scale, 127, sizeof scale);
    w2[0] = 0x04;
    w2[16] = 0x06;
    w2[32] = 0x08; /* -0 */
    for (size_t i = 1; k3_kernels_isa_names[i] != NULL; i++) {
        const k3_kernels_t *kernels = k3_kernels_cpu(k3_kernels_isa_names[i]);
        k3_expert_weights_t weights = {w1, w3, w2, scale, scale, scale};

        if (kernels != NULL) {
            kernels->expert_mlp(&shape, &recipes[0], &weights, 1, K3_FORMAT_BF16, rows, NULL, NULL,
                                outs, work);
            assert_true(k3_bf16_to_f32(out[0]) == 29.75f);
            assert_true(k3_bf16_to_f32(out[1]) == 59.5f);
            for (int k = 2; k < 32; k++) {
                assert_true(k3_bf16_to_f32(out[k]) == 0.0f);
            }
            /* 0.9 * 14.8996 = 13.4096, bf16 13.4375; rounded first it would be 13.375. */
            kernels->expert_mlp(&shape, &recipes[0], &weights, 1, K3_FORMAT_BF16, rows, NULL,
                                &(const float){0.9f}, outs, work);
            assert_true(k3_bf16_to_f32(out[0]) == 26.875f);
            assert_true(k3_bf16_to_f32(out[1]) == 53.75f);
        }
    }
    free(work);
}

/* What one of n middle values does when a sum in another order tips it to the next code. */
static double one_flip(k3_format_t middle, size_t n)
{
    double step = middle == K3_FORMAT_BF16 ? 0 : middle == K3_FORMAT_MXFP4 ? 0.35 : 0.09;

    return step / sqrt((double)n);
}

/* Each row has its own weight, also beyond one pass of 64 rows; a weight of 0 gives a zero row. */
static void test_row_weights(void **state)
{
    static const size_t counts[] = {1, 3, 6, 70};

    (void)state;
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            k3_expert_shape_t shape = {96, 64, K3_WEIGHT_MXFP4, K3_ACT_SITU};
            k3_case_t         c;

            if (is_left_out()) {
                continue;
            }
            c = make_case(shape, K3_FORMAT_MXFP8, counts[i]);
            c.row_weights = block(sizeof *c.row_weights * counts[i]);
            for (size_t row = 0; row < counts[i]; row++) {
                c.row_weights[row] = row % 5 == 4 ? 0.0f : 0.3f + 0.07f * (float)(row % 7);
            }
            check_case(c, &recipes[r], 2e-3 + one_flip(recipes[r].middle, counts[i] * shape.inter));
        }
    }
}

/* The parts of a divided intermediate dimension add up to the whole; an empty part is zero. */
static void test_slices(void **state)
{
    const k3_kernels_t *kernels = k3_kernels_cpu(NULL);
    k3_expert_shape_t   empty = {64, 0, K3_WEIGHT_MXFP4, K3_ACT_SITU};
    k3_case_t           c = make_case(empty, K3_FORMAT_BF16, 2);

    (void)state;
    assert_int_equal(k3_expert_value_bytes(&empty) + k3_expert_scale_bytes(&empty), 0);
    for (size_t i = 0; i < 2; i++) {
        memset(c.out[i], 0xff, sizeof(uint16_t) * 64);
        kernels->expert_mlp(&c.shape, &recipes[i], &c.weights, 2, c.format,
                            (const void *const *)c.rows, NULL, NULL, c.out, c.work);
        for (size_t k = 0; k < 64; k++) {
            assert_int_equal(c.out[0][k] | c.out[1][k], 0);
        }
    }
    drop_case(&c);
}

static void check_nan(const k3_kernels_t *kernels, k3_weight_format_t weights, size_t n, size_t bad)
{
    k3_expert_shape_t shape = {96, 64, weights, K3_ACT_SITU};
    k3_case_t         c = make_case(shape, K3_FORMAT_BF16, n);
    uint16_t         *want = block(sizeof *want * n * shape.latent);

    for (size_t r = 0; r < 3; r++) {
        uint16_t keep = ((uint16_t *)c.rows[bad])[7];

        run(kernels, &recipes[r], &c);
        for (size_t i = 0; i < n; i++) {
            memcpy(want + i * shape.latent, c.out[i], sizeof *want * shape.latent);
        }
        ((uint16_t *)c.rows[bad])[7] = 0x7fc0;
        run(kernels, &recipes[r], &c);
        for (size_t i = 0; i < n; i++) {
            if (i != bad) {
                assert_memory_equal(want + i * shape.latent, c.out[i], sizeof *want * shape.latent);
            }
        }
        for (size_t k = 0; k < shape.latent; k++) {
            assert_true(isnan(k3_bf16_to_f32(c.out[bad][k])));
        }
        ((uint16_t *)c.rows[bad])[7] = keep;
    }
    free(want);
    drop_case(&c);
}

static void test_nan_stays_in_its_row(void **state)
{
    static const size_t counts[] = {1, 2, 3, 4, 5, 6, 7, 66};

    (void)state;
    for (size_t i = 1; k3_kernels_isa_names[i] != NULL; i++) {
        const k3_kernels_t *kernels = k3_kernels_cpu(k3_kernels_isa_names[i]);

        for (size_t c = 0; kernels != NULL && c < sizeof counts / sizeof *counts; c++) {
            if (!is_left_out()) {
                check_nan(kernels, K3_WEIGHT_MXFP4, counts[c], counts[c] / 2);
                check_nan(kernels, K3_WEIGHT_FP8_B128, counts[c], counts[c] - 1);
            }
        }
    }
}

static void test_sizes(void **state)
{
    k3_expert_shape_t   shape = {3584, 3072, K3_WEIGHT_MXFP4, K3_ACT_SITU};
    k3_expert_weights_t weights;
    uint8_t            *none = NULL;

    (void)state;
    assert_int_equal(k3_expert_value_bytes(&shape), 16515072);
    assert_int_equal(k3_expert_scale_bytes(&shape), 1032192);
    assert_int_equal(k3_expert_layout(&shape, none, &weights), 17547264);
    shape.weights = K3_WEIGHT_FP8_B128;
    assert_int_equal(k3_expert_value_bytes(&shape), 33030144);
    assert_int_equal(k3_expert_scale_bytes(&shape), 3 * 28 * 24 * 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand), cmocka_unit_test(test_recipes),
        cmocka_unit_test(test_counts),  cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_slices),  cmocka_unit_test(test_nan_stays_in_its_row),
        cmocka_unit_test(test_sizes),   cmocka_unit_test(test_row_weights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
