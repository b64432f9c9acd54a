/* The GEMM of AVX-512 BF16 on instructions that are emulated: whatever processor the test runs on. */
#include "avx512_model.h"

#ifdef K3_AVX512_MODEL

#include "bf16_checks.h"

#include "kernels/cpu/avx512_bf16_gemm.c"

static const k3_gemm_ops_t ops = {"avx512_bf16", k3_avx512_bf16_gemm, NULL, k3_bf16_spread, true};

/* Pair by pair, the odd product first. */
static float add_group(float sum, const uint16_t *w, const uint16_t *x)
{
    for (size_t k = 0; k < 32; k += 2) {
        sum = bf16_unit_add(sum, x[k + 1], w[k + 1]);
        sum = bf16_unit_add(sum, x[k], w[k]);
    }
    return sum;
}

static const k3_kernels_t *const unit_kernels = &k3_kernels_avx512_bf16;

#include "bf16_tests.h"

#else

int main(void)
{
    return 77; /* needs x86-64 and libsimde-dev */
}

#endif
