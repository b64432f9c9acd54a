/* Pieces of the AVX-512 kernels (F, BW, DQ, VL). */
#ifndef K3_KERNELS_CPU_AVX512_H
#define K3_KERNELS_CPU_AVX512_H

#include "kernels/cpu/avx2.h"

#if defined(__x86_64__)

#ifndef K3_AVX512
#define K3_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#endif
#ifndef K3_AVX512_BF16
#define K3_AVX512_BF16                                                                             \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")))
#endif

extern const k3_expert_ops_t k3_avx512_ops;

void k3_avx512_gemm(const k3_matrix_t *w, const void *x, size_t m, size_t first, size_t count,
                    float *y);
void k3_avx512_pack(k3_weight_format_t format, float *row, size_t n);

#endif
#endif
