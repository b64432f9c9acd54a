#include <math.h>

#include "tests/unit/report/report_test.h"

#include "bench/region/collect.h"

/* A cell of two ranks on two nodes and a measurement made by hand. */
typedef struct fixture {
    k3_cell_t        cell;
    k3_work_t        work;
    k3_memory_t      memory;
    k3_measurement_t m;
} fixture_t;

static char   transport[] = "posix/memory";
static double samples[8], warm[3] = {90.0, 20.0, 14.0};

static fixture_t fixture_of(const char *backend)
{
    k3_cell_request_t request = request_of(backend, "tiny", 2);
    k3_error_t        err = K3_ERROR_INIT;
    fixture_t         f = {0};

    request.nodes_as = 2;
    f.cell = cell_of(request);
    assert_int_equal(k3_work_plan(&f.cell, &f.work, &err), K3_OK);
    k3_memory_plan(&f.cell, 0, &f.memory);
    f.m.iterations = 8;
    f.m.headline = K3_PHASE_REGION;
    f.m.warmup = (k3_warmup_t){3, warm, true};
    f.m.checked = true;
    f.m.matches_plan = true;
    f.m.check.rows_checked = 64;
    return f;
}

static void add_phase(fixture_t *f, k3_phase_t phase, double first, double step)
{
    double scratch[8];

    for (int i = 0; i < 8; i++) {
        samples[i] = first + step * i;
    }
    f->m.phase[phase].present = true;
    f->m.phase[phase].samples = samples;
    f->m.phase[phase].slowest_rank = 1;
    f->m.phase[phase].max_iteration = 8;
    f->m.phase[phase].max_rank = 2;
    k3_summarize(samples, 8, scratch, &f->m.phase[phase].summary);
}

static json_t *measured_of(fixture_t *f)
{
    json_t              *json = k3_record_plan(&f->cell, &f->work, &f->memory);
    k3_measure_options_t options = {.check = K3_CHECK_ENDS, .accounting = true};

    k3_record_measured(json, &f->cell, &f->work, &f->m, &options);
    k3_record_status(json, "ok", NULL);
    k3_cell_destroy(&f->cell);
    return json;
}

static const json_t *named(const json_t *array, const char *name, const char *basis)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *entry = json_array_get(array, i);

        if (strcmp(text_at(entry, "name"), name) == 0 &&
            (basis == NULL || strcmp(text_at(entry, "basis"), basis) == 0)) {
            return entry;
        }
    }
    fail_msg("no %s", name);
    return NULL;
}

static void test_S02_phases(void **state)
{
    fixture_t     f = fixture_of("mooncake");
    json_t       *cell;
    const json_t *phase;

    (void)state;
    add_phase(&f, K3_PHASE_DISPATCH, 10.0, 1.0);
    cell = measured_of(&f);
    assert_int_equal(json_array_size(at(cell, "phases")), 1); /* absent, not zero */
    assert_null(at(cell, "phases_reason"));
    phase = named(at(cell, "phases"), "dispatch", NULL);
    assert_true(json_number_value(at(phase, "median")) == 13.5);
    assert_true(json_number_value(at(phase, "min")) == 10.0);
    assert_true(json_number_value(at(phase, "max")) == 17.0);
    assert_int_equal(int_at(phase, "n"), 8);
    assert_int_equal(int_at(phase, "slowest_rank"), 1);
    assert_int_equal(int_at(phase, "max_iteration"), 8);
    assert_int_equal(int_at(phase, "max_rank"), 2);
    assert_string_equal(text_at(phase, "unit"), "us");
    assert_true(strlen(text_at(phase, "reduction")) > 0);
    assert_true(json_is_true(at(phase, "p99_is_max")));
    assert_int_equal(json_array_size(at(phase, "ci95")), 2);
    assert_int_equal(json_array_size(at(phase, "samples")), 8);
    assert_nulls_have_reasons(at(cell, "phases"), "phases");
    json_decref(cell);
}

/* Samples are kept for totals, not for parts; S15: no interval below six samples. */
static void test_S15_few_samples(void **state)
{
    fixture_t     f = fixture_of("mooncake");
    double        scratch[8];
    json_t       *cell;
    const json_t *phase;

    (void)state;
    add_phase(&f, K3_PHASE_ROUTER, 1.0, 0.0);
    k3_summarize(samples, 3, scratch, &f.m.phase[K3_PHASE_ROUTER].summary);
    f.m.iterations = 3;
    cell = measured_of(&f);
    phase = named(at(cell, "phases"), "router", NULL);
    assert_true(json_is_null(at(phase, "ci95")));
    assert_true(json_is_string(at(phase, "ci95_reason")));
    assert_null(at(phase, "samples"));
    json_decref(cell);
}

