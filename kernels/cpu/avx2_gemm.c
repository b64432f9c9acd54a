/* The expert MLP's GEMM for AVX2. */
#include "kernels/cpu/simd_avx2.h"

#if defined(__x86_64__)

#include "kernels/cpu/gemm_body.h"

#endif
