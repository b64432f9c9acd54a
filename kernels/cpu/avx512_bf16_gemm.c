/* The expert MLP's GEMM for AVX-512 BF16. */
#include "kernels/cpu/simd_avx512_bf16.h"

#if defined(__x86_64__)
#include "kernels/cpu/bf16_body.h"
#endif
