/* What kernels/cpu/bf16_body.h needs of AVX-512 BF16: a vector holds 16 rows, 8 columns at a time
 * stay in registers. */
#ifndef K3_KERNELS_CPU_SIMD_AVX512_BF16_H
#define K3_KERNELS_CPU_SIMD_AVX512_BF16_H

#include "kernels/cpu/avx512.h"
#include "kernels/cpu/bf16.h"

#if defined(__x86_64__)

#define K3_SIMD            K3_AVX512_BF16
#define K3_SIMD_INLINE     K3_SIMD __attribute__((always_inline)) static inline
#define K3_SIMD_NAME(name) k3_avx512_bf16_##name

enum { K3_HELD = 8 };

K3_SIMD_INLINE void k3_block_begin(void)
{
}

K3_SIMD_INLINE void k3_block_end(void)
{
}

/* Two bf16 values of a column, for all 16 rows. */
K3_SIMD_INLINE __m512bh k3_pair(const uint16_t *from)
{
    int pair;

    memcpy(&pair, from, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
}

/* Columns 0 .. K3_HELD of panel and sums; `tiles` (a constant) of rows. */
K3_SIMD_INLINE void k3_held(size_t tiles, size_t groups, const uint16_t *panel,
                            const uint16_t *const rows[2], float *sums)
{
    __m512 sum[K3_HELD][2];

    for (size_t c = 0; c < K3_HELD; c++) {
        for (size_t t = 0; t < tiles; t++) {
            sum[c][t] = _mm512_load_ps(sums + c * K3_EXPERT_CHUNK + 16 * t);
        }
    }
    for (size_t g = 0; g < groups; g++) {
        const uint16_t *w = panel + g * K3_BF16_COLUMNS * K3_BF16_GROUP;

        for (size_t k = 0; k < K3_BF16_GROUP; k += 2) {
            const size_t at = g * K3_BF16_ROWS * K3_BF16_GROUP + k * K3_BF16_ROWS;

            for (size_t c = 0; c < K3_HELD; c++) {
                __m512bh column = k3_pair(w + c * K3_BF16_GROUP + k);

                for (size_t t = 0; t < tiles; t++) {
                    __m512bh row = (__m512bh)_mm512_loadu_si512(rows[t] + at);

                    sum[c][t] = _mm512_dpbf16_ps(sum[c][t], row, column);
                }
            }
        }
    }
    for (size_t c = 0; c < K3_HELD; c++) {
        for (size_t t = 0; t < tiles; t++) {
            _mm512_store_ps(sums + c * K3_EXPERT_CHUNK + 16 * t, sum[c][t]);
        }
    }
}

K3_SIMD_INLINE void k3_block_narrow(size_t groups, const uint16_t *panel, const uint16_t *rows,
                                    float *sums)
{
    const uint16_t *const all[2] = {rows, NULL};

    for (size_t c = 0; c < K3_BF16_COLUMNS; c += K3_HELD) {
        k3_held(1, groups, panel + c * K3_BF16_GROUP, all, sums + c * K3_EXPERT_CHUNK);
    }
}

K3_SIMD_INLINE void k3_block_wide(size_t groups, const uint16_t *panel, const uint16_t *rows,
                                  const uint16_t *more, float *sums)
{
    const uint16_t *const all[2] = {rows, more};

    for (size_t c = 0; c < K3_BF16_COLUMNS; c += K3_HELD) {
        k3_held(2, groups, panel + c * K3_BF16_GROUP, all, sums + c * K3_EXPERT_CHUNK);
    }
}

#endif
#endif
