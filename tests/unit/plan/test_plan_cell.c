#include "tests/unit/plan/plan_test.h"

#include "harness/base/arith.h"

/* --- what a cell resolves to ----------------------------------------------------------------- */

static void test_defaults(void **state)
{
    k3_cell_request_t request = {.tokens = 16};
    k3_cell_t         cell = cell_of(request);

    (void)state;
    assert_string_equal(cell.model.name, "tiny");
    assert_string_equal(cell.profile->name, "none");
    assert_int_equal(cell.layout.tp, 8);
    assert_int_equal(cell.layout.ep, 1);
    assert_int_equal(cell.nodes, 1);
    assert_false(cell.virtual_nodes);
    assert_false(cell.path.fast);
    assert_int_equal(cell.component, K3_COMPONENT_REGION);
    assert_int_equal(cell.max_tokens, 16);
    k3_cell_destroy(&cell);
}

static void test_L01_path_of_the_rule(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "kimi-k3", 32);
    k3_cell_t         cell;

    (void)state;
    request.dp = 4;
    request.tokens = 4;
    cell = cell_of(request);
    assert_int_equal(cell.layout.attn_tp, 8);
    assert_int_equal(cell.layout.ep, 32);
    assert_true(cell.path.fast && cell.path.sp_moe);
    assert_false(cell.path.all_rows || cell.path.reduced_twice);
    assert_int_equal(cell.max_tokens, 4);
    k3_cell_destroy(&cell);

    request.path_rule = "before-36862";
    cell = cell_of(request);
    assert_false(cell.path.fast || cell.path.sp_moe || cell.path.reduced_twice);
    assert_true(cell.path.all_rows);
    assert_int_equal(cell.max_tokens, 128); /* a rank dispatches all rows */
    k3_cell_destroy(&cell);
}

/* L03: attn_tp 1 leaves nothing to scatter. */
static void test_L03_no_sp_moe_without_attn_tp(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);
    k3_cell_t         cell;

    (void)state;
    request.dp = 8;
    request.path = "fast";
    cell = cell_of(request);
    assert_true(cell.path.fast);
    assert_false(cell.path.sp_moe);
    k3_cell_destroy(&cell);
}

/* Expert e lives on rank e / (E / R). */
static void test_owner_of_an_expert(void **state)
{
    k3_cell_t cell = cell_of(request_of("mooncake", "kimi-k3", 32));

    (void)state;
    assert_int_equal(k3_cell_owner(&cell, 0), 0);
    assert_int_equal(k3_cell_owner(&cell, 27), 0);
    assert_int_equal(k3_cell_owner(&cell, 28), 1);
    assert_int_equal(k3_cell_owner(&cell, 895), 31);
    k3_cell_destroy(&cell);
}

static void test_auto_formats_and_runner(void **state)
{
    static const struct {
        const char *backend;
        k3_format_t dispatch;
        const char *runner;
    } rows[] = {{"mooncake", K3_FORMAT_FP8, "deep_gemm"},
                {"deepep:ll", K3_FORMAT_FP8, "deep_gemm"},
                {"none", K3_FORMAT_BF16, "marlin"},
                {"mpi", K3_FORMAT_BF16, "marlin"}};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        k3_cell_t cell = cell_of(request_of(rows[i].backend, "tiny", 8));

        assert_int_equal(cell.dispatch_format, rows[i].dispatch);
        assert_int_equal(cell.combine_format, K3_FORMAT_BF16);
        assert_string_equal(cell.runner->name, rows[i].runner);
        k3_cell_destroy(&cell);
    }
}

/* What each generation lifts. */
static void test_generation_by_model(void **state)
{
    k3_cell_t cell = cell_of(request_of("mooncake", "deepseek-v3", 8));

    (void)state;
    assert_int_equal(cell.generation, K3_GENERATION_STOCK);
    k3_cell_destroy(&cell);
    cell = cell_of(request_of("mooncake", "kimi-k3", 8));
    assert_int_equal(cell.generation, K3_GENERATION_K3);
    k3_cell_destroy(&cell);
}

/* --- nodes ----------------------------------------------------------------------------------- */

