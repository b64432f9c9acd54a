/* The index of a history: what it knows after files came, went and changed, and after damage. */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness/record/document.h"
#include "harness/record/history.h"

static char       folder[64];
static k3_error_t err;

static const char *path_of(const char *name)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* The files hold the facts themselves. */
static k3_status_t read_facts(void *arg, const char *path, json_t **facts_p, k3_error_t *fault)
{
    (void)arg;
    return k3_document_read(path, facts_p, fault);
}

static void write_text(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

static void write_launch(const char *name, const char *run, const char *started, double us)
{
    char text[512];

    snprintf(text, sizeof(text),
             "{\"run\": \"%s\", \"started\": \"%s\", \"git_sha\": \"g%s\", \"machine\": \"m\", "
             "\"stable\": {}, \"cells\": [{\"key\": \"a\", \"state\": \"ok\", \"us\": %g, "
             "\"routing\": \"r\"}, "
             "{\"key\": \"b\", \"state\": \"broken\", \"us\": null, \"routing\": \"r\"}]}",
             run, started, run, us);
    write_text(name, text);
}

static int set_up(void **state)
{
    (void)state;
    k3_error_clear(&err);
    strcpy(folder, "/tmp/k3history.XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

static k3_history_t *open_history(bool rebuild, k3_history_changes_t *changes)
{
    k3_history_t *h;

    assert_int_equal(k3_history_open(folder, 0.0, &h, &err), K3_OK);
    assert_int_equal(k3_history_refresh(h, rebuild, read_facts, changes, &err), K3_OK);
    return h;
}

static const k3_history_question_t of_a = {"m", "2026-12-31T00:00:00Z", "a", "r"};

/* "1 2 3": the times of cell a, oldest first. */
static const char *times(k3_history_t *h, size_t most, const json_t *without)
{
    static char text[256];
    json_t     *points;
    size_t      used = 0;

    assert_int_equal(k3_history_series(h, &of_a, most, without, &points, &err), K3_OK);
    text[0] = '\0';
    for (size_t i = 0; i < json_array_size(points); i++) {
        used +=
            (size_t)snprintf(text + used, sizeof(text) - used, "%s%g", i > 0 ? " " : "",
                             json_number_value(json_object_get(json_array_get(points, i), "us")));
    }
    json_decref(points);
    return text;
}

static size_t fault_count(k3_history_t *h)
{
    json_t *faults;
    size_t  count;

    assert_int_equal(k3_history_faults(h, &faults, &err), K3_OK);
    count = json_array_size(faults);
    json_decref(faults);
    return count;
}

static void test_changes(void **state)
{
    k3_history_changes_t c;
    k3_history_t        *h;

    (void)state;
    write_launch("2.json", "r2", "2026-01-02T00:00:00Z", 2);
    write_launch("1.json", "r1", "2026-01-03T00:00:00Z", 3);
    write_launch("3.json", "r3", "2026-01-01T00:00:00Z", 1);
    write_text("baseline.json", "{}");
    write_text("notes.txt", "none");
    h = open_history(false, &c);
    assert_true(c.rebuilt && c.added == 3 && c.kept == 0);
    assert_string_equal(times(h, 10, NULL), "1 2 3");
    assert_string_equal(times(h, 2, NULL), "2 3");
    k3_history_close(h);

    write_launch("4.json", "r4", "2026-01-04T00:00:00Z", 4);
    unlink(path_of("2.json"));
    write_launch("3.json", "r3", "2026-01-01T00:00:00Z", 1.25);
    h = open_history(false, &c);
    assert_true(!c.rebuilt && c.added == 2 && c.removed == 1 && c.kept == 1);
    assert_string_equal(times(h, 10, NULL), "1.25 3 4");
    k3_history_close(h);

    h = open_history(true, &c);
    assert_true(c.rebuilt && c.added == 3);
    assert_string_equal(times(h, 10, NULL), "1.25 3 4");
    k3_history_close(h);
}

static void test_questions(void **state)
{
    k3_history_question_t early = of_a, other = of_a, broken = of_a, routed = of_a;
    k3_history_changes_t  c;
    json_t               *without = json_pack("{s:b}", "r2", 1), *days;
    size_t                count;
    double                us;
    k3_history_t         *h;

    (void)state;
    write_launch("1.json", "r1", "2026-01-01T00:00:00Z", 7);
    write_launch("2.json", "r2", "2026-01-02T00:00:00Z", 5);
    write_launch("3.json", "r3", "2026-01-02T01:00:00Z", 6);
    h = open_history(false, &c);
    assert_string_equal(times(h, 10, without), "7 6");
    assert_string_equal(times(h, 1, without), "6");
    assert_int_equal(k3_history_best(h, &of_a, &us, &err), K3_OK);
    assert_true(us == 5.0);
    early.until = "2026-01-01T12:00:00Z";
    assert_int_equal(k3_history_best(h, &early, &us, &err), K3_OK);
    assert_true(us == 7.0);
    other.machine = "n";
    assert_int_equal(k3_history_launches(h, &other, &count, &err), K3_OK);
    assert_int_equal(count, 0);
    broken.key = "b";
    routed.routing = "s";
    assert_true(k3_history_best(h, &broken, &us, &err) == K3_OK && isnan(us));
    assert_true(k3_history_best(h, &routed, &us, &err) == K3_OK && isnan(us));
    assert_int_equal(k3_history_days(h, &of_a, 1, &days, &err), K3_OK);
    assert_int_equal(json_array_size(days), 1);
    assert_string_equal(json_string_value(json_array_get(days, 0)), "2026-01-02");
    json_decref(days);
    json_decref(without);
    k3_history_close(h);
}

/* Three attempts of one cell in a launch are three rows and one value. */
static void test_attempts(void **state)
{
    k3_history_changes_t c;
    k3_history_t        *h;

    (void)state;
    write_text(
        "1.json",
        "{\"run\": \"r\", \"started\": \"2026-01-01T00:00:00Z\", \"git_sha\": \"\", \"machine\": "
        "\"m\", \"stable\": {}, \"cells\": ["
        "{\"key\": \"a\", \"state\": \"ok\", \"us\": 9, \"routing\": \"r\"},"
        "{\"key\": \"a\", \"state\": \"ok\", \"us\": 2, \"routing\": \"r\"},"
        "{\"key\": \"a\", \"state\": \"none\", \"us\": null, \"routing\": \"r\"},"
        "{\"key\": \"a\", \"state\": \"ok\", \"us\": 4, \"routing\": \"r\"}]}");
    h = open_history(false, &c);
    assert_string_equal(times(h, 10, NULL), "4");
    k3_history_close(h);
}

/* A copy of a launch does not count, until the original goes. */
static void test_faults(void **state)
{
    k3_history_changes_t c;
    k3_history_t        *h;

    (void)state;
    write_launch("1.json", "r1", "2026-01-01T00:00:00Z", 1);
    write_launch("2.json", "r1", "2026-01-01T00:00:00Z", 1);
    write_text("3.json", "{");
    for (int i = 0; i < 2; i++) {
        h = open_history(false, &c);
        assert_int_equal(fault_count(h), 2);
        assert_string_equal(times(h, 10, NULL), "1");
        k3_history_close(h);
    }
    unlink(path_of("1.json"));
    h = open_history(false, &c);
    assert_int_equal(fault_count(h), 1);
    assert_string_equal(times(h, 10, NULL), "1");
    k3_history_close(h);
}

static void test_damage(void **state)
{
    k3_history_changes_t c;
    k3_history_t        *h;
    char                 zeros[3000] = {0};
    int                  fd;

    (void)state;
    write_launch("1.json", "r1", "2026-01-01T00:00:00Z", 1);
    k3_history_close(open_history(false, &c));
    write_text("index.sqlite",
               "this is no database, but a text that is long enough to be taken for one");
    h = open_history(false, &c);
    assert_true(c.rebuilt);
    assert_string_equal(times(h, 10, NULL), "1");
    k3_history_close(h);

    /* Damage behind an intact first page. */
    fd = open(path_of("index.sqlite"), O_WRONLY);
    assert_true(fd >= 0 && pwrite(fd, zeros, sizeof(zeros), 4096) == (ssize_t)sizeof(zeros) &&
                pwrite(fd, zeros, sizeof(zeros), 8192) == (ssize_t)sizeof(zeros) && close(fd) == 0);
    write_launch("2.json", "r2", "2026-01-02T00:00:00Z", 2);
    h = open_history(false, &c);
    assert_true(c.rebuilt && c.added == 2);
    assert_string_equal(times(h, 10, NULL), "1 2");
    k3_history_close(h);
}

static void test_lock(void **state)
{
    k3_history_changes_t c;
    k3_history_t        *h, *second;

    (void)state;
    h = open_history(false, &c);
    assert_int_equal(k3_history_open(folder, 0.05, &second, &err), K3_ERR_ENV);
    assert_null(second);
    assert_non_null(strstr(err.text, "index.lock"));
    k3_error_clear(&err);
    k3_history_close(h);
    k3_history_close(open_history(false, &c));
    assert_int_equal(k3_history_open("/tmp/no such folder", 0.0, &h, &err), K3_ERR_IO);
}

/* More files than the readers may run ahead. */
static void test_many(void **state)
{
    k3_history_changes_t c;
    k3_history_t        *h;
    char                 name[32], run[32], started[32];
    size_t               count;

    (void)state;
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "%03d.json", i);
        snprintf(run, sizeof(run), "r%d", i);
        snprintf(started, sizeof(started), "2026-01-%02dT%02d:00:00Z", 1 + i / 24, i % 24);
        write_launch(name, run, started, 1.0 + i);
    }
    h = open_history(false, &c);
    assert_int_equal(c.added, 300);
    assert_int_equal(k3_history_launches(h, &of_a, &count, &err), K3_OK);
    assert_int_equal(count, 300);
    assert_string_equal(times(h, 3, NULL), "298 299 300");
    k3_history_close(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_changes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_questions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_attempts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_faults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
