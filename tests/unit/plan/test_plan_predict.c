/* Expectations, loads, machine files, predicted and simulated times (C03, C04, C06, L10). */
#include "plan_test.h"

#include <math.h>
#include <unistd.h>

#include "bench/plan/expect.h"
#include "bench/plan/predict.h"
#include "bench/plan/simulate.h"

static void assert_near(double value, double wanted, double share)
{
    if (!(fabs(value - wanted) <= share * fabs(wanted))) {
        fail_msg("%.9g is not within %.3g %% of %.9g", value, 100 * share, wanted);
    }
}

/* --- expectations ------------------------------------------------------------------------------ */

static void test_distinct_ranks_of_a_row(void **state)
{
    static const struct {
        uint32_t experts, blocks, topk;
        double   mean;
    } known[] = {{896, 8, 16, 7.07},   {896, 16, 16, 10.35}, {896, 32, 16, 12.83},
                 {896, 64, 16, 14.36}, {256, 8, 8, 5.29},    {256, 64, 8, 7.68},
                 {512, 8, 22, 7.60},   {4, 4, 4, 4.0},       {4, 1, 2, 1.0}};

    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        k3_expectation_t e = k3_expected_distinct(known[i].experts, known[i].blocks, known[i].topk);

        assert_near(e.mean, known[i].mean, 0.001);
    }
    /* Two experts on two ranks, one drawn... of 4 experts 2 are drawn: 1 rank with chance 1/3. */
    assert_near(k3_expected_distinct(4, 2, 2).mean, 5.0 / 3.0, 1e-12);
    assert_near(k3_expected_distinct(4, 2, 2).spread, sqrt(2.0) / 3.0, 1e-9);
    assert_near(k3_expected_hit(896, 112, 16, 1), 2.0, 1e-12);
    assert_near(k3_expected_hit(896, 112, 16, 1e6), 112.0, 1e-12);
}

/* An expectation from some ranks' rows against all rows, of every backend. */
static void test_expected_work_is_near_the_exact(void **state)
{
    unsigned tried = 0;

    (void)state;
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        const k3_profile_t *p = k3_registry_at(i);
        k3_cell_request_t   q = request_of(p->name, "kimi-k3", 32);
        k3_error_t          err = K3_ERROR_INIT;
        k3_cell_t           exact, expected;
        k3_work_t           a, b;

        q.tokens = 64;
        if (k3_cell_create(&q, &exact, &err) != K3_OK) {
            continue;
        }
        q.expected = true;
        expected = cell_of(q);
        assert_int_equal(k3_work_plan(&exact, &a, &err), K3_OK);
        assert_int_equal(k3_work_plan(&expected, &b, &err), K3_OK);
        for (int phase = 0; phase < K3_TRAFFIC_COUNT; phase++) {
            assert_near((double)b.sum[phase].wire, (double)a.sum[phase].wire, 0.03);
            assert_near((double)b.sum[phase].messages, (double)a.sum[phase].messages, 0.03);
            assert_near((double)b.sum[phase].wire_network, (double)a.sum[phase].wire_network, 0.03);
        }
        assert_int_equal(a.rows_dispatched, b.rows_dispatched);
        assert_near((double)b.dedup_rows, (double)a.dedup_rows, 0.03);
        tried += p->copy != K3_COPY_NONE;
        k3_cell_destroy(&expected);
        k3_cell_destroy(&exact);
    }
    assert_true(tried >= 12);
}

/* --- loads ------------------------------------------------------------------------------------- */

static double sum_of(const k3_loads_t *l, k3_load_t *const side[K3_TRAFFIC_COUNT], int phase)
{
    double wire = 0;

    for (uint32_t r = 0; r < l->count; r++) {
        for (int c = 0; c < K3_CLASS_COUNT; c++) {
            wire += side[phase][r].wire[c];
        }
    }
    return wire;
}

