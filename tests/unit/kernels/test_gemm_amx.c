/* The GEMM of AMX on tiles in plain memory: whatever processor the test runs on. */
#include "avx512_model.h"

#ifdef K3_AVX512_MODEL

#include "tile_model.h"

#include "bf16_checks.h"

#include "kernels/cpu/amx_gemm.c"

static const k3_gemm_ops_t ops = {"amx", k3_amx_gemm, NULL, k3_bf16_spread, true};

/* Even and odd products by themselves, then both to the sum. */
static float add_group(float sum, const uint16_t *w, const uint16_t *x)
{
    float even = 0, odd = 0;

    for (size_t k = 0; k < 32; k += 2) {
        even = bf16_unit_add(even, w[k], x[k]);
        odd = bf16_unit_add(odd, w[k + 1], x[k + 1]);
    }
    return unit_flush(sum + unit_flush(even + odd));
}

static const k3_kernels_t *const unit_kernels = &k3_kernels_amx;

#include "bf16_tests.h"

#else

int main(void)
{
    return 77; /* needs x86-64 and libsimde-dev */
}

#endif
