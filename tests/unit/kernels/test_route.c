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

    for (int trial = 0; trial < 200 / THINNED; trial++) {
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
    static const size_t ks[] = {K, 1, 8, 9, 17, 25, 32};
    const k3_kernels_t *scalar = k3_kernels_cpu("scalar"), *vector = vector_or_skip();

    for (size_t n = 0; n < sizeof ks / sizeof *ks; n++) {
        float   a[32] = {0}, b[32] = {0};
        int32_t i[32] = {0}, j[32] = {0};

        scalar->route(logits, bias, experts, ks[n], i, a);
        vector->route(logits, bias, experts, ks[n], j, b);
        assert_memory_equal(i, j, sizeof i);
        assert_memory_equal(a, b, sizeof a);
    }
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
    for (unsigned trial = 0; trial < 2000 / THINNED; trial++) {
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

static float next_up(float x, unsigned steps)
{
    while (steps-- > 0) {
        x = nextafterf(x, INFINITY);
    }
    return x;
}

/* What an estimate cannot tell apart: scores that are equal or a few units in the last place apart,
 * with biases that make up for the logits, and biases beside which the scores are nothing. */
static void test_vector_close(void **state)
{
    static const float levels[] = {0, 1e-3f, 0.5f, 499.0f, 501.0f, -499.0f, -501.0f, 1e6f, 3e38f};
    float              logits[EXPERTS], bias[EXPERTS];
    uint64_t           seed = 10;

    (void)state;
    for (unsigned trial = 0; trial < 3000 / THINNED; trial++) {
        float    base = levels[trial % 9], x = (float)(12 * random_value(&seed));
        unsigned steps = trial / 9 % 4, few = trial % 2 == 0 ? EXPERTS : 1 + trial % 60;

        for (size_t e = 0; e < EXPERTS; e++) {
            bool close = next_random(&seed) % EXPERTS < few;

            logits[e] = close ? next_up(x, (unsigned)(next_random(&seed) % (steps + 1))) : -9.0f;
            bias[e] = base;
            if (trial / 36 % 3 == 1) { /* the same sum by another way, but for its rounding */
                logits[e] = (float)(12 * random_value(&seed));
                bias[e] = base + (close ? 1.0f : 0.9f) - k3_sigmoid(logits[e]);
            } else if (trial / 36 % 3 == 2) {
                bias[e] = next_up(base, (unsigned)(next_random(&seed) % 3));
            }
        }
        check_same(logits, bias, EXPERTS - trial / 2 % 70);
    }
}

/* NaN where it decides: more of them than others, and as the largest of all parts but for few. */
static void test_vector_nan(void **state)
{
    float    logits[EXPERTS], bias[EXPERTS];
    uint64_t seed = 11;

    (void)state;
    for (unsigned trial = 0; trial < 500 / THINNED; trial++) {
        for (size_t e = 0; e < EXPERTS; e++) {
            bool is_nan = next_random(&seed) % 500 < trial;

            logits[e] = is_nan && trial % 2 == 0 ? NAN : (float)(9 * random_value(&seed));
            bias[e] = (float)random_value(&seed) + (is_nan ? 5.0f : 0.0f);
            bias[e] = is_nan && trial % 2 == 1 ? NAN : bias[e];
        }
        check_same(logits, bias, EXPERTS);
    }
}

#if defined(__x86_64__)
/* All f32 are within the error that the selection allows for, but for the bias's share; the long test
 * takes every one, the short one each 4099th. */
K3_AVX2 static void test_estimate(void **state)
{
    const uint64_t step = getenv("K3BENCH_TEST_LONG") != NULL ? 1 : 4099;

    (void)state;
    (void)vector_or_skip();
    for (uint64_t bits = 0; bits + 8 * step <= (uint64_t)1 << 32; bits += 8 * step) {
        float x[8], have[8];

        for (size_t i = 0; i < 8; i++) {
            uint32_t one = (uint32_t)(bits + i * step);

            memcpy(&x[i], &one, sizeof one);
        }
        _mm256_storeu_ps(have, estimate(_mm256_loadu_ps(x)));
        for (size_t i = 0; i < 8; i++) {
            assert_true(isnan(x[i]) || fabsf(have[i] - k3_sigmoid(x[i])) < 0.95f * ESTIMATE);
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
        cmocka_unit_test(test_vector_hard),
        cmocka_unit_test(test_vector_close),
        cmocka_unit_test(test_vector_nan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