static void test_nodes(void **state)
{
    static const int  found[] = {0, 0, 1, 1, 1, 1, 2, 2};
    k3_cell_request_t request = request_of("mooncake", "kimi-k3", 32);
    k3_cell_t         cell = cell_of(request);

    (void)state;
    assert_int_equal(cell.nodes, 4); /* the plan's default is 8 ranks a node */
    assert_int_equal(cell.node_of[7], 0);
    assert_int_equal(cell.node_of[8], 1);
    k3_cell_destroy(&cell);
    request.nodes_as = 2;
    cell = cell_of(request);
    assert_int_equal(cell.nodes, 2);
    assert_int_equal(cell.node_of[15], 0);
    assert_int_equal(cell.node_of[16], 1);
    assert_true(cell.virtual_nodes);
    k3_cell_destroy(&cell);
    request = request_of("mooncake", "tiny", 0);
    request.world = 8;
    request.node_of = found;
    cell = cell_of(request);
    assert_int_equal(cell.nodes, 3);
    assert_int_equal(cell.node_of[6], 2);
    assert_true(k3_cell_mapped(&cell, 2, 5));
    assert_false(k3_cell_mapped(&cell, 1, 2));
    cell.p2p = false;
    assert_false(k3_cell_mapped(&cell, 2, 5));
    assert_true(k3_cell_mapped(&cell, 5, 5));
    k3_cell_destroy(&cell);
    request.nodes_as = 3;
    assert_cell_refused(request, K3_ERR_USAGE, "nodes-as 3", "8", NULL);
    request.nodes_as = 16;
    assert_cell_refused(request, K3_ERR_USAGE, "nodes-as 16", "8", NULL);
}

/* --- refusals -------------------------------------------------------------------------------- */

/* Complete combine reduced again: refused by its reason. */
static void test_L02_reduced_twice_is_refused(void **state)
{
    k3_cell_request_t request = request_of("deepep_v2:direct", "tiny", 8);

    (void)state;
    request.dp = 2;
    request.path_rule = "before-37516";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "deepep_v2:direct", "already complete",
                        "before-37516");
    request.path_rule = "unlisted";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "already complete", "unlisted", NULL);
    request.backend = "mooncake";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "mooncake", "already complete", NULL);
}

static void test_L02_reduced_twice_can_be_forced(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);
    k3_cell_t         cell;

    (void)state;
    request.dp = 2;
    request.path_rule = "unlisted";
    request.path = "fallback";
    cell = cell_of(request);
    assert_true(cell.path.reduced_twice && cell.path.reduce_latent && cell.path.all_rows);
    k3_cell_destroy(&cell);
    request.backend = "deepep_v2:direct";
    request.path_rule = "before-37516";
    cell = cell_of(request);
    assert_true(cell.path.reduced_twice && cell.path.all_rows);
    k3_cell_destroy(&cell);
}

/* In a list of cells this must be a row, so it is not a fault of usage. Every spanning backend. */
static void test_L06_experts_that_do_not_divide(void **state)
{
    (void)state;
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        const k3_profile_t *p = k3_registry_at(i);

        if (p->spans_ep) {
            assert_cell_refused(request_of(p->name, "deepseek-v3:E=288", 64), K3_ERR_UNSUPPORTED,
                                "288", "64", NULL);
        }
    }
}

/* A row that no engine runs says why. */
static void test_unavailable_backends(void **state)
{
    k3_cell_request_t request = request_of("ascend_fuseep", "tiny", 8);
    unsigned          refused = 0;

    (void)state;
    request.tokens = 257;
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "ascend_fuseep", "257", "256");
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        const k3_profile_t *p = k3_registry_at(i);
        k3_error_t          err = K3_ERROR_INIT;
        k3_cell_t           cell;

        request = request_of(p->name, "tiny", 8);
        request.dp = 2;
        if (!k3_profile_available(p)) {
            refused++;
            assert_int_equal(k3_cell_create(&request, &cell, &err), K3_ERR_UNSUPPORTED);
            assert_says(&err, p->name, NULL, NULL);
        } else {
            cell = cell_of(request);
            k3_cell_destroy(&cell);
        }
    }
    assert_true(refused > 0);
}

