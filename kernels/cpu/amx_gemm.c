/* The expert MLP's GEMM for AMX. */
#include "kernels/cpu/simd_amx.h"

#if defined(__x86_64__)
#include "kernels/cpu/bf16_body.h"
#endif
