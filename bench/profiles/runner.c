#include "bench/profiles/runner.h"

#include <stdio.h>
#include <string.h>

#include "harness/base/options.h"

#define DEEPEP_V1_LAYOUTS (K3_BIT(K3_DISPATCH_DEEPEP_NORMAL) | K3_BIT(K3_DISPATCH_DEEPEP_LL))

/* The order is the rule of "auto": marlin for the standard layout, deep_gemm for what DeepEP and
 * pplx hand over. What each runner accepts: sgl-project/sglang layers/moe/moe_runner; formats of
 * Kimi-K3: its cookbook page. Rounding after gate and up follows from the structure: a runner whose
 * first GEMM writes gate and up to memory rounds them, one whose epilogue applies the activation
 * does not. */
static const k3_runner_t runners[] = {
    /* W4A16: rows stay bf16; first GEMM, activation and second GEMM are three kernels. */
    {.name = "marlin",
     .accepts = K3_BIT(K3_DISPATCH_STANDARD),
     .recipe = {.name = "w4a16",
                .input = K3_FORMAT_BF16,
                .round_gate_up = true,
                .middle = K3_FORMAT_BF16},
     .what = "W4A16, standard layout only"},

    /* fp8 rows per 128, grouped GEMM to bf16, activation, fp8 per 128 again (deepseek-ai/DeepGEMM
     * takes fp8 x fp4 operands and writes bf16). */
    {.name = "deep_gemm",
     .accepts = K3_BIT(K3_DISPATCH_STANDARD) | DEEPEP_V1_LAYOUTS | K3_BIT(K3_DISPATCH_DEEPEP_V2) |
                K3_BIT(K3_DISPATCH_PPLX),
     .recipe = {.name = "w4a8-fp8",
                .input = K3_FORMAT_FP8,
                .round_gate_up = true,
                .middle = K3_FORMAT_FP8},
     .what = "fp8 per 128 before both GEMMs, grouped or masked"},

    /* W4A8: the trtllm-gen kernel applies the activation in the first GEMM's epilogue and writes
     * MXFP8 for the second. */
    {.name = "flashinfer_mxfp4",
     .accepts = K3_BIT(K3_DISPATCH_STANDARD),
     .recipe = {.name = "w4a8-mxfp8",
                .input = K3_FORMAT_MXFP8,
                .round_gate_up = false,
                .middle = K3_FORMAT_MXFP8},
     .what = "MXFP8 before both GEMMs, activation fused, standard layout only"},

    /* A16W4, the default on gfx950: two fused stages (ROCm/aiter); the DeepEP layouts since sglang
     * PR 35630. */
    {.name = "aiter",
     .accepts = K3_BIT(K3_DISPATCH_STANDARD) | DEEPEP_V1_LAYOUTS,
     .recipe = {.name = "a16w4",
                .input = K3_FORMAT_BF16,
                .round_gate_up = false,
                .middle = K3_FORMAT_BF16},
     .what = "A16W4, activation fused, standard and DeepEP layouts"},

    /* Two GEMM kernels with the activation between them; DeepEP layouts exist in adapters only. */
    {.name = "triton",
     .accepts = K3_BIT(K3_DISPATCH_STANDARD),
     .recipe = {.name = "w4a16",
                .input = K3_FORMAT_BF16,
                .round_gate_up = true,
                .middle = K3_FORMAT_BF16},
     .what = "W4A16, standard layout only"},

    /* The runner that takes what flashinfer's one-sided all-to-all hands over (decided: W4A16, with
     * the activation as a kernel of its own). */
    {.name = "flashinfer_cutlass",
     .accepts = K3_BIT(K3_DISPATCH_STANDARD) | K3_BIT(K3_DISPATCH_FLASHINFER),
     .recipe = {.name = "w4a16",
                .input = K3_FORMAT_BF16,
                .round_gate_up = true,
                .middle = K3_FORMAT_BF16},
     .what = "W4A16, standard and flashinfer layouts"},

    /* Inside kernels that move the rows too; profiles name them. The first GEMM's epilogue applies the
     * activation, times the row's weight, and quantises (deepseek-ai/DeepGEMM mega MoE). */
    {.name = "mega_moe",
     .recipe = {.name = "w4a8-mxfp8",
                .input = K3_FORMAT_MXFP8,
                .round_gate_up = false,
                .middle = K3_FORMAT_MXFP8},
     .what = "MXFP8 before both GEMMs, activation times weight fused, inside the kernel that reads "
             "the rows"},

    /* Upstream's is int8 x int8. MXFP4 weights have no such GEMM, so rows are decoded (decided). */
    {.name = "fused_deep_moe",
     .recipe = {.name = "w4a16",
                .input = K3_FORMAT_BF16,
                .round_gate_up = false,
                .middle = K3_FORMAT_BF16},
     .what = "W4A16, rows decoded to bf16, activation fused, inside the kernel that stores them"},
};

