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

/* Kernels that move the rows and hold the experts: no other runner, and no other backend has them. */
static void test_own_runner(void **state)
{
    static const char *const fused[][2] = {{"megamoe", "mega_moe"},
                                           {"flashinfer_megamoe", "mega_moe"},
                                           {"ascend_fuseep", "fused_deep_moe"}};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        k3_error_t         err = K3_ERROR_INIT;
        const k3_runner_t *runner = NULL;

        assert_string_equal(runner_of("auto", fused[i][0])->name, fused[i][1]);
        assert_string_equal(runner_of(fused[i][1], fused[i][0])->name, fused[i][1]);
        assert_int_equal(k3_runner_find("marlin", profile_of(fused[i][0]), &runner, &err),
                         K3_ERR_UNSUPPORTED);
        assert_says(&err, "marlin", fused[i][0], fused[i][1]);
        runner_refused(fused[i][1], "none");
    }
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
    assert_recipe("triton", "none", K3_FORMAT_BF16, true, K3_FORMAT_BF16);
    assert_recipe("auto", "megamoe", K3_FORMAT_MXFP8, false, K3_FORMAT_MXFP8);
    assert_recipe("auto", "flashinfer_megamoe", K3_FORMAT_MXFP8, false, K3_FORMAT_MXFP8);
    assert_recipe("auto", "ascend_fuseep", K3_FORMAT_BF16, false, K3_FORMAT_BF16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auto),       cmocka_unit_test(test_named),
        cmocka_unit_test(test_own_runner), cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_recipes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
