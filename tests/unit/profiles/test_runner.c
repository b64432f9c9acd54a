#include "bench/profiles/runner.h"

#include "tests/unit/profiles/profiles_test.h"

static const k3_runner_t *runner_of(const char *name, const char *profile)
{
    k3_error_t         err = K3_ERROR_INIT;
    const k3_runner_t *runner = NULL;

    if (k3_runner_find(name, profile_of(profile), &runner, &err) != K3_OK) {
        fail_msg("%s", err.text);
    }
    return runner;
}

static void runner_refused(const char *name, const char *profile)
{
    k3_error_t          err = K3_ERROR_INIT;
    const k3_runner_t  *runner = NULL;
    const k3_profile_t *p = profile_of(profile);

    assert_int_equal(k3_runner_find(name, p, &runner, &err), K3_ERR_UNSUPPORTED);
    assert_null(runner);
    assert_says(&err, name, profile, k3_dispatch_layout_name(p->layout));
}

static void test_auto(void **state)
{
    (void)state;
    assert_string_equal(runner_of("auto", "none")->name, "marlin");
    assert_string_equal(runner_of("auto", "mpi")->name, "marlin");
    assert_string_equal(runner_of("auto", "mooncake")->name, "deep_gemm");
    assert_string_equal(runner_of("auto", "deepep:ll")->name, "deep_gemm");
    assert_string_equal(runner_of("auto", "deepep:normal")->name, "deep_gemm");
    assert_string_equal(runner_of("auto", "deepep_v2:hybrid")->name, "deep_gemm");
    assert_string_equal(runner_of("auto", "pplx")->name, "deep_gemm");
    assert_string_equal(runner_of("auto", "flashinfer")->name, "flashinfer_cutlass");
}

static void test_named(void **state)
{
    (void)state;
    assert_string_equal(runner_of("aiter", "mori:v1")->name, "aiter");
    assert_string_equal(runner_of("aiter", "mooncake")->name, "aiter");
    assert_string_equal(runner_of("deep_gemm", "none")->name, "deep_gemm");
    assert_string_equal(runner_of("triton", "mpi")->name, "triton");
    runner_refused("marlin", "mooncake");
    runner_refused("flashinfer_mxfp4", "deepep:ll");
    runner_refused("triton", "mooncake");
    runner_refused("aiter", "deepep_v2:direct");
    runner_refused("deep_gemm", "flashinfer");
}

static void test_unknown(void **state)
{
    k3_error_t         err = K3_ERROR_INIT;
    const k3_runner_t *runner = NULL;

    (void)state;
    assert_int_equal(k3_runner_find("marlni", profile_of("none"), &runner, &err), K3_ERR_USAGE);
    assert_says(&err, "marlin", "runner", NULL);
    assert_null(k3_runner_at(k3_runner_count()));
}

/* --- every pair ------------------------------------------------------------------------------ */

/* Written from upstream's sources, not from the tables under test: which runners each backend's
 * rows can go to. Marlin and flashinfer_mxfp4 take the standard layout alone, AITER the DeepEP ones
 * too, triton those in adapters only; a fused kernel has its own GEMMs. */
#define ON_STANDARD                                                                                \
    "marlin", "deep_gemm", "flashinfer_mxfp4", "aiter", "aiter:a8w4", "aiter:a4w4", "triton",      \
        "flashinfer_cutlass"
#define ON_DEEPEP_V1 "deep_gemm", "aiter", "aiter:a8w4", "aiter:a4w4"

static const struct {
    const char *profile, *runners[10];
} pairs[] = {
    {"none", {ON_STANDARD}},
    {"mpi", {ON_STANDARD}},
    {"null", {ON_STANDARD}},
    {"moonep", {ON_STANDARD}},
    {"mooncake", {ON_DEEPEP_V1}},
    {"deepep:ll", {ON_DEEPEP_V1}},
    {"deepep:normal", {ON_DEEPEP_V1}},
    {"nixl", {ON_DEEPEP_V1}},
    {"uccl", {ON_DEEPEP_V1}},
    {"nccl_ep", {ON_DEEPEP_V1}},
    {"mori:intra", {ON_DEEPEP_V1}},
    {"mori:intra_pull", {ON_DEEPEP_V1}},
    {"mori:v1", {ON_DEEPEP_V1}},
    {"mori:v1ll", {ON_DEEPEP_V1}},
    {"mori:asyncll", {ON_DEEPEP_V1}},
    {"deepep_v2:direct", {"deep_gemm"}},
    {"deepep_v2:hybrid", {"deep_gemm"}},
    {"pplx", {"deep_gemm"}},
    {"pplx_garden", {"deep_gemm"}},
    {"flashinfer", {"flashinfer_cutlass"}},
    {"megamoe", {"megamoe", "megamoe:a4w4"}},
    {"flashinfer_megamoe", {"flashinfer_megamoe"}},
    {"ascend_fuseep", {"ascend"}},
};