/* U13: nothing sampled is null, not 0. */
static void test_U13_no_samples(void **state)
{
    fixture_t     f = fixture_of("mooncake");
    json_t       *cell;
    const json_t *phase;

    (void)state;
    f.m.iterations = 0;
    f.m.phase[K3_PHASE_DISPATCH].present = true;
    f.m.phase[K3_PHASE_DISPATCH].samples = samples;
    cell = measured_of(&f);
    phase = named(at(cell, "phases"), "dispatch", NULL);
    assert_false(json_is_number(at(phase, "median")));
    assert_false(json_is_number(at(phase, "max")));
    assert_false(json_is_number(at(named(at(cell, "rates"), "dispatch", "wire"), "GBps")));
    assert_nulls_have_reasons(at(cell, "rates"), "rates");
    assert_nulls_have_reasons(at(cell, "phases"), "phases");
    assert_string_equal(text_at(phase, "median_reason"), "no samples");
    assert_int_equal(int_at(phase, "n"), 0);
    json_decref(cell);
}

/* N08, N16: GB/s of 10^9, each with its basis. 32 rows, 128 pairs, rank 0 to 1 and back. */
static void test_N08_N16_rates(void **state)
{
    fixture_t     f = fixture_of("mooncake");
    json_t       *cell;
    const json_t *rates, *rate;
    k3_work_t     work = f.work;

    (void)state;
    add_phase(&f, K3_PHASE_DISPATCH, 10.0, 0.0);
    add_phase(&f, K3_PHASE_COMBINE, 20.0, 0.0);
    cell = measured_of(&f);
    rates = at(cell, "rates");
    assert_int_equal(json_array_size(rates), 6);
    rate = named(rates, "dispatch", "assignment"); /* 264 bytes a row of 256 in fp8 */
    assert_int_equal(int_at(rate, "bytes"), 128 * 264);
    /* `samples` is shared: the last phase's. The medians are of their own. */
    assert_float_equal(json_number_value(at(rate, "GBps")), 128 * 264 / 10.0 / 1e3, 1e-6);
    rate = named(rates, "dispatch", "deduplicated");
    assert_int_equal(int_at(rate, "bytes"), work.dedup_rows * 264);
    rate = named(rates, "dispatch", "wire");
    assert_int_equal(int_at(rate, "bytes"), work.sum[K3_TRAFFIC_DISPATCH].wire_remote);
    rate = named(rates, "combine", "assignment");
    assert_int_equal(int_at(rate, "bytes"), 128 * 512);
    assert_float_equal(json_number_value(at(rate, "GBps")), 128 * 512 / 20.0 / 1e3, 1e-6);
    json_decref(cell);
}

/* U10: one rank moves nothing on the wire: null with a reason. */
static void test_U10_one_rank(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 1);
    k3_error_t        err = K3_ERROR_INIT;
    fixture_t         f = fixture_of("mooncake");
    json_t           *cell;
    const json_t     *rate;

    (void)state;
    k3_cell_destroy(&f.cell);
    f.cell = cell_of(request);
    assert_int_equal(k3_work_plan(&f.cell, &f.work, &err), K3_OK);
    add_phase(&f, K3_PHASE_DISPATCH, 10.0, 0.0);
    cell = measured_of(&f);
    rate = named(at(cell, "rates"), "dispatch", "wire");
    assert_true(json_is_null(at(rate, "GBps")));
    assert_true(json_is_string(at(rate, "GBps_reason")));
    json_decref(cell);
}

/* U14: off is "not checked", never "ok". */
static void test_U14_check_states(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        static const char *const want[] = {"ok", "wrong", "not checked"};
        fixture_t                f = fixture_of("mooncake");
        json_t                  *cell;

        f.m.checked = i < 2;
        f.m.check.wrong = i == 1;
        f.m.check.first_row = 17;
        snprintf(f.m.check.diagnosis, sizeof(f.m.check.diagnosis), "rows exchanged");
        cell = measured_of(&f);
        assert_string_equal(text_at(cell, "check.state"), want[i]);
        assert_null(at(cell, "check_reason"));
        if (i == 1) {
            assert_int_equal(int_at(cell, "check.first_wrong.row"), 17);
            assert_string_equal(text_at(cell, "check.first_wrong.diagnosis"), "rows exchanged");
        } else {
            assert_true(json_is_null(at(cell, "check.first_wrong")));
        }
        if (i == 2) {
            assert_true(json_is_null(at(cell, "check.max_rel_err")));
            assert_int_equal(json_object_size(at(cell, "check.stages")), 0);
        } else {
            assert_int_equal(int_at(cell, "check.rows_checked"), 64);
        }
        json_decref(cell);
    }
}

