#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <setjmp.h>

#include <cmocka.h>

#include "oracle_reference.h"

enum { ROWS = 6, SEED = 11, PAYLOAD = 40 };

static const k3_model_t tiny = {.name = "tiny",
                                .hidden = 512,
                                .latent = 256,
                                .experts = 64,
                                .topk = 4,
                                .intermediate = 256,
                                .shared = 256,
                                .activation = K3_ACT_SITU,
                                .weights = K3_WEIGHT_MXFP4,
                                .latent_step = true};
static const k3_model_t plain = {.name = "plain", /* as DeepSeek: one width, fp8 blocks */
                                 .hidden = 256,
                                 .latent = 256,
                                 .experts = 16,
                                 .topk = 3,
                                 .intermediate = 256,
                                 .shared = 128,
                                 .activation = K3_ACT_SWIGLU,
                                 .weights = K3_WEIGHT_FP8_B128};
static const k3_model_t uneven = {.name = "uneven", /* short last groups, slices of two lengths */
                                  .hidden = 304,
                                  .latent = 160,
                                  .experts = 12,
                                  .topk = 5,
                                  .intermediate = 224,
                                  .shared = 144,
                                  .activation = K3_ACT_SITU,
                                  .weights = K3_WEIGHT_MXFP4,
                                  .latent_step = true};

static const k3_runner_t w4a16 = {.name = "w4a16",
                                  .recipe = {"w4a16", K3_FORMAT_BF16, true, K3_FORMAT_BF16}};
static const k3_runner_t w4a8 = {.name = "w4a8",
                                 .recipe = {"w4a8", K3_FORMAT_FP8, true, K3_FORMAT_FP8}};
static const k3_runner_t w4a8mx = {.name = "w4a8mx",
                                   .recipe = {"w4a8mx", K3_FORMAT_MXFP8, false, K3_FORMAT_MXFP8}};
static const k3_runner_t w4a4 = {.name = "w4a4",
                                 .recipe = {"w4a4", K3_FORMAT_MXFP4, false, K3_FORMAT_MXFP4}};

static const k3_profile_t complete = {
    .name = "complete", .engine = K3_ENGINE_SLAB, .spans_ep = true, .combine_complete = true};
static const k3_profile_t slots = {.name = "slots",
                                   .engine = K3_ENGINE_FUSED,
                                   .spans_ep = true,
                                   .combine_complete = true,
                                   .weights_at = K3_WEIGHTS_IN_ACTIVATION};
static const k3_profile_t partial = {.name = "partial", .engine = K3_ENGINE_GATHER};
static const k3_profile_t nothing = {.name = "nothing", .engine = K3_ENGINE_NULL};

static k3_cell_t make_cell(const k3_model_t *model, const k3_profile_t *profile,
                           const k3_runner_t *runner, k3_format_t dispatch, uint32_t tp,
                           uint32_t ep)
{
    return (k3_cell_t){
        .model = *model,
        .layout =
            {.tp = tp, .dp = 1, .cp = 1, .ep = ep, .attn_tp = tp, .moe_tp = tp / ep, .groups = 1},
        .profile = profile,
        .path = {.fast = profile->spans_ep},
        .shared = profile->spans_ep ? K3_SHARED_REPLICATED : K3_SHARED_TP,
        .runner = runner,
        .dispatch_format = dispatch,
        .combine_format = K3_FORMAT_BF16,
        .seed = SEED,
    };
}

/* Rows with ids that differ from row to row; some experts are shared by several rows. */
static void make_rows(const k3_cell_t *cell, const mistakes_t *mistakes, bool stand_in,
                      region_row_t *rows)
{
    static const mistakes_t none = {0};

    memset(rows, 0, ROWS * sizeof(*rows));
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t k = 0; k < cell->model.topk; k++) {
            rows[i].ids[k] = (int32_t)((i / 2 + 5 * k) % cell->model.experts);
        }
        ref_row(cell, mistakes == NULL ? &none : mistakes, stand_in, i, PAYLOAD, &rows[i]);
    }
}

