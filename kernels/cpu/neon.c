/* The NEON table. */
#include "kernels/cpu/neon.h"

#if defined(__aarch64__)

static void expert_mlp(const k3_expert_shape_t *shape, const k3_recipe_t *recipe,
                       const k3_expert_weights_t *weights, size_t n, k3_format_t format,
                       const void *const *rows, const void *const *scales, const float *row_weights,
                       uint16_t *const *out, void *work)
{
    static const k3_expert_ops_t ops = {
        .encode = k3_neon_encode,
        .decode = k3_neon_decode,
        .pack = k3_neon_pack,
        .gemm = k3_neon_gemm,
        .round = k3_neon_round,
        .activate = k3_neon_activate_f32,
    };

    k3_expert_run(&ops, shape, recipe, weights, n, format, rows, scales, row_weights, out, work);
}

const k3_kernels_t k3_kernels_neon = {
    .isa = "neon",
    .encode = k3_neon_encode,
    .decode = k3_neon_decode,
    .log_encode = k3_scalar_log_encode,
    .log_decode = k3_scalar_log_decode,
    .expert_mlp = expert_mlp,
    .route = k3_neon_route,
    .route_weights = k3_scalar_route_weights,
    .combine = k3_neon_combine,
    .rms_norm = k3_neon_rms_norm,
    .activate = k3_neon_activate,
    .add = k3_neon_add,
    .sum = k3_neon_sum,
};

#endif
