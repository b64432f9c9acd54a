#include "tests/unit/plan/plan_test.h"

#include "bench/commands/fault.h"
#include "bench/plan/phase.h"

static k3_fault_t parse(const char *text)
{
    k3_error_t err = K3_ERROR_INIT;
    k3_fault_t fault;

    if (k3_fault_parse(text, 8, &fault, &err) != K3_OK) {
        fail_msg("%s: %s", text, err.text);
    }
    return fault;
}

static void assert_refused(const char *text, const char *part)
{
    k3_error_t err = K3_ERROR_INIT;
    k3_fault_t fault;

    assert_int_equal(k3_fault_parse(text, 8, &fault, &err), K3_ERR_USAGE);
    assert_says(&err, "fault", part, NULL);
}

static void test_none(void **state)
{
    k3_fault_t f = parse("none");

    (void)state;
    assert_int_equal(f.stall_rank, -1);
    assert_int_equal(f.stall_phase, -1);
    assert_int_equal(f.corrupt_rank, -1);
    assert_int_equal(f.slow_src, -1);
}

/* Every phase of the contract can be stalled. */
static void test_F11_stall(void **state)
{
    (void)state;
    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        char       text[64];
        k3_fault_t f;

        snprintf(text, sizeof(text), "stall:4:%s:30", k3_phase_names[p]);
        f = parse(text);
        assert_int_equal(f.stall_rank, 4);
        assert_int_equal(f.stall_phase, p);
        assert_true(f.stall_ms == 30.0);
        assert_int_equal(f.corrupt_rank, -1);
        assert_int_equal(f.slow_src, -1);
    }
    assert_true(parse("stall:0:region:0.5").stall_ms == 0.5);
    assert_int_equal(parse("stall:7:router:1").stall_rank, 7);
}

static void test_slow_qp(void **state)
{
    k3_fault_t f = parse("slow-qp:1:2:3:1.5");

    (void)state;
    assert_int_equal(f.slow_src, 1);
    assert_int_equal(f.slow_dst, 2);
    assert_int_equal(f.slow_qp, 3);
    assert_true(f.slow_factor == 1.5);
    assert_int_equal(f.stall_rank, -1);
    assert_int_equal(f.corrupt_rank, -1);
}

static void test_N01_corrupt(void **state)
{
    k3_fault_t f = parse("corrupt:0:17");

    (void)state;
    assert_int_equal(f.corrupt_rank, 0);
    assert_int_equal(f.corrupt_row, 17);
    assert_int_equal(f.stall_rank, -1);
    assert_int_equal(f.slow_src, -1);
}

static void test_F01_dead(void **state)
{
    k3_fault_t f = parse("dead:2:combine_send");

    (void)state;
    assert_int_equal(f.dead_count, 1);
    assert_int_equal(f.dead_rank[0], 2);
    assert_int_equal(f.dead_phase, K3_PHASE_COMBINE_SEND);
    assert_int_equal(f.dead_call, 0);
    assert_int_equal(f.stall_rank, -1);
    assert_int_equal(parse("dead:3:dispatch_send:5").dead_call, 5);
    assert_int_equal(parse("none").dead_count, 0);
    f = parse("dead:1+3+4:quantize:1");
    assert_int_equal(f.dead_count, 3);
    assert_int_equal(f.dead_rank[1], 3);
    assert_int_equal(f.dead_rank[2], 4);
}

static void test_F10_skip(void **state)
{
    k3_fault_t f = parse("skip:2:5");

    (void)state;
    assert_int_equal(f.skip_rank, 2);
    assert_int_equal(f.skip_call, 5);
    assert_int_equal(f.dead_count, 0);
    assert_int_equal(parse("none").skip_rank, -1);
}

/* One iteration alone, or each. */
static void test_F04_stall_in_one_iteration(void **state)
{
    (void)state;
    assert_int_equal(parse("stall:1:dispatch_send:3000:1").stall_call, 1);
    assert_int_equal(parse("stall:1:dispatch_send:3000").stall_call, 0);
    assert_int_equal(parse("stall:1:dispatch_send:3000").stall_every, 0);
    assert_int_equal(parse("stall:1:dispatch_send:3000:/100").stall_every, 100);
    assert_int_equal(parse("stall:1:dispatch_send:3000:/100").stall_call, 0);
}

/* Ranks end below the world, phases and numbers are checked, nothing may follow. */
static void test_refused(void **state)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "none"},
        {"nothing", "none"},
        {"none:1", "none"},
        {"stall", "stall:RANK:PHASE:MS"},
        {"stall:1:router", "stall:RANK:PHASE:MS"},
        {"stall:1:router:5:6:7", "stall:RANK:PHASE:MS"},
        {"stall:1:router:5:0", "iteration"},
        {"stall:1:router:5:/0", "iteration"},
        {"stall:1:router:5:/", "iteration"},
        {"dead", "dead:RANK[+RANK...]:PHASE"},
        {"dead:1", "dead:RANK[+RANK...]:PHASE"},
        {"dead:1:router:2:3", "dead:RANK[+RANK...]:PHASE"},
        {"dead:1+1:router", "rising"},
        {"dead:3+1:router", "rising"},
        {"dead:1+8:router", "8"},
        {"dead:1+:router", "rank"},
        {"dead:8:router", "8"},
        {"dead:1:rooter", "router"},
        {"dead:1:router:0", "iteration"},
        {"dead:1:router:x", "iteration"},
        {"skip", "skip:RANK:ITERATION"},
        {"skip:1", "skip:RANK:ITERATION"},
        {"skip:8:1", "8"},
        {"skip:1:0", "iteration"},
        {"skip:1:2:3", "skip:RANK:ITERATION"},
        {"stall:8:router:5", "8"},
        {"stall:-1:router:5", "-1"},
        {"stall:x:router:5", "x"},
        {"stall::router:5", "rank"},
        {"stall:1:rooter:5", "router"},
        {"stall:1::5", "phase"},
        {"stall:1:router:-5", "-5"},
        {"stall:1:router:nan", "nan"},
        {"stall:1:router:5ms", "5ms"},
        {"stall:1:router:1e9", "1e9"},
        {"slow-qp:1:2:3", "slow-qp:SRC:DST:QP:FACTOR"},
        {"slow-qp:8:2:3:2", "8"},
        {"slow-qp:1:8:3:2", "8"},
        {"slow-qp:1:2:4096:2", "4096"},
        {"slow-qp:1:2:3:0.5", "0.5"},
        {"slow-qp:1:2:3:inf", "inf"},
        {"corrupt:1", "corrupt:RANK:ROW"},
        {"corrupt:8:1", "8"},
        {"corrupt:1:-1", "-1"},
        {"corrupt:1:1:1", "corrupt:RANK:ROW"},
        {"corrupt:1:18446744073709551616", "18446744073709551616"},
        {"Stall:1:router:5", "stall:RANK:PHASE:MS"},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_refused(rows[i].text, rows[i].part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_F11_stall),
        cmocka_unit_test(test_slow_qp),
        cmocka_unit_test(test_N01_corrupt),
        cmocka_unit_test(test_F01_dead),
        cmocka_unit_test(test_F10_skip),
        cmocka_unit_test(test_F04_stall_in_one_iteration),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
