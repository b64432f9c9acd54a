/* Row operations and activations: by hand, against f64, and vector against scalar. */
#include "support.h"

#include "kernels/cpu/functions.h"

static const size_t sizes[] = {1,  2,  7,   8,   15,  16,  17,   31,   32,   33,  63,
                               64, 65, 100, 127, 128, 130, 1024, 3584, 4095, 7168};

#define SIZES (sizeof sizes / sizeof *sizes)

static uint16_t bf16(float value)
{
    return k3_f32_to_bf16(value);
}

/* Calls check for every usable ISA. */
static void for_each_isa(void (*check)(const k3_kernels_t *))
{
    for (size_t i = 0; k3_kernels_isa_names[i] != NULL; i++) {
        const k3_kernels_t *kernels = k3_kernels_cpu(k3_kernels_isa_names[i]);

        if (kernels != NULL) {
            check(kernels);
        }
    }
}

static void test_isa_names(void **state)
{
    (void)state;
    assert_ptr_equal(k3_kernels_cpu(NULL), k3_kernels_cpu("auto"));
    assert_string_equal(k3_kernels_cpu("scalar")->isa, "scalar");
    assert_null(k3_kernels_cpu("mmx"));
}

static void check_combine(const k3_kernels_t *kernels)
{
    uint16_t        a[3] = {bf16(1), bf16(2), bf16(-4)}, b[3] = {bf16(8), bf16(0), bf16(16)};
    const uint16_t *rows[] = {a, NULL, b};
    float           weights[] = {0.5f, 100.0f, 0.25f};
    uint16_t        out[3];

    kernels->combine(rows, weights, 3, 3, out);
    assert_int_equal(out[0], bf16(2.5f));
    assert_int_equal(out[1], bf16(1.0f));
    assert_int_equal(out[2], bf16(2.0f));
    kernels->combine(rows, NULL, 3, 3, out);
    assert_int_equal(out[0], bf16(9.0f));
    assert_int_equal(out[2], bf16(12.0f));
    kernels->combine(rows, weights, 0, 3, out);
    assert_int_equal(out[0], 0);
    rows[0] = rows[2] = NULL;
    kernels->combine(rows, weights, 3, 3, out);
    assert_int_equal(out[1], 0);
}

static void check_sum_and_add(const k3_kernels_t *kernels)
{
    uint16_t        a[2] = {bf16(256), bf16(1)}, b[2] = {bf16(1), bf16(-1)};
    const uint16_t *parts[] = {a, b, b};
    uint16_t        out[2];

    kernels->add(a, b, 2, out);
    assert_int_equal(out[0], bf16(256)); /* 257 is a tie, to even */
    assert_int_equal(out[1], 0);
    kernels->sum(parts, 3, 2, out);
    assert_int_equal(out[0], bf16(258)); /* not rounded between */
    assert_int_equal(out[1], bf16(-1));
    kernels->add(a, a, 2, a); /* in place */
    assert_int_equal(a[0], bf16(512));
}

static void check_rms(const k3_kernels_t *kernels)
{
    uint16_t x[4] = {bf16(1), bf16(-1), bf16(7), bf16(7)}; /* mean of squares 25 */
    uint16_t gain[4] = {bf16(5), bf16(10), bf16(5), bf16(0)};
    uint16_t out[4];

    kernels->rms_norm(x, gain, 4, 0.0f, out);
    assert_int_equal(out[0], bf16(1));
    assert_int_equal(out[1], bf16(-2));
    assert_int_equal(out[2], bf16(7));
    assert_int_equal(out[3], 0);
}

static void test_by_hand(void **state)
{
    (void)state;
    for_each_isa(check_combine);
    for_each_isa(check_sum_and_add);
    for_each_isa(check_rms);
}

static void test_functions(void **state)
{
    (void)state;
    for (int i = -87000; i <= 88000; i += 7) {
        float x = (float)i / 1000.0f;

        assert_true(fabs((double)k3_exp(x) / exp((double)x) - 1) < 1e-6);
        assert_true(fabs((double)k3_sigmoid(x) * (1 + exp(-(double)x)) - 1) < 1e-6);
        if (i != 0) {
            assert_true(fabs((double)k3_tanh(x) / tanh((double)x) - 1) < 1e-6);
        }
    }
    for (float x = 1e-30f; x < 3.0f; x *= 1.01f) {
        assert_true(fabs((double)k3_tanh(x) / tanh((double)x) - 1) < 1e-6);
        assert_true(fabs((double)k3_tanh(-x) / tanh(-(double)x) - 1) < 1e-6);
    }
    assert_true(k3_sigmoid(INFINITY) == 1.0f && k3_sigmoid(-INFINITY) == 0.0f);
    assert_true(k3_tanh(INFINITY) == 1.0f && k3_tanh(-INFINITY) == -1.0f);
    assert_true(k3_exp(INFINITY) == INFINITY && k3_exp(0.0f) == 1.0f);
    assert_true(isnan(k3_exp(NAN)) && isnan(k3_tanh(NAN)) && isnan(k3_sigmoid(NAN)));
}

