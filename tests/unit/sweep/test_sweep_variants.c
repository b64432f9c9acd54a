#include "tests/unit/sweep/sweep_test.h"

#include "bench/sweep/power.h"
#include "bench/sweep/schedule.h"

static void assert_refused(const char *ini, const char *a, const char *b)
{
    k3_hosts_t    hosts;
    k3_variants_t variants;
    k3_error_t    err = K3_ERROR_INIT;

    assert_int_equal(k3_hosts_find(NULL, 1, &hosts, &err), K3_OK);
    assert_int_equal(try_variants(ini, &hosts, &variants, &err), K3_ERR_USAGE);
    assert_says(&err, a, b, NULL);
    k3_hosts_free(&hosts);
}

/* Lists of what `run` multiplies stay lists; model, layout and single values part. */
static void test_lists_multiply(void **state)
{
    k3_variants_t v = variants_of("model = tiny\ntp = 2,4\nbackend = mooncake,none\n"
                                  "tokens = 4,8\np2p = on,off\n");

    (void)state;
    assert_int_equal(v.count, 4);
    for (size_t i = 0; i < v.count; i++) {
        assert_int_equal(v.items[i].cells, 4);
        assert_int_equal(v.items[i].ranks, i < 2 ? 2 : 4);
        assert_int_equal(v.items[i].launches, 5);
        assert_true(has_word(&v.items[i], "--tokens=4,8"));
        assert_true(has_word(&v.items[i], "--backend=mooncake,none"));
        assert_int_equal(has_word(&v.items[i], "--p2p=off"), i % 2 == 1);
        assert_string_equal(v.items[i].section, "all");
    }
    k3_variants_free(&v);
}

static void test_split_names_more(void **state)
{
    k3_variants_t v = variants_of("tp = 2\nbackend = mooncake,none\ntokens = 4,8,16\n"
                                  "split = tokens,backend\n");

    (void)state;
    assert_int_equal(v.count, 6);
    assert_int_equal(v.items[0].cells, 1);
    k3_variants_free(&v);
    assert_refused("tp = 2\nsplit = iters\n", "split", "iters");
}

/* What changes nothing in some of the launches is left out there; a second launch of the same work is none. */
static void test_options_without_effect(void **state)
{
    k3_variants_t v =
        variants_of("tp = 2\nbackend = mooncake,none\nsplit = backend\n"
                    "p2p = on,off\nmax-seconds = 2\n[a]\n[b]\ndp = 2\nbackend = mpi\n");

    (void)state;
    assert_int_equal(v.count, 4); /* mooncake twice, none, mpi */
    assert_true(has_word(&v.items[0], "--backend=mooncake"));
    assert_true(has_word(&v.items[1], "--p2p=off"));
    assert_true(has_word(&v.items[2], "--backend=none") && !has_word(&v.items[2], "--p2p=off"));
    assert_true(has_word(&v.items[3], "--backend=mpi") && !has_word(&v.items[3], "--p2p=off"));
    assert_string_equal(k3_options_get(v.items[3].options, "p2p"), "on");
    k3_variants_free(&v);
    assert_refused("tp = 2\nbackend = none,mpi\np2p = on,off\n", "p2p", "no effect");
    assert_refused("tp = 2\nstaged = on\n[a]\n[b]\nbackend = none\n", "staged on", "device");
    assert_refused("tp = 2\niters = 4\nmax-seconds = 2\n", "max-seconds 2", "iters 4");
    assert_refused("tp = 2\nmax-seconds = 2\n[a]\niters = 4\n[b]\niters = 5\n", "max-seconds 2",
                   "iters 4");
    v = variants_of("tp = 2\nmax-seconds = 2\n[a]\niters = 4\n[b]\n");
    assert_int_equal(v.count, 2);
    assert_true(!has_word(&v.items[0], "--max-seconds=2") &&
                has_word(&v.items[1], "--max-seconds=2"));
    k3_variants_free(&v);
}

static void test_sections(void **state)
{
    k3_variants_t v = variants_of("backend = none\nlaunches = 3\n[a]\ntp = 2\n[b-2]\ntp = 4\n"
                                  "launches = 7\n");

    (void)state;
    assert_int_equal(v.count, 2);
    assert_string_equal(v.items[0].label, "a tiny tp2");
    assert_string_equal(v.items[1].section, "b-2");
    assert_int_equal(v.items[1].launches, 7);
    k3_variants_free(&v);
    assert_refused("tp = 2\n[a b]\n", "names of sections", NULL);
    assert_refused("tp = 2\n[a]\n[b]\n[a]\n", "twice", NULL);
}

