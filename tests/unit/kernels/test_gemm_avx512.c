/* The AVX-512 GEMM on instructions that are emulated: whatever processor the test runs on. */
#include "avx512_model.h"

#ifdef K3_AVX512_MODEL

#include "gemm_checks.h"

#include "kernels/cpu/avx512_gemm.c"

static const k3_gemm_ops_t ops = {"avx512", k3_avx512_gemm, k3_avx512_pack, NULL, false};

static void test_codes(void **state)
{
    (void)state;
    (void)vector_or_skip();
    check_mxfp4(&ops);
    check_fp8(&ops);
    check_exact(&ops, K3_WEIGHT_MXFP4);
    check_exact(&ops, K3_WEIGHT_FP8_B128);
}

static void test_bad_rows(void **state)
{
    (void)state;
    (void)vector_or_skip();
    check_bad_rows(&ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_codes),
                                       cmocka_unit_test(test_bad_rows)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 77; /* needs x86-64 and libsimde-dev */
}

#endif