static void test_loads_add_up_to_the_plan(void **state)
{
    static const char *const backends[] = {"deepep:ll", "mori:v1", "deepep:normal", "nccl_ep"};

    (void)state;
    for (size_t b = 0; b < sizeof(backends) / sizeof(backends[0]); b++) {
        k3_cell_t  cell = cell_of(request_of(backends[b], "kimi-k3", 16));
        k3_error_t err = K3_ERROR_INIT;
        k3_loads_t loads;
        k3_work_t  work;
        double     rows = 0;

        assert_int_equal(k3_loads_plan(&cell, &loads, &err), K3_OK);
        assert_int_equal(k3_work_plan(&cell, &work, &err), K3_OK);
        for (int phase = 0; phase < K3_TRAFFIC_COUNT; phase++) {
            assert_near(sum_of(&loads, loads.out, phase), (double)work.sum[phase].wire, 1e-12);
            assert_near(sum_of(&loads, loads.in, phase), (double)work.sum[phase].wire, 1e-12);
        }
        for (uint32_t r = 0; r < loads.count; r++) {
            rows += loads.expert_rows[r];
            assert_true(loads.experts_hit[r] <= 56);
        }
        assert_near(rows, 16.0 * 16 * 16, 1e-12);
        k3_loads_free(&loads);
        k3_cell_destroy(&cell);
    }
}

/* --- machines ---------------------------------------------------------------------------------- */

static void test_every_machine_file_is_whole(void **state)
{
    static const char *const names[] = {"h800",  "h200",   "b200",   "b300", "gb200",
                                        "gb300", "mi300x", "mi355x", "h100", "h20"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        k3_machine_file_t machine;
        k3_error_t        err = K3_ERROR_INIT;

        if (k3_machine_read(names[i], &machine, &err) != K3_OK) {
            fail_msg("%s", err.text);
        }
        for (int f = 0; f < K3_FIG_COUNT; f++) {
            assert_true(!machine.figure[f].known || machine.figure[f].source[0] != '\0');
        }
        assert_true(k3_figure(&machine, K3_FIG_SCALEUP_GBPS, 0) > 100);
        assert_true(k3_figure(&machine, K3_FIG_NIC_GBPS, 0) >= 50);
    }
}

static void refuse_file(const char *text, const char *a, const char *b)
{
    char              path[] = "/tmp/k3bench-machine.XXXXXX";
    int               fd = mkstemp(path);
    k3_machine_file_t machine;
    k3_error_t        err = K3_ERROR_INIT;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    assert_int_equal(k3_machine_read(path, &machine, &err), K3_ERR_USAGE);
    (void)unlink(path);
    assert_says(&err, a, b, NULL);
}

static void test_bad_machine_files(void **state)
{
    k3_machine_file_t machine;
    k3_error_t        err = K3_ERROR_INIT;

    (void)state;
    refuse_file("memory_gb = 80\n", ":1: memory_gb", "has no source");
    refuse_file("memory_gb = 80 | guess: somebody\n", "guess", NULL);
    refuse_file("memory_gb = 80 | datasheet:\n", "KIND: WHERE FROM", NULL);
    refuse_file("memory_gb = lots | datasheet: x\n", "lots", NULL);
    refuse_file("memory_gb = -1 | datasheet: x\n", "-1", NULL);
    refuse_file("memory_gb = 80 | datasheet: x\nmemory_gb = 81 | datasheet: x\n", ":2:", "twice");
    refuse_file("memory_gib = 80 | datasheet: x\n", "memory_gib", "memory_gb");
    refuse_file("memory_gb = 80 | datasheet: x\n", "ranks_per_node", "missing");
    assert_int_equal(k3_machine_read("h900", &machine, &err), K3_ERR_USAGE);
    assert_says(&err, "h900", "h800", "mi355x");
    k3_error_clear(&err);
    assert_int_equal(k3_machine_read("../h800", &machine, &err), K3_ERR_IO);
}

static void test_a_written_file_reads_back(void **state)
{
    char              path[] = "/tmp/k3bench-machine.XXXXXX";
    FILE             *file = fdopen(mkstemp(path), "w");
    k3_machine_file_t a, b;
    k3_error_t        err = K3_ERROR_INIT;

    (void)state;
    assert_non_null(file);
    assert_int_equal(k3_machine_read("mi300x", &a, &err), K3_OK);
    k3_machine_print(&a, file);
    (void)fclose(file);
    assert_int_equal(k3_machine_read(path, &b, &err), K3_OK);
    (void)unlink(path);
    for (int f = 0; f < K3_FIG_COUNT; f++) {
        assert_int_equal(a.figure[f].known, b.figure[f].known);
        assert_true(a.figure[f].value == b.figure[f].value);
        assert_string_equal(a.figure[f].source, b.figure[f].source);
    }
}