static k3_check_t check_rows(const k3_cell_t *cell, bool stand_in, const region_row_t *rows)
{
    k3_measured_row_t measured[ROWS];
    k3_oracle_t      *oracle;
    k3_check_t        check = {0};
    k3_error_t        err = K3_ERROR_INIT;

    for (int i = 0; i < ROWS; i++) {
        measured[i] = rows[i].measured;
    }
    k3_oracle_cache_clear();
    assert_int_equal(k3_oracle_create(cell, stand_in, &oracle, &err), K3_OK);
    k3_oracle_check_rows(oracle, measured, ROWS, &check);
    k3_oracle_destroy(oracle);
    assert_int_equal(check.rows_checked, ROWS);
    return check;
}

static k3_check_t check_with(const k3_cell_t *cell, const mistakes_t *mistakes)
{
    static region_row_t rows[ROWS];

    make_rows(cell, mistakes, false, rows);
    return check_rows(cell, false, rows);
}

static void print_errors(const char *what, const k3_cell_t *cell, const k3_check_t *check)
{
    printf("%-28s", what);
    for (int s = 1; s < K3_STAGE_COUNT; s++) {
        printf(" %s %.1e/%.1e", k3_stage_names[s], check->max_error[s],
               k3_oracle_tolerance(cell, (k3_stage_t)s));
    }
    printf(" row %.1e/%.1e\n", check->max_row_error[K3_STAGE_COMBINED],
           k3_oracle_row_tolerance(cell, K3_STAGE_COMBINED));
}

static void assert_right(const char *what, const k3_cell_t *cell, const k3_check_t *check)
{
    print_errors(what, cell, check);
    if (check->wrong) {
        fail_msg("%s: %s[%u] of row %llu: %g, not %g (%s)", what,
                 k3_stage_names[check->first_stage], check->first_element,
                 (unsigned long long)check->first_row, check->first_got, check->first_want,
                 check->diagnosis);
    }
    assert_int_equal(check->rows_wrong, 0);
}

static void assert_wrong(const k3_check_t *check, k3_stage_t stage, uint64_t rows,
                         const char *diagnosis)
{
    assert_true(check->wrong);
    assert_int_equal(check->first_stage, stage);
    assert_int_equal(check->rows_wrong, rows);
    if (strstr(check->diagnosis, diagnosis) == NULL) {
        fail_msg("diagnosis \"%s\" lacks \"%s\"", check->diagnosis, diagnosis);
    }
}

/* --- right values pass, on every path and recipe */