enum { RUNNER_COUNT = sizeof(runners) / sizeof(runners[0]), ACCEPT_TEXT = 128 };

unsigned k3_runner_count(void)
{
    return RUNNER_COUNT;
}

const k3_runner_t *k3_runner_at(unsigned i)
{
    return i < RUNNER_COUNT ? &runners[i] : NULL;
}

static bool accepts(const k3_runner_t *runner, const k3_profile_t *profile)
{
    if (profile->runner != NULL) {
        return strcmp(runner->name, profile->runner) == 0;
    }
    return (runner->accepts & K3_BIT(profile->layout)) != 0;
}

static k3_status_t find_auto(const k3_profile_t *profile, const k3_runner_t **runner_p,
                             k3_error_t *err)
{
    for (unsigned i = 0; i < RUNNER_COUNT; i++) {
        if (accepts(&runners[i], profile)) {
            *runner_p = &runners[i];
            return K3_OK;
        }
    }
    return k3_fail(err, K3_ERR_UNSUPPORTED, "%s: no runner accepts its dispatch layout %s",
                   profile->name, k3_dispatch_layout_name(profile->layout));
}

/* Names of the layouts that a runner accepts. */
static void accepted_text(const k3_runner_t *runner, char text[ACCEPT_TEXT])
{
    size_t used = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < K3_DISPATCH_LAYOUT_COUNT; i++) {
        if ((runner->accepts & K3_BIT(i)) == 0) {
            continue;
        }

        int wrote = snprintf(text + used, ACCEPT_TEXT - used, "%s%s", used > 0 ? ", " : "",
                             k3_dispatch_layout_name((k3_dispatch_layout_t)i));

        used += wrote > 0 && (size_t)wrote < ACCEPT_TEXT - used ? (size_t)wrote : 0;
    }
}

k3_status_t k3_runner_find(const char *name, const k3_profile_t *profile,
                           const k3_runner_t **runner_p, k3_error_t *err)
{
    const char *names[RUNNER_COUNT + 2] = {"auto"};
    size_t      index = 0;

    for (unsigned i = 0; i < RUNNER_COUNT; i++) {
        names[i + 1] = runners[i].name;
    }

    k3_status_t status = k3_parse_name("runner", name, names, &index, err);

    if (status != K3_OK) {
        return status;
    }
    if (index == 0) {
        return find_auto(profile, runner_p, err);
    }

    const k3_runner_t *runner = &runners[index - 1];

    if (profile->runner != NULL && !accepts(runner, profile)) {
        return k3_fail(
            err, K3_ERR_UNSUPPORTED,
            "runner %s: the experts of %s are part of the kernel that moves the rows, its "
            "only runner is %s",
            runner->name, profile->name, profile->runner);
    }
    if (!accepts(runner, profile)) {
        char text[ACCEPT_TEXT];

        accepted_text(runner, text);
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "runner %s does not accept the dispatch layout %s of %s, only %s",
                       runner->name, k3_dispatch_layout_name(profile->layout), profile->name, text);
    }
    *runner_p = runner;
    return K3_OK;
}
