/* The GEMM of each vector ISA on this processor. */
#include "gemm_checks.h"

#include "kernels/cpu/avx512.h"
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/neon.h"

#if defined(__x86_64__)

static const k3_gemm_ops_t isas[] = {
    {"avx2", k3_avx2_gemm, k3_avx2_pack, NULL, false},
    {"avx512", k3_avx512_gemm, k3_avx512_pack, NULL, false},
    {"avx512_bf16", k3_avx512_bf16_gemm, NULL, k3_bf16_spread, true},
    {"amx", k3_amx_gemm, NULL, k3_bf16_spread, true},
};

static void check_isa(size_t i)
{
    if (k3_kernels_cpu(isas[i].isa) == NULL) {
        skip();
    }
    check_mxfp4(&isas[i]);
    if (isas[i].spread == NULL) { /* the bf16 units are not asked for it */
        check_fp8(&isas[i]);
        check_exact(&isas[i], K3_WEIGHT_FP8_B128);
    }
    check_exact(&isas[i], K3_WEIGHT_MXFP4);
    check_bad_rows(&isas[i]);
}

static void test_avx2(void **state)
{
    (void)state;
    check_isa(0);
}

static void test_avx512(void **state)
{
    (void)state;
    check_isa(1);
}

static void test_avx512_bf16(void **state)
{
    (void)state;
    check_isa(2);
}

static void test_amx(void **state)
{
    (void)state;
    check_isa(3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_avx2), cmocka_unit_test(test_avx512),
                                       cmocka_unit_test(test_avx512_bf16),
                                       cmocka_unit_test(test_amx)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#elif defined(__aarch64__)

static void test_neon(void **state)
{
    static const k3_gemm_ops_t neon = {"neon", k3_neon_gemm, k3_neon_pack, NULL, false};

    (void)state;
    assert_non_null(k3_kernels_cpu("neon"));
    check_mxfp4(&neon);
    check_fp8(&neon);
    check_exact(&neon, K3_WEIGHT_MXFP4);
    check_exact(&neon, K3_WEIGHT_FP8_B128);
    check_bad_rows(&neon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_neon)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 77; /* no vector ISA is written for this processor */
}

#endif