static void test_right_values_pass(void **state)
{
    static const struct {
        const char         *what;
        const k3_model_t   *model;
        const k3_profile_t *profile;
        const k3_runner_t  *runner;
        k3_format_t         dispatch;
        uint32_t            tp, ep;
    } cases[] = {
        {"w4a16", &tiny, &complete, &w4a16, K3_FORMAT_BF16, 8, 8},
        {"w4a8, bf16 rows", &tiny, &complete, &w4a8, K3_FORMAT_BF16, 1, 1},
        {"w4a8, fp8 rows", &tiny, &complete, &w4a8, K3_FORMAT_FP8, 4, 4},
        {"w4a16, fp8 rows", &tiny, &complete, &w4a16, K3_FORMAT_FP8, 4, 4},
        {"w4a8, int8 rows", &tiny, &complete, &w4a8, K3_FORMAT_INT8, 4, 4},
        {"mxfp8, mxfp8 rows", &tiny, &complete, &w4a8mx, K3_FORMAT_MXFP8, 4, 4},
        {"mxfp8, mxfp4 rows", &tiny, &complete, &w4a8mx, K3_FORMAT_MXFP4, 4, 4},
        {"w4a4", &tiny, &complete, &w4a4, K3_FORMAT_BF16, 4, 4},
        {"no latent step", &plain, &complete, &w4a8, K3_FORMAT_FP8, 4, 4},
        {"uneven", &uneven, &complete, &w4a8, K3_FORMAT_FP8, 4, 4},
        {"weights inside, mxfp8", &tiny, &slots, &w4a8mx, K3_FORMAT_MXFP8, 4, 4},
        {"weights inside, w4a16", &uneven, &slots, &w4a16, K3_FORMAT_BF16, 4, 4},
        {"weights inside, fp8", &plain, &slots, &w4a8, K3_FORMAT_MXFP8, 4, 4},
        {"gather, EP", &tiny, &partial, &w4a16, K3_FORMAT_BF16, 8, 8},
        {"gather, slices", &tiny, &partial, &w4a8, K3_FORMAT_BF16, 4, 1},
        {"gather, both, uneven", &uneven, &partial, &w4a8mx, K3_FORMAT_BF16, 6, 2},
        {"gather, empty slices", &plain, &partial, &w4a16, K3_FORMAT_BF16, 4, 1},
        {"nothing moves", &tiny, &nothing, &w4a16, K3_FORMAT_BF16, 4, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        k3_cell_t  cell = make_cell(cases[i].model, cases[i].profile, cases[i].runner,
                                    cases[i].dispatch, cases[i].tp, cases[i].ep);
        k3_check_t check = check_with(&cell, NULL);

        assert_right(cases[i].what, &cell, &check);
    }
}

/* Sums over cp groups first, and a shared expert in slices of the attention group. */
static void test_context_and_shards_pass(void **state)
{
    static const struct {
        const char *what;
        uint32_t    dp, cp, ep;
    } cases[] = {{"cp 2, EP", 1, 2, 8},
                 {"cp 4, EP", 1, 4, 8},
                 {"cp 2, dp 2, slices", 2, 2, 1},
                 {"cp 8", 1, 8, 4}};
    k3_cell_t  sharded = make_cell(&tiny, &complete, &w4a8, K3_FORMAT_FP8, 4, 4);
    k3_check_t check;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        k3_cell_t cell = make_cell(&plain, &partial, &w4a8, K3_FORMAT_BF16, 8, cases[i].ep);

        cell.layout.dp = cases[i].dp;
        cell.layout.cp = cases[i].cp;
        cell.layout.groups = cases[i].dp * cases[i].cp;
        cell.layout.attn_tp = 8 / cell.layout.groups;
        check = check_with(&cell, NULL);
        assert_right(cases[i].what, &cell, &check);
    }
    sharded.shared = K3_SHARED_SHARDED;
    check = check_with(&sharded, NULL);
    assert_right("sharded", &sharded, &check);
}

static void test_a_complete_combine_on_the_fallback_passes(void **state)
{
    k3_cell_t  cell = make_cell(&tiny, &complete, &w4a8, K3_FORMAT_FP8, 8, 8);
    k3_check_t check;

    (void)state;
    cell.path = (k3_path_t){.all_rows = true};
    check = check_with(&cell, NULL);
    assert_right("fallback, spanning", &cell, &check);
}

static void test_no_shared_expert(void **state)
{
    k3_cell_t  cell = make_cell(&tiny, &complete, &w4a8, K3_FORMAT_FP8, 4, 4);
    k3_check_t check;

    (void)state;
    cell.model.shared = 0;
    check = check_with(&cell, NULL);
    assert_right("no shared expert", &cell, &check);
}

static void test_stand_in(void **state)
{
    static region_row_t rows[ROWS];
    k3_cell_t           cell = make_cell(&tiny, &complete, &w4a8, K3_FORMAT_FP8, 4, 4);
    k3_check_t          check;

    (void)state;
    cell.component = K3_COMPONENT_PAIR;
    make_rows(&cell, NULL, true, rows);
    check = check_rows(&cell, true, rows);
    assert_right("stand-in", &cell, &check);
    rows[3].combined[17] += 2;
    check = check_rows(&cell, true, rows);
    assert_wrong(&check, K3_STAGE_COMBINED, 1, "");
    assert_int_equal(check.first_row, 3);
    assert_int_equal(check.first_element, 17);
}

