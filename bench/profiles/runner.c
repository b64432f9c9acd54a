#include "bench/profiles/runner.h"

#include <stdio.h>
#include <string.h>

#include "harness/base/options.h"
#include "harness/base/text.h"

#define STANDARD          K3_BIT(K3_DISPATCH_STANDARD)
#define DEEPEP_V1_LAYOUTS (K3_BIT(K3_DISPATCH_DEEPEP_NORMAL) | K3_BIT(K3_DISPATCH_DEEPEP_LL))

#define BF16  K3_BIT(K3_FORMAT_BF16)
#define FP8   K3_BIT(K3_FORMAT_FP8)
#define MXFP8 K3_BIT(K3_FORMAT_MXFP8)
#define MXFP4 K3_BIT(K3_FORMAT_MXFP4)
#define INT8  K3_BIT(K3_FORMAT_INT8)

#define W4 K3_BIT(K3_WEIGHT_MXFP4)
#define W8 K3_BIT(K3_WEIGHT_FP8_B128)

/* The order is the rule of "auto": marlin for bf16 rows in the standard layout, deep_gemm for what
 * DeepEP and pplx hand over. Rounding after gate and up follows from the structure: a runner whose
 * first GEMM writes gate and up to memory rounds them, one whose epilogue applies the activation
 * does not. */
static const k3_runner_t runners[] = {
    /* Rows stay bf16; first GEMM, activation and second GEMM are three kernels. */
    {.name = "marlin",
     .accepts = STANDARD,
     .rows = BF16,
     .weights = W4 | W8,
     .recipe = {"w4a16", K3_FORMAT_BF16, true, K3_FORMAT_BF16},
     .source = "sgl-project/sglang layers/moe/moe_runner; default on Hopper and SM120",
     .what = "W4A16, standard layout only"},

    /* Grouped or masked GEMM to bf16, activation, fp8 per 128 again. */
    {.name = "deep_gemm",
     .accepts =
         STANDARD | DEEPEP_V1_LAYOUTS | K3_BIT(K3_DISPATCH_DEEPEP_V2) | K3_BIT(K3_DISPATCH_PPLX),
     .rows = BF16 | FP8,
     .weights = W4 | W8,
     .recipe = {"w4a8-fp8", K3_FORMAT_FP8, true, K3_FORMAT_FP8},
     .source = "sgl-project/sglang layers/moe/moe_runner, deepseek-ai/DeepGEMM",
     .what = "fp8 per 128 before both GEMMs, grouped or masked"},

    /* The trtllm-gen kernel applies the activation in the first GEMM's epilogue and writes MXFP8
     * for the second. */
    {.name = "flashinfer_mxfp4",
     .accepts = STANDARD,
     .rows = BF16 | MXFP8,
     .weights = W4,
     .recipe = {"w4a8-mxfp8", K3_FORMAT_MXFP8, false, K3_FORMAT_MXFP8},
     .source = "sgl-project/sglang Kimi-K3 cookbook; default on SM100, SM103, SM107",
     .what = "W4A8 with MXFP8, activation fused, standard layout only"},

    /* Two fused stages on gfx950; the DeepEP layouts by an early return before the selections are
     * unpacked. The 8-bit variant goes before the 4-bit one, as upstream's switches do. */
    {.name = "aiter",
     .accepts = STANDARD | DEEPEP_V1_LAYOUTS,
     .rows = BF16,
     .weights = W4,
     .recipe = {"a16w4", K3_FORMAT_BF16, false, K3_FORMAT_BF16},
     .source = "sgl-project/sglang PR 33838, PR 35630, ROCm/aiter; default on gfx950",
     .what = "A16W4, activation fused, standard and DeepEP layouts"},
    {.name = "aiter:a8w4",
     .accepts = STANDARD | DEEPEP_V1_LAYOUTS,
     .rows = BF16 | MXFP8,
     .weights = W4,
     .recipe = {"a8w4", K3_FORMAT_MXFP8, false, K3_FORMAT_MXFP8},
     .source = "AITER_SITUV2_A8W4=1 (sglang PR 32548); groups of 32: decided",
     .what = "A8W4 with MXFP8, activation fused, standard and DeepEP layouts"},
    {.name = "aiter:a4w4",
     .accepts = STANDARD | DEEPEP_V1_LAYOUTS,
     .rows = BF16 | MXFP4,
     .weights = W4,
     .recipe = {"a4w4", K3_FORMAT_MXFP4, false, K3_FORMAT_MXFP4},
     .source = "AITER_SITUV2_A4W4=1 (sglang PR 32548), aiter PR 5579; groups of 32: decided",
     .what = "A4W4 with MXFP4, activation fused, standard and DeepEP layouts"},

    /* Two GEMM kernels with the activation between them; DeepEP layouts exist in adapters only. */
    {.name = "triton",
     .accepts = STANDARD,
     .rows = BF16,
     .weights = W4 | W8,
     .recipe = {"w4a16", K3_FORMAT_BF16, true, K3_FORMAT_BF16},
     .source = "sgl-project/sglang layers/moe/moe_runner; default on SM89",
     .what = "W4A16, standard layout only"},

    /* The runner that takes what flashinfer's one-sided all-to-all hands over (decided: W4A16, with
     * the activation as a kernel of its own). */
    {.name = "flashinfer_cutlass",
     .accepts = STANDARD | K3_BIT(K3_DISPATCH_FLASHINFER),
     .rows = BF16,
     .weights = W4 | W8,
     .recipe = {"w4a16", K3_FORMAT_BF16, true, K3_FORMAT_BF16},
     .source = "sgl-project/sglang layers/moe/moe_runner",
     .what = "W4A16, standard and flashinfer layouts"},

    /* GEMMs of fused kernels: no other runner can stand in for them. */
    {.name = "megamoe",
     .rows = MXFP8,
     .weights = W4 | W8,
     .recipe = {"w4a8-mxfp8", K3_FORMAT_MXFP8, false, K3_FORMAT_MXFP8},
     .source = "deepseek-ai/DeepGEMM deep_gemm/include/deep_gemm/impls",
     .what = "the GEMMs of the fused kernel: MXFP8 rows, weight applied in the activation"},
    {.name = "megamoe:a4w4",
     .rows = MXFP4,
     .weights = W4,
     .recipe = {"w4a4-mxfp4", K3_FORMAT_MXFP4, false, K3_FORMAT_MXFP4},
     .source = "upstream's environment switch for W4A4; middle as the rows: decided",
     .what = "the same with MXFP4 rows"},
    {.name = "flashinfer_megamoe",
     .rows = BF16 | MXFP8,
     .weights = W4 | W8,
     .recipe = {"w4a8-mxfp8", K3_FORMAT_MXFP8, false, K3_FORMAT_MXFP8},
     .source = "flashinfer-ai/flashinfer; as megamoe: decided",
     .what = "the GEMMs of the fused kernel: MXFP8, bf16 rows are brought to it"},
    {.name = "ascend",
     .rows = BF16 | INT8,
     .weights = W4 | W8,
     .recipe = {"a8-int8", K3_FORMAT_INT8, false, K3_FORMAT_INT8},
     .source = "sgl-project/sgl-kernel-npu fused_deep_moe; weights as the model has them: decided",
     .what = "the GEMMs of the fused operator: int8 rows, one scale a row, requantised between"},
};