/* The longest label that there can be. */
static void test_long_names(void **state)
{
    k3_variants_t v = variants_of(
        "model = tiny:E=00000000064,K=00000000000000004,H=000000000512\nbackend = none\n"
        "tp = 00000000002\ndp = 00000000002\ncp = 00000000001\nep = 00000000002\n"
        "[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]\n");

    (void)state;
    assert_true(v.count + v.refusal_count == 1);
    k3_variants_free(&v);
}

/* Commas that part no list. */
static void test_U15_skew_keeps_its_commas(void **state)
{
    k3_variants_t v = variants_of("tp = 4\nbackend = mooncake\ntokens-skew = 16,8,16,1\n");

    (void)state;
    assert_int_equal(v.count, 1);
    assert_true(has_word(&v.items[0], "--tokens-skew=16,8,16,1"));
    k3_variants_free(&v);
}

/* A hole in the product is refused with its reason and the rest runs. */
static void test_P24_impossible_cells(void **state)
{
    k3_variants_t v = variants_of("tp = 2,4\ndp = 1,4\nbackend = mooncake,none\n");

    (void)state;
    assert_int_equal(v.count, 3);
    assert_int_equal(v.refusal_count, 1);
    assert_int_equal(v.refusals[0].cells, 2);
    assert_string_equal(v.refusals[0].backends, "mooncake, none");
    assert_non_null(strstr(v.refusals[0].reason, "tp 2 is not divisible"));
    k3_variants_free(&v);
}

/* A backend that cannot is a row of the record with its reason; `run` refuses it. */
static void test_L06_unsupported_cells_stay_in_the_lists(void **state)
{
    k3_variants_t v = variants_of("model = tiny:E=30\ntp = 4\nbackend = mooncake,none\n");

    (void)state;
    assert_int_equal(v.count, 1);
    assert_int_equal(v.items[0].cells, 2);
    assert_int_equal(v.items[0].refused, 1);
    assert_int_equal(v.refusal_count, 1);
    k3_variants_free(&v);
}

/* `run` would end at a cell that can never work: it must not come out of the lists. */
static void test_lists_without_impossible_cells(void **state)
{
    k3_variants_t v = variants_of("tp = 4\nbackend = mooncake,deepep:ll,none\n"
                                  "shared = replicated,tp\npath = fast\n");

    (void)state;
    for (size_t i = 0; i < v.count; i++) {
        assert_true(v.items[i].refused < v.items[i].cells);
    }
    assert_true(v.refusal_count > 0 && v.count > 0);
    k3_variants_free(&v);
}

static void test_O05_what_no_cell_can_have(void **state)
{
    (void)state;
    assert_refused("tp = 2\nbackend = none,moncake\n", "backend=moncake", "mooncake");
    assert_refused("tokns = 2\ntp = 2\n", "tokns", "tokens");
    assert_refused("backend = none\n", "tp is missing", NULL);
    assert_refused("tp = 2\nrotate = 1\n", "rotate", NULL);
    assert_refused("tp = 2\nlaunches = 0\n", "launches", NULL);
    assert_refused("tp = 2,,4\n", "tp: an empty item", NULL);
    assert_refused("tp = 2,2\n", "tp: '2' stands twice", NULL);
    assert_refused("[a]\ntp = x\n", "tp", "x");
}

static void test_too_few_slots(void **state)
{
    k3_hosts_t    hosts = {0};
    k3_variants_t v;
    k3_error_t    err = K3_ERROR_INIT;

    (void)state;
    assert_int_equal(k3_hosts_parse("h", "a slots=2\nb slots=2\n", &hosts, &err), K3_OK);
    assert_int_equal(try_variants("tp = 2,4,8\nbackend = none\n", &hosts, &v, &err), K3_OK);
    assert_int_equal(v.count, 2);
    assert_int_equal(v.refusal_count, 1);
    assert_non_null(strstr(v.refusals[0].reason, "8 ranks: there are 4 slots on 2 hosts"));
    k3_variants_free(&v);
    k3_hosts_free(&hosts);
}

/* A launch is another one when anything that shapes it changes, and the same one when nothing does. */
static void test_ids(void **state)
{
    const char *const texts[] = {
        "tp = 2\n", "tp = 2\niters = 7\n",   "tp = 2\nlauncher = mpirun\n", "[x]\ntp = 2\n",
        "tp = 4\n", "tp = 2\nlaunches = 9\n"};
    char first[K3_LAUNCH_ID_MAX], id[K3_LAUNCH_ID_MAX];

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        k3_variants_t v = variants_of(texts[i]);

        k3_launch_id(&v.items[0], 1, i == 0 ? first : id);
        if (i > 0) {
            assert_int_equal(strcmp(first, id) == 0, i == 5);
        }
        k3_variants_free(&v);
    }
    assert_non_null(strstr(first, "all.np2."));
    assert_non_null(strstr(first, ".r001"));
}

