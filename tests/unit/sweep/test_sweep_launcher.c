#include "tests/unit/sweep/sweep_test.h"

#include "bench/sweep/launcher.h"

static k3_hosts_t hosts_of(const char *text)
{
    k3_hosts_t hosts = {0};
    k3_error_t err = K3_ERROR_INIT;

    if (k3_hosts_parse("hosts", text, &hosts, &err) != K3_OK) {
        fail_msg("%s", err.text);
    }
    return hosts;
}

static void assert_hosts_refused(const char *text, const char *part)
{
    k3_hosts_t hosts = {0};
    k3_error_t err = K3_ERROR_INIT;

    assert_true(k3_hosts_parse("hosts", text, &hosts, &err) != K3_OK);
    assert_says(&err, part, NULL, NULL);
    k3_hosts_free(&hosts);
}

static void test_hostfiles(void **state)
{
    k3_hosts_t h =
        hosts_of("# two\nnode-1 slots=8 max_slots=8\r\n\n  node2:4 # four\n10.0.0.3 slots=1");

    (void)state;
    assert_int_equal(h.count, 3);
    assert_string_equal(h.items[0].name, "node-1");
    assert_int_equal(h.items[0].slots, 8);
    assert_string_equal(h.items[1].name, "node2");
    assert_int_equal(h.items[1].slots, 4);
    assert_string_equal(h.items[2].name, "10.0.0.3");
    k3_hosts_free(&h);
    assert_hosts_refused("", "no host");
    assert_hosts_refused("a\n", "hosts:1: host a has no slots=N");
    assert_hosts_refused("a slots=0\n", "slots");
    assert_hosts_refused("a slots=9999999\n", "slots");
    assert_hosts_refused("a slots=1\nb slots=1\na slots=2\n", "a is named twice");
    assert_hosts_refused("$(reboot) slots=1\n", "no name of a host");
}

static void test_slurm_allocations(void **state)
{
    k3_hosts_t h = {0};
    k3_error_t err = K3_ERROR_INIT;

    (void)state;
    assert_int_equal(k3_hosts_parse_slurm("a\nb\nc\n", "8(x2),4", &h, &err), K3_OK);
    assert_int_equal(h.count, 3);
    assert_int_equal(h.items[1].slots, 8);
    assert_int_equal(h.items[2].slots, 4);
    k3_hosts_free(&h);
    for (int i = 0; i < 4; i++) {
        const char *const bad[] = {"8", "", "x", "8(x0)"};

        k3_error_clear(&err);
        assert_int_equal(k3_hosts_parse_slurm("a\nb\n", bad[i], &h, &err), K3_ERR_ENV);
        assert_says(&err, "SLURM_TASKS_PER_NODE", NULL, NULL);
        k3_hosts_free(&h);
    }
}

/* Jobs beside each other share no host; the next one waits until enough are free. */
static void test_disjoint_host_sets(void **state)
{
    k3_hosts_t h = hosts_of("a slots=4\nb slots=4\nc slots=4\n");

    (void)state;
    assert_true(k3_hosts_take(&h, 0, 8));
    assert_int_equal(h.items[1].user, 0);
    assert_int_equal(h.items[2].user, -1);
    assert_false(k3_hosts_take(&h, 1, 8));
    assert_int_equal(h.items[2].user, -1);
    assert_true(k3_hosts_take(&h, 1, 3));
    assert_false(k3_hosts_take(&h, 2, 1));
    k3_hosts_release(&h, 0);
    assert_true(k3_hosts_take(&h, 2, 5));
    assert_int_equal(h.items[0].user, 2);
    k3_hosts_free(&h);
}

static void assert_words(const k3_launcher_t *launcher, const char *want)
{
    k3_list_t  words;
    k3_error_t err = K3_ERROR_INIT;
    char       text[512] = "";

    if (k3_launcher_words(launcher, &words, &err) != K3_OK) {
        fail_msg("%s", err.text);
    }
    for (size_t i = 0; i < words.count; i++) {
        strcat(text, i > 0 ? "|" : "");
        strcat(text, words.items[i]);
    }
    assert_string_equal(text, want);
    k3_list_free(&words);
}

static void test_words(void **state)
{
    k3_hosts_t    h = hosts_of("a slots=4\nb slots=4\n");
    k3_launcher_t l = {.hosts = &h, .ranks = 8, .hostfile = "dir/hosts.0"};
    k3_list_t     words;
    k3_error_t    err = K3_ERROR_INIT;
    char         *file;

    (void)state;
    assert_true(k3_hosts_take(&h, 0, 8));
    assert_words(&l, "mpirun|-q|-np|8|--hostfile|dir/hosts.0");
    h.kind = K3_HOSTS_SLURM;
    assert_words(&l, "srun|--mpi=pmix|--exact|-n|8|-N|2|-w|a,b");
    l.text = " x  {np}/{nodes}\t-H={hosts} {names}{ ";
    assert_words(&l, "x|8/2|-H=a:4,b:4|a,b{");
    file = k3_launcher_hostfile(&h, 0);
    assert_string_equal(file, "a slots=4\nb slots=4\n");
    free(file);
    l.text = "mpirun {ranks}";
    assert_int_equal(k3_launcher_words(&l, &words, &err), K3_ERR_USAGE);
    assert_says(&err, "{ranks}", "{np}", NULL);
    k3_error_clear(&err);
    l.text = "  ";
    assert_int_equal(k3_launcher_words(&l, &words, &err), K3_ERR_USAGE);
    k3_hosts_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostfiles),
        cmocka_unit_test(test_slurm_allocations),
        cmocka_unit_test(test_disjoint_host_sets),
        cmocka_unit_test(test_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
