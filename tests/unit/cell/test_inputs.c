#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <setjmp.h>

#include <cmocka.h>

#include "bench/cell/inputs.h"
#include "bench/region/oracle_codec.h"

enum { HIDDEN = 512, LATENT = 256, INTER = 384, SHARED = 256, ROWS = 64, SEED = 7 };

static const k3_model_t mxfp4 = {.name = "test",
                                 .hidden = HIDDEN,
                                 .latent = LATENT,
                                 .experts = 64,
                                 .topk = 4,
                                 .intermediate = INTER,
                                 .shared = SHARED,
                                 .weights = K3_WEIGHT_MXFP4,
                                 .latent_step = true};
static const k3_model_t fp8 = {.name = "test",
                               .hidden = HIDDEN,
                               .latent = LATENT,
                               .experts = 64,
                               .topk = 4,
                               .intermediate = INTER,
                               .shared = SHARED,
                               .weights = K3_WEIGHT_FP8_B128};

/* --- activations */

static double rms_of_rows(uint32_t attn_tp, double *mean)
{
    double square = 0.0, sum = 0.0;

    for (uint32_t row = 0; row < ROWS; row++) {
        float    x[HIDDEN] = {0};
        uint16_t part[HIDDEN];

        for (uint32_t a = 0; a < attn_tp; a++) {
            k3_input_partial(&mxfp4, SEED, 3, row, a, attn_tp, part);
            for (int i = 0; i < HIDDEN; i++) {
                x[i] += k3_oracle_bf16_value(part[i]);
            }
        }
        for (int i = 0; i < HIDDEN; i++) {
            square += (double)x[i] * (double)x[i];
            sum += (double)x[i];
        }
    }
    *mean = sum / (ROWS * HIDDEN);
    return sqrt(square / (ROWS * HIDDEN));
}

static void test_partial_sums_have_unit_rms(void **state)
{
    (void)state;
    for (uint32_t attn_tp = 1; attn_tp <= 16; attn_tp++) {
        double mean, rms = rms_of_rows(attn_tp, &mean);

        assert_true(fabs(rms - 1.0) < 0.02);
        assert_true(fabs(mean) < 0.03);
    }
}

static void test_partial_sums_do_not_depend_on_order(void **state)
{
    uint16_t part[8][HIDDEN];

    (void)state;
    for (uint32_t a = 0; a < 8; a++) {
        k3_input_partial(&mxfp4, SEED, 1, 5, a, 8, part[a]);
    }
    for (int i = 0; i < HIDDEN; i++) {
        float up = 0.0f, down = 0.0f;

        for (int a = 0; a < 8; a++) {
            up += k3_oracle_bf16_value(part[a][i]);
            down += k3_oracle_bf16_value(part[7 - a][i]);
        }
        assert_true(up == down);
    }
}

static void test_partial_depends_on_everything(void **state)
{
    uint16_t base[HIDDEN], other[HIDDEN];

    (void)state;
    k3_input_partial(&mxfp4, SEED, 1, 5, 0, 8, base);
    k3_input_partial(&mxfp4, SEED, 1, 5, 0, 8, other);
    assert_memory_equal(base, other, sizeof(base));
    for (int change = 0; change < 4; change++) {
        size_t same = 0;

        k3_input_partial(&mxfp4, SEED + (change == 0), 1 + (change == 1), 5 + (change == 2),
                         change == 3, 8, other);
        for (int i = 0; i < HIDDEN; i++) {
            same += base[i] == other[i];
        }
        assert_true(same < HIDDEN / 32);
    }
}

/* --- dense tensors */

static double tensor_rms(k3_tensor_t tensor, uint32_t rows, uint32_t columns)
{
    double   sum = 0.0;
    uint16_t row[HIDDEN];

    for (uint32_t r = 0; r < rows; r++) {
        k3_tensor_row(&mxfp4, SEED, tensor, r, 0, columns, row);
        for (uint32_t i = 0; i < columns; i++) {
            double v = (double)k3_oracle_bf16_value(row[i]);

            sum += v * v;
        }
    }
    return sqrt(sum / ((double)rows * columns));
}

