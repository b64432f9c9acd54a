/* The pool, and that results do not depend on the number of threads. */
#include <stdatomic.h>

#include "support.h"

#include "kernels/threads.h"

enum { TASKS = 1000, LATENT = 256, INTER = 320 };

typedef struct k3_calls {
    atomic_int of[TASKS], wrong_index;
} k3_calls_t;

static void count_call(void *arg, size_t i)
{
    k3_calls_t *calls = arg;

    atomic_fetch_add(&calls->of[i], 1);
    if (k3_thread_index() < 0 || k3_thread_index() >= k3_threads()) {
        atomic_fetch_add(&calls->wrong_index, 1);
    }
}

/* Also with fewer threads than before, one, and none asked for. */
static void test_each_once(void **state)
{
    static const int counts[] = {1, 2, 3, 8, 2, 0, 4};

    (void)state;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        k3_threads_set(counts[c]);
        assert_int_equal(k3_threads(), counts[c] < 1 ? 1 : counts[c]);
        for (size_t n = 0; n <= TASKS; n = n * 3 + 1) {
            static k3_calls_t calls;

            memset(&calls, 0, sizeof calls);
            k3_parallel(n, count_call, &calls);
            for (size_t i = 0; i < TASKS; i++) {
                assert_int_equal(calls.of[i], i < n ? 1 : 0);
            }
            assert_int_equal(calls.wrong_index, 0);
        }
    }
}

static void run_expert(const k3_kernels_t *kernels, k3_weight_format_t weights, size_t n,
                       uint16_t *out)
{
    static const k3_recipe_t recipe = {"fp8", K3_FORMAT_FP8, true, K3_FORMAT_FP8};
    k3_expert_shape_t        shape = {LATENT, INTER, weights, K3_ACT_SITU};
    uint64_t                 bytes = k3_expert_layout(&shape, NULL, NULL), seed = 4;
    uint8_t                 *packed = block(bytes);
    uint16_t                *rows = random_row(&seed, n * LATENT, 1);
    const void             **at = block(sizeof *at * n);
    uint16_t               **to = block(sizeof *to * n);
    void                    *work = block(k3_expert_work_bytes(&shape));
    k3_expert_weights_t      parts;

    for (uint64_t i = 0; i < bytes; i++) {
        packed[i] = weights == K3_WEIGHT_MXFP4 ? (uint8_t)(next_random(&seed) % 3 + 120) : 0x3a;
    }
    k3_expert_layout(&shape, packed, &parts);
    for (size_t i = 0; i < n; i++) {
        at[i] = rows + i * LATENT;
        to[i] = out + i * LATENT;
    }
    kernels->expert_mlp(&shape, &recipe, &parts, n, K3_FORMAT_BF16, at, NULL, NULL, to, work);
    free(packed);
    free(rows);
    free(at);
    free(to);
    free(work);
}

static void check_expert(const k3_kernels_t *kernels, k3_weight_format_t weights, size_t n)
{
    uint16_t *one = block(2 * n * LATENT), *many = block(2 * n * LATENT);

    k3_threads_set(1);
    run_expert(kernels, weights, n, one);
    for (int threads = 2; threads <= 5; threads += 3) {
        k3_threads_set(threads);
        run_expert(kernels, weights, n, many);
        assert_memory_equal(one, many, 2 * n * LATENT);
    }
    free(one);
    free(many);
}

static void test_expert(void **state)
{
    static const size_t counts[] = {1, 3, 8, 9, 70};

    (void)state;
    for (size_t i = 1; k3_kernels_isa_names[i] != NULL; i++) {
        const k3_kernels_t *kernels = k3_kernels_cpu(k3_kernels_isa_names[i]);

        for (size_t c = 0; kernels != NULL && c < sizeof counts / sizeof *counts; c++) {
            check_expert(kernels, K3_WEIGHT_MXFP4, counts[c]);
            check_expert(kernels, K3_WEIGHT_FP8_B128, counts[c]);
        }
    }
}

static void run_dense(const uint16_t *w, const uint16_t *x, size_t m, float *y, uint16_t *rounded)
{
    k3_dense_t *dense = k3_dense_create(w, INTER, LATENT, 40);

    assert_non_null(dense);
    k3_dense_run(dense, x, m, y, NULL);
    k3_dense_run(dense, x, m, NULL, rounded);
    k3_dense_destroy(dense);
}

static void test_dense(void **state)
{
    uint64_t  seed = 6;
    uint16_t *w = random_row(&seed, INTER * LATENT, 1), *x = random_row(&seed, 40 * LATENT, 1);
    float    *one = block(4 * 40 * INTER), *many = block(4 * 40 * INTER);
    uint16_t *narrow = block(2 * 40 * INTER), *narrow_many = block(2 * 40 * INTER);

    (void)state;
    for (size_t m = 3; m <= 40; m += 37) {
        k3_threads_set(1);
        run_dense(w, x, m, one, narrow);
        k3_threads_set(3);
        run_dense(w, x, m, many, narrow_many);
        assert_memory_equal(one, many, 4 * m * INTER);
        assert_memory_equal(narrow, narrow_many, 2 * m * INTER);
    }
    free(w);
    free(x);
    free(one);
    free(many);
    free(narrow);
    free(narrow_many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_once),
                                       cmocka_unit_test(test_expert), cmocka_unit_test(test_dense)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
