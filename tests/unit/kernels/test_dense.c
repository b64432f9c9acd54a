/* Dense layers against f64, on both ways to run them. */
#include "support.h"

#include "kernels/dense.h"

static void check(k3_dense_path_t path, size_t n, size_t k, size_t max_m, size_t m)
{
    uint64_t    seed = 11 + n + k + m;
    uint16_t   *w = random_row(&seed, n * k, 1), *x = random_row(&seed, m * k, 1);
    uint16_t   *rounded = block(sizeof *rounded * m * n);
    float      *y = block(sizeof *y * m * n);
    k3_dense_t *dense = k3_dense_create_on(path, w, n, k, max_m);

    assert_non_null(dense);
    k3_dense_run(dense, x, m, y, NULL);
    k3_dense_run(dense, x, m, NULL, rounded);
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            double sum = 0, size = 0;

            for (size_t c = 0; c < k; c++) {
                double term =
                    (double)k3_bf16_to_f32(x[i * k + c]) * (double)k3_bf16_to_f32(w[j * k + c]);

                sum += term;
                size += fabs(term);
            }
            assert_true(fabs((double)y[i * n + j] - sum) <= 2e-6 * size);
            assert_true(fabs((double)k3_bf16_to_f32(rounded[i * n + j]) - sum) <=
                        fabs(sum) * 0.0040 + 2e-6 * size);
        }
    }
    k3_dense_destroy(dense);
    free(w);
    free(x);
    free(y);
    free(rounded);
}

static void test_shapes(void **state)
{
    static const size_t rows[] = {0, 1, 2, 3, 4, 5, 7, 33};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check(K3_DENSE_F32, 1, 8, 40, rows[i]);
        check(K3_DENSE_F32, 17, 100, 40, rows[i]);
        check(K3_DENSE_F32, 128, 64, 40, rows[i]);
        check(K3_DENSE_F32, 300, 32, 40, rows[i]);
    }
    check(K3_DENSE_F32, 130, 64, 600, 600); /* more than one chunk */
    check(K3_DENSE_F32, 9, 7168, 8, 4);
    check(K3_DENSE_F32, 9, 7168, 8, 8);
    check(K3_DENSE_F32, 5, 32, 1, 1);
}

/* oneDNN refuses bf16 on a CPU without AVX-512. */
static void test_bf16_path(void **state)
{
    static const size_t rows[] = {0, 1, 2, 3, 5, 7, 33, 40};

    (void)state;
    if (k3_dense_best_path() != K3_DENSE_BF16) {
        assert_null(k3_dense_create_on(K3_DENSE_BF16, NULL, 0, 0, 1));
        skip();
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check(K3_DENSE_BF16, 24, 64, 40, rows[i]);
        check(K3_DENSE_BF16, 130, 512, 33, rows[i]);
    }
    check(K3_DENSE_BF16, 16, 32, 300, 600);
}

/* Work space is there for one chunk of rows and does not grow beyond it. */
static void test_bytes(void **state)
{
    (void)state;
    assert_true(k3_dense_bytes_on(K3_DENSE_F32, 896, 7168, 64) >= sizeof(float) * 64 * 7168);
    assert_true(k3_dense_bytes_on(K3_DENSE_F32, 896, 7168, 1 << 20) < 16 << 20);
    assert_true(k3_dense_bytes(64, 64, 64) > 0);
    assert_memory_equal(k3_dense_library(), "oneDNN ", 7);
    k3_dense_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_bf16_path),
                                       cmocka_unit_test(test_bytes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
