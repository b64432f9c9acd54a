/* Digests of bytes, and one line of a text from outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "harness/base/digest.h"
#include "harness/base/file.h"

static void test_every_bit_length_and_place_counts(void **state)
{
    uint8_t  bytes[100] = {0}, moved[108] = {0};
    uint64_t seen[1000];
    unsigned n = 0;

    (void)state;
    for (unsigned length = 0; length <= sizeof(bytes); length++) {
        seen[n++] = k3_digest(1, bytes, length);
    }
    for (unsigned bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        seen[n++] = k3_digest(1, bytes, sizeof(bytes));
        bytes[bit / 8] = 0;
    }
    seen[n++] = k3_digest(2, bytes, sizeof(bytes));
    for (unsigned i = 0; i < n; i++) {
        for (unsigned j = 0; j < i; j++) {
            assert_true(seen[i] != seen[j]);
        }
    }
    for (unsigned i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 37);
    }
    for (unsigned shift = 0; shift < 8; shift++) {
        memcpy(moved + shift, bytes, sizeof(bytes));
        assert_true(k3_digest(1, moved + shift, sizeof(bytes)) ==
                    k3_digest(1, bytes, sizeof(bytes)));
    }
}

static void test_printable_is_one_line_and_bounded(void **state)
{
    char line[12];

    (void)state;
    assert_string_equal(k3_printable("plain", line, sizeof(line)), "plain");
    assert_string_equal(k3_printable("a\nb\x1b\xff", line, sizeof(line)), "a?b??");
    assert_string_equal(k3_printable("eleven long", line, sizeof(line)), "eleven long");
    assert_string_equal(k3_printable("twelve, long", line, sizeof(line)), "twelve, ...");
    assert_string_equal(k3_printable("", line, sizeof(line)), "");
}

static void test_only_regular_files_are_mapped(void **state)
{
    k3_error_t    err = K3_ERROR_INIT;
    k3_file_map_t map;

    (void)state;
    assert_int_equal(k3_file_map("/nonexistent", &map, &err), K3_ERR_IO);
    assert_non_null(strstr(err.text, "/nonexistent"));
    k3_error_clear(&err);
    assert_int_equal(k3_file_map("/tmp", &map, &err), K3_ERR_IO);
    assert_non_null(strstr(err.text, "not a regular file"));
    k3_file_unmap(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_bit_length_and_place_counts),
        cmocka_unit_test(test_printable_is_one_line_and_bounded),
        cmocka_unit_test(test_only_regular_files_are_mapped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