/* The weight goes on the product before it is rounded, and not on the rounded result. */
static void test_weights_inside(void **state)
{
    static const mistakes_t outside = {.weights_outside = true}, twice = {.double_selection = 2};
    static region_row_t     rows[ROWS];
    k3_cell_t               cell = make_cell(&tiny, &slots, &w4a8mx, K3_FORMAT_MXFP8, 4, 4);
    k3_check_t              check;

    (void)state;
    check = check_with(&cell, &outside);
    assert_true(check.wrong && check.first_stage == K3_STAGE_COMBINED);
    check = check_with(&cell, &twice);
    assert_wrong(&check, K3_STAGE_COMBINED, ROWS, "selection 1");
    cell.component = K3_COMPONENT_PAIR;
    make_rows(&cell, NULL, true, rows);
    check = check_rows(&cell, true, rows);
    assert_right("stand-in, weights inside", &cell, &check);
    assert_true(check.max_error[K3_STAGE_COMBINED] == 0.0);
    make_rows(&cell, &outside, true, rows);
    check = check_rows(&cell, true, rows);
    assert_true(check.wrong);
}

static void test_null_members_are_not_looked_at(void **state)
{
    static region_row_t rows[ROWS];
    k3_cell_t           cell = make_cell(&tiny, &complete, &w4a16, K3_FORMAT_BF16, 4, 4);
    k3_check_t          check;

    (void)state;
    make_rows(&cell, NULL, false, rows);
    for (int i = 0; i < ROWS; i++) {
        k3_measured_row_t *m = &rows[i].measured;

        rows[i].x[0] ^= 0x4000; /* would be wrong */
        m->x = NULL;
        m->combined = i % 2 == 0 ? NULL : m->combined; /* some rows only */
    }
    check = check_rows(&cell, false, rows);
    assert_right("some stages", &cell, &check);
    assert_true(check.max_error[K3_STAGE_X] == 0.0);
}

/* --- ids of -1: P03 */

static void test_ids_not_sent(void **state)
{
    static region_row_t rows[ROWS];
    static mistakes_t   none;
    k3_cell_t           cell = make_cell(&tiny, &complete, &w4a8, K3_FORMAT_FP8, 4, 4);
    k3_check_t          check;

    (void)state;
    make_rows(&cell, NULL, false, rows);
    rows[1].ids[2] = -1;
    for (int k = 0; k < 4; k++) {
        rows[2].ids[k] = -1;
    }
    ref_row(&cell, &none, false, 1, PAYLOAD, &rows[1]);
    ref_row(&cell, &none, false, 2, PAYLOAD, &rows[2]);
    check = check_rows(&cell, false, rows);
    assert_right("-1", &cell, &check);
    for (int i = 0; i < 256; i++) {
        assert_int_equal(rows[2].combined[i], 0);
    }
    rows[2].combined[200] = 0x3c00;
    check = check_rows(&cell, false, rows);
    assert_wrong(&check, K3_STAGE_COMBINED, 1, "");
    assert_int_equal(check.first_element, 200);
    assert_true(check.max_rel_err == K3_ORACLE_ERROR_MAX);
}

/* --- mistakes are found */

static void test_one_element_of_each_stage(void **state)
{
    static region_row_t rows[ROWS];
    k3_cell_t           cell = make_cell(&tiny, &complete, &w4a8, K3_FORMAT_FP8, 4, 4);

    (void)state;
    for (int stage = 0; stage < K3_STAGE_COUNT; stage++) {
        k3_check_t check;

        make_rows(&cell, NULL, false, rows);
        switch ((k3_stage_t)stage) {
        case K3_STAGE_X:
            rows[4].x[3] ^= 1;
            break;
        case K3_STAGE_LOGITS:
            rows[4].logits[3] += 0.01f;
            break;
        case K3_STAGE_WEIGHTS:
            rows[4].weights[3] *= 1.001f;
            break;
        case K3_STAGE_LATENT:
            rows[4].latent[3] ^= 0x20;
            break;
        case K3_STAGE_COMBINED:
            rows[4].combined[3] ^= 0x8000;
            break;
        default:
            rows[4].output[3] ^= 0x40;
            break;
        }
        check = check_rows(&cell, false, rows);
        assert_wrong(&check, (k3_stage_t)stage, 1, "");
        assert_int_equal(check.first_row, 4);
        assert_int_equal(check.first_payload, PAYLOAD);
        assert_int_equal(check.first_element, 3);
    }
}

