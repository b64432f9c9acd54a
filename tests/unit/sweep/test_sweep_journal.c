#include "tests/unit/sweep/sweep_test.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

#include "bench/sweep/journal.h"

static char path[128];

static k3_journal_t open_journal(bool write)
{
    k3_journal_t journal;
    k3_error_t   err = K3_ERROR_INIT;

    if (k3_journal_open(path, write, &journal, &err) != K3_OK) {
        fail_msg("%s", err.text);
    }
    return journal;
}

static void note(k3_journal_t *journal, const char *id, k3_launch_state_t state)
{
    k3_error_t      err = K3_ERROR_INIT;
    k3_launch_end_t end = {
        .id = id, .state = state, .attempt = 1, .seconds = 2.5, .carried = "tcp/eth0"};

    assert_int_equal(k3_journal_begin(journal, id, 1, &err), K3_OK);
    if (state != K3_LAUNCH_NONE) {
        assert_int_equal(k3_journal_end(journal, &end, &err), K3_OK);
    }
}

static k3_launch_past_t past_of(const k3_journal_t *journal, const char *id)
{
    k3_launch_past_t past;

    k3_journal_past(journal, id, &past);
    return past;
}

static off_t size_of(void)
{
    struct stat facts;

    return stat(path, &facts) == 0 ? facts.st_size : -1;
}

static void fresh(void)
{
    (void)snprintf(path, sizeof(path), "%s/journal", folder);
    (void)unlink(path);
}

static void test_what_was_written_is_read(void **state)
{
    k3_journal_t journal;

    (void)state;
    fresh();
    journal = open_journal(true);
    note(&journal, "a", K3_LAUNCH_DONE);
    note(&journal, "b", K3_LAUNCH_NONE);
    note(&journal, "c", K3_LAUNCH_REJECTED);
    k3_journal_close(&journal);
    journal = open_journal(false);
    assert_int_equal(journal.strange, 0);
    assert_int_equal(past_of(&journal, "a").state, K3_LAUNCH_DONE);
    assert_true(past_of(&journal, "a").seconds == 2.5);
    assert_string_equal(past_of(&journal, "a").carried, "tcp/eth0");
    assert_int_equal(past_of(&journal, "b").state, K3_LAUNCH_NONE);
    assert_int_equal(past_of(&journal, "b").attempts, 1);
    assert_true(isnan(past_of(&journal, "b").seconds));
    assert_int_equal(past_of(&journal, "c").state, K3_LAUNCH_REJECTED);
    assert_int_equal(past_of(&journal, "never").state, K3_LAUNCH_NONE);
    assert_int_equal(past_of(&journal, "never").attempts, 0);
    k3_journal_close(&journal);
}

/* Whatever byte the writing stopped at: the lines before it hold, and the next line begins cleanly. */
static void test_torn_at_any_byte(void **state)
{
    k3_journal_t journal;
    off_t        whole, first;

    (void)state;
    fresh();
    journal = open_journal(true);
    note(&journal, "a", K3_LAUNCH_DONE);
    first = size_of();
    note(&journal, "b", K3_LAUNCH_DONE);
    whole = size_of();
    k3_journal_close(&journal);
    for (off_t cut = whole - 1; cut >= first; cut--) {
        assert_int_equal(truncate(path, cut), 0);
        journal = open_journal(true);
        assert_int_equal(journal.strange, 0);
        assert_int_equal(past_of(&journal, "a").state, K3_LAUNCH_DONE);
        assert_int_equal(past_of(&journal, "b").state, K3_LAUNCH_NONE);
        note(&journal, "c", K3_LAUNCH_DONE);
        k3_journal_close(&journal);
        journal = open_journal(false);
        assert_int_equal(journal.strange, 0);
        assert_int_equal(past_of(&journal, "c").state, K3_LAUNCH_DONE);
        k3_journal_close(&journal);
        assert_int_equal(truncate(path, cut), 0); /* further back the next time */
    }
}

static void test_strange_lines_cost_no_more_than_themselves(void **state)
{
    const char *const lines[] = {
        "\n",
        "null\n",
        "[]\n",
        "{}\n",
        "{\"event\":\"end\"}\n",
        "{\"event\":\"end\",\"launch\":7,\"attempt\":1,\"state\":\"done\"}\n",
        "{\"event\":\"end\",\"launch\":\"x\",\"attempt\":-1,\"state\":\"done\"}\n",
        "{\"event\":\"begin\",\"launch\":\"x\",\"attempt\":9223372036854775807}\n",
        "{\"event\":\"end\",\"launch\":\"x\",\"attempt\":1,\"state\":\"none\"}\n",
        "{\"event\":\"end\",\"launch\":\"x\",\"attempt\":1,\"state\":\"fine\"}\n",
        "{\"event\":\"end\",\"launch\":\"x\",\"launch\":\"y\",\"attempt\":1,\"state\":\"done\"}\n",
        "{\"event\":\"end\",\"launch\":\"x\",\"attempt\":1,\"state\":\"done\"} {}\n",
        "\xff\xfe\n",
    };
    const char  *good = "{\"event\":\"end\",\"launch\":\"ok\",\"attempt\":1,\"state\":\"done\"}\n";
    k3_journal_t journal = {.fd = -1, .launches = json_object()};
    size_t       count = sizeof(lines) / sizeof(lines[0]);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(k3_journal_read(&journal, lines[i], strlen(lines[i])), strlen(lines[i]));
    }
    assert_int_equal(k3_journal_read(&journal, "a\0b\n", 4), 4);
    assert_int_equal(journal.strange, count + 1);
    assert_int_equal(json_object_size(journal.launches), 0);
    assert_int_equal(k3_journal_read(&journal, good, strlen(good)), strlen(good));
    assert_int_equal(past_of(&journal, "ok").state, K3_LAUNCH_DONE);
    k3_journal_close(&journal);
}

/* Members of a type that nobody asked for. */
static void test_members_of_other_types(void **state)
{
    const char  *line = "{\"event\":\"end\",\"launch\":\"x\",\"attempt\":1,\"state\":\"done\","
                        "\"seconds\":\"four\",\"wrong\":3,\"carried\":[1]}\n";
    k3_journal_t journal = {.fd = -1, .launches = json_object()};

    (void)state;
    assert_int_equal(k3_journal_read(&journal, line, strlen(line)), strlen(line));
    assert_true(isnan(past_of(&journal, "x").seconds));
    assert_false(past_of(&journal, "x").wrong);
    assert_null(past_of(&journal, "x").carried);
    k3_journal_close(&journal);
}

/* A line that cannot be written leaves nothing of itself. */
static void test_full_disk(void **state)
{
    k3_journal_t    journal = open_journal(true);
    k3_error_t      err = K3_ERROR_INIT;
    k3_launch_end_t end = {.id = "x", .state = K3_LAUNCH_DONE, .attempt = 1, .seconds = 1.0};
    int             full = open("/dev/full", O_WRONLY), own = journal.fd;

    (void)state;
    if (full < 0) {
        skip();
    }
    journal.fd = full;
    assert_int_equal(k3_journal_end(&journal, &end, &err), K3_ERR_IO);
    assert_says(&err, "the journal cannot be written", "goes on later", NULL);
    assert_int_equal(past_of(&journal, "x").state, K3_LAUNCH_NONE);
    journal.fd = own;
    (void)close(full);
    k3_journal_close(&journal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_written_is_read),
        cmocka_unit_test(test_torn_at_any_byte),
        cmocka_unit_test(test_strange_lines_cost_no_more_than_themselves),
        cmocka_unit_test(test_members_of_other_types),
        cmocka_unit_test(test_full_disk),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
