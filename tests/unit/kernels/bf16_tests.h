/* The tests of a bf16 unit. In front of it stand `ops`, `add_group` and `unit_kernels` of the unit, and its
 * source. */
#ifndef K3_TESTS_KERNELS_BF16_TESTS_H
#define K3_TESTS_KERNELS_BF16_TESTS_H

static void test_codes(void **state)
{
    (void)state;
    (void)vector_or_skip();
    check_mxfp4(&ops);
    check_exact(&ops, K3_WEIGHT_MXFP4);
    check_bad_rows(&ops);
}

static void test_sums(void **state)
{
    (void)state;
    (void)vector_or_skip();
    check_sums(&ops, add_group);
}

static void test_expert(void **state)
{
    (void)state;
    (void)vector_or_skip();
    check_expert(unit_kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_codes), cmocka_unit_test(test_sums),
                                       cmocka_unit_test(test_expert)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