static void test_P21_the_wrong_payload(void **state)
{
    static region_row_t rows[ROWS];
    k3_cell_t           cell = make_cell(&tiny, &complete, &w4a8, K3_FORMAT_FP8, 4, 4);
    k3_check_t          check;

    (void)state;
    make_rows(&cell, NULL, false, rows);
    for (int i = 0; i < ROWS; i++) {
        rows[i].measured.payload++;
    }
    check = check_rows(&cell, false, rows);
    assert_wrong(&check, K3_STAGE_X, ROWS, "");
}

/* N01: norms and sum of the rows stay the same. */
static void test_N01_swapped_rows(void **state)
{
    static region_row_t rows[ROWS];
    k3_cell_t           cell = make_cell(&tiny, &complete, &w4a8, K3_FORMAT_FP8, 4, 4);
    k3_check_t          check;
    const uint16_t     *kept;

    (void)state;
    make_rows(&cell, NULL, false, rows);
    kept = rows[2].measured.combined;
    rows[2].measured.combined = rows[3].measured.combined; /* the same experts */
    rows[3].measured.combined = kept;
    check = check_rows(&cell, false, rows);
    assert_wrong(&check, K3_STAGE_COMBINED, 2, "row holds the combined latent row of row 3");
    assert_int_equal(check.first_row, 2);
}

/* A few flips weigh more in a row of few values, and nothing else does. */
static void test_P21_output_of_narrow_rows(void **state)
{
    static const struct {
        uint32_t hidden, shared;
        double   limit;
    } rows[] = {{64, 512, 5.98e-3}, {128, 512, 4.23e-3}, {256, 512, 3e-3},   {512, 256, 3e-3},
                {7168, 6144, 3e-3}, {7168, 0, 3e-3},     {512, 64, 4.19e-3}, {512, 16, 6.87e-3}};
    k3_model_t model = tiny;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        k3_cell_t cell;

        model.hidden = rows[i].hidden;
        model.shared = rows[i].shared;
        cell = make_cell(&model, &complete, &w4a8, K3_FORMAT_FP8, 4, 4);
        assert_true(fabs(k3_oracle_row_tolerance(&cell, K3_STAGE_OUTPUT) - rows[i].limit) < 1e-5);
    }
}

/* A combine that goes by the selections of another row, as a table received in the dispatch would have it: that row
 * alone is wrong. */
static void test_P06_table_of_another_row(void **state)
{
    static region_row_t     rows[ROWS], others[ROWS];
    static const mistakes_t none = {0};
    k3_cell_t               cell = make_cell(&tiny, &complete, &w4a8, K3_FORMAT_FP8, 4, 4);
    k3_check_t              check;

    (void)state;
    make_rows(&cell, NULL, false, rows);
    make_rows(&cell, NULL, false, others);
    memcpy(others[3].ids, rows[4].ids, sizeof(others[3].ids));
    ref_row(&cell, &none, false, 3, PAYLOAD, &others[3]);
    rows[3].measured.combined = others[3].combined;
    check = check_rows(&cell, false, rows);
    assert_true(check.wrong);
    assert_int_equal(check.first_stage, K3_STAGE_COMBINED);
    assert_int_equal(check.first_row, 3);
    assert_int_equal(check.rows_wrong, 1);
}

static void test_double_reduce(void **state)
{
    static const uint32_t sizes[] = {2, 4, 8};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        k3_cell_t  cell = make_cell(&tiny, &complete, &w4a8, K3_FORMAT_FP8, sizes[i], sizes[i]);
        mistakes_t mistakes = {.combined_factor = (float)sizes[i]};
        k3_check_t check;
        char       text[64];

        cell.path = (k3_path_t){.all_rows = true, .reduce_latent = true, .reduced_twice = true};
        check = check_with(&cell, &mistakes);
        snprintf(text, sizeof(text),
                 "combined latent rows are %u.00 times the right value: reduced", sizes[i]);
        assert_wrong(&check, K3_STAGE_COMBINED, ROWS, text);
        /* The norm hides it from the output: only the combined rows show it. */
        assert_true(check.max_error[K3_STAGE_OUTPUT] <=
                    k3_oracle_tolerance(&cell, K3_STAGE_OUTPUT));
    }
}