enum { PAIRS = sizeof(pairs) / sizeof(pairs[0]) };

static bool is_pair(unsigned i, const char *runner)
{
    for (unsigned r = 0; r < 10 && pairs[i].runners[r] != NULL; r++) {
        if (strcmp(pairs[i].runners[r], runner) == 0) {
            return true;
        }
    }
    return false;
}

static void test_every_pair(void **state)
{
    unsigned seen = 0;

    (void)state;
    assert_int_equal(PAIRS, k3_registry_count());
    for (unsigned i = 0; i < PAIRS; i++) {
        for (unsigned r = 0; r < k3_runner_count(); r++) {
            const char *runner = k3_runner_at(r)->name;

            if (is_pair(i, runner)) {
                assert_string_equal(runner_of(runner, pairs[i].profile)->name, runner);
                seen++;
            } else {
                runner_refused(runner, pairs[i].profile);
            }
        }
    }
    assert_int_equal(seen, 4 * 8 + 11 * 4 + 4 + 1 + 2 + 1 + 1);
}

/* --- rows, weights, generation --------------------------------------------------------------- */

static const k3_runner_t *choose(const char *name, const char *profile, k3_format_t rows,
                                 k3_weight_format_t weights, k3_generation_t generation,
                                 k3_error_t *err)
{
    k3_runner_facts_t  facts = {rows, weights, generation};
    const k3_runner_t *runner = NULL;

    k3_status_t status = k3_runner_choose(name, profile_of(profile), &facts, &runner, err);

    assert_int_equal(status, err->status);
    assert_int_equal(runner == NULL, status != K3_OK);
    return runner;
}

static void assert_auto(const char *profile, k3_format_t rows, const char *want)
{
    k3_error_t         err = K3_ERROR_INIT;
    const k3_runner_t *runner =
        choose("auto", profile, rows, K3_WEIGHT_MXFP4, K3_GENERATION_K3, &err);

    assert_non_null(runner);
    assert_string_equal(runner->name, want);
    assert_false(k3_runner_converts(runner, rows));
}

/* The format decides: rows go to the first runner that reads them as they arrive. */
static void test_auto_by_format(void **state)
{
    (void)state;
    assert_auto("none", K3_FORMAT_BF16, "marlin");
    assert_auto("mpi", K3_FORMAT_FP8, "deep_gemm");
    assert_auto("mpi", K3_FORMAT_MXFP8, "flashinfer_mxfp4");
    assert_auto("mooncake", K3_FORMAT_BF16, "deep_gemm");
    assert_auto("mooncake", K3_FORMAT_FP8, "deep_gemm");
    assert_auto("mori:v1", K3_FORMAT_MXFP8, "aiter:a8w4");
    assert_auto("deepep:ll", K3_FORMAT_MXFP4, "aiter:a4w4");
    assert_auto("megamoe", K3_FORMAT_MXFP8, "megamoe");
    assert_auto("megamoe", K3_FORMAT_MXFP4, "megamoe:a4w4");
    assert_auto("ascend_fuseep", K3_FORMAT_INT8, "ascend");
}

/* What no runner reads passes by an adapter, which upstream does not have. */
static void test_adapters(void **state)
{
    k3_error_t         err = K3_ERROR_INIT;
    const k3_runner_t *runner =
        choose("deep_gemm", "mooncake", K3_FORMAT_MXFP4, K3_WEIGHT_MXFP4, K3_GENERATION_K3, &err);

    (void)state;
    assert_non_null(runner);
    assert_true(k3_runner_converts(runner, K3_FORMAT_MXFP4));
    assert_null(choose("deep_gemm", "mooncake", K3_FORMAT_MXFP4, K3_WEIGHT_MXFP4,
                       K3_GENERATION_STOCK, &err));
    assert_int_equal(err.status, K3_ERR_UNSUPPORTED);
    assert_says(&err, "deep_gemm", "bf16, fp8", "mxfp4");
    err = (k3_error_t)K3_ERROR_INIT;
    assert_null(
        choose("aiter", "mori:v1", K3_FORMAT_FP8, K3_WEIGHT_MXFP4, K3_GENERATION_STOCK, &err));
    assert_says(&err, "aiter", "bf16", "generation stock");
}

