/* The AVX2 table. */
#include "kernels/cpu/avx2.h"

#if defined(__x86_64__)

static void expert_mlp(const k3_expert_shape_t *shape, const k3_recipe_t *recipe,
                       const k3_expert_weights_t *weights, size_t n, k3_format_t format,
                       const void *const *rows, const void *const *scales, const float *row_weights,
                       uint16_t *const *out, void *work)
{
    static const k3_expert_ops_t ops = {
        .encode = k3_avx2_encode,
        .decode = k3_avx2_decode,
        .pack = k3_avx2_pack,
        .gemm = k3_avx2_gemm,
        .round = k3_avx2_round,
        .activate = k3_avx2_activate_f32,
    };

    k3_expert_run(&ops, shape, recipe, weights, n, format, rows, scales, row_weights, out, work);
}

const k3_kernels_t k3_kernels_avx2 = {
    .isa = "avx2", .expert_mlp = expert_mlp, K3_AVX2_ROW_FUNCTIONS};

#endif