/* A load of a quarter a core and less is none; a file that says nothing is not doubted. */
static void test_calibrated_beside_others(void **state)
{
    k3_machine_file_t m = {.name = "local"};
    char              text[300];

    (void)state;
    assert_false(k3_machine_busy(&m, text, sizeof(text)));
    k3_machine_set(&m, K3_FIG_CALIBRATION_LOAD, 0.25, K3_FROM_MEASURED, "test");
    assert_false(k3_machine_busy(&m, text, sizeof(text)));
    k3_machine_set(&m, K3_FIG_CALIBRATION_LOAD, 3.975, K3_FROM_MEASURED, "test");
    assert_true(k3_machine_busy(&m, text, sizeof(text)));
    assert_non_null(strstr(text, "machine local was calibrated at a load of 3.9"));
}

/* --- predictions ------------------------------------------------------------------------------- */

static k3_prediction_t predict(k3_cell_request_t q, const char *name)
{
    k3_cell_t         cell = cell_of(q);
    k3_error_t        err = K3_ERROR_INIT;
    k3_loads_t        loads;
    k3_machine_file_t machine;
    k3_prediction_t   prediction;

    assert_int_equal(k3_machine_read(name, &machine, &err), K3_OK);
    assert_int_equal(k3_loads_plan(&cell, &loads, &err), K3_OK);
    k3_predict(&cell, &loads, &machine, &prediction);
    k3_loads_free(&loads);
    k3_cell_destroy(&cell);
    return prediction;
}

/* Rows of 3696 bytes and 16 more, 16 of each of 128, 24 of 32 ranks on other nodes, over 50 GB/s. */
static void test_wire_of_a_dispatch_by_hand(void **state)
{
    k3_cell_request_t q = request_of("deepep:ll", "kimi-k3", 32);
    k3_prediction_t   p;
    double            rows = 128.0 * 16 * 24 / 32, us = rows * (3696 + 16) / 50e9 * 1e6;

    (void)state;
    q.tokens = 128;
    q.expected = true;
    p = predict(q, "h200");
    assert_int_equal(p.phase[K3_PREDICT_DISPATCH].limit_by, K3_TERM_NIC);
    assert_near(p.phase[K3_PREDICT_DISPATCH].limit_us, us, 0.02);
    assert_near(p.phase[K3_PREDICT_COMBINE].limit_us, rows * 7168 / 50e9 * 1e6, 0.02);
    assert_int_equal(p.phase[K3_PREDICT_DISPATCH].bound, K3_TERM_NIC);
    assert_true(p.phase[K3_PREDICT_DISPATCH].us > p.phase[K3_PREDICT_DISPATCH].limit_us);
    /* All 28 experts are hit: 28 * 17,547,264 bytes over 4.8 TB/s. */
    assert_near(p.phase[K3_PREDICT_EXPERTS].limit_us, 28 * 17547264.0 / 4.8e12 * 1e6, 0.001);
}

static void test_predictions_move_as_they_must(void **state)
{
    k3_cell_request_t q = request_of("deepep:ll", "kimi-k3", 32);
    double            before, more, ranks;

    (void)state;
    q.tokens = 64;
    q.expected = true;
    before = predict(q, "h200").phase[K3_PREDICT_PAIR].us;
    q.tokens = 128;
    more = predict(q, "h200").phase[K3_PREDICT_PAIR].us;
    assert_true(more > before && more < 2 * before);
    assert_true(predict(q, "b300").phase[K3_PREDICT_PAIR].us < more);
    q.tp = 64;
    ranks = predict(q, "h200").phase[K3_PREDICT_PAIR].us;
    assert_true(ranks > more);
    q.p2p = false;
    assert_true(predict(q, "h200").phase[K3_PREDICT_PAIR].us > ranks);
}

