#include <unistd.h>

#include "tests/unit/report/report_test.h"

#include "bench/cell/npy.h"

/* --- planned cells --------------------------------------------------------------------------- */

static void test_required_members(void **state)
{
    static const char *const members[] = {
        "key",
        "backend",
        "mode",
        "generation",
        "model.name",
        "model.latent",
        "component",
        "layout.tp",
        "layout.dp",
        "layout.cp",
        "layout.ep",
        "layout.attn_tp",
        "layout.moe_tp",
        "layout.nodes",
        "path.rule",
        "path.fast",
        "path.sp_moe",
        "status",
        "reason",
        "work.rows_global",
        "work.rows_dispatched",
        "work.dispatch_ratio",
        "work.assignments",
        "work.routing_hash",
        "work.imbalance.expert",
        "work.imbalance.rank",
        "work.imbalance.qp",
        "check",
        "phases",
        "rates",
        "overlap",
        "qps",
        "waits",
        "memory.buffers_bytes",
        "memory.expert_weights_bytes",
        "memory.shared_expert_bytes",
    };

    (void)state;
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        if (k3_profile_available(k3_registry_at(i))) {
            json_t *cell = planned_of(request_of(k3_registry_at(i)->name, "tiny", 8));

            for (unsigned m = 0; m < sizeof(members) / sizeof(members[0]); m++) {
                if (at(cell, members[m]) == NULL) {
                    fail_msg("%s lacks %s", k3_registry_at(i)->name, members[m]);
                }
            }
            assert_nulls_have_reasons(cell, k3_registry_at(i)->name);
            assert_string_equal(text_at(cell, "status"), "planned");
            json_decref(cell);
        }
    }
}

static void test_L01_numbers(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "kimi-k3", 32);
    json_t           *cell;

    (void)state;
    request.dp = 4;
    request.tokens = 4;
    cell = planned_of(request);
    assert_int_equal(int_at(cell, "work.rows_global"), 128);
    assert_int_equal(int_at(cell, "work.rows_dispatched"), 128);
    assert_int_equal(int_at(cell, "work.assignments"), 2048);
    assert_true(json_number_value(at(cell, "work.dispatch_ratio")) == 1.0);
    assert_int_equal(int_at(cell, "layout.attn_tp"), 8);
    assert_true(json_is_true(at(cell, "path.fast")));
    json_decref(cell);
    request.path_rule = "before-36862";
    cell = planned_of(request);
    assert_int_equal(int_at(cell, "work.rows_dispatched"), 4096);
    assert_int_equal(int_at(cell, "work.assignments"), 65536);
    assert_true(json_number_value(at(cell, "work.dispatch_ratio")) == 32.0);
    assert_string_equal(text_at(cell, "path.rule"), "before-36862");
    assert_true(json_is_false(at(cell, "path.fast")));
    json_decref(cell);
}

static void test_L09_L10_bytes(void **state)
{
    static const struct {
        uint64_t tp, experts;
    } rows[] = {{8, 112}, {16, 56}, {32, 28}};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        k3_cell_request_t request = request_of("deepep:ll", "kimi-k3", rows[i].tp);
        json_t           *cell;
        json_int_t        n = (json_int_t)rows[i].tp * 16 * 16;

        request.dispatch_dtype = "bf16";
        cell = planned_of(request);
        assert_int_equal(int_at(cell, "memory.expert_weights_bytes"), rows[i].experts * 17547264);
        assert_int_equal(int_at(cell, "memory.shared_expert_bytes"), 264241152);
        assert_int_equal(int_at(cell, "traffic.dispatch.bytes_payload"), n * 7168);
        assert_int_equal(int_at(cell, "traffic.dispatch.bytes_wire"),
                         n * 7184 + (json_int_t)rows[i].tp * 896 * 4);
        json_decref(cell);
        request.dispatch_dtype = "fp8";
        cell = planned_of(request);
        assert_int_equal(int_at(cell, "traffic.dispatch.bytes_payload"), n * 3696);
        assert_int_equal(int_at(cell, "traffic.combine.bytes_payload"), n * 7168);
        json_decref(cell);
    }
}

