/* The expert MLP's GEMM for AVX-512. */
#include "kernels/cpu/simd_avx512.h"

#if defined(__x86_64__)
#include "kernels/cpu/gemm_body.h"
#endif