/* A machine whose ranks share two cores: rows cost 1 us and nothing for their bytes. */
static k3_machine_file_t shared_cores(void)
{
    k3_machine_file_t m = {.name = "shared"};

    k3_machine_set(&m, K3_FIG_CORES_PER_NODE, 2, K3_FROM_DECIDED, "test");
    k3_machine_set(&m, K3_FIG_SCALEUP_GBPS, 10, K3_FROM_DECIDED, "test");
    k3_machine_set(&m, K3_FIG_NIC_GBPS, 0.025, K3_FROM_DECIDED, "test");
    k3_machine_set(&m, K3_FIG_SWITCH_US, 2, K3_FROM_DECIDED, "test");
    k3_machine_set(&m, K3_FIG_SCALEUP_LATENCY_US, 1, K3_FROM_DECIDED, "test");
    k3_machine_set(&m, K3_FIG_NETWORK_LATENCY_US, 50, K3_FROM_DECIDED, "test");
    k3_machine_set(&m, K3_FIG_FINISH_US, 300, K3_FROM_DECIDED, "test");
    k3_machine_set(&m, K3_FIG_LAUNCH_US, 0, K3_FROM_DECIDED, "test");
    k3_machine_set(&m, K3_FIG_STORE_SIGNAL_US, 0.01, K3_FROM_DECIDED, "test");
    for (int work = 0; work < K3_WORK_COUNT; work++) {
        for (int i = 0; i < K3_WORK_SPREADS; i++) {
            k3_machine_set(&m, K3_FIG_WORK_US(work, i), 1, K3_FROM_DECIDED, "test");
        }
        for (int i = 0; i < K3_WORK_SIZES; i++) {
            k3_machine_set(&m, K3_FIG_WORK_GBPS(work, i), 1e6, K3_FROM_DECIDED, "test");
        }
    }
    return m;
}

static k3_prediction_t predict_shared(k3_cell_request_t q)
{
    k3_cell_t         cell = cell_of(q);
    k3_error_t        err = K3_ERROR_INIT;
    k3_loads_t        loads;
    k3_machine_file_t machine = shared_cores();
    k3_prediction_t   p;

    assert_int_equal(k3_loads_plan(&cell, &loads, &err), K3_OK);
    k3_predict(&cell, &loads, &machine, &p);
    k3_loads_free(&loads);
    k3_cell_destroy(&cell);
    return p;
}

/* 8 ranks on 2 cores: 16 rows encoded and 256 stored by each, four times over; 896 signals; a signal's way;
 * two turns for each of four ranks. */
static void test_ranks_that_share_cores_by_hand(void **state)
{
    k3_prediction_t p = predict_shared(request_of("deepep:ll", "kimi-k3", 8));
    double          work = 4 * (16 + 256 + 896 * 0.01), waits = 1 + 2 * 4 * 2;

    (void)state;
    assert_near(p.phase[K3_PREDICT_DISPATCH].us, work + waits, 0.01);
    work = 4 * (256 + 256 + 896 * 0.01);
    assert_near(p.phase[K3_PREDICT_COMBINE].us, work + waits, 0.01);
}

/* Two nodes of one rank each: the wire goes on while the cores work, and the phase ends with flush and barrier. */
static void test_a_slow_link_between_nodes_by_hand(void **state)
{
    k3_cell_request_t q = request_of("mooncake", "kimi-k3", 2);
    k3_prediction_t   p;
    double            wire = 128 * (3696 + 16) / 0.025e3;

    (void)state;
    q.ranks_per_node = 1;
    p = predict_shared(q);
    assert_int_equal(p.phase[K3_PREDICT_DISPATCH].bound, K3_TERM_NIC);
    assert_near(p.phase[K3_PREDICT_DISPATCH].us, wire + 50 + 300, 0.05);
}