static void test_weights(void **state)
{
    k3_error_t err = K3_ERROR_INIT;

    (void)state;
    assert_null(choose("flashinfer_mxfp4", "none", K3_FORMAT_BF16, K3_WEIGHT_FP8_B128,
                       K3_GENERATION_K3, &err));
    assert_int_equal(err.status, K3_ERR_UNSUPPORTED);
    assert_says(&err, "flashinfer_mxfp4", "mxfp4", "fp8_b128");
    err = (k3_error_t)K3_ERROR_INIT;
    assert_null(choose("aiter:a8w4", "mooncake", K3_FORMAT_BF16, K3_WEIGHT_FP8_B128,
                       K3_GENERATION_STOCK, &err));
    assert_says(&err, "aiter:a8w4", "mxfp4", "fp8_b128");
    err = (k3_error_t)K3_ERROR_INIT;
    /* auto goes past runners that have not these weights. */
    assert_string_equal(
        choose("auto", "mpi", K3_FORMAT_MXFP8, K3_WEIGHT_FP8_B128, K3_GENERATION_K3, &err)->name,
        "marlin");
}

static void test_points(void **state)
{
    (void)state;
    for (unsigned i = 0; i < k3_runner_count(); i++) {
        const k3_recipe_t *recipe = &k3_runner_at(i)->recipe;
        char               points[K3_RECIPE_POINTS][K3_RECIPE_TEXT];

        k3_recipe_points(recipe, points);
        assert_non_null(strstr(points[0], k3_format_names[recipe->input]));
        assert_int_equal(strstr(points[1], "not rounded") == NULL, recipe->round_gate_up);
        assert_non_null(strstr(points[3], k3_format_names[recipe->middle]));
        for (unsigned p = 0; p < K3_RECIPE_POINTS; p++) {
            assert_true(strlen(points[p]) > 0 && strlen(points[p]) < K3_RECIPE_TEXT - 1);
        }
    }
}

static void assert_recipe(const char *name, const char *profile, k3_format_t input, bool rounds,
                          k3_format_t middle)
{
    const k3_recipe_t *recipe = &runner_of(name, profile)->recipe;

    assert_non_null(recipe->name);
    assert_int_equal(recipe->input, input);
    assert_int_equal(recipe->round_gate_up, rounds);
    assert_int_equal(recipe->middle, middle);
}

static void test_recipes(void **state)
{
    (void)state;
    assert_recipe("marlin", "none", K3_FORMAT_BF16, true, K3_FORMAT_BF16);
    assert_recipe("deep_gemm", "mooncake", K3_FORMAT_FP8, true, K3_FORMAT_FP8);
    assert_recipe("flashinfer_mxfp4", "none", K3_FORMAT_MXFP8, false, K3_FORMAT_MXFP8);
    assert_recipe("aiter", "mori:v1", K3_FORMAT_BF16, false, K3_FORMAT_BF16);
    assert_recipe("aiter:a8w4", "mori:v1", K3_FORMAT_MXFP8, false, K3_FORMAT_MXFP8);
    assert_recipe("aiter:a4w4", "mori:v1", K3_FORMAT_MXFP4, false, K3_FORMAT_MXFP4);
    assert_recipe("megamoe", "megamoe", K3_FORMAT_MXFP8, false, K3_FORMAT_MXFP8);
    assert_recipe("ascend", "ascend_fuseep", K3_FORMAT_INT8, false, K3_FORMAT_INT8);
    assert_recipe("triton", "none", K3_FORMAT_BF16, true, K3_FORMAT_BF16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auto),           cmocka_unit_test(test_named),
        cmocka_unit_test(test_unknown),        cmocka_unit_test(test_every_pair),
        cmocka_unit_test(test_auto_by_format), cmocka_unit_test(test_adapters),
        cmocka_unit_test(test_weights),        cmocka_unit_test(test_points),
        cmocka_unit_test(test_recipes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