enum { RUNNER_COUNT = sizeof(runners) / sizeof(runners[0]), NAMES_TEXT = 128 };

unsigned k3_runner_count(void)
{
    return RUNNER_COUNT;
}

const k3_runner_t *k3_runner_at(unsigned i)
{
    return i < RUNNER_COUNT ? &runners[i] : NULL;
}

/* "megamoe:a4w4" is a variant of "megamoe". */
static bool is_variant(const char *name, const char *of)
{
    size_t n = strlen(of);

    return strncmp(name, of, n) == 0 && (name[n] == '\0' || name[n] == ':');
}

bool k3_runner_fits(const k3_runner_t *runner, const k3_profile_t *profile)
{
    if (profile->own_runner != NULL) {
        return is_variant(runner->name, profile->own_runner);
    }
    return (runner->accepts & K3_BIT(profile->layout)) != 0;
}

bool k3_runner_converts(const k3_runner_t *runner, k3_format_t rows)
{
    return (runner->rows & K3_BIT(rows)) == 0;
}

/* Names of the set bits, separated by commas. */
static const char *bits_text(unsigned bits, unsigned count, const char *(*name)(unsigned),
                             char text[NAMES_TEXT])
{
    size_t used = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < count; i++) {
        if ((bits & K3_BIT(i)) != 0) {
            used = k3_append(text, NAMES_TEXT, used, "%s%s", used > 0 ? ", " : "", name(i));
        }
    }
    return text;
}

const char *k3_layout_name_at(unsigned i)
{
    return k3_dispatch_layout_name((k3_dispatch_layout_t)i);
}

const char *k3_format_name_at(unsigned i)
{
    return k3_format_names[i];
}

const char *k3_weights_name_at(unsigned i)
{
    return k3_weight_format_names[i];
}

static k3_status_t refuse_layout(const k3_runner_t *runner, const k3_profile_t *profile,
                                 k3_error_t *err)
{
    char text[NAMES_TEXT];

    if (profile->own_runner != NULL) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "runner %s: the GEMMs of %s are part of its own kernel, its runner is %s "
                       "(dispatch layout %s)",
                       runner->name, profile->name, profile->own_runner,
                       k3_dispatch_layout_name(profile->layout));
    }
    if (runner->accepts == 0) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "runner %s is part of a fused kernel and takes no dispatch layout, not %s "
                       "of %s either",
                       runner->name, k3_dispatch_layout_name(profile->layout), profile->name);
    }
    return k3_fail(err, K3_ERR_UNSUPPORTED,
                   "runner %s does not accept the dispatch layout %s of %s, only %s", runner->name,
                   k3_dispatch_layout_name(profile->layout), profile->name,
                   bits_text(runner->accepts, K3_DISPATCH_LAYOUT_COUNT, k3_layout_name_at, text));
}