/* Weights of 4 bits are turned again for each 64 rows of an expert where the machine multiplies none. */
static void test_unpacking_of_weights(void **state)
{
    k3_cell_request_t q = request_of("none", "kimi-k3", 8);
    k3_prediction_t   few, many;

    (void)state;
    q.tp = 8;
    q.ep = 8;
    q.runner = "marlin";
    q.component = "experts";
    q.expected = true;
    q.tokens = 128;
    few = predict(q, "h200");
    q.tokens = 1024;
    many = predict(q, "h200");
    assert_true(few.phase[K3_PREDICT_EXPERTS].term[K3_TERM_UNPACK] > 0);
    assert_near(many.phase[K3_PREDICT_EXPERTS].term[K3_TERM_UNPACK],
                3 * few.phase[K3_PREDICT_EXPERTS].term[K3_TERM_UNPACK], 0.01);
    assert_true(predict(q, "b300").phase[K3_PREDICT_EXPERTS].term[K3_TERM_UNPACK] == 0);
}

static void test_a_fused_region_is_no_sum(void **state)
{
    k3_cell_request_t q = request_of("megamoe", "deepseek-v4-flash", 8);
    k3_prediction_t   p;

    (void)state;
    q.tokens = 8192;
    q.expected = true;
    p = predict(q, "b200");
    assert_false(p.phase[K3_PREDICT_DISPATCH].known);
    assert_true(p.phase[K3_PREDICT_MOE].known);
    assert_true(p.phase[K3_PREDICT_MOE].us < p.phase[K3_PREDICT_MOE].term[K3_TERM_SCALEUP] +
                                                 p.phase[K3_PREDICT_MOE].term[K3_TERM_GEMM]);
}

/* --- simulation -------------------------------------------------------------------------------- */

static k3_simulation_t simulate(k3_cell_request_t q, const char *name)
{
    k3_cell_t         cell = cell_of(q);
    k3_error_t        err = K3_ERROR_INIT;
    k3_machine_file_t machine;
    k3_simulation_t   s;

    assert_int_equal(k3_machine_read(name, &machine, &err), K3_OK);
    if (k3_simulate(&cell, &machine, &s, &err) != K3_OK) {
        fail_msg("%s", err.text);
    }
    k3_cell_destroy(&cell);
    return s;
}

/* Every backend that dispatches, at EP 8 and 16; what lives in one node gets a node of 16. */
static void test_model_and_simulator_agree(void **state)
{
    unsigned tried = 0;

    (void)state;
    for (unsigned i = 0; i < 2 * k3_registry_count(); i++) {
        const k3_profile_t *profile = k3_registry_at(i / 2);
        k3_cell_request_t   q = request_of(profile->name, "kimi-k3", i % 2 == 0 ? 8 : 16);
        k3_error_t          err = K3_ERROR_INIT;
        k3_prediction_t     p;
        k3_simulation_t     s;
        k3_cell_t           cell;

        q.tokens = 128;
        q.ranks_per_node = profile->limits.one_node ? 16 : 8;
        if (profile->copy == K3_COPY_NONE || profile->copy == K3_COPY_REPLICATE ||
            k3_cell_create(&q, &cell, &err) != K3_OK) {
            continue;
        }
        k3_cell_destroy(&cell);
        p = predict(q, "h200");
        s = simulate(q, "h200");
        if (s.fused) {
            assert_near(s.moe.us, p.phase[K3_PREDICT_MOE].us, 0.10);
        } else {
            assert_near(s.dispatch.us, p.phase[K3_PREDICT_DISPATCH].us, 0.10);
            assert_near(s.combine.us, p.phase[K3_PREDICT_COMBINE].us, 0.10);
        }
        tried++;
    }
    assert_true(tried >= 30);
}

