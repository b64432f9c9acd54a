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
    .isa = "avx2",
    .encode = k3_avx2_encode,
    .decode = k3_avx2_decode,
    .log_encode = k3_scalar_log_encode,
    .log_decode = k3_scalar_log_decode,
    .expert_mlp = expert_mlp,
    .route = k3_avx2_route,
    .route_weights = k3_avx2_route_weights,
    .combine = k3_avx2_combine,
    .rms_norm = k3_avx2_rms_norm,
    .activate = k3_avx2_activate,
    .add = k3_avx2_add,
    .sum = k3_avx2_sum,
};

#endif