static void test_memory_adds_up(void **state)
{
    json_t *cell = planned_of(request_of("mooncake", "kimi-k3", 8));

    (void)state;
    assert_int_equal(int_at(cell, "memory.total_bytes"),
                     int_at(cell, "memory.buffers_bytes") +
                         int_at(cell, "memory.expert_weights_bytes") +
                         int_at(cell, "memory.shared_expert_bytes") +
                         int_at(cell, "memory.dense_weights_bytes"));
    assert_true(int_at(cell, "memory.block_bytes") <= int_at(cell, "memory.buffers_bytes"));
    json_decref(cell);
}

/* C04: what no 64 bits hold is null with a reason or not written, never a negative number. */
static void test_C04_no_negative_bytes(void **state)
{
    k3_cell_t   cell = cell_of(request_of("mooncake", "kimi-k3", 8));
    k3_error_t  err = K3_ERROR_INIT;
    k3_work_t   work;
    k3_memory_t memory;
    json_t     *json, *value;
    const char *name;

    (void)state;
    assert_int_equal(k3_work_plan(&cell, &work, &err), K3_OK);
    cell.max_tokens = UINT64_C(1) << 50;
    k3_memory_plan(&cell, 0, &memory);
    json = k3_record_plan(&cell, &work, &memory);
    json_object_foreach(json_object_get(json, "memory"), name, value)
    {
        if (json_is_integer(value) && json_integer_value(value) < 0) {
            fail_msg("%s is %lld", name, (long long)json_integer_value(value));
        }
    }
    json_decref(json);
    k3_cell_destroy(&cell);
}

/* A seed that no signed 64 bits hold must not come out negative. */
static void test_seed_is_not_negative(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);
    json_t           *cell;

    (void)state;
    request.seed = UINT64_MAX;
    cell = planned_of(request);
    assert_false(json_is_integer(at(cell, "choices.seed")) && int_at(cell, "choices.seed") < 0);
    json_decref(cell);
}

static void test_U15_tokens(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);
    json_t           *cell;

    (void)state;
    request.skew = "16,8,16,1,16,16,2,16";
    cell = planned_of(request);
    assert_int_equal(int_at(cell, "tokens.min"), 1);
    assert_int_equal(int_at(cell, "tokens.max"), 16);
    assert_int_equal(int_at(cell, "tokens.total"), 91);
    assert_int_equal(int_at(cell, "tokens.bound"), 16);
    json_decref(cell);
}

static void test_none_has_no_dispatch(void **state)
{
    json_t *cell = planned_of(request_of("none", "tiny", 8));

    (void)state;
    assert_true(json_is_null(at(cell, "work.rows_dispatched")));
    assert_string_equal(text_at(cell, "work.rows_dispatched_reason"), "no dispatch");
    assert_true(json_is_null(at(cell, "work.assignments")));
    assert_string_equal(text_at(cell, "work.assignments_reason"), "no dispatch");
    assert_true(json_is_null(at(cell, "work.dispatch_ratio")));
    assert_true(json_is_null(at(cell, "work.imbalance.qp")));
    assert_int_equal(json_object_size(at(cell, "traffic")), 0);
    assert_true(json_is_object(at(cell, "traffic")));
    json_decref(cell);
}

/* U07: no posting rule is documented for our own baseline: null, not 0. */
static void test_U07_unknown_doorbells(void **state)
{
    json_t *cell = planned_of(request_of("mpi", "tiny", 8));

    (void)state;
    assert_true(json_is_null(at(cell, "traffic.dispatch.doorbells")));
    assert_true(json_is_string(at(cell, "traffic.dispatch.doorbells_reason")));
    assert_true(json_is_null(at(cell, "traffic.notify.doorbells")));
    json_decref(cell);
}

static void test_no_rows(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);
    json_t           *cell;

    (void)state;
    request.tokens = 0;
    cell = planned_of(request);
    assert_int_equal(int_at(cell, "work.rows_dispatched"), 0);
    assert_true(json_is_null(at(cell, "work.dispatch_ratio")));
    assert_true(json_is_string(at(cell, "work.dispatch_ratio_reason")));
    assert_int_equal(int_at(cell, "traffic.dispatch.messages"), 0);
    assert_int_equal(int_at(cell, "traffic.dispatch.signals"), 8 * 64);
    assert_nulls_have_reasons(cell, "cell");
    json_decref(cell);
}

