/* Status values, error objects, exit codes, log lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness/base/log.h"
#include "harness/base/status.h"

static void test_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(k3_exit_code(K3_OK), 0);
    assert_int_equal(k3_exit_code(K3_ERR_CHECK), 1);
    assert_int_equal(k3_exit_code(K3_ERR_USAGE), 2);
    assert_int_equal(k3_exit_code(K3_ERR_UNSUPPORTED), 2);
    assert_int_equal(k3_exit_code(K3_ERR_ENV), 3);
    assert_int_equal(k3_exit_code(K3_ERR_IO), 3);
    assert_int_equal(k3_exit_code(K3_ERR_TIMEOUT), 4);
}

static void test_every_status_has_its_own_name(void **state)
{
    (void)state;
    for (int a = 0; a < K3_STATUS_LAST; a++) {
        assert_string_not_equal(k3_status_name((k3_status_t)a), "unknown");
        for (int b = 0; b < a; b++) {
            assert_string_not_equal(k3_status_name((k3_status_t)a), k3_status_name((k3_status_t)b));
        }
    }
    assert_string_equal(k3_status_name(K3_STATUS_LAST), "unknown");
}

static void test_first_fault_is_kept(void **state)
{
    k3_error_t err = K3_ERROR_INIT;

    (void)state;
    assert_int_equal(k3_fail(&err, K3_ERR_IO, "first %d", 1), K3_ERR_IO);
    assert_int_equal(k3_fail(&err, K3_ERR_ENV, "second"), K3_ERR_ENV);
    assert_string_equal(err.text, "first 1");
    assert_int_equal(err.status, K3_ERR_IO);
    k3_error_clear(&err);
    assert_int_equal(err.status, K3_OK);
    assert_string_equal(err.text, "");
    assert_int_equal(k3_fail(NULL, K3_ERR_ENV, "nobody listens"), K3_ERR_ENV);
}

static void test_text_is_one_clean_line(void **state)
{
    k3_error_t err = K3_ERROR_INIT;

    (void)state;
    k3_fail(&err, K3_ERR_USAGE, "a\nb\x1b[31m%s", "\tc");
    assert_string_equal(err.text, "a b?[31m c");
}

static void test_long_text_is_marked_as_cut(void **state)
{
    k3_error_t err = K3_ERROR_INIT;

    (void)state;
    k3_fail(&err, K3_ERR_USAGE, "%1000d", 1);
    assert_int_equal(strlen(err.text), K3_ERROR_TEXT - 1);
    assert_string_equal(err.text + K3_ERROR_TEXT - 4, "...");
}

/* What `say` writes to stderr. A pipe in packet mode would be needed to count the writes; one read
 * that gives the whole line is the nearest thing. */
static void capture(void (*say)(void), char *text, size_t room)
{
    int ends[2];
    int saved = dup(STDERR_FILENO);

    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    say();
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    close(ends[1]);

    ssize_t count = read(ends[0], text, room - 1);

    assert_true(count >= 0);
    text[count] = '\0';
    close(ends[0]);
}

static void say_three(void)
{
    k3_log_note("plain %d", 1);
    k3_log_set_rank(3);
    k3_log_warn("odd\nline");
    k3_log_error("bad");
    k3_log_set_rank(-1);
}

static void say_long(void)
{
    k3_log_note("%5000d", 1);
}

static void test_log_lines(void **state)
{
    char text[4096];

    (void)state;
    capture(say_three, text, sizeof(text));
    assert_string_equal(text, "k3bench: plain 1\n"
                              "k3bench: rank 3: warning: odd line\n"
                              "k3bench: rank 3: error: bad\n");
    capture(say_long, text, sizeof(text));
    assert_in_range(strlen(text), 1000, 1024);
    assert_string_equal(text + strlen(text) - 4, "...\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_codes),
        cmocka_unit_test(test_every_status_has_its_own_name),
        cmocka_unit_test(test_first_fault_is_kept),
        cmocka_unit_test(test_text_is_one_clean_line),
        cmocka_unit_test(test_long_text_is_marked_as_cut),
        cmocka_unit_test(test_log_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