static double act(k3_activation_t activation, double g, double u)
{
    double s = 1 / (1 + exp(-g));

    return activation == K3_ACT_SWIGLU ? g * s * u : 4 * tanh(g / 4) * s * 25 * tanh(u / 25);
}

/* SiTU(4, 25) = 100 tanh(1)^2 sigmoid(4) = 100 * 0.580026 * 0.982014 = 56.959; bf16 has steps of
 * 1/4. */
static void check_situ(const k3_kernels_t *kernels)
{
    uint16_t g[] = {bf16(4), bf16(0), bf16(100), bf16(-100), bf16(0.0625f)};
    uint16_t u[] = {bf16(25), bf16(3), bf16(1000), bf16(1), bf16(0.5f)};
    uint16_t out[5];

    kernels->activate(K3_ACT_SITU, g, u, 5, out);
    assert_int_equal(out[0], bf16(57.0f));
    assert_int_equal(out[1], 0);
    assert_int_equal(out[2], bf16(100.0f)); /* bounded by beta lambda */
    assert_true(fabsf(k3_bf16_to_f32(out[3])) < 1e-38f);
    /* small: silu(g) u = 0.0625 * 0.51562 * 0.5 = 0.016113 */
    assert_true(fabs((double)k3_bf16_to_f32(out[4]) / 0.016113 - 1) < 4e-3);
    kernels->activate(K3_ACT_SWIGLU, g, u, 5, out);
    assert_int_equal(out[0], bf16(98.2f)); /* 4 * 0.982014 * 25 */
}

static void test_situ(void **state)
{
    (void)state;
    for_each_isa(check_situ);
}

/* Every gate under some ups: near f64, and the vector version equal to the scalar one. */
static void test_activate_all(void **state)
{
    const k3_kernels_t *scalar = k3_kernels_cpu("scalar"), *best = k3_kernels_cpu(NULL);
    uint16_t            gate[256], up[256], a[256], b[256];
    uint64_t            seed = 7;

    (void)state;
    for (unsigned bits = 0; bits < 65536; bits += 256) {
        for (unsigned i = 0; i < 256; i++) {
            gate[i] = (uint16_t)(bits + i);
            up[i] = bf16((float)(60 * random_value(&seed)));
        }
        for (k3_activation_t f = K3_ACT_SITU; f <= K3_ACT_SWIGLU; f++) {
            scalar->activate(f, gate, up, 256, a);
            best->activate(f, gate, up, 256, b);
            for (unsigned i = 0; i < 256; i++) {
                double g = (double)k3_bf16_to_f32(gate[i]), u = (double)k3_bf16_to_f32(up[i]);
                double want = act(f, g, u), have = (double)k3_bf16_to_f32(a[i]);

                assert_true(a[i] == b[i] || (isnan(have) && isnan(k3_bf16_to_f32(b[i]))));
                if (isfinite(want) && fabs(want) > 1e-30 && fabs(want) < 1e38) {
                    assert_true(fabs(have / want - 1) < 0.0040);
                }
            }
        }
    }
}

static void test_vector_equal(void **state)
{
    const k3_kernels_t *scalar = k3_kernels_cpu("scalar"), *vector = vector_or_skip();
    uint64_t            seed = 3;

    (void)state;
    for (size_t s = 0; s < SIZES; s++) {
        size_t    n = sizes[s];
        uint16_t *rows[17], *a = block(2 * n), *b = block(2 * n);
        float     weights[17];

        for (size_t i = 0; i < 17; i++) {
            rows[i] = random_row(&seed, n, 3);
            weights[i] = (float)random_value(&seed);
        }
        free(rows[4]);
        rows[4] = NULL;
        for (size_t k = 0; k <= 17; k++) {
            scalar->combine((const uint16_t *const *)rows, weights, k, n, a);
            vector->combine((const uint16_t *const *)rows, weights, k, n, b);
            assert_memory_equal(a, b, 2 * n);
            scalar->sum((const uint16_t *const *)rows, k, n, a);
            vector->sum((const uint16_t *const *)rows, k, n, b);
            assert_memory_equal(a, b, 2 * n);
        }
        scalar->add(rows[0], rows[1], n, a);
        vector->add(rows[0], rows[1], n, b);
        assert_memory_equal(a, b, 2 * n);
        scalar->activate(K3_ACT_SITU, rows[0], rows[1], n, a);
        vector->activate(K3_ACT_SITU, rows[0], rows[1], n, b);
        assert_memory_equal(a, b, 2 * n);
        for (size_t i = 0; i < 17; i++) {
            free(rows[i]);
        }
        free(a);
        free(b);
    }
}