static void test_U11_same_bytes_twice(void **state)
{
    static const char *const backends[] = {"mooncake", "deepep:ll", "none", "mpi", "null"};

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        json_t *a = planned_of(request_of(backends[i], "kimi-k3", 16));
        json_t *b = planned_of(request_of(backends[i], "kimi-k3", 16));
        char   *x = json_dumps(a, JSON_INDENT(1)), *y = json_dumps(b, JSON_INDENT(1));

        assert_non_null(x);
        assert_string_equal(x, y);
        free(x);
        free(y);
        json_decref(a);
        json_decref(b);
    }
}

/* File names are bytes: a trace whose name is no UTF-8, or whose key is cut inside a character. */
static void test_U02_names_that_are_no_utf8(void **state)
{
    static const char *const names[] = {
        "\xff",
        "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9_a_name_that_is_longer_than_what_the_key_takes_whole",
        "x\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9_a_name_that_is_longer_than_what_the_key_takes_whole"};
    static const int32_t ids[16] = {0};
    uint64_t             shape[2] = {16, 1};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        k3_error_t        err = K3_ERROR_INIT;
        k3_cell_request_t request = request_of("mooncake", "tiny:K=1", 8);
        char              trace[160];
        json_t           *cell;

        snprintf(trace, sizeof(trace), "trace:/tmp/%s.%ld.npy", names[i], (long)getpid());
        k3_npy_write(trace + 6, K3_NPY_I32, 2, shape, ids, &err);
        assert_int_equal(err.status, K3_OK);
        request.tokens = 2;
        request.routing = trace;
        cell = planned_of(request);
        unlink(trace + 6);
        assert_true(strlen(text_at(cell, "key")) > 0);
        assert_true(strlen(text_at(cell, "choices.routing")) > 0);
        json_decref(cell);
        request = refused_request(names[i], 8);
        request.component = names[i];
        cell = refused_of(request);
        assert_true(strlen(text_at(cell, "model.name")) > 0);
        assert_true(strlen(text_at(cell, "component")) > 0);
        assert_true(strlen(text_at(cell, "reason")) > 0);
        json_decref(cell);
    }
}

/* --- refused cells --------------------------------------------------------------------------- */

static void test_refused_says_why(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "kimi-k3", 8);
    json_t           *cell;

    (void)state;
    request.generation = "stock";
    cell = refused_of(request);
    assert_string_equal(text_at(cell, "status"), "unsupported");
    assert_non_null(strstr(text_at(cell, "reason"), "top-k 16"));
    assert_string_equal(text_at(cell, "backend"), "mooncake");
    assert_string_equal(text_at(cell, "mode"), "");
    assert_string_equal(text_at(cell, "model.name"), "kimi-k3");
    assert_string_equal(text_at(cell, "generation"), "stock");
    assert_int_equal(int_at(cell, "layout.tp"), 8);
    assert_int_equal(int_at(cell, "tokens.asked"), 16);
    json_decref(cell);
    cell = refused_of(request_of("deepep_v2:direct", "tiny:E=33", 8));
    assert_string_equal(text_at(cell, "backend"), "deepep_v2");
    assert_string_equal(text_at(cell, "mode"), "direct");
    json_decref(cell);
    cell = refused_of(request_of("no\"such", "tiny", 8));
    assert_string_equal(text_at(cell, "backend"), "no\"such");
    json_decref(cell);
}

/* What was left to its default is not known: null with a reason or the default, never 0. */
static void test_refused_unknown_sizes_are_not_zero(void **state)
{
    static const char *const sizes[] = {"layout.tp", "layout.dp", "layout.cp", "layout.ep"};
    k3_cell_request_t request = {.backend = "mori:v1", .combine_dtype = "mxfp4", .tokens = 16};
    json_t           *cell = refused_of(request);

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        json_t *value = at(cell, sizes[i]);

        if (json_is_integer(value) && json_integer_value(value) == 0) {
            fail_msg("%s is 0", sizes[i]);
        }
    }
    assert_nulls_have_reasons(cell, "refused");
    json_decref(cell);
}

/* U01: all that was asked for is in the row of a refused cell too. */
static void test_U01_refused_keeps_the_choices(void **state)
{
    static const char *const members[] = {
        "choices.routing", "choices.seed", "choices.fabric", "choices.p2p", "path.rule", "work",
        "memory",          "phases",       "check",          "qps",         "waits",     "rates"};
    json_t *cell = refused_of(refused_request("tiny", 8));

    (void)state;
    for (unsigned i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        if (at(cell, members[i]) == NULL) {
            fail_msg("a refused cell lacks %s", members[i]);
        }
    }
    json_decref(cell);
}

