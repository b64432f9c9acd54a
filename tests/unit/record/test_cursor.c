/* Reading from front to back: what is found, what is stepped over, and texts that try to confuse it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness/record/cursor.h"

static const char *const names[] = {"a", "b", NULL};

/* The members a and b of an object, as they are written, with `|` between; "wrong" when it is none to the end. */
static void expect(const char *text, const char *want)
{
    k3_cursor_t c = k3_cursor(text, strlen(text));
    k3_view_t   views[2] = {{0}};
    uint32_t    seen = 0;
    char        got[256];
    int         i;

    if (k3_cursor_enter(&c, '{')) {
        while ((i = k3_cursor_member(&c, names, &seen)) >= 0) {
            views[i] = k3_cursor_view(&c);
        }
    } else {
        k3_cursor_skip(&c);
    }
    snprintf(got, sizeof(got), "%.*s|%.*s", (int)views[0].length,
             views[0].at != NULL ? views[0].at : "", (int)views[1].length,
             views[1].at != NULL ? views[1].at : "");
    assert_string_equal(k3_cursor_done(&c) ? got : "wrong", want);
}

static void test_members(void **state)
{
    (void)state;
    expect("{}", "|");
    expect(" { \"a\" : 1 , \"c\" : 2 } ", "1|");
    expect("{\"c\": [1, {\"a\": \"]\"}], \"b\": \"x\\\"}\", \"a\": {\"b\": [1, 2]}}",
           "{\"b\": [1, 2]}|\"x\\\"}\"");
    expect("{\"\": 1, \"aa\": 2, \"\\u0061\": 3, \"b\": null}", "|null");
    expect("[1, 2]", "|");
    expect("{\"c\": \"\\\\\", \"a\": -1e5}", "-1e5|");
}

/* A 0 byte ends no name: neither "a" nor anything behind it. */
static void test_zero_byte(void **state)
{
    static const char text[] = "{\"a\0bc\": 1, \"\0\": 2, \"b\": 3}";
    k3_cursor_t       c = k3_cursor(text, sizeof(text) - 1);
    uint32_t          seen = 0;

    (void)state;
    assert_true(k3_cursor_enter(&c, '{'));
    assert_int_equal(k3_cursor_member(&c, names, &seen), 1);
    assert_true(k3_view_is(k3_cursor_view(&c), "3"));
    assert_int_equal(k3_cursor_member(&c, names, &seen), -1);
}

static void test_torn(void **state)
{
    static const char *const torn[] = {
        "",
        "{",
        "{\"a\"",
        "{\"a\": ",
        "{\"a\": 1",
        "{\"a\": 1,}",
        "{,\"a\": 1}",
        "{\"a\" 1}",
        "{\"a\": 1 \"b\": 2}",
        "{\"a\": [1, 2}",
        "{\"c\": \"x}",
        "{\"c\": \"\\\"}",
        "{\"a\": 1} 2",
        "{\"a\": }",
        "{a: 1}",
        "{\"a\": 1, \"a\": 2}", /* twice */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(torn) / sizeof(torn[0]); i++) {
        expect(torn[i], "wrong");
    }
}

static void test_lists(void **state)
{
    static const char text[] = "[{\"a\": 1, \"x\": [3]}, {\"b\": 2}, 7]";
    k3_cursor_t       c = k3_cursor(text, sizeof(text) - 1);
    uint32_t          seen = 0;

    (void)state;
    assert_false(k3_cursor_enter(&c, '{'));
    assert_true(k3_cursor_enter(&c, '['));
    assert_true(k3_cursor_element(&c) && k3_cursor_enter(&c, '{'));
    assert_int_equal(k3_cursor_member(&c, names, &seen), 0);
    assert_true(k3_view_is(k3_cursor_view(&c), "1"));
    k3_cursor_leave(&c);
    assert_true(k3_cursor_element(&c));
    k3_cursor_skip(&c);
    assert_true(k3_cursor_element(&c));
    k3_cursor_skip(&c);
    assert_false(k3_cursor_element(&c));
    assert_true(k3_cursor_done(&c));
    assert_false(k3_cursor_element(&c));
}