/* The same on a machine whose ranks share cores: one to four ranks a core, one node and two. */
static void test_model_and_simulator_agree_on_cores(void **state)
{
    unsigned tried = 0;

    (void)state;
    for (unsigned i = 0; i < 4 * k3_registry_count(); i++) {
        const k3_profile_t *profile = k3_registry_at(i / 4);
        k3_cell_request_t   q = request_of(profile->name, "kimi-k3", i % 2 == 0 ? 4 : 8);
        k3_machine_file_t   machine = shared_cores();
        k3_error_t          err = K3_ERROR_INIT;
        k3_prediction_t     p;
        k3_simulation_t     s;
        k3_cell_t           cell;

        q.tokens = 64;
        q.ranks_per_node = i % 4 < 2 ? (uint32_t)q.tp : (uint32_t)q.tp / 2;
        if (profile->copy == K3_COPY_NONE || profile->copy == K3_COPY_REPLICATE ||
            k3_cell_create(&q, &cell, &err) != K3_OK) {
            continue;
        }
        p = predict_shared(q);
        assert_int_equal(k3_simulate(&cell, &machine, &s, &err), K3_OK);
        k3_cell_destroy(&cell);
        if (s.fused) {
            assert_near(s.moe.us, p.phase[K3_PREDICT_MOE].us, 0.10);
        } else {
            assert_near(s.dispatch.us, p.phase[K3_PREDICT_DISPATCH].us, 0.10);
            assert_near(s.combine.us, p.phase[K3_PREDICT_COMBINE].us, 0.10);
        }
        tried++;
    }
    assert_true(tried >= 30);
}

/* Three ranks on two cores: one core has two of them, where the closed form gives each rank 2/3 of a core. */
static void test_simulator_shows_a_crowded_core(void **state)
{
    k3_cell_request_t q = request_of("deepep:ll", "kimi-k3:E=48", 3);
    k3_machine_file_t machine = shared_cores();
    k3_cell_t         cell = cell_of(q);
    k3_error_t        err = K3_ERROR_INIT;
    k3_simulation_t   s;

    (void)state;
    assert_int_equal(k3_simulate(&cell, &machine, &s, &err), K3_OK);
    assert_near(s.dispatch.us, predict_shared(q).phase[K3_PREDICT_DISPATCH].us * 4 / 3, 0.05);
    k3_cell_destroy(&cell);
}

static void test_simulator_shows_incast_and_skew(void **state)
{
    k3_cell_request_t q = request_of("deepep:ll", "kimi-k3", 32);
    k3_simulation_t   even, hot;

    (void)state;
    q.tokens = 128;
    even = simulate(q, "h200");
    q.routing = "hot-rank:3:0.5";
    hot = simulate(q, "h200");
    assert_int_equal(hot.dispatch.slowest_rank, 3);
    assert_true(hot.dispatch.queued_us > 10 * even.dispatch.queued_us);
    assert_true(hot.dispatch.us > 5 * hot.dispatch.mean_us);
}

static void test_simulator_refuses(void **state)
{
    k3_cell_request_t q = request_of("deepep:ll", "kimi-k3:E=1024", 1024);
    k3_cell_t         cell = cell_of(q);
    k3_machine_file_t machine;
    k3_simulation_t   s;
    k3_error_t        err = K3_ERROR_INIT;

    (void)state;
    assert_int_equal(k3_machine_read("h200", &machine, &err), K3_OK);
    assert_int_equal(k3_simulate(&cell, &machine, &s, &err), K3_ERR_UNSUPPORTED);
    assert_says(&err, "1024", "512", NULL);
    k3_cell_destroy(&cell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distinct_ranks_of_a_row),
        cmocka_unit_test(test_expected_work_is_near_the_exact),
        cmocka_unit_test(test_loads_add_up_to_the_plan),
        cmocka_unit_test(test_every_machine_file_is_whole),
        cmocka_unit_test(test_bad_machine_files),
        cmocka_unit_test(test_a_written_file_reads_back),
        cmocka_unit_test(test_calibrated_beside_others),
        cmocka_unit_test(test_wire_of_a_dispatch_by_hand),
        cmocka_unit_test(test_predictions_move_as_they_must),
        cmocka_unit_test(test_ranks_that_share_cores_by_hand),
        cmocka_unit_test(test_a_slow_link_between_nodes_by_hand),
        cmocka_unit_test(test_unpacking_of_weights),
        cmocka_unit_test(test_a_fused_region_is_no_sum),
        cmocka_unit_test(test_model_and_simulator_agree),
        cmocka_unit_test(test_model_and_simulator_agree_on_cores),
        cmocka_unit_test(test_simulator_shows_a_crowded_core),
        cmocka_unit_test(test_simulator_shows_incast_and_skew),
        cmocka_unit_test(test_simulator_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
