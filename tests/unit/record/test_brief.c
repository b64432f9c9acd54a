/* Reading only what is wanted: what stays, what goes, and texts that try to confuse it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness/record/brief.h"

static const char *const names[] = {"a", "cells", "name", "median", NULL};
static const char *const whole[] = {"stable", NULL};
static const char *const items[] = {"region", "pair", NULL};
static const char *const lists[] = {"phases", "options", NULL};
static const k3_wanted_t wanted = {names, whole, lists, items};

static void expect(const char *text, const char *want)
{
    char   space[512];
    size_t length = strlen(text);

    memcpy(space, text, length);
    length = k3_brief_text(space, length, &wanted);
    space[length] = '\0';
    assert_string_equal(space, want);
}

static void test_members(void **state)
{
    (void)state;
    expect("{ \"a\" : 1 , \"b\" : 2 }", "{\"a\" : 1}");
    expect("{\"b\": [1, {\"a\": \"]\"}], \"a\": \"x\"}", "{\"a\": \"x\"}");
    expect("{\"b\": 1, \"c\": \"}\\\"\"}", "{}");
    expect("{\"a\": {\"b\": null, \"a\": true, \"c\": -1e5}}", "{\"a\": {\"a\": true}}");
    expect("{\"stable\": {\"b\": [1, 2], \"c\": \"\\\\\"}, \"b\": 1}",
           "{\"stable\": {\"b\": [1, 2], \"c\": \"\\\\\"}}");
    expect("[\"b\", \"a\", 3]", "[\"b\",\"a\",3]");
    expect("{\"\": 1, \"aa\": 2, \"\\u0061\": 3}", "{}");
}

static void test_items(void **state)
{
    (void)state;
    expect(
        "{\"phases\": [{\"name\": \"router\", \"median\": 1}, {\"name\": \"region\", \"x\": [1], "
        "\"median\": 2}]}",
        "{\"phases\": [{\"name\": \"region\",\"median\": 2}]}");
    expect("{\"phases\": [{\"name\": \"pair\"}, {\"name\": \"router\", \"x\": {\"y\": \"}\"}}]}",
           "{\"phases\": [{\"name\": \"pair\"}]}");
    expect("{\"phases\": [{\"name\": \"a}b\"}, {\"name\":\"q\", \"x\": \"\\\"}\"} ], \"a\": 1}",
           "{\"phases\": [],\"a\": 1}");
    /* What does not begin with a name is kept; so is a list of something else. */
    expect("{\"phases\": [{\"median\": 1, \"name\": \"q\"}, 7, {\"name\": \"q\"}]}",
           "{\"phases\": [{\"median\": 1,\"name\": \"q\"},7,{\"name\": \"q\"}]}");
    expect("{\"phases\": null, \"b\": 1}", "{\"phases\": null}");
}

/* A quote or a bracket that is missing is no text for it. */
static void test_torn(void **state)
{
    static const char *const torn[] = {"{\"b\": [1, 2", "{\"b", "{\"b\": \"x",
                                       "{\"b\": {\"c\": \"\\\"}", "{\"phases\": [{\"name\": \"q"};

    (void)state;
    for (size_t i = 0; i < sizeof(torn) / sizeof(torn[0]); i++) {
        expect(torn[i], "");
    }
}

/* Whatever is cut off or changed in a text, nothing beyond it is touched (the sanitizers look on), and what
 * comes out is no longer. */
static void test_any_bytes(void **state)
{
    static const char text[] = "{\"cells\": [{\"name\": \"x\", \"phases\": [{\"name\": \"router\", "
                               "\"ci\": [1, 2]}, {\"name\": "
                               "\"region\", \"median\": 2.5}], \"qps\": {\"rows\": [[\"a\", 1, "
                               "\"\\\\\\\"\"]]}}], \"stable\": {}}";
    static const char marks[] = "\"\\{}[]:, a";
    size_t            length = sizeof(text) - 1;

    (void)state;
    for (size_t cut = 0; cut <= length; cut++) {
        for (size_t m = 0; m < sizeof(marks); m++) {
            char *space = malloc(cut + 1);

            memcpy(space, text, cut);
            if (cut > 0) {
                space[cut * 7 % cut == 0 ? cut / 2 : cut * 7 % cut] = marks[m];
            }
            assert_true(k3_brief_text(space, cut, &wanted) <= cut);
            free(space);
        }
    }
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

static void test_files(void **state)
{
    char       path[] = "/tmp/k3brief.XXXXXX";
    int        fd = mkstemp(path);
    json_t    *document;
    k3_error_t err = K3_ERROR_INIT;

    (void)state;
    assert_true(fd >= 0 && close(fd) == 0);
    write_file(path, "{\"a\": [1, 2], \"b\": {\"a\": 3}}\n");
    assert_int_equal(k3_document_read_brief(path, &wanted, &document, &err), K3_OK);
    assert_int_equal(json_object_size(document), 1);
    json_decref(document);

    write_file(path, "{\"a\": 1,\n \"a\": 2}");
    assert_int_equal(k3_document_read_brief(path, &wanted, &document, &err), K3_ERR_IO);
    assert_non_null(strstr(err.text, ":2:"));
    k3_error_clear(&err);
    write_file(path, "{\"a\": 1, \"b\": [");
    assert_int_equal(k3_document_read_brief(path, &wanted, &document, &err), K3_ERR_IO);
    k3_error_clear(&err);
    write_file(path, "");
    assert_int_equal(k3_document_read_brief(path, &wanted, &document, &err), K3_ERR_IO);
    k3_error_clear(&err);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(k3_document_read_brief(path, &wanted, &document, &err), K3_ERR_IO);
    assert_null(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members),   cmocka_unit_test(test_items), cmocka_unit_test(test_torn),
        cmocka_unit_test(test_any_bytes), cmocka_unit_test(test_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
