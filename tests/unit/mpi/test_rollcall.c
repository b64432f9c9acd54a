/* Whom a roll call names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "harness/mpi/rollcall.h"

enum { RANKS = 4 };

static k3_roll_entry_t entries[RANKS];
static char            hosts[RANKS][K3_HOST_MAX];
static char            verdict[K3_ROLL_VERDICT];

/* All in step 7, each waits for a signal. */
static int begin(void **state)
{
    (void)state;
    memset(entries, 0, sizeof(entries));
    for (int r = 0; r < RANKS; r++) {
        entries[r] = (k3_roll_entry_t){.rank = r, .heard = true, .step = 7};
        strcpy(entries[r].place, "dispatch_wait");
        strcpy(entries[r].text, "1 of 4 counts missing");
        snprintf(hosts[r], K3_HOST_MAX, "node%d", r / 2);
    }
    return 0;
}

static const char *judge(void)
{
    k3_rollcall_judge(entries, RANKS, hosts, verdict);
    return verdict;
}

static void test_silent(void **state)
{
    (void)state;
    entries[1].heard = false;
    entries[2].heard = false;
    entries[3].step = 6; /* behind, but who does not answer comes first */
    assert_int_equal(k3_rollcall_silent(entries, RANKS), 2);
    assert_string_equal(judge(), "roll call: no answer, so stopped, dead or unreachable: rank 1 "
                                 "(node0), 2 (node1)");
}

static void test_behind(void **state)
{
    (void)state;
    entries[3].step = 6;
    entries[0].text[0] = '\0';
    assert_string_equal(judge(),
                        "roll call: never arrived in the step of the others: rank 3 (node1)");
}

static void test_stalled(void **state)
{
    (void)state;
    entries[0].text[0] = '\0';
    assert_string_equal(judge(),
                        "roll call: stalled, and waits for no signal itself: rank 0 (node0)");
}

/* In collective steps nobody says for whom it waits. */
static void test_elsewhere(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++) {
        entries[r].text[0] = '\0';
    }
    strcpy(entries[1].place, "latent_up");
    assert_string_equal(judge(), "roll call: stalled elsewhere than most ranks: rank 1 (node0)");
    strcpy(entries[2].place, "latent_up"); /* half of them: no telling */
    assert_string_equal(judge(), "roll call: all 4 ranks answer, none says for whom it waits");
}

static void test_nobody(void **state)
{
    (void)state;
    assert_int_equal(k3_rollcall_silent(entries, RANKS), 0);
    assert_string_equal(judge(), "roll call: all 4 ranks answer and wait for one another");
    for (int r = 0; r < RANKS; r++) {
        entries[r].text[0] = '\0'; /* all of them: that names none */
    }
    assert_string_equal(judge(), "roll call: all 4 ranks answer, none says for whom it waits");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_silent, begin),  cmocka_unit_test_setup(test_behind, begin),
        cmocka_unit_test_setup(test_stalled, begin), cmocka_unit_test_setup(test_elsewhere, begin),
        cmocka_unit_test_setup(test_nobody, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
