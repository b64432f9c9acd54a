/* Selection of experts and their weights. */
#include "support.h"

#include "kernels/cpu/avx2_route.c" /* its estimates are tested by themselves */

enum { EXPERTS = 896, K = 16 }; /* of Kimi-K3 */

static void check_equal_logits(const k3_kernels_t *kernels)
{
    float   logits[EXPERTS] = {0}, bias[EXPERTS] = {0}, weights[K];
    int32_t ids[K];

    kernels->route(logits, bias, EXPERTS, K, ids, weights);
    for (int32_t i = 0; i < K; i++) {
        assert_int_equal(ids[i], i);
        assert_true(weights[i] == 0.0625f);
    }
}

static void check_ties(const k3_kernels_t *kernels)
{
    float   logits[8] = {1, 3, 2, 3, 2, 0, 3, 2}, bias[8] = {0}, weights[5];
    int32_t ids[5];

    kernels->route(logits, bias, 8, 5, ids, weights);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 3);
    assert_int_equal(ids[2], 6);
    assert_int_equal(ids[3], 2);
    assert_int_equal(ids[4], 4);
    assert_true(weights[0] == weights[2] && weights[3] == weights[4]);
}

/* sigmoid(0) = 0.5; the bias brings expert 3 in, its weight stays that of its own logit. */
static void check_bias(const k3_kernels_t *kernels)
{
    float   logits[4] = {0, 0, 0, -1.0986123f}, bias[4] = {0, 0.1f, 0, 0.5f}, weights[2];
    int32_t ids[2];

    kernels->route(logits, bias, 4, 2, ids, weights);
    assert_int_equal(ids[0], 3); /* 0.25 + 0.5 */
    assert_int_equal(ids[1], 1); /* 0.5 + 0.1 */
    assert_true(fabs((double)weights[0] - 1.0 / 3) < 1e-6);
    assert_true(fabs((double)weights[1] - 2.0 / 3) < 1e-6);
}

static void check_weights(const k3_kernels_t *kernels)
{
    float   logits[4] = {0, -1.0986123f, 5, 0}, weights[4];
    int32_t ids[4] = {1, -1, 0, -1}, none[2] = {-1, -1};

    kernels->route_weights(logits, 4, ids, weights);
    assert_true(fabs((double)weights[0] - 1.0 / 3) < 1e-6);
    assert_true(weights[1] == 0 && weights[3] == 0);
    assert_true(fabs((double)weights[2] - 2.0 / 3) < 1e-6);
    kernels->route_weights(logits, 2, none, weights);
    assert_true(weights[0] == 0 && weights[1] == 0);
}

/* Every chosen one is at least as good as every other one, in f64 but for rounding. */
static void check_random(const k3_kernels_t *kernels)
{
    float    logits[EXPERTS], bias[EXPERTS], weights[K];
    int32_t  ids[K];
    uint64_t seed = 5;

    for (int trial = 0; trial < 200; trial++) {
        double score[EXPERTS], total = 0, last = INFINITY;
        bool   chosen[EXPERTS] = {false};

        for (int i = 0; i < EXPERTS; i++) {
            logits[i] = (float)(6 * random_value(&seed));
            bias[i] = (float)(0.2 * random_value(&seed));
            score[i] = 1 / (1 + exp(-(double)logits[i])) + (double)bias[i];
        }
        kernels->route(logits, bias, EXPERTS, K, ids, weights);
        for (int i = 0; i < K; i++) {
            assert_in_range(ids[i], 0, EXPERTS - 1);
            assert_false(chosen[ids[i]]);
            assert_true(score[ids[i]] <= last + 1e-6);
            chosen[ids[i]] = true;
            last = score[ids[i]];
            total += score[ids[i]] - (double)bias[ids[i]];
        }
        for (int i = 0; i < EXPERTS; i++) {
            assert_true(chosen[i] || score[i] <= last + 1e-6);
        }
        for (int i = 0; i < K; i++) {
            double want = (score[ids[i]] - (double)bias[ids[i]]) / total;

            assert_true(fabs((double)weights[i] - want) < 1e-6);
        }
    }
}