static void test_factors(void **state)
{
    k3_cell_t  cell = make_cell(&tiny, &complete, &w4a8, K3_FORMAT_FP8, 4, 4);
    mistakes_t mistakes = {.combined_factor = 0.25f};
    k3_check_t check = check_with(&cell, &mistakes);

    (void)state;
    assert_wrong(&check, K3_STAGE_COMBINED, ROWS, "1/4 of the right value: not reduced");
    mistakes.combined_factor = 1.5f;
    check = check_with(&cell, &mistakes);
    assert_wrong(&check, K3_STAGE_COMBINED, ROWS, "1.500 times the right value");
}

/* F01: the result of a dead rank is left out and nothing else: the weights of the others stay. */
static void test_F01_selections_that_were_not_served(void **state)
{
    k3_cell_t           cell = make_cell(&tiny, &complete, &w4a8, K3_FORMAT_FP8, 4, 4);
    mistakes_t          lost = {.skip_selection = 3};
    static region_row_t rows[ROWS];
    static int32_t      served[ROWS][K3_TOPK_MAX];
    k3_check_t          check;

    (void)state;
    make_rows(&cell, &lost, false, rows);
    check = check_rows(&cell, false, rows);
    assert_int_equal(check.rows_wrong, ROWS);
    for (int i = 0; i < ROWS; i++) {
        memcpy(served[i], rows[i].ids, sizeof(served[i]));
        served[i][2] = -1;
        rows[i].measured.served = served[i];
    }
    check = check_rows(&cell, false, rows);
    assert_false(check.wrong);
    /* It came although its rank counts as dead, or another one is missing: wrong. */
    served[0][2] = rows[0].ids[2];
    served[1][1] = -1;
    check = check_rows(&cell, false, rows);
    assert_int_equal(check.rows_wrong, 2);
}

static void test_missing_and_doubled_experts(void **state)
{
    k3_cell_t  cell = make_cell(&tiny, &complete, &w4a8, K3_FORMAT_FP8, 4, 4);
    mistakes_t mistakes = {.skip_selection = 3};
    k3_check_t check = check_with(&cell, &mistakes);

    (void)state;
    assert_wrong(&check, K3_STAGE_COMBINED, ROWS, "expert 10 (selection 2) is missing");
    mistakes = (mistakes_t){.double_selection = 2};
    check = check_with(&cell, &mistakes);
    assert_wrong(&check, K3_STAGE_COMBINED, ROWS, "expert 5 (selection 1) was added 2 times");
    mistakes = (mistakes_t){.weights_twice = true};
    check = check_with(&cell, &mistakes);
    assert_wrong(&check, K3_STAGE_COMBINED, ROWS, "");
}

/* A rounding that is forgotten is small, but in every row. */
static void test_roundings(void **state)
{
    static const struct {
        const k3_runner_t *runner;
        k3_format_t        dispatch;
        mistakes_t         mistakes;
    } cases[] = {
        {&w4a8, K3_FORMAT_FP8, {.skip_input_rounding = true}},
        {&w4a16, K3_FORMAT_FP8, {.skip_input_rounding = true}},
        {&w4a16, K3_FORMAT_MXFP4, {.skip_input_rounding = true}},
        {&w4a8mx, K3_FORMAT_MXFP8, {.skip_input_rounding = true}},
        {&w4a8, K3_FORMAT_FP8, {.skip_middle_rounding = true}},
        {&w4a8mx, K3_FORMAT_MXFP8, {.skip_middle_rounding = true}},
        {&w4a4, K3_FORMAT_MXFP4, {.skip_middle_rounding = true}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        k3_cell_t  cell = make_cell(&tiny, &complete, cases[i].runner, cases[i].dispatch, 4, 4);
        k3_check_t check = check_with(&cell, &cases[i].mistakes);

        print_errors("a rounding is missing", &cell, &check);
        /* One row may pass for a rare flip. */
        assert_true(check.wrong && check.first_stage == K3_STAGE_COMBINED);
        assert_true(check.rows_wrong > ROWS / 2);
    }
}

/* One bf16 rounding of gate and up more or less tips a few codes of the middle: the smallest
 * mistake that is to be found, where a row has as many experts as Kimi-K3. */
static void test_rounding_of_gate_and_up(void **state)
{
    static const k3_runner_t *const runners[] = {&w4a8, &w4a8mx};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        k3_cell_t  cell = make_cell(&tiny, &complete, runners[i], K3_FORMAT_BF16, 4, 4);
        mistakes_t mistakes = {.toggle_round_gate_up = true};
        k3_check_t check;

        cell.model.topk = 12;
        check = check_with(&cell, NULL);
        assert_right("gate and up, right", &cell, &check);
        check = check_with(&cell, &mistakes);
        print_errors("gate and up", &cell, &check);
        assert_true(check.wrong && check.first_stage == K3_STAGE_COMBINED);
        assert_true(check.rows_wrong > ROWS / 2);
    }
}