/* NULL in *runner_p: "auto". */
static k3_status_t parse(const char *name, const k3_runner_t **runner_p, k3_error_t *err)
{
    const char *names[RUNNER_COUNT + 2] = {"auto"};
    size_t      index = 0;

    for (unsigned i = 0; i < RUNNER_COUNT; i++) {
        names[i + 1] = runners[i].name;
    }
    if (k3_parse_name("runner", name, names, &index, err) == K3_OK) {
        *runner_p = index == 0 ? NULL : &runners[index - 1];
    }
    return err->status;
}

/* The first that fits; with facts, that also has the weights and, if `as_is`, reads the rows. */
static const k3_runner_t *first_fit(const k3_profile_t *profile, const k3_runner_facts_t *facts,
                                    bool as_is)
{
    for (unsigned i = 0; i < RUNNER_COUNT; i++) {
        const k3_runner_t *r = &runners[i];

        if (k3_runner_fits(r, profile) &&
            (facts == NULL || (r->weights & K3_BIT(facts->weights)) != 0) &&
            (!as_is || !k3_runner_converts(r, facts->rows))) {
            return r;
        }
    }
    return NULL;
}

k3_status_t k3_runner_find(const char *name, const k3_profile_t *profile,
                           const k3_runner_t **runner_p, k3_error_t *err)
{
    const k3_runner_t *runner = NULL;

    if (parse(name, &runner, err) != K3_OK) {
        return err->status;
    }
    if (runner == NULL) {
        runner = first_fit(profile, NULL, false);
    } else if (!k3_runner_fits(runner, profile)) {
        return refuse_layout(runner, profile, err);
    }
    if (runner == NULL) {
        return k3_fail(err, K3_ERR_UNSUPPORTED, "%s: no runner accepts its dispatch layout %s",
                       profile->name, k3_dispatch_layout_name(profile->layout));
    }
    *runner_p = runner;
    return K3_OK;
}

static k3_status_t check_facts(const k3_runner_t *runner, const k3_profile_t *profile,
                               const k3_runner_facts_t *facts, k3_error_t *err)
{
    char text[NAMES_TEXT];

    if ((runner->weights & K3_BIT(facts->weights)) == 0) {
        return k3_fail(err, K3_ERR_UNSUPPORTED, "%s: runner %s takes experts in %s only, not in %s",
                       profile->name, runner->name,
                       bits_text(runner->weights, K3_WEIGHT_FORMAT_COUNT, k3_weights_name_at, text),
                       k3_weight_format_names[facts->weights]);
    }
    if (k3_runner_converts(runner, facts->rows) && facts->generation == K3_GENERATION_STOCK) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s: runner %s reads rows in %s, not in %s (generation stock; k3 puts an "
                       "adapter in front that decodes them to bf16)",
                       profile->name, runner->name,
                       bits_text(runner->rows, K3_FORMAT_COUNT, k3_format_name_at, text),
                       k3_format_names[facts->rows]);
    }
    return K3_OK;
}

k3_status_t k3_runner_choose(const char *name, const k3_profile_t *profile,
                             const k3_runner_facts_t *facts, const k3_runner_t **runner_p,
                             k3_error_t *err)
{
    const k3_runner_t *runner = NULL, *best = NULL;

    if (k3_runner_find(name, profile, &runner, err) != K3_OK) {
        return err->status;
    }
    if (strcmp(name, "auto") == 0) {
        best = first_fit(profile, facts, true);
        best = best != NULL ? best : first_fit(profile, facts, false);
        runner = best != NULL ? best : runner;
    }
    if (check_facts(runner, profile, facts, err) == K3_OK) {
        *runner_p = runner;
    }
    return err->status;
}

void k3_recipe_points(const k3_recipe_t *recipe, char text[K3_RECIPE_POINTS][K3_RECIPE_TEXT])
{
    const char *input = k3_format_names[recipe->input], *middle = k3_format_names[recipe->middle];

    if (recipe->input == K3_FORMAT_BF16) {
        snprintf(text[0], K3_RECIPE_TEXT, "rows: bf16 as they are, others decoded to bf16");
    } else {
        snprintf(text[0], K3_RECIPE_TEXT,
                 "rows: %s as they are, bf16 to %s (%s), others decoded to bf16 first", input,
                 input, k3_format_rules[recipe->input]);
    }
    snprintf(text[1], K3_RECIPE_TEXT, "gate and up: %s",
             recipe->round_gate_up ? "rounded to bf16" : "not rounded (f32)");
    snprintf(text[2], K3_RECIPE_TEXT, "activation: f32, result rounded to bf16");
    if (recipe->middle == K3_FORMAT_BF16) {
        snprintf(text[3], K3_RECIPE_TEXT, "input of the down GEMM: that bf16");
    } else {
        snprintf(text[3], K3_RECIPE_TEXT, "input of the down GEMM: %s (%s)", middle,
                 k3_format_rules[recipe->middle]);
    }
    snprintf(text[4], K3_RECIPE_TEXT, "down GEMM: f32 sums, result rounded to bf16");
}
