/* Given rows and the gate's choice among experts: against a plain double loop, ties and non-numbers by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/cell/gate.h"
#include "bench/cell/npy.h"

enum { ROWS = 130, SEED = 11 };

static char path[64];

static float value_of(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float    value;

    memcpy(&value, &wide, sizeof(value));
    return value;
}

/* [rows][width] of one type in a file. */
static k3_hidden_t *hidden_of(k3_npy_type_t type, uint64_t rows, uint64_t width, const void *data)
{
    uint64_t     shape[2] = {rows, width};
    k3_error_t   err = K3_ERROR_INIT;
    k3_hidden_t *hidden = NULL;
    int          fd;

    strcpy(path, "/tmp/k3_test_hidden.XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(k3_npy_write(path, type, 2, shape, data, &err), K3_OK);
    k3_hidden_open(path, &hidden, &err);
    unlink(path);
    if (hidden == NULL) {
        print_message("%s\n", err.text);
    }
    return hidden;
}

static double score_of(const k3_source_t *s, uint64_t row, uint32_t expert)
{
    uint16_t gate[512];
    double   logit = 0.0;

    k3_source_tensor_row(s, K3_TENSOR_GATE, expert, 0, s->model->hidden, gate);
    for (uint32_t h = 0; h < s->model->hidden; h++) {
        logit += (double)value_of(gate[h]) * (double)value_of(k3_hidden_row(s->hidden, row)[h]);
    }
    return 1.0 / (1.0 + exp(-logit)) + (double)k3_source_bias(s, expert);
}

static void test_S12_the_largest_scores_are_chosen_in_falling_order(void **state)
{
    static uint16_t   bits[ROWS * 512];
    static int32_t    ids[ROWS * 4];
    const k3_model_t *tiny = k3_model_at(0);
    k3_source_t       source = {.model = tiny, .seed = SEED};
    k3_error_t        err = K3_ERROR_INIT;
    k3_hidden_t      *hidden;

    (void)state;
    for (unsigned i = 0; i < ROWS; i++) {
        k3_input_partial(tiny, 5, 0, i, 0, 1, bits + (size_t)i * 512);
    }
    hidden = hidden_of(K3_NPY_U16, ROWS, 512, bits);
    assert_non_null(hidden);
    source.hidden = hidden;
    assert_int_equal(k3_gate_choose(&source, ROWS, ids, &err), K3_OK);
    for (unsigned row = 0; row < ROWS; row++) {
        const int32_t *chosen = ids + (size_t)row * 4;
        double         least = score_of(&source, row, (uint32_t)chosen[3]);
        unsigned       above = 0;

        for (unsigned k = 0; k < 3; k++) {
            assert_true(score_of(&source, row, (uint32_t)chosen[k]) >=
                        score_of(&source, row, (uint32_t)chosen[k + 1]));
        }
        for (uint32_t e = 0; e < 64; e++) {
            above += score_of(&source, row, e) > least + 1e-12;
        }
        assert_true(above <= 3);
    }
    k3_hidden_close(hidden);
}

/* A row of zeros: every score is one half, so the bias alone decides. */
static void test_S12_the_bias_decides_where_scores_are_equal(void **state)
{
    static uint16_t   bits[512];
    const k3_model_t *tiny = k3_model_at(0);
    k3_source_t       source = {.model = tiny, .seed = SEED};
    k3_error_t        err = K3_ERROR_INIT;
    k3_hidden_t      *hidden = hidden_of(K3_NPY_U16, 1, 512, bits);
    int32_t           ids[4];

    (void)state;
    source.hidden = hidden;
    assert_int_equal(k3_gate_choose(&source, 1, ids, &err), K3_OK);
    for (int k = 0; k < 4; k++) {
        for (int32_t e = 0; e < 64; e++) {
            bool taken = false;

            for (int j = 0; j <= k; j++) {
                taken |= ids[j] == e;
            }
            assert_true(taken || k3_router_bias(SEED, (uint32_t)e) <=
                                     k3_router_bias(SEED, (uint32_t)ids[k]));
        }
    }
    k3_hidden_close(hidden);
}

static void test_types_round_to_the_nearest_bf16(void **state)
{
    /* A tie goes to the even pattern; halves are exact, subnormal ones too. */
    float        floats[4] = {1.0f, 1.00390625f, 1.01171875f, -0.1f};
    uint16_t     halves[4] = {0x3c00, 0x0001, 0x8000, 0xc100};
    uint16_t     want[4] = {0x3f80, 0x3f80, 0x3f82, 0xbdcd};
    k3_hidden_t *hidden = hidden_of(K3_NPY_F32, 2, 2, floats);

    (void)state;
    assert_memory_equal(k3_hidden_row(hidden, 0), want, 4);
    assert_memory_equal(k3_hidden_row(hidden, 1), want + 2, 4);
    assert_true(k3_hidden_identity(hidden, 1) != k3_hidden_identity(hidden, 2));
    k3_hidden_close(hidden);
    hidden = hidden_of(K3_NPY_F16, 1, 4, halves);
    assert_true(value_of(k3_hidden_row(hidden, 0)[0]) == 1.0f);
    assert_true(value_of(k3_hidden_row(hidden, 0)[1]) == 0x1p-24f);
    assert_int_equal(k3_hidden_row(hidden, 0)[2], 0x8000);
    assert_true(value_of(k3_hidden_row(hidden, 0)[3]) == -2.5f);
    k3_hidden_close(hidden);
}

static void test_what_is_no_number_is_refused(void **state)
{
    float    nan_row[2] = {1.0f, NAN}, large[2] = {1.0f, 3e38f}, most[2] = {-1e12f, 1e12f};
    uint16_t half[2] = {0x3c00, 0x7c00}, bits[2] = {0x3f80, 0xff80}, high[2] = {0x3f80, 0x7f00};

    k3_hidden_t *hidden;

    (void)state;
    assert_null(hidden_of(K3_NPY_F32, 1, 2, nan_row));
    assert_null(hidden_of(K3_NPY_F32, 1, 2, large)); /* finite, but no sum of products is */
    hidden = hidden_of(K3_NPY_F32, 1, 2, most);
    assert_non_null(hidden);
    k3_hidden_close(hidden);
    assert_null(hidden_of(K3_NPY_F16, 1, 2, half));
    assert_null(hidden_of(K3_NPY_U16, 1, 2, bits));
    assert_null(hidden_of(K3_NPY_U16, 1, 2, high));
    assert_null(hidden_of(K3_NPY_I32, 1, 1, nan_row));
}

/* The partials of a row hold its values once, whatever their number, also where it divides nothing. */
static void test_L12_partials_of_a_given_row_add_up_to_it(void **state)
{
    const k3_model_t *tiny = k3_model_at(0);
    k3_source_t       source = {.model = tiny, .seed = SEED};
    static uint16_t   bits[512], part[512];
    k3_hidden_t      *hidden;

    (void)state;
    k3_input_partial(tiny, 5, 0, 0, 0, 1, bits);
    hidden = hidden_of(K3_NPY_U16, 1, 512, bits);
    source.hidden = hidden;
    for (uint32_t attn_tp = 1; attn_tp <= 40; attn_tp++) {
        float sum[512] = {0};

        for (uint32_t a = 0; a < attn_tp; a++) {
            bool any = false;

            k3_source_partial(&source, 9, 0, a, attn_tp, part);
            for (int h = 0; h < 512; h++) {
                sum[h] += value_of(part[h]);
                any |= part[h] != 0;
            }
            assert_true(any || a >= 32);
        }
        for (int h = 0; h < 512; h++) {
            assert_true(sum[h] == value_of(bits[h]));
        }
    }
    k3_hidden_close(hidden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_S12_the_largest_scores_are_chosen_in_falling_order),
        cmocka_unit_test(test_S12_the_bias_decides_where_scores_are_equal),
        cmocka_unit_test(test_types_round_to_the_nearest_bf16),
        cmocka_unit_test(test_what_is_no_number_is_refused),
        cmocka_unit_test(test_L12_partials_of_a_given_row_add_up_to_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