/* L11: added exactly once. */
static void test_shared_expert_is_added_once(void **state)
{
    k3_cell_t  cell = make_cell(&tiny, &complete, &w4a8, K3_FORMAT_FP8, 4, 4);
    mistakes_t mistakes = {.shared_times = 1};
    k3_check_t check = check_with(&cell, &mistakes);

    (void)state;
    assert_wrong(&check, K3_STAGE_OUTPUT, ROWS, "the shared experts' output is missing");
    for (unsigned times = 2; times <= 8; times *= 2) {
        char text[64];

        snprintf(text, sizeof(text), "the shared experts' output was added %u times", times);
        mistakes.shared_times = 1 + times;
        check = check_with(&cell, &mistakes);
        assert_wrong(&check, K3_STAGE_OUTPUT, ROWS, text);
    }
}

static void test_no_numbers(void **state)
{
    static region_row_t rows[ROWS];
    k3_cell_t           cell = make_cell(&tiny, &complete, &w4a8, K3_FORMAT_FP8, 4, 4);
    k3_check_t          check;

    (void)state;
    make_rows(&cell, NULL, false, rows);
    rows[5].combined[255] = 0x7fc0;
    check = check_rows(&cell, false, rows);
    assert_wrong(&check, K3_STAGE_COMBINED, 1, "row holds NaN or infinity in 1 of 256 elements");
    assert_int_equal(check.first_element, 255);
    assert_true(check.max_rel_err == K3_ORACLE_ERROR_MAX);
    make_rows(&cell, NULL, false, rows);
    memset(rows[5].combined, 0, sizeof(rows[5].combined));
    check = check_rows(&cell, false, rows);
    assert_wrong(&check, K3_STAGE_COMBINED, 1, "row is all zero");
}

/* --- cache, merging */

static void test_cache_does_not_change_the_answer(void **state)
{
    static region_row_t rows[ROWS];
    k3_cell_t           cell = make_cell(&tiny, &complete, &w4a8, K3_FORMAT_FP8, 4, 4);
    k3_check_t          first = {0}, second = {0};
    k3_error_t          err = K3_ERROR_INIT;
    k3_oracle_t        *oracle;

    (void)state;
    make_rows(&cell, NULL, false, rows);
    rows[1].combined[9] ^= 0x40;
    k3_oracle_cache_clear();
    assert_int_equal(k3_oracle_create(&cell, false, &oracle, &err), K3_OK);
    k3_oracle_check(oracle, &rows[0].measured, &first);
    k3_oracle_check(oracle, &rows[1].measured, &first);
    k3_oracle_check(oracle, &rows[0].measured, &second);
    k3_oracle_check(oracle, &rows[1].measured, &second);
    k3_oracle_destroy(oracle);
    assert_int_equal(first.rows_wrong, 1);
    assert_true(first.max_rel_err == second.max_rel_err && first.first_want == second.first_want);

    cell.seed++; /* another seed is another answer */
    assert_int_equal(k3_oracle_create(&cell, false, &oracle, &err), K3_OK);
    k3_oracle_check(oracle, &rows[0].measured, &second);
    k3_oracle_destroy(oracle);
    assert_int_equal(second.rows_wrong, 2);
    k3_oracle_cache_clear();
}