static k3_view_t view(const char *text)
{
    return (k3_view_t){text, strlen(text)};
}

/* Numbers as JSON has them, no others; texts with escapes; nothing that is not finite. */
static void test_values(void **state)
{
    static const char *const good[] = {"0", "-0.5", "12", "1e3", "1.25E-2", "9007199254740993"};
    static const char *const bad[] = {"",    "-",   "01", "1.",  "1.e3",  ".5",    "+1",  "0x10",
                                      "nan", "inf", "1e", "1-2", "1e999", "\"1\"", "1 2", "null"};
    double                   value;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        json_t *json = json_loads(good[i], JSON_DECODE_ANY, NULL);

        assert_true(k3_view_number(view(good[i]), &value));
        assert_true(value == json_number_value(json));
        json_decref(json);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(k3_view_number(view(bad[i]), &value));
    }
    json_t *text = k3_view_json(view("\"a\\u0041\\n\""));
    assert_string_equal(json_string_value(text), "aA\n");
    json_decref(text);
    assert_null(k3_view_json(view("\"\xff\"")));
    assert_null(k3_view_json(view("\"\t\"")));
    assert_null(k3_view_json(view("{\"a\": 1, \"a\": 2}")));
    assert_null(k3_view_json((k3_view_t){0}));
    assert_true(k3_view_is(view("\"ab\""), "ab") && !k3_view_is(view("\"ab\""), "abc"));
    assert_false(k3_view_is((k3_view_t){0}, ""));
}

/* Whatever is cut off or changed in a text, nothing beyond it is touched (the sanitizers look on), and it ends. */
static void test_any_bytes(void **state)
{
    static const char text[] =
        "{\"c\": [{\"a\": \"x\", \"p\": [{\"a\": \"r\", \"i\": [1, 2]}, {\"a\": "
        "\"b\", \"m\": 2.5}], \"q\": [[\"a\", 1, \"\\\\\\\"\"]]}], \"b\": {}}";
    static const char marks[] = "\"\\{}[]:, a";

    (void)state;
    for (size_t cut = 0; cut < sizeof(text); cut++) {
        for (size_t m = 0; m < sizeof(marks) * 8; m++) {
            char       *space = calloc(cut + 1, 1);
            k3_cursor_t c;
            uint32_t    seen = 0;

            memcpy(space, text, cut);
            if (cut > 0) {
                space[m * 31 % cut] = marks[m % sizeof(marks)];
            }
            c = k3_cursor(space, cut);
            if (k3_cursor_enter(&c, '{')) {
                while (k3_cursor_member(&c, names, &seen) >= 0) {
                    k3_cursor_skip(&c);
                }
            }
            assert_true(c.at >= space && c.at <= space + cut);
            free(space);
        }
    }
}

static void test_files(void **state)
{
    char       path[] = "/tmp/k3cursor.XXXXXX";
    int        fd = mkstemp(path);
    k3_text_t  text;
    k3_error_t err = K3_ERROR_INIT;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(k3_text_open(path, &text, &err), K3_OK);
    assert_int_equal(text.length, 0);
    assert_int_equal(text.at[0], 0);
    k3_text_close(&text);
    assert_int_equal(write(fd, "{\"a\"}", 5), 5);
    assert_int_equal(k3_text_open(path, &text, &err), K3_OK);
    assert_string_equal(text.at, "{\"a\"}");
    k3_text_close(&text);
    assert_true(close(fd) == 0 && unlink(path) == 0);
    assert_int_equal(k3_text_open(path, &text, &err), K3_ERR_IO);
    assert_non_null(strstr(err.text, path));
    k3_error_clear(&err);
    assert_int_equal(k3_text_open("/tmp", &text, &err), K3_ERR_IO);
    assert_null(text.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members), cmocka_unit_test(test_zero_byte),
        cmocka_unit_test(test_torn),    cmocka_unit_test(test_lists),
        cmocka_unit_test(test_values),  cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