static void test_unchecked_error_has_a_reason(void **state)
{
    fixture_t f = fixture_of("mooncake");
    json_t   *cell;

    (void)state;
    f.m.checked = false;
    cell = measured_of(&f);
    assert_true(json_is_string(at(cell, "check.max_rel_err_reason")));
    json_decref(cell);
}

static void add_lanes(fixture_t *f, k3_lane_row_t *lanes, uint64_t n)
{
    f->m.has_lanes = true;
    f->m.accounted = true;
    f->m.lanes = lanes;
    f->m.lane_count = n;
    f->m.transport = transport;
    snprintf(f->m.order, sizeof(f->m.order), "fence");
}

static void test_lanes(void **state)
{
    k3_lane_row_t lanes[] = {{.phase = K3_TRAFFIC_DISPATCH,
                              .src = 0,
                              .dst = 1,
                              .qp = 3,
                              .kind = K3_LANE_QP,
                              .messages = 5,
                              .signals = 2,
                              .doorbells = 7,
                              .payload = 50,
                              .wire = 60,
                              .last_done_us = 4.5,
                              .p99_us = 2.0},
                             {.phase = K3_TRAFFIC_COMBINE, .src = 1, .dst = 0, .signals = 2}};
    fixture_t     f = fixture_of("mooncake");
    json_t       *cell, *row;

    (void)state;
    add_lanes(&f, lanes, 2);
    cell = measured_of(&f);
    assert_int_equal(json_array_size(at(cell, "qps.columns")), 16);
    assert_int_equal(json_array_size(at(cell, "qps.rows")), 2);
    row = json_array_get(at(cell, "qps.rows"), 0);
    assert_int_equal(json_array_size(row), 16);
    assert_string_equal(json_string_value(json_array_get(row, 0)), "dispatch");
    assert_int_equal(json_integer_value(json_array_get(row, 3)), 3);
    assert_int_equal(json_integer_value(json_array_get(row, 7)), 7);
    assert_int_equal(json_integer_value(json_array_get(row, 9)), 60);
    assert_true(json_number_value(json_array_get(row, 11)) == 4.5);
    /* No message of the second lane was timed. */
    row = json_array_get(at(cell, "qps.rows"), 1);
    assert_true(json_is_null(json_array_get(row, 13)));
    assert_true(json_is_null(json_array_get(row, 15)));
    assert_true(json_is_true(at(cell, "qps.matches_plan")));
    assert_null(at(cell, "qps_reason"));
    json_decref(cell);
}

/* Above 16384 lanes: sums of each (phase, source) and the slowest ones; nothing is lost. */
static void test_many_lanes(void **state)
{
    enum { RANKS = 64, QPS = 300, LANES = RANKS * QPS };
    static k3_lane_row_t lanes[LANES];
    fixture_t            f = fixture_of("mooncake");
    json_t              *cell, *sums;
    json_int_t           messages = 0, doorbells = 0;
    double               last = 1e9;

    (void)state;
    for (int i = 0; i < LANES; i++) {
        lanes[i] = (k3_lane_row_t){.phase = K3_TRAFFIC_DISPATCH,
                                   .src = i / QPS,
                                   .dst = 0,
                                   .qp = i % QPS,
                                   .messages = 2,
                                   .doorbells = 3,
                                   .last_done_us = (double)(i * 7919 % LANES)};
    }
    add_lanes(&f, lanes, LANES);
    cell = measured_of(&f);
    assert_int_equal(int_at(cell, "qps.lanes_total"), LANES);
    assert_int_equal(int_at(cell, "qps.lanes_kept"), K3_LANES_SLOWEST);
    assert_int_equal(json_array_size(at(cell, "qps.rows")), K3_LANES_SLOWEST);
    sums = at(cell, "qps.rank_sums");
    assert_int_equal(json_array_size(sums), RANKS);
    for (size_t i = 0; i < json_array_size(sums); i++) {
        messages += json_integer_value(json_array_get(json_array_get(sums, i), 2));
        doorbells += json_integer_value(json_array_get(json_array_get(sums, i), 4));
        assert_int_equal(json_array_size(json_array_get(sums, i)),
                         json_array_size(at(cell, "qps.rank_columns")));
    }
    assert_int_equal(messages, 2 * LANES);
    assert_int_equal(doorbells, 3 * LANES);
    for (size_t i = 0; i < K3_LANES_SLOWEST; i++) {
        const json_t *row = json_array_get(at(cell, "qps.rows"), i);
        double        done = json_number_value(json_array_get(row, 11));

        assert_true(done <= last);
        last = done;
    }
    assert_true(last == LANES - K3_LANES_SLOWEST);
    json_decref(cell);
}