static void test_merge(void **state)
{
    k3_check_t sum = {0};
    k3_check_t a = {.rows_checked = 5,
                    .rows_wrong = 1,
                    .wrong = true,
                    .first_payload = 3,
                    .first_row = 9,
                    .first_stage = K3_STAGE_COMBINED,
                    .max_rel_err = 0.5,
                    .max_error = {[K3_STAGE_COMBINED] = 0.5},
                    .diagnosis = "a"};
    k3_check_t b = {.rows_checked = 2, .max_rel_err = 0.01, .max_error = {0.0, 0.7}};
    k3_check_t c = a;

    (void)state;
    c.first_payload = 2;
    c.first_row = 10;
    strcpy(c.diagnosis, "c");
    k3_check_merge(&sum, &b);
    assert_false(sum.wrong);
    k3_check_merge(&sum, &a);
    k3_check_merge(&sum, &c);
    k3_check_merge(&sum, &a);
    assert_true(sum.wrong);
    assert_int_equal(sum.rows_checked, 17);
    assert_int_equal(sum.rows_wrong, 3);
    assert_int_equal(sum.first_payload, 2);
    assert_int_equal(sum.first_row, 10);
    assert_string_equal(sum.diagnosis, "c");
    assert_true(sum.max_rel_err == 0.5 && sum.max_error[1] == 0.7);
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
    static uint16_t   latent[4][3584], combined[3584];
    k3_model_t        k3 = {.name = "kimi-k3",
                            .hidden = 7168,
                            .latent = 3584,
                            .experts = 896,
                            .topk = 1,
                            .intermediate = 3072,
                            .shared = 6144,
                            .latent_step = true};
    k3_cell_t         cell = make_cell(&k3, &complete, &w4a8, K3_FORMAT_FP8, 8, 8);
    const int32_t     id = 17;
    const float       weight = 1.0f;
    k3_measured_row_t rows[4] = {{0}};
    k3_error_t        err = K3_ERROR_INIT;
    k3_oracle_t      *oracle;

    (void)state;
    assert_int_equal(k3_oracle_create(&cell, false, &oracle, &err), K3_OK);
    for (size_t n = 1; n <= 4; n += 3) {
        k3_check_t check = {0};
        double     begin;

        for (size_t i = 0; i < n; i++) {
            for (size_t j = 0; j < 3584; j++) {
                latent[i][j] = k3_oracle_bf16_bits(sin((double)(i + n + j)));
            }
            rows[i] = (k3_measured_row_t){.row = i,
                                          .latent = latent[i],
                                          .ids = &id,
                                          .weights = &weight,
                                          .combined = combined};
        }
        begin = now();
        k3_oracle_check_rows(oracle, rows, n, &check);
        printf("%.1f ms a (row, expert) at K3 shape, %zu rows of one expert\n",
               1e3 * (now() - begin) / (double)n, n);
    }
    k3_oracle_destroy(oracle);
    k3_oracle_cache_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_values_pass),
        cmocka_unit_test(test_context_and_shards_pass),
        cmocka_unit_test(test_a_complete_combine_on_the_fallback_passes),
        cmocka_unit_test(test_no_shared_expert),
        cmocka_unit_test(test_stand_in),
        cmocka_unit_test(test_weights_inside),
        cmocka_unit_test(test_null_members_are_not_looked_at),
        cmocka_unit_test(test_ids_not_sent),
        cmocka_unit_test(test_one_element_of_each_stage),
        cmocka_unit_test(test_P21_the_wrong_payload),
        cmocka_unit_test(test_N01_swapped_rows),
        cmocka_unit_test(test_P21_output_of_narrow_rows),
        cmocka_unit_test(test_P06_table_of_another_row),
        cmocka_unit_test(test_double_reduce),
        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_F01_selections_that_were_not_served),
        cmocka_unit_test(test_missing_and_doubled_experts),
        cmocka_unit_test(test_roundings),
        cmocka_unit_test(test_rounding_of_gate_and_up),
        cmocka_unit_test(test_shared_expert_is_added_once),
        cmocka_unit_test(test_no_numbers),
        cmocka_unit_test(test_cache_does_not_change_the_answer),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_print_speed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
