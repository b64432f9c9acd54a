/* What the unit tests of the kernels need of cmocka, for a target that it is not installed for. The
 * first assertion that fails ends the program. */
#ifndef K3_TESTS_AARCH64_CMOCKA_H
#define K3_TESTS_AARCH64_CMOCKA_H

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

static jmp_buf skipped;

__attribute__((unused, noreturn)) static void skip(void)
{
    longjmp(skipped, 1);
}

static inline void expect(int holds, const char *text, const char *file, int line)
{
    if (!holds) {
        fprintf(stderr, "%s:%d: %s does not hold\n", file, line, text);
        exit(1);
    }
}

#define expect_of(holds, text) expect((holds) ? 1 : 0, text, __FILE__, __LINE__)

#define fail_msg(...) (fprintf(stderr, __VA_ARGS__), expect_of(0, "the above"))

#define assert_true(a)                expect_of(a, #a)
#define assert_false(a)               expect_of(!(a), "!(" #a ")")
#define assert_null(a)                expect_of((a) == NULL, #a " == NULL")
#define assert_non_null(a)            expect_of((a) != NULL, #a " != NULL")
#define assert_ptr_equal(a, b)        expect_of((a) == (b), #a " == " #b)
#define assert_int_equal(a, b)        expect_of((int64_t)(a) == (int64_t)(b), #a " == " #b)
#define assert_string_equal(a, b)     expect_of(strcmp(a, b) == 0, #a " equal to " #b)
#define assert_memory_equal(a, b, n)  expect_of(memcmp(a, b, n) == 0, #a " equal to " #b)
#define assert_in_range(a, low, high) expect_of((a) >= (low) && (a) <= (high), #a " in range")

#define cmocka_unit_test(function)                                                                 \
    {                                                                                              \
#function, function                                                                        \
    }
#define cmocka_run_group_tests(tests, a, b) run_tests(tests, sizeof(tests) / sizeof *(tests))

static int run_tests(const struct CMUnitTest *tests, size_t count)
{
    void           *state = NULL;
    volatile size_t i = 0, passed = 0;

    for (; i < count; i++) {
        if (setjmp(skipped) == 0) {
            tests[i].run(&state);
            passed++;
        }
    }
    printf("%zu of %zu tests passed\n", passed, count);
    return passed == count ? 0 : 77;
}

#endif