static void check_rms_f64(const k3_kernels_t *kernels)
{
    uint64_t seed = 9;

    for (size_t s = 0; s < SIZES; s++) {
        size_t    n = sizes[s];
        uint16_t *x = random_row(&seed, n, 5), *gain = random_row(&seed, n, 2);
        uint16_t *out = block(2 * n);
        double    square = 0;

        for (size_t i = 0; i < n; i++) {
            square += pow((double)k3_bf16_to_f32(x[i]), 2);
        }
        kernels->rms_norm(x, gain, n, 1e-5f, out);
        for (size_t i = 0; i < n; i++) {
            double want = (double)k3_bf16_to_f32(x[i]) / sqrt(square / (double)n + 1e-5) *
                          (double)k3_bf16_to_f32(gain[i]);

            assert_true(fabs((double)k3_bf16_to_f32(out[i]) - want) <= fabs(want) * 0.0040 + 1e-30);
        }
        free(x);
        free(gain);
        free(out);
    }
}

static void test_rms_f64(void **state)
{
    (void)state;
    for_each_isa(check_rms_f64);
}

/* Rows whose squares have the same sum in any order: equal bit for bit. The mean of the whole ones is
 * 4, so that products with 3 lie halfway between two results often; `odd` takes the place of one. */
static void compare_rms(const uint16_t *gain, unsigned turn, size_t n, float odd)
{
    static const float  pattern[] = {3, -3, 3, 1, -1, 1, 1, 1};
    const k3_kernels_t *scalar = k3_kernels_cpu("scalar"), *vector = vector_or_skip();
    uint16_t            x[256], a[256], b[256];

    for (size_t i = 0; i < n; i++) {
        x[i] = bf16(pattern[(i + turn) % 8]);
    }
    x[turn * 31] = odd != 3.0f ? bf16(odd) : x[turn * 31];
    scalar->rms_norm(x, gain, n, 0.0f, a);
    vector->rms_norm(x, gain, n, 0.0f, b);
    for (size_t i = 0; i < n; i++) {
        bool both = isnan(k3_bf16_to_f32(a[i])) && isnan(k3_bf16_to_f32(b[i]));

        assert_true(a[i] == b[i] || both);
    }
}

static void test_rms_equal(void **state)
{
    static const float odds[] = {3, 3, 0, -0.0f, INFINITY, -INFINITY, NAN, 1e30f};

    (void)state;
    for (unsigned bits = 0; bits < 65536; bits += 256) {
        uint16_t gain[256];

        for (unsigned i = 0; i < 256; i++) {
            gain[i] = (uint16_t)(bits + i);
        }
        for (unsigned turn = 0; turn < 8; turn++) {
            compare_rms(gain, turn, 256, 3.0f);
            compare_rms(gain, turn, 256 - (turn * 5 + bits / 256) % 38,
                        odds[(turn + bits / 256) % 8]);
        }
    }
}

/* m rows of k values against 3 rows of w, near f64. */
static void check_dot(const k3_row_ops_t *ops, size_t m, size_t k)
{
    enum { N = 3, STRIDE = 5 };
    uint64_t  seed = 11;
    uint16_t *w = random_row(&seed, N * k, 1);
    float    *x = block(sizeof *x * m * k), y[4 * STRIDE];

    for (size_t i = 0; i < m * k; i++) {
        x[i] = (float)random_value(&seed);
    }
    ops->dot(w, N, k, x, m, y, STRIDE);
    for (size_t at = 0; at < m * N; at++) {
        size_t r = at / N, j = at % N;
        double want = 0, size = 0;

        for (size_t i = 0; i < k; i++) {
            double product = (double)k3_bf16_to_f32(w[j * k + i]) * (double)x[r * k + i];

            want += product;
            size += fabs(product);
        }
        assert_true(fabs((double)y[r * STRIDE + j] - want) <= 1e-5 * size);
    }
    free(w);
    free(x);
}

/* Few rows of a dense layer. */
static void test_dot(void **state)
{
    const k3_row_ops_t *ops = k3_row_ops_cpu();

    (void)state;
    if (ops->dot == NULL) {
        skip();
    }
    for (size_t s = 0; s < SIZES; s++) {
        for (size_t m = 1; m <= 4; m++) {
            check_dot(ops, m, sizes[s]);
        }
    }
}

/* Every 65521st f32, in rows of odd lengths, NaN with their payloads. */
static void test_round(void **state)
{
    const k3_row_ops_t *ops = k3_row_ops_cpu();
    uint64_t            bits = 0;

    (void)state;
    for (size_t n = 1; bits >> 32 == 0; n = n % 100 + 1) {
        float    row[100];
        uint16_t out[100];

        for (size_t i = 0; i < n; i++, bits += 65521) {
            uint32_t one = (uint32_t)bits;

            memcpy(&row[i], &one, sizeof one);
        }
        ops->round(row, n, out);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(out[i], k3_f32_to_bf16(row[i]));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_isa_names),    cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_functions),    cmocka_unit_test(test_situ),
        cmocka_unit_test(test_activate_all), cmocka_unit_test(test_vector_equal),
        cmocka_unit_test(test_rms_f64),      cmocka_unit_test(test_rms_equal),
        cmocka_unit_test(test_dot),          cmocka_unit_test(test_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