static void check_odd_inputs(const k3_kernels_t *kernels)
{
    float   logits[3] = {NAN, 1, -1}, bias[3] = {0}, weights[4];
    int32_t ids[4];

    kernels->route(logits, bias, 3, 2, ids, weights);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 2);
    kernels->route(logits, bias, 3, 4, ids, weights); /* fewer experts than places */
    assert_int_equal(ids[2], 0);
    assert_int_equal(ids[3], -1);
}

static void check_same(const float *logits, const float *bias, size_t experts)
{
    const k3_kernels_t *scalar = k3_kernels_cpu("scalar"), *vector = avx2_or_skip();
    float               a[K], b[K];
    int32_t             i[K], j[K];

    scalar->route(logits, bias, experts, K, i, a);
    vector->route(logits, bias, experts, K, j, b);
    assert_memory_equal(i, j, sizeof i);
    assert_memory_equal(a, b, sizeof a);
}

/* Scores closer to each other than estimates of them are good, equal ones, large and endless ones,
 * and NaN among them. */
static void test_vector_hard(void **state)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0.0f, 1e30f, -1e30f, 88.0f, -88.0f};
    static const float spreads[] = {0, 1e-6f, 1e-4f, 1e-3f, 1e-2f, 1, 30};
    float              logits[EXPERTS], bias[EXPERTS];
    uint64_t           seed = 9;

    (void)state;
    for (unsigned trial = 0; trial < 2000; trial++) {
        float level = (float)(8 * random_value(&seed)), large = trial % 5 == 0 ? 600.0f : 0.0f;

        for (size_t e = 0; e < EXPERTS; e++) {
            logits[e] = level + spreads[trial % 7] * (float)random_value(&seed);
            bias[e] = large + spreads[trial / 7 % 7] * (float)random_value(&seed);
            if (trial % 3 == 0 && next_random(&seed) % 16 == 0) {
                logits[e] = odd[next_random(&seed) % 8];
            }
            if (trial % 11 == 0 && next_random(&seed) % 64 == 0) {
                bias[e] = odd[next_random(&seed) % 8];
            }
        }
        check_same(logits, bias, EXPERTS - trial % 9);
    }
}

#if defined(__x86_64__)
/* All f32 are within the error that the selection allows for, but for the bias's share; the long test
 * takes every one, the short one each 4099th. */
K3_AVX2 static void test_estimate(void **state)
{
    const uint64_t step = getenv("K3BENCH_TEST_LONG") != NULL ? 1 : 4099;

    (void)state;
    (void)avx2_or_skip();
    for (uint64_t bits = 0; bits + 8 * step <= (uint64_t)1 << 32; bits += 8 * step) {
        float x[8], have[8];

        for (size_t i = 0; i < 8; i++) {
            uint32_t one = (uint32_t)(bits + i * step);

            memcpy(&x[i], &one, sizeof one);
        }
        _mm256_storeu_ps(have, estimate(_mm256_loadu_ps(x)));
        for (size_t i = 0; i < 8; i++) {
            assert_true(isnan(x[i]) || fabsf(have[i] - k3_sigmoid(x[i])) < 0.9f * ESTIMATE);
        }
    }
}
#endif

/* Vector and scalar selection agree bit for bit. */
static void test_vector_equal(void **state)
{
    float    logits[EXPERTS], bias[EXPERTS];
    uint64_t seed = 8;

    (void)state;
    for (size_t experts = K; experts <= EXPERTS; experts += 55) {
        for (size_t e = 0; e < experts; e++) {
            logits[e] = (float)(9 * random_value(&seed));
            bias[e] = (float)(0.1 * random_value(&seed));
        }
        check_same(logits, bias, experts);
    }
}

static void test_all(void **state)
{
    static void (*const checks[])(const k3_kernels_t *) = {
        check_equal_logits, check_ties, check_bias, check_weights, check_random, check_odd_inputs};

    (void)state;
    for (size_t i = 0; k3_kernels_isa_names[i] != NULL; i++) {
        const k3_kernels_t *kernels = k3_kernels_cpu(k3_kernels_isa_names[i]);

        for (size_t c = 0; kernels != NULL && c < sizeof checks / sizeof *checks; c++) {
            checks[c](kernels);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
#if defined(__x86_64__)
        cmocka_unit_test(test_estimate),
#endif
        cmocka_unit_test(test_vector_equal),
        cmocka_unit_test(test_vector_hard)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
