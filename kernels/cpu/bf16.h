/* Pieces of the expert GEMM on bf16 units: AMX tiles and AVX-512 BF16. Both read the same layouts,
 * and both take subnormal values for zero and give none. */
#ifndef K3_KERNELS_CPU_BF16_H
#define K3_KERNELS_CPU_BF16_H

#include "kernels/cpu/cpu.h"

enum {
    K3_BF16_GROUP = 32, /* values of a sum in one tile: a group of MXFP4 */
    K3_BF16_ROWS = K3_SPREAD,
    K3_BF16_COLUMNS = 32, /* of a panel of weights, two tiles */
    K3_BF16_DEPTH = 512   /* of a panel: 32 KiB */
};

/* Rows 16 tile .. 16 tile + 15 of x, f32 values that bf16 holds, for the gemm functions: [tile][pair
 * of values][row] bf16 pairs. Rows from m on are zero. */
void k3_bf16_spread(const float *x, size_t m, size_t n, size_t tile, void *to);

#if defined(__x86_64__)

/* The bf16 values of E2M1 codes 0 to 15 times an E8M0 scale, by scale. */
extern uint16_t k3_bf16_weights[256][16];

void k3_bf16_prepare(void); /* once, before the next two */

/* As gemm of k3_expert_ops_t, on MXFP4 weights and on x as spread. y[i][j] is the sum over groups of
 * 32 in order. AMX: of each group the even and the odd products by themselves, added, then added to
 * the sum. AVX-512 BF16: an odd and an even product in turns, pair by pair. */
void k3_amx_gemm(const k3_matrix_t *w, const void *x, size_t m, size_t first, size_t count,
                 float *y);
void k3_avx512_bf16_gemm(const k3_matrix_t *w, const void *x, size_t m, size_t first, size_t count,
                         float *y);

#endif
#endif
