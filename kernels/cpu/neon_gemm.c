/* The expert MLP's GEMM for NEON. */
#include "kernels/cpu/simd_neon.h"

#if defined(__aarch64__)

#include "kernels/cpu/gemm_body.h"

#endif