static void test_refused_has_all_independent_variables(void **state)
{
    k3_cell_request_t request = refused_request("tiny", 8);
    json_t           *cell;

    (void)state;
    request.skew = "ragged";
    request.routing = "zipf:1.2";
    request.seed = UINT64_MAX;
    request.qps = 3;
    request.max_tokens = 32;
    request.nodes_as = 2;
    request.path = "fast";
    request.runner = "triton";
    cell = refused_of(request);
    assert_string_equal(text_at(cell, "choices.tokens_skew"), "ragged");
    assert_string_equal(text_at(cell, "choices.routing"), "zipf:1.2");
    assert_string_equal(text_at(cell, "choices.seed"), "18446744073709551615");
    assert_string_equal(text_at(cell, "choices.recipe.runner"), "triton");
    assert_string_equal(text_at(cell, "choices.dispatch_dtype"), "auto");
    assert_int_equal(int_at(cell, "choices.qps_per_peer"), 3);
    assert_int_equal(int_at(cell, "tokens.bound"), 32);
    assert_int_equal(int_at(cell, "layout.nodes"), 2);
    assert_true(json_is_true(at(cell, "path.fast")));
    assert_string_equal(text_at(cell, "work_reason"), "refused");
    assert_string_equal(text_at(cell, "key_reason"), "refused");
    assert_nulls_have_reasons(cell, "refused");
    json_decref(cell);
}

/* The world is known before anything is resolved. */
static void test_refused_tp_is_the_world(void **state)
{
    k3_cell_request_t request = {
        .backend = "mori:v1", .combine_dtype = "mxfp4", .world = 4, .tokens = 16};
    json_t *cell = refused_of(request);

    (void)state;
    assert_int_equal(int_at(cell, "layout.tp"), 4);
    assert_true(json_is_null(at(cell, "layout.ep")));
    assert_non_null(strstr(text_at(cell, "layout.ep_reason"), "default"));
    json_decref(cell);
}

static void test_imbalance_without_work(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);
    json_t           *cell;

    (void)state;
    request.tokens = 0;
    cell = planned_of(request);
    assert_true(json_is_null(at(cell, "work.imbalance.expert")));
    assert_string_equal(text_at(cell, "work.imbalance.expert_reason"), "no rows");
    assert_string_equal(text_at(cell, "work.imbalance.rank_reason"), "no rows");
    json_decref(cell);
    cell = planned_of(request_of("none", "tiny", 8));
    assert_true(json_is_number(at(cell, "work.imbalance.expert")));
    assert_string_equal(text_at(cell, "work.imbalance.rank_reason"), "no dispatch");
    json_decref(cell);
}

static void test_what_moves_rows(void **state)
{
    static const struct {
        const char *backend;
        bool        moves;
    } rows[] = {{"mooncake", true}, {"none", true}, {"mpi", true}, {"null", false}};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        json_t *cell = planned_of(request_of(rows[i].backend, "tiny", 8));

        assert_int_equal(json_is_true(at(cell, "path.moves_rows")), rows[i].moves);
        assert_true(json_is_boolean(at(cell, "path.moves_rows")));
        json_decref(cell);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_required_members),
        cmocka_unit_test(test_L01_numbers),
        cmocka_unit_test(test_L09_L10_bytes),
        cmocka_unit_test(test_memory_adds_up),
        cmocka_unit_test(test_C04_no_negative_bytes),
        cmocka_unit_test(test_seed_is_not_negative),
        cmocka_unit_test(test_U15_tokens),
        cmocka_unit_test(test_none_has_no_dispatch),
        cmocka_unit_test(test_U07_unknown_doorbells),
        cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_U11_same_bytes_twice),
        cmocka_unit_test(test_U02_names_that_are_no_utf8),
        cmocka_unit_test(test_refused_says_why),
        cmocka_unit_test(test_refused_unknown_sizes_are_not_zero),
        cmocka_unit_test(test_U01_refused_keeps_the_choices),
        cmocka_unit_test(test_refused_has_all_independent_variables),
        cmocka_unit_test(test_refused_tp_is_the_world),
        cmocka_unit_test(test_imbalance_without_work),
        cmocka_unit_test(test_what_moves_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