static void test_no_lanes_no_waits(void **state)
{
    fixture_t f = fixture_of("mpi");
    json_t   *cell = measured_of(&f);

    (void)state;
    assert_true(json_is_null(at(cell, "qps")));
    assert_true(json_is_string(at(cell, "qps_reason")));
    assert_true(json_is_null(at(cell, "waits")));
    assert_true(json_is_string(at(cell, "waits_reason")));
    json_decref(cell);
}

/* 0.0 in all of 100 iterations is no measurement: null with a reason; a single other value makes it one. */
static void test_U12_overlap_of_nothing(void **state)
{
    enum { N = 100 };
    static k3_overlap_us_t all[N];
    static double          values[2 * N];
    fixture_t              f = fixture_of("mooncake");
    json_t                *cell;

    (void)state;
    for (int i = 0; i < N; i++) {
        all[i] = (k3_overlap_us_t){10.0, 40.0, 8.0, 58.0};
    }
    all[N / 2].span = 57.0;
    k3_overlap_summarize(all, N, values, &f.m.overlap);
    assert_false(f.m.overlap.nothing);
    all[N / 2].span = 58.0;
    k3_overlap_summarize(all, N, values, &f.m.overlap);
    assert_true(f.m.overlap.nothing && f.m.overlap.hidden == 0.0);
    cell = measured_of(&f);
    assert_true(json_is_null(at(cell, "overlap")));
    assert_true(strstr(text_at(cell, "overlap_reason"), "every iteration") != NULL);
    json_decref(cell);
}

/* What a fused call hides; engines that overlap nothing say so. */
static void test_overlap(void **state)
{
    fixture_t f = fixture_of("mooncake"), g = fixture_of("mooncake");
    json_t   *cell;

    (void)state;
    f.m.overlap = (k3_overlap_result_t){true, false, {10.0, 40.0, 7.5, 50.0}, 7.25};
    cell = measured_of(&f);
    assert_true(json_number_value(at(cell, "overlap.dispatch_us")) == 10.0);
    assert_true(json_number_value(at(cell, "overlap.expert_us")) == 40.0);
    assert_true(json_number_value(at(cell, "overlap.combine_us")) == 7.5);
    assert_true(json_number_value(at(cell, "overlap.span_us")) == 50.0);
    assert_true(json_number_value(at(cell, "overlap.hidden_us")) == 7.25);
    assert_true(json_is_string(at(cell, "overlap.basis")));
    assert_null(at(cell, "overlap_reason"));
    json_decref(cell);
    cell = measured_of(&g);
    assert_true(json_is_null(at(cell, "overlap")));
    assert_true(json_is_string(at(cell, "overlap_reason")));
    json_decref(cell);
}

static void test_F11_waits(void **state)
{
    k3_wait_row_t waits[] = {{.phase = K3_TRAFFIC_DISPATCH,
                              .dst = 1,
                              .src = 0,
                              .wait = {.sum_us = 30.0, .max_us = 20.0, .count = 8}}};
    fixture_t     f = fixture_of("mooncake");
    json_t       *cell, *row;

    (void)state;
    f.m.waits = waits;
    f.m.wait_count = 1;
    cell = measured_of(&f);
    assert_int_equal(json_array_size(at(cell, "waits.columns")), 6);
    row = json_array_get(at(cell, "waits.rows"), 0);
    assert_int_equal(json_array_size(row), 6);
    assert_int_equal(json_integer_value(json_array_get(row, 1)), 1);
    assert_int_equal(json_integer_value(json_array_get(row, 2)), 0);
    assert_true(json_number_value(json_array_get(row, 3)) == 30.0);
    assert_int_equal(json_integer_value(json_array_get(row, 5)), 8);
    json_decref(cell);
}