static void test_P14_rows_above_the_bound(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);
    k3_cell_t         cell;

    (void)state;
    request.max_tokens = 32;
    request.skew = "16,16,16,16,33,16,16,16";
    assert_cell_refused(request, K3_ERR_USAGE, "rank 4", "33", "32");
    request.skew = "16,16,16,16,16,16,16,33";
    assert_cell_refused(request, K3_ERR_USAGE, "rank 7", "33", "32");
    request.skew = "equal";
    request.tokens = 33;
    assert_cell_refused(request, K3_ERR_USAGE, "rank 0", "33", "32");
    request.path = "fallback"; /* there the bound of a dispatch is another, that of a rank stays */
    assert_cell_refused(request, K3_ERR_USAGE, "rank 0", "33", "32");
    request.tokens = 32;
    cell = cell_of(request);
    assert_int_equal(cell.max_tokens, 256);
    k3_cell_destroy(&cell);
}

/* P13: unequal rows under one bound are legal, and the bound is that of the largest rank. */
static void test_P13_bound_of_uneven_ranks(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);
    k3_cell_t         cell;

    (void)state;
    request.skew = "16,32,16,1,0,16,16,16";
    cell = cell_of(request);
    assert_int_equal(cell.max_tokens, 32);
    k3_cell_destroy(&cell);
    request.max_tokens = 64;
    cell = cell_of(request);
    assert_int_equal(cell.max_tokens, 64);
    k3_cell_destroy(&cell);
    request.max_tokens = 0;
    request.skew = "0,0,0,0,0,0,0,0";
    request.tokens = 0;
    cell = cell_of(request);
    assert_int_equal(cell.max_tokens, 1);
    k3_cell_destroy(&cell);
}

static void test_P16_rows_times_ranks(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny:E=36", 6);
    k3_cell_t         cell;

    (void)state;
    request.max_tokens = 33;
    request.dispatch_dtype = "fp8";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "33", "198", "4");
    request.dispatch_dtype = "bf16";
    cell = cell_of(request);
    k3_cell_destroy(&cell);
}

static void test_O06_stock_limits(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "kimi-k3", 8);

    (void)state;
    request.generation = "stock";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "mooncake", "top-k 16", "11");
    request.backend = "deepep:ll";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "deepep:ll", "top-k 16", "11");
    request.model = "kimi-k3:K=8";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "3584", "4096", NULL);
}

static void test_O03_qps(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);

    (void)state;
    request.qps = 1000000;
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "1000000", "32", NULL);
    request.backend = "none";
    request.qps = 4;
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "none", "4", NULL);
}

static void test_unknown_names(void **state)
{
    static const struct {
        size_t      at;
        const char *text, *nearest;
    } rows[] = {
        {offsetof(k3_cell_request_t, model), "kimi-k33", "kimi-k3"},
        {offsetof(k3_cell_request_t, backend), "moncake", "mooncake"},
        {offsetof(k3_cell_request_t, generation), "stok", "stock"},
        {offsetof(k3_cell_request_t, fabric), "rocee", "roce"},
        {offsetof(k3_cell_request_t, component), "disptch", "dispatch"},
        {offsetof(k3_cell_request_t, path), "fallbak", "fallback"},
        {offsetof(k3_cell_request_t, path_rule), "regist", "registry"},
        {offsetof(k3_cell_request_t, runner), "deepgemm", "deep_gemm"},
        {offsetof(k3_cell_request_t, dispatch_dtype), "fp88", "fp8"},
        {offsetof(k3_cell_request_t, skew), "raged", "ragged"},
        {offsetof(k3_cell_request_t, routing), "unifrom", "uniform"},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        k3_cell_request_t request = request_of("mooncake", "tiny", 8);

        memcpy((uint8_t *)&request + rows[i].at, &rows[i].text, sizeof(rows[i].text));
        assert_cell_refused(request, K3_ERR_USAGE, rows[i].text, rows[i].nearest, NULL);
    }
}

/* One layout of a list that does not fit is a row, the others run. */
static void test_wrong_sizes(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);

    (void)state;
    request.dp = 3;
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "tp 8", "3", NULL);
    request.dp = 1;
    request.world = 4;
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "tp 8", "4 ranks", NULL);
    request.world = 0;
    request.ep = 4;
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "ep 4", "tp 8", NULL);
    request.ep = 0;
    request.cp = 2;
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "cp 2", "tiny", NULL);
    request.model = "deepseek-v3";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "mooncake", "cp 2", NULL);
}

static void test_components(void **state)
{
    k3_cell_request_t request = request_of("none", "tiny", 8);
    k3_cell_t         cell;

    (void)state;
    request.component = "pair";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "none", "pair", "dispatch");
    request.component = "control";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "none", "control", NULL);
    request.backend = "mpi";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "mpi", "control", "queue pairs");
    request.component = "experts";
    request.backend = "none";
    cell = cell_of(request);
    k3_cell_destroy(&cell);
}

