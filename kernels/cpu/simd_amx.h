/* What kernels/cpu/bf16_body.h needs of AMX: 32 columns by 16 or 32 rows in tiles 0 to 3, weights
 * through tiles 4 and 5, rows through 6 and 7. */
#ifndef K3_KERNELS_CPU_SIMD_AMX_H
#define K3_KERNELS_CPU_SIMD_AMX_H

#include "kernels/cpu/avx512.h"
#include "kernels/cpu/bf16.h"

#if defined(__x86_64__)

#include "kernels/cpu/tile_ops.h"

#define K3_SIMD            K3_AVX512 /* the tile unit's instructions are written out */
#define K3_SIMD_INLINE     K3_SIMD __attribute__((always_inline)) static inline
#define K3_SIMD_NAME(name) k3_amx_##name

/* The layout that the instruction reads. */
typedef struct k3_tile_config {
    uint8_t  palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t  rows[16];
} k3_tile_config_t;

K3_SIMD_INLINE void k3_block_begin(void)
{
    k3_tile_config_t config = {.palette = 1};

    for (int tile = 0; tile < 8; tile++) {
        config.row_bytes[tile] = 64;
        config.rows[tile] = 16;
    }
    k3_tiles_configure(&config);
}

K3_SIMD_INLINE void k3_block_end(void)
{
    k3_tiles_release();
}

K3_SIMD_INLINE void k3_block_narrow(size_t groups, const uint16_t *panel, const uint16_t *rows,
                                    float *sums)
{
    const size_t stride = sizeof *sums * K3_EXPERT_CHUNK;

    k3_tile_load(0, sums, stride);
    k3_tile_load(2, sums + 16 * K3_EXPERT_CHUNK, stride);
    for (size_t g = 0; g < groups; g++) {
        const uint16_t *w = panel + g * K3_BF16_COLUMNS * K3_BF16_GROUP;

        k3_tile_load(4, w, 64);
        k3_tile_load(5, w + 16 * K3_BF16_GROUP, 64);
        k3_tile_load(6, rows + g * K3_BF16_ROWS * K3_BF16_GROUP, 64);
        k3_tile_multiply(0, 4, 6);
        k3_tile_multiply(2, 5, 6);
    }
    k3_tile_store(0, sums, stride);
    k3_tile_store(2, sums + 16 * K3_EXPERT_CHUNK, stride);
}

K3_SIMD_INLINE void k3_block_wide(size_t groups, const uint16_t *panel, const uint16_t *rows,
                                  const uint16_t *more, float *sums)
{
    const size_t stride = sizeof *sums * K3_EXPERT_CHUNK;

    k3_tile_load(0, sums, stride);
    k3_tile_load(1, sums + 16, stride);
    k3_tile_load(2, sums + 16 * K3_EXPERT_CHUNK, stride);
    k3_tile_load(3, sums + 16 * K3_EXPERT_CHUNK + 16, stride);
    for (size_t g = 0; g < groups; g++) {
        const uint16_t *w = panel + g * K3_BF16_COLUMNS * K3_BF16_GROUP;
        const size_t    at = g * K3_BF16_ROWS * K3_BF16_GROUP;

        k3_tile_load(4, w, 64);
        k3_tile_load(5, w + 16 * K3_BF16_GROUP, 64);
        k3_tile_load(6, rows + at, 64);
        k3_tile_load(7, more + at, 64);
        k3_tile_multiply(0, 4, 6);
        k3_tile_multiply(1, 4, 7);
        k3_tile_multiply(2, 5, 6);
        k3_tile_multiply(3, 5, 7);
    }
    k3_tile_store(0, sums, stride);
    k3_tile_store(1, sums + 16, stride);
    k3_tile_store(2, sums + 16 * K3_EXPERT_CHUNK, stride);
    k3_tile_store(3, sums + 16 * K3_EXPERT_CHUNK + 16, stride);
}

#endif
#endif