/* U02: values that are no numbers and texts with quotes and breaks still give a document. */
static void test_U02_strict_json(void **state)
{
    k3_lane_row_t lanes[] = {{.phase = K3_TRAFFIC_DISPATCH, .messages = 1, .p99_us = 0.0}};
    fixture_t     f = fixture_of("mooncake");
    json_t       *cell, *again;
    char         *text;

    (void)state;
    f.m.check.wrong = true;
    f.m.check.first_want = -INFINITY;
    lanes[0].p50_us = NAN;
    add_lanes(&f, lanes, 1);
    f.m.matches_plan = false;
    snprintf(f.m.mismatch.text, sizeof(f.m.mismatch.text), "quote \" and \\");
    snprintf(f.m.check.diagnosis, sizeof(f.m.check.diagnosis), "line\nbreak");
    cell = measured_of(&f);
    text = json_dumps(cell, JSON_INDENT(1));
    assert_non_null(text);
    again = parse_json(text);
    assert_true(json_is_null(at(again, "check.first_wrong.want")));
    assert_true(json_is_string(at(again, "qps.mismatch")));
    free(text);
    json_decref(again);
    json_decref(cell);
}

/* A value that is no number is null with a reason, here of the check. */
static void test_errors_that_are_not_finite(void **state)
{
    fixture_t f = fixture_of("mooncake");
    json_t   *cell;

    (void)state;
    f.m.check.wrong = true;
    f.m.check.max_rel_err = INFINITY;
    f.m.check.max_error[0] = NAN;
    f.m.check.first_got = NAN;
    cell = measured_of(&f);
    assert_true(json_is_null(at(cell, "check.max_rel_err")));
    assert_nulls_have_reasons(at(cell, "check"), "check");
    json_decref(cell);
}

/* How it was sampled; what could not be had is null with its reason. */
static void test_sampling(void **state)
{
    uint32_t  late[] = {2, 5};
    fixture_t f = fixture_of("mooncake");
    json_t   *cell;

    (void)state;
    add_phase(&f, K3_PHASE_REGION, 10.0, 1.0);
    f.m.has_lanes = true;
    cell = measured_of(&f);
    assert_int_equal(int_at(cell, "warmup.n"), 3);
    assert_true(json_number_value(at(cell, "warmup.first_call_us")) == 90.0);
    assert_string_equal(text_at(cell, "warmup.ended"), "steady");
    assert_string_equal(text_at(cell, "sync.method"), "barrier");
    assert_true(json_is_null(at(cell, "sync.late")));
    assert_true(json_is_null(at(cell, "trend")));
    assert_true(json_is_null(at(cell, "instrument")));
    assert_true(strlen(text_at(cell, "trend_reason")) > 0);
    assert_true(strlen(text_at(cell, "instrument_reason")) > 0);
    assert_nulls_have_reasons(at(cell, "sync"), "sync");
    assert_nulls_have_reasons(at(cell, "phases"), "phases");
    json_decref(cell);

    f = fixture_of("mooncake");
    add_phase(&f, K3_PHASE_REGION, 10.0, 1.0);
    f.m.phase[K3_PHASE_REGION].span.valid = true;
    f.m.phase[K3_PHASE_REGION].span.summary = f.m.phase[K3_PHASE_REGION].summary;
    f.m.starts = (k3_starts_t){.common = true,
                               .late_at = late,
                               .late = 2,
                               .late_max_us = 7.5,
                               .slack_us = 100.0,
                               .compared = true,
                               .clock = {.error = 0.5}};
    f.m.trend = (k3_trend_t){true, 0.1, 0.12, 0.001};
    f.m.instrument = (k3_instrument_t){.on = 8, .off = 2, .valid = true, .pct = 1.5};
    cell = measured_of(&f);
    assert_string_equal(text_at(cell, "sync.method"), "round");
    assert_int_equal(int_at(cell, "sync.late"), 2);
    assert_int_equal(json_array_size(at(cell, "sync.late_iterations")), 2);
    assert_true(json_number_value(at(cell, "sync.clock.error_us")) == 0.5);
    assert_true(json_is_false(at(cell, "trend.stationary")));
    assert_int_equal(int_at(cell, "instrument.n_off"), 2);
    assert_true(json_is_null(at(cell, "instrument.ci95_pct"))); /* too few */
    assert_true(json_number_value(at(named(at(cell, "phases"), "region", NULL), "span.median")) ==
                13.5);
    json_decref(cell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_S02_phases),
        cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_S15_few_samples),
        cmocka_unit_test(test_U13_no_samples),
        cmocka_unit_test(test_N08_N16_rates),
        cmocka_unit_test(test_U10_one_rank),
        cmocka_unit_test(test_U14_check_states),
        cmocka_unit_test(test_unchecked_error_has_a_reason),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_many_lanes),
        cmocka_unit_test(test_no_lanes_no_waits),
        cmocka_unit_test(test_F11_waits),
        cmocka_unit_test(test_U12_overlap_of_nothing),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_U02_strict_json),
        cmocka_unit_test(test_errors_that_are_not_finite),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