/* A format that a profile does not have, and a width that does not hold whole scale groups. */
static void test_formats(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);

    (void)state;
    request.dispatch_dtype = "int8";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "mooncake", "int8", "bf16");
    request.dispatch_dtype = "auto";
    request.combine_dtype = "fp8";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "mooncake", "fp8", "bf16");
    request.combine_dtype = NULL;
    request.model = "tiny:L=96";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "96", "128", NULL);
    request.model = "tiny";
    request.runner = "marlin";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "marlin", "deepep_ll", NULL);
}

/* A bound that no 64 bits hold is refused or too big, never small. */
static void test_C04_bound_saturates(void **state)
{
    k3_cell_request_t request = request_of("deepep:ll", "kimi-k3", 8);

    (void)state;
    request.max_tokens = UINT64_MAX;
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "18446744073709551615", NULL, NULL);
    request.path = "fallback";
    request.max_tokens = UINT64_MAX / 4;
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "18446744073709551615", NULL, NULL);
}

/* The bound of the fallback is nobody's option: the refusal says where it comes from. */
static void test_refused_bound_of_the_fallback(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "kimi-k3", 32);

    (void)state;
    request.path = "fallback";
    request.tokens = 2048;
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "max-tokens 65536",
                        "(2048 rows x 32 ranks, all ranks dispatch all rows on the fallback)",
                        NULL);
    request.max_tokens = 4096;
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "(4096 rows x 32 ranks", NULL, NULL);
}

/* ... and only there: another limit, or the fast path, has nothing to add. */
static void test_other_refusals_are_not_explained(void **state)
{
    static const char *const paths[] = {"fallback", "fast"};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        k3_cell_request_t request = request_of("mooncake", "kimi-k3", 8);
        k3_error_t        err = K3_ERROR_INIT;
        k3_cell_t         cell;

        request.path = paths[i];
        if (i == 0) {
            request.generation = "stock"; /* top-k */
        } else {
            request.tokens = 1 << 20;
        }
        assert_int_equal(k3_cell_create(&request, &cell, &err), K3_ERR_UNSUPPORTED);
        assert_null(strstr(err.text, "all ranks dispatch"));
    }
}

/* 8 and 4 ranks: limits see the larger node, and profiles that need one number for all refuse. */
static void test_uneven_nodes(void **state)
{
    static const int  nodes[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1};
    k3_cell_request_t request = request_of("mooncake", "tiny:E=48", 0);
    k3_cell_t         cell;

    (void)state;
    request.world = 12;
    request.node_of = nodes;
    cell = cell_of(request);
    assert_int_equal(cell.nodes, 2);
    assert_int_equal(cell.node_most, 8);
    assert_int_equal(cell.node_least, 4);
    k3_cell_destroy(&cell);
    request.backend = "mori:v1";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "mori:v1", "4 to 8 ranks", "two hops");
    request.backend = "deepep:normal";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "deepep:normal", "4 to 8 ranks", NULL);
    request.nodes_as = 2;
    cell = cell_of(request);
    assert_int_equal(cell.node_most, 6);
    k3_cell_destroy(&cell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_L01_path_of_the_rule),
        cmocka_unit_test(test_L03_no_sp_moe_without_attn_tp),
        cmocka_unit_test(test_owner_of_an_expert),
        cmocka_unit_test(test_auto_formats_and_runner),
        cmocka_unit_test(test_generation_by_model),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_L02_reduced_twice_is_refused),
        cmocka_unit_test(test_L02_reduced_twice_can_be_forced),
        cmocka_unit_test(test_L06_experts_that_do_not_divide),
        cmocka_unit_test(test_unavailable_backends),
        cmocka_unit_test(test_P14_rows_above_the_bound),
        cmocka_unit_test(test_P13_bound_of_uneven_ranks),
        cmocka_unit_test(test_P16_rows_times_ranks),
        cmocka_unit_test(test_O06_stock_limits),
        cmocka_unit_test(test_O03_qps),
        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_wrong_sizes),
        cmocka_unit_test(test_components),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_C04_bound_saturates),
        cmocka_unit_test(test_refused_bound_of_the_fallback),
        cmocka_unit_test(test_other_refusals_are_not_explained),
        cmocka_unit_test(test_uneven_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