/* --- order ----------------------------------------------------------------------------------- */

static void test_rounds_begin_with_another_variant(void **state)
{
    k3_variants_t v = variants_of("backend = none\n[a]\ntp = 1\nlaunches = 3\n[b]\ntp = 2\n"
                                  "launches = 2\n[c]\ntp = 4\nlaunches = 3\n");
    k3_journal_t  journal = {.fd = -1, .launches = json_object()};
    k3_schedule_t s;
    k3_error_t    err = K3_ERROR_INIT;
    char          order[1024] = "";

    (void)state;
    assert_int_equal(k3_schedule_create(&v, &journal, false, &s, &err), K3_OK);
    for (size_t i = 0; i < s.count; i++) {
        char word[96];

        snprintf(word, sizeof(word), "%s%d ", s.items[i].variant->section, (int)s.items[i].round);
        strcat(order, word);
    }
    assert_string_equal(order, "a1 b1 c1 b2 c2 a2 c3 a3 ");
    assert_int_equal(s.open, 8);
    k3_schedule_free(&s);
    k3_journal_close(&journal);
    k3_variants_free(&v);
}

static void test_what_is_open_and_how_long(void **state)
{
    k3_variants_t   v = variants_of("backend = none\ntp = 1\nlaunches = 4\nmax-seconds = 5\n");
    k3_journal_t    journal = {.fd = -1, .launches = json_object()};
    k3_schedule_t   s;
    k3_error_t      err = K3_ERROR_INIT;
    char            id[K3_LAUNCH_ID_MAX], text[512];
    const char     *states[] = {"done", "failed", "aside"};
    k3_launch_end_t end = {.state = K3_LAUNCH_DONE, .seconds = 6.0};

    (void)state;
    for (int i = 0; i < 3; i++) {
        k3_launch_id(&v.items[0], (uint64_t)i + 1, id);
        snprintf(text, sizeof(text),
                 "{\"event\":\"end\",\"launch\":\"%s\",\"attempt\":1,\"state\":\"%s\","
                 "\"seconds\":4.0}\n",
                 id, states[i]);
        assert_int_equal(k3_journal_read(&journal, text, strlen(text)), strlen(text));
    }
    for (int retry = 0; retry < 2; retry++) {
        assert_int_equal(k3_schedule_create(&v, &journal, retry == 1, &s, &err), K3_OK);
        assert_int_equal(s.open, retry == 1 ? 3 : 2);
        assert_true(k3_schedule_remaining(&s) == (retry == 1 ? 12.0 : 8.0));
        k3_schedule_close(&s, &s.items[3], &end);
        assert_int_equal(s.open, retry == 1 ? 2 : 1);
        assert_true(k3_schedule_expect(&s, &v.items[0]) == 5.0);
        k3_schedule_free(&s);
    }
    assert_true(v.items[0].guess == 2.0 + 6.0);
    k3_journal_close(&journal);
    k3_variants_free(&v);
}

/* Backends of one launch are pairs; those with launches of their own are not. What moves no rows is no rival. */
static void test_power(void **state)
{
    k3_variants_t v =
        variants_of("tp = 2\nbackend = mooncake,none,null\ntokens = 4,8\nlaunches = 7\n[a]\n[b]\n"
                    "backend = mooncake,none,mpi\nsplit = backend\np2p = on,off\n[c]\ntokens = "
                    "4\nlaunches = 2\n");
    k3_power_t a = k3_power_of(&v, "a"), b = k3_power_of(&v, "b"), c = k3_power_of(&v, "c");

    (void)state;
    assert_true(a.cells == 4 && a.within == 2 && a.between == 0 && a.launches == 7);
    /* Each of two counts of tokens: mooncake twice, and one of none and mpi. */
    assert_true(b.cells == 8 && b.within == 0 && b.between == 6 && b.launches == 7);
    assert_true(c.cells == 2 && c.within == 1 && c.launches == 2);
    k3_variants_free(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_multiply),
        cmocka_unit_test(test_split_names_more),
        cmocka_unit_test(test_power),
        cmocka_unit_test(test_options_without_effect),
        cmocka_unit_test(test_sections),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_U15_skew_keeps_its_commas),
        cmocka_unit_test(test_P24_impossible_cells),
        cmocka_unit_test(test_L06_unsupported_cells_stay_in_the_lists),
        cmocka_unit_test(test_lists_without_impossible_cells),
        cmocka_unit_test(test_O05_what_no_cell_can_have),
        cmocka_unit_test(test_too_few_slots),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_rounds_begin_with_another_variant),
        cmocka_unit_test(test_what_is_open_and_how_long),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
