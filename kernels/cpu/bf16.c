/* The tables of the bf16 units. Experts with few rows, or whose values bf16 does not hold, are
 * computed as AVX-512 does; rows, which memory limits, as AVX2 does them. */
#include "kernels/cpu/bf16.h"

#include <string.h>

#include "kernels/cpu/avx512.h"

void k3_bf16_spread(const float *x, size_t m, size_t n, size_t tile, void *to)
{
    size_t    stride = k3_padded(n), first = tile * K3_BF16_ROWS;
    size_t    rows = m - first < K3_BF16_ROWS ? m - first : K3_BF16_ROWS;
    uint32_t *pairs = (uint32_t *)to + first * stride / 2;

    if (rows < K3_BF16_ROWS) {
        memset(pairs, 0, sizeof *pairs * K3_BF16_ROWS * (n / 2));
    }
    for (size_t k = 0; k < n / 2; k++) {
        for (size_t i = 0; i < rows; i++) {
            uint32_t two[2];

            memcpy(two, x + (first + i) * stride + 2 * k, sizeof two);
            pairs[k * K3_BF16_ROWS + i] = two[0] >> 16 | (two[1] & 0xffff0000u);
        }
    }
}

#if defined(__x86_64__)

enum { FEW = 8 }; /* rows that AVX-512 streams weights for */

_Alignas(64) uint16_t k3_bf16_weights[256][16];

void k3_bf16_prepare(void)
{
    for (unsigned scale = 0; scale < 256; scale++) {
        for (unsigned code = 0; code < 16; code++) {
            /* Exact: a bf16 holds every product. */
            k3_bf16_weights[scale][code] =
                k3_f32_to_bf16(k3_e2m1_to_f32((uint8_t)code) * k3_e8m0_to_f32((uint8_t)scale));
        }
    }
}

/* Whether bf16 holds all values of the format, scaled. */
static bool holds(k3_format_t format)
{
    return format == K3_FORMAT_BF16 || format == K3_FORMAT_MXFP8 || format == K3_FORMAT_MXFP4;
}

static void pad(k3_weight_format_t format, float *row, size_t n)
{
    (void)format;
    memset(row + n, 0, sizeof *row * (k3_padded(n) - n));
}

static bool by_bf16(const k3_expert_shape_t *shape, const k3_recipe_t *recipe, size_t n)
{
    return shape->weights == K3_WEIGHT_MXFP4 && n > FEW && holds(recipe->input) &&
           holds(recipe->middle);
}

/* All that the two units do alike. */
#define BF16_OPS(product)                                                                          \
    {                                                                                              \
        .encode = k3_avx2_encode, .decode = k3_avx2_decode, .pack = pad, .spread = k3_bf16_spread, \
        .gemm = (product), .round = k3_avx2_round, .activate = k3_avx2_activate_f32,               \
    }

static void amx_expert_mlp(const k3_expert_shape_t *shape, const k3_recipe_t *recipe,
                           const k3_expert_weights_t *weights, size_t n, k3_format_t format,
                           const void *const *rows, const void *const *scales,
                           const float *row_weights, uint16_t *const *out, void *work)
{
    static const k3_expert_ops_t ops = BF16_OPS(k3_amx_gemm);

    k3_expert_run(by_bf16(shape, recipe, n) ? &ops : &k3_avx512_ops, shape, recipe, weights, n,
                  format, rows, scales, row_weights, out, work);
}

static void avx512_bf16_expert_mlp(const k3_expert_shape_t *shape, const k3_recipe_t *recipe,
                                   const k3_expert_weights_t *weights, size_t n, k3_format_t format,
                                   const void *const *rows, const void *const *scales,
                                   const float *row_weights, uint16_t *const *out, void *work)
{
    static const k3_expert_ops_t ops = BF16_OPS(k3_avx512_bf16_gemm);

    k3_expert_run(by_bf16(shape, recipe, n) ? &ops : &k3_avx512_ops, shape, recipe, weights, n,
                  format, rows, scales, row_weights, out, work);
}

const k3_kernels_t k3_kernels_amx = {
    .isa = "amx", .expert_mlp = amx_expert_mlp, K3_AVX2_ROW_FUNCTIONS};

const k3_kernels_t k3_kernels_avx512_bf16 = {
    .isa = "avx512_bf16", .expert_mlp = avx512_bf16_expert_mlp, K3_AVX2_ROW_FUNCTIONS};

#endif