static void test_tensors_keep_unit_size(void **state)
{
    (void)state;
    for (int t = 0; t < K3_TENSOR_COUNT; t++) {
        uint32_t rows, columns;
        double   expected;

        k3_tensor_shape(&mxfp4, (k3_tensor_t)t, &rows, &columns);
        expected = (t == K3_TENSOR_GATE ? 1.5 : 1.0) / sqrt((double)columns);
        if (t != K3_TENSOR_LATENT_NORM) {
            assert_true(fabs(tensor_rms((k3_tensor_t)t, rows, columns) / expected - 1.0) < 0.02);
        }
    }
}

static void test_norm_gain_is_near_one(void **state)
{
    uint16_t gain[LATENT];
    bool     low = false, high = false;

    (void)state;
    k3_tensor_row(&mxfp4, SEED, K3_TENSOR_LATENT_NORM, 0, 0, LATENT, gain);
    for (int i = 0; i < LATENT; i++) {
        float value = k3_oracle_bf16_value(gain[i]);

        assert_true(value >= 0.75f && value <= 1.25f);
        low |= value < 0.85f;
        high |= value > 1.15f;
    }
    assert_true(low && high);
}

static void test_tensor_slices_equal_the_whole(void **state)
{
    static const uint32_t cuts[] = {0, 4, 16, 84, 256, 300, 512};
    uint16_t              whole[HIDDEN], slice[HIDDEN];

    (void)state;
    k3_tensor_row(&mxfp4, SEED, K3_TENSOR_GATE, 11, 0, HIDDEN, whole);
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        for (size_t j = i; j < sizeof(cuts) / sizeof(cuts[0]); j++) {
            k3_tensor_row(&mxfp4, SEED, K3_TENSOR_GATE, 11, cuts[i], cuts[j], slice);
            assert_memory_equal(slice, whole + cuts[i], (cuts[j] - cuts[i]) * 2);
        }
    }
}

static void test_bias_is_small_and_varied(void **state)
{
    (void)state;
    for (uint32_t e = 0; e < 64; e++) {
        assert_true(fabsf(k3_router_bias(SEED, e)) <= 0.02f);
        assert_true(k3_router_bias(SEED, e) != k3_router_bias(SEED, e + 1));
    }
}

/* --- experts */

static double expert_rms(const k3_model_t *model, k3_expert_matrix_t matrix, uint32_t columns)
{
    double sum = 0.0;

    for (uint32_t r = 0; r < 128; r++) {
        uint8_t values[INTER], scales[64];

        k3_expert_row(model, SEED, 3, matrix, r, 0, columns, values, scales);
        for (uint32_t i = 0; i < columns; i++) {
            double v;
            float  scale;

            if (model->weights == K3_WEIGHT_MXFP4) {
                uint8_t code = i % 2 == 0 ? values[i / 2] & 15 : values[i / 2] >> 4;

                v = (double)k3_oracle_e2m1_value(code) *
                    (double)k3_oracle_e8m0_value(scales[i / 32]);
            } else {
                assert_true((values[i] & 127) != 127);
                memcpy(&scale, scales + i / 128 * 4, sizeof(scale));
                v = (double)k3_oracle_e4m3_value(values[i]) * (double)scale;
            }
            sum += v * v;
        }
    }
    return sqrt(sum / (128.0 * columns));
}

/* MXFP4 scales are powers of two, so the size is right within a factor of 1.5. */
static void test_expert_weights_keep_unit_size(void **state)
{
    (void)state;
    for (int matrix = 0; matrix < 3; matrix++) {
        uint32_t columns = matrix == K3_MATRIX_W2 ? INTER : LATENT;
        double   of_mxfp4 = expert_rms(&mxfp4, (k3_expert_matrix_t)matrix, columns);
        double   of_fp8 = expert_rms(&fp8, (k3_expert_matrix_t)matrix, columns);

        assert_true(fabs(log2(of_mxfp4 * sqrt((double)columns))) < 0.6);
        assert_true(fabs(of_fp8 * sqrt((double)columns) - 1.0) < 0.25);
    }
}

