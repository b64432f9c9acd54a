/* The AVX-512 table: GEMM on 512-bit vectors; rows, which memory limits, as AVX2 does them. */
#include "kernels/cpu/avx512.h"

#if defined(__x86_64__)

const k3_expert_ops_t k3_avx512_ops = {
    .encode = k3_avx2_encode,
    .decode = k3_avx2_decode,
    .pack = k3_avx512_pack,
    .gemm = k3_avx512_gemm,
    .round = k3_avx2_round,
    .activate = k3_avx2_activate_f32,
};

static void expert_mlp(const k3_expert_shape_t *shape, const k3_recipe_t *recipe,
                       const k3_expert_weights_t *weights, size_t n, k3_format_t format,
                       const void *const *rows, const void *const *scales, const float *row_weights,
                       uint16_t *const *out, void *work)
{
    k3_expert_run(&k3_avx512_ops, shape, recipe, weights, n, format, rows, scales, row_weights, out,
                  work);
}

const k3_kernels_t k3_kernels_avx512 = {
    .isa = "avx512", .expert_mlp = expert_mlp, K3_AVX2_ROW_FUNCTIONS};

#endif
