/* Counted allocation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "harness/base/arith.h"
#include "harness/base/memory.h"

static const uint64_t mib = UINT64_C(1) << 20;

static void test_small_blocks_are_zero_aligned_and_counted(void **state)
{
    uint64_t   bytes = k3_alloc_bytes(), calls = k3_alloc_calls();
    uint64_t  *words = NULL;
    char      *more = NULL;
    k3_error_t err = K3_ERROR_INIT;

    (void)state;
    assert_int_equal(k3_alloc("words", 1000, sizeof(*words), &words, &err), K3_OK);
    assert_int_equal((uintptr_t)words % 64, 0);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(words[i], 0);
    }
    assert_int_equal(k3_alloc("more", 1, 1, &more, &err), K3_OK);
    assert_int_equal(k3_alloc_bytes() - bytes, 8001);
    assert_int_equal(k3_alloc_calls() - calls, 2);
    memset(words, 0xff, 8000);
    k3_free(words);
    assert_int_equal(k3_alloc_bytes() - bytes, 1);
    k3_free(more);
    k3_free(NULL);
    assert_int_equal(k3_alloc_bytes(), bytes);
    assert_int_equal(k3_alloc_calls() - calls, 2);
}

/* The C library hands out freed memory again, as it was left. */
static void test_used_memory_comes_back_zero(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        unsigned char *block = NULL;
        k3_error_t     err = K3_ERROR_INIT;

        assert_int_equal(k3_alloc("block", 1, 5000, &block, &err), K3_OK);
        for (int i = 0; i < 5000; i++) {
            assert_int_equal(block[i], 0);
        }
        memset(block, 0xff, 5000);
        k3_free(block);
    }
}

static void test_large_blocks_are_aligned_to_huge_pages(void **state)
{
    static const uint64_t sizes[] = {4 << 20, (4 << 20) + 1, (7 << 20) - 3};
    k3_error_t            err = K3_ERROR_INIT;
    uint64_t              before = k3_alloc_bytes();

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        unsigned char *block = NULL;

        assert_int_equal(k3_alloc("block", 1, sizes[i], &block, &err), K3_OK);
        assert_int_equal((uintptr_t)block % (2 * mib), 0);
        assert_int_equal(k3_alloc_bytes() - before, sizes[i]);
        assert_int_equal(block[0], 0);
        assert_int_equal(block[sizes[i] - 1], 0);
        block[0] = block[sizes[i] - 1] = 1;
        k3_free(block);
        assert_int_equal(k3_alloc_bytes(), before);
    }
}

static uint64_t resident_kib(void)
{
    char               line[256];
    unsigned long long kib = 0;
    FILE              *file = fopen("/proc/self/status", "r");

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "VmRSS: %llu", &kib) == 1) {
            break;
        }
    }
    fclose(file);
    return kib;
}

static void test_untouched_pages_cost_nothing(void **state)
{
    k3_error_t err = K3_ERROR_INIT;
    char      *block = NULL;
    uint64_t   before = resident_kib();

    (void)state;
    assert_int_equal(k3_alloc("large", 512, mib, &block, &err), K3_OK);
    block[256 * mib] = 1;
    assert_true(resident_kib() < before + 16 * 1024);
    k3_free(block);
}

static void test_nothing_is_a_valid_block(void **state)
{
    k3_error_t err = K3_ERROR_INIT;
    void      *block = NULL;
    uint64_t   before = k3_alloc_bytes();

    (void)state;
    assert_int_equal(k3_alloc("nothing", 0, 8, &block, &err), K3_OK);
    assert_non_null(block);
    assert_int_equal(k3_alloc_bytes(), before);
    k3_free(block);
}

static void test_failures_name_block_and_bytes(void **state)
{
    k3_error_t err = K3_ERROR_INIT;
    int        anchor = 0;
    void      *block = &anchor;
    uint64_t   before = k3_alloc_bytes();

    (void)state;
    assert_int_equal(k3_alloc("windows", UINT64_C(1) << 40, UINT64_C(1) << 30, &block, &err),
                     K3_ERR_ENV);
    assert_null(block);
    assert_non_null(strstr(err.text, "windows"));
    assert_non_null(strstr(err.text, "1099511627776 x 1073741824"));
    k3_error_clear(&err);
    assert_int_equal(k3_alloc("weights", 1, UINT64_C(1) << 62, &block, &err), K3_ERR_ENV);
    assert_non_null(strstr(err.text, "weights: cannot allocate 4611686018427387904 bytes"));
    k3_error_clear(&err);
    assert_int_equal(k3_alloc("sum", 1, K3_TOO_BIG - 1, &block, &err), K3_ERR_ENV);
    assert_int_equal(k3_alloc_bytes(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_blocks_are_zero_aligned_and_counted),
        cmocka_unit_test(test_used_memory_comes_back_zero),
        cmocka_unit_test(test_large_blocks_are_aligned_to_huge_pages),
        cmocka_unit_test(test_untouched_pages_cost_nothing),
        cmocka_unit_test(test_nothing_is_a_valid_block),
        cmocka_unit_test(test_failures_name_block_and_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