static void test_expert_slices_equal_the_whole(void **state)
{
    uint8_t whole[INTER], slice[INTER], scales[INTER], part[INTER];

    (void)state;
    k3_expert_row(&mxfp4, SEED, 5, K3_MATRIX_W2, 9, 0, INTER, whole, scales);
    for (uint32_t begin = 0; begin <= INTER; begin += 32) {
        for (uint32_t end = begin; end <= INTER; end += 32) {
            k3_expert_row(&mxfp4, SEED, 5, K3_MATRIX_W2, 9, begin, end, slice, part);
            assert_memory_equal(slice, whole + begin / 2, (end - begin) / 2);
            assert_memory_equal(part, scales + begin / 32, (end - begin) / 32);
        }
    }
    k3_expert_row(&fp8, SEED, 5, K3_MATRIX_W2, 9, 0, INTER, whole, scales);
    for (uint32_t begin = 0; begin <= INTER; begin += 128) {
        k3_expert_row(&fp8, SEED, 5, K3_MATRIX_W2, 9, begin, INTER, slice, part);
        assert_memory_equal(slice, whole + begin, INTER - begin);
        assert_memory_equal(part, scales + begin / 128 * 4, (INTER - begin) / 128 * 4);
    }
}

static void test_block_scale_is_that_of_its_block(void **state)
{
    uint8_t values[INTER];
    float   first[3], same[3], next[3];

    (void)state;
    k3_expert_row(&fp8, SEED, 5, K3_MATRIX_W2, 0, 0, INTER, values, first);
    k3_expert_row(&fp8, SEED, 5, K3_MATRIX_W2, 127, 0, INTER, values, same);
    k3_expert_row(&fp8, SEED, 5, K3_MATRIX_W2, 128, 0, INTER, values, next);
    assert_memory_equal(first, same, sizeof(first));
    assert_true(first[0] != next[0] && first[0] != first[1]);
}

static void test_experts_and_matrices_differ(void **state)
{
    uint8_t base[INTER], other[INTER], scales[INTER];

    (void)state;
    k3_expert_row(&mxfp4, SEED, 5, K3_MATRIX_W1, 9, 0, LATENT, base, scales);
    for (int change = 0; change < 4; change++) {
        k3_expert_row(&mxfp4, SEED + (change == 0), 5 + (change == 1),
                      change == 2 ? K3_MATRIX_W3 : K3_MATRIX_W1, 9 + (change == 3), 0, LATENT,
                      other, scales);
        assert_memory_not_equal(base, other, LATENT / 2);
    }
}

static void test_stand_in_factors_differ_between_neighbours(void **state)
{
    (void)state;
    for (uint32_t e = 0; e < 64; e++) {
        float factor = k3_stand_in_factor(e);
        int   exponent;
        float fraction = fabsf(frexpf(factor, &exponent));

        assert_true(fraction == 0.5f || fraction == 0.75f);
        for (uint32_t other = e + 1; other < e + 16; other++) {
            assert_true(factor != k3_stand_in_factor(other));
        }
    }
}

/* --- speed, for the reader of the log */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void test_print_speed(void **state)
{
    static uint8_t    values[3584], scales[112];
    static uint16_t   row[7168];
    static k3_model_t k3 = {.hidden = 7168, .latent = 3584, .intermediate = 3072};
    double            begin = now(), seconds;

    (void)state;
    for (uint32_t r = 0; r < 3072; r++) {
        k3_expert_row(&k3, SEED, 0, K3_MATRIX_W1, r, 0, 3584, values, scales);
    }
    seconds = now() - begin;
    printf("expert weights: %.2f GB/s\n", 3072e-9 * (1792 + 112) / seconds);
    begin = now();
    for (uint32_t r = 0; r < 500; r++) {
        k3_input_partial(&k3, SEED, 0, r, 0, 8, row);
    }
    printf("activations: %.2f ns a value\n", (now() - begin) * 1e9 / (500.0 * 7168));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partial_sums_have_unit_rms),
        cmocka_unit_test(test_partial_sums_do_not_depend_on_order),
        cmocka_unit_test(test_partial_depends_on_everything),
        cmocka_unit_test(test_tensors_keep_unit_size),
        cmocka_unit_test(test_norm_gain_is_near_one),
        cmocka_unit_test(test_tensor_slices_equal_the_whole),
        cmocka_unit_test(test_bias_is_small_and_varied),
        cmocka_unit_test(test_expert_weights_keep_unit_size),
        cmocka_unit_test(test_expert_slices_equal_the_whole),
        cmocka_unit_test(test_block_scale_is_that_of_its_block),
        cmocka_unit_test(test_experts_and_matrices_differ),
        cmocka_unit_test(test_stand_in_factors_differ_between_neighbours),
        cmocka_unit_test(test_print_speed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
