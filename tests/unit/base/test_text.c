/* Texts of a fixed size that grow piece by piece. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "harness/base/text.h"

static void test_append(void **state)
{
    char   text[8];
    size_t used = 0;

    (void)state;
    used = k3_append(text, sizeof(text), used, "%s", "abc");
    assert_string_equal(text, "abc");
    used = k3_append(text, sizeof(text), used, "%d", 12);
    assert_string_equal(text, "abc12");
    assert_int_equal(used, 5);
}

static void test_cut(void **state)
{
    char   text[8], guard[8] = "guard";
    size_t used = k3_append(text, sizeof(text), 0, "%.2f", 1e300); /* 304 characters */

    (void)state;
    assert_int_equal(used, 7);
    assert_int_equal(strlen(text), 7);
    assert_int_equal(k3_append(text, sizeof(text), used, "%s", "more"), 7);
    assert_int_equal(k3_append(text, 0, 0, "x"), 0);
    assert_string_equal(guard, "guard");
}

static void test_ending(void **state)
{
    (void)state;
    assert_true(k3_ends_with("a.html", ".html"));
    assert_false(k3_ends_with(".html", ".html"));
    assert_false(k3_ends_with("a.htm", ".html"));
    assert_false(k3_ends_with("a.html.md", ".html"));
    assert_false(k3_ends_with("", ".html"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_append), cmocka_unit_test(test_cut),
                                       cmocka_unit_test(test_ending)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
