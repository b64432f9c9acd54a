#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/cell/layout.h"

static k3_model_t parse_model(const char *text)
{
    k3_error_t err = K3_ERROR_INIT;
    k3_model_t model;

    if (k3_model_parse(text, &model, &err) != K3_OK) {
        fail_msg("%s", err.text);
    }
    return model;
}

static k3_layout_t create(const char *model_text, k3_layout_request_t request)
{
    k3_error_t  err = K3_ERROR_INIT;
    k3_model_t  model = parse_model(model_text);
    k3_layout_t layout;

    if (k3_layout_create(&request, &model, &layout, &err) != K3_OK) {
        fail_msg("%s", err.text);
    }
    return layout;
}

static void assert_refused(const char *model_text, k3_layout_request_t request, const char *part,
                           const char *other)
{
    k3_error_t  err = K3_ERROR_INIT;
    k3_model_t  model = parse_model(model_text);
    k3_layout_t layout;

    k3_status_t status = k3_layout_create(&request, &model, &layout, &err);

    /* Texts are K3_ERR_USAGE, sizes that do not go together K3_ERR_UNSUPPORTED: both exit with 2. */
    assert_int_equal(k3_exit_code(status), 2);
    assert_null(layout.rows);
    if (strstr(err.text, part) == NULL || strstr(err.text, other) == NULL) {
        fail_msg("\"%s\" lacks \"%s\" or \"%s\"", err.text, part, other);
    }
}

/* Rows lie one after the other and every row has one owner. */
static void check_sums(const k3_layout_t *l)
{
    uint64_t next = 0, padding = 0, most = 0;

    for (uint32_t r = 0; r < l->tp; r++) {
        uint64_t slots = l->rows[r] + l->padding[r];

        assert_int_equal(l->first_row[r], next);
        next += l->rows[r];
        padding += l->padding[r];
        most = slots > most ? slots : most;
    }
    assert_int_equal(l->first_row[l->tp], next);
    assert_int_equal(l->rows_global, next);
    assert_int_equal(l->rows_padding, padding);
    assert_int_equal(l->rows_max, most);
}

static void test_L01_tp32_dp4(void **state)
{
    k3_layout_t l =
        create("kimi-k3", (k3_layout_request_t){.world = 32, .dp = 4, .spans = 1, .tokens = 4});

    (void)state;
    assert_int_equal(l.tp, 32);
    assert_int_equal(l.attn_tp, 8);
    assert_int_equal(l.ep, 32);
    assert_int_equal(l.moe_tp, 1);
    assert_int_equal(l.groups, 4);
    assert_int_equal(l.rows_global, 128);
    assert_int_equal(l.rows_max, 4);
    assert_int_equal(l.rows_padding, 0);
    assert_int_equal(k3_layout_group(&l, 17), 2);
    assert_int_equal(k3_layout_group_first(&l, 17), 16);
    assert_int_equal(k3_layout_group_rows(&l, 17), 32);
    check_sums(&l);
    k3_layout_destroy(&l);
}

/* Layouts that people run with Kimi-K3. */
static void test_upstream_layouts(void **state)
{
    static const struct {
        uint64_t tp, dp, cp, ep;
        int      spans;
        uint32_t attn_tp, moe_tp, local;
    } rows[] = {
        {8, 1, 1, 0, 1, 8, 1, 112}, {8, 2, 1, 0, 1, 4, 1, 112}, {8, 8, 1, 0, 1, 1, 1, 112},
        {16, 2, 1, 0, 1, 8, 1, 56}, {32, 4, 1, 0, 1, 8, 1, 28}, {64, 8, 1, 0, 1, 8, 1, 14},
        {8, 1, 1, 1, 0, 8, 8, 896}, {8, 1, 2, 4, 0, 4, 2, 224}, {8, 2, 2, 8, 1, 2, 1, 112},
    };
    k3_model_t model = parse_model("kimi-k3");

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        k3_layout_t l = create("kimi-k3", (k3_layout_request_t){.tp = rows[i].tp,
                                                                .dp = rows[i].dp,
                                                                .cp = rows[i].cp,
                                                                .ep = rows[i].ep,
                                                                .spans = rows[i].spans,
                                                                .tokens = 4});

        assert_int_equal(l.attn_tp, rows[i].attn_tp);
        assert_int_equal(l.moe_tp, rows[i].moe_tp);
        assert_int_equal(k3_layout_local_experts(&l, &model), rows[i].local);
        check_sums(&l);
        k3_layout_destroy(&l);
    }
}

/* Upstream's example: 8 ranks, cp 2, ep 4: the attention groups are {0-3} and {4-7}. */
static void test_cp_groups_and_expert_blocks(void **state)
{
    k3_model_t  model = parse_model("kimi-k3");
    k3_layout_t l =
        create("kimi-k3", (k3_layout_request_t){.tp = 8, .cp = 2, .ep = 4, .tokens = 1});
    uint32_t begin, end;

    (void)state;
    assert_int_equal(k3_layout_group(&l, 3), 0);
    assert_int_equal(k3_layout_group(&l, 4), 1);
    assert_int_equal(k3_layout_group_first(&l, 7), 4);
    assert_int_equal(k3_layout_first_expert(&l, &model, 0), 0);
    assert_int_equal(k3_layout_first_expert(&l, &model, 1), 0);
    assert_int_equal(k3_layout_first_expert(&l, &model, 2), 224);
    assert_int_equal(k3_layout_first_expert(&l, &model, 7), 672);
    k3_layout_expert_slice(&l, &model, 6, &begin, &end);
    assert_int_equal(begin, 0);
    assert_int_equal(end, 1536);
    k3_layout_expert_slice(&l, &model, 7, &begin, &end);
    assert_int_equal(begin, 1536);
    assert_int_equal(end, 3072);
    k3_layout_destroy(&l);
}

/* tp_rank = (dp_rank * cp + cp_rank) * attn_tp + attn_tp_rank; groups (0,0) (0,1) (1,0) (1,1). */
static void test_cp_view(void **state)
{
    k3_layout_t l =
        create("tiny", (k3_layout_request_t){.tp = 8, .dp = 2, .cp = 2, .skew = "7,0,13,3"});
    static const uint32_t dp[] = {0, 0, 0, 0, 1, 1, 1, 1}, cp[] = {0, 0, 1, 1, 0, 0, 1, 1};
    static const uint64_t first[] = {0, 0, 0, 0, 7, 7, 0, 0};

    (void)state;
    for (uint32_t r = 0; r < 8; r++) {
        assert_int_equal(k3_layout_dp_rank(&l, r), dp[r]);
        assert_int_equal(k3_layout_cp_rank(&l, r), cp[r]);
        assert_int_equal(k3_layout_cp_first(&l, r), first[r]);
    }
    assert_int_equal(k3_layout_cp_rows(&l, 0), 20);
    assert_int_equal(k3_layout_cp_rows(&l, 1), 3);
    k3_layout_destroy(&l);
}

static void test_defaults(void **state)
{
    k3_layout_t l = create("tiny", (k3_layout_request_t){.world = 4, .tokens = 3});

    (void)state;
    assert_int_equal(l.tp, 4);
    assert_int_equal(l.dp, 1);
    assert_int_equal(l.cp, 1);
    assert_int_equal(l.ep, 1);
    assert_int_equal(l.moe_tp, 4);
    k3_layout_destroy(&l);
}

static void test_refusals(void **state)
{
    (void)state;
    assert_refused("tiny", (k3_layout_request_t){.world = 8, .tp = 4}, "tp 4", "8 ranks");
    assert_refused("tiny", (k3_layout_request_t){.tp = 8, .dp = 3}, "tp 8", "3 * 1 = 3");
    assert_refused("tiny", (k3_layout_request_t){.tp = 8, .dp = 4, .cp = 4}, "tp 8", "16");
    assert_refused("tiny", (k3_layout_request_t){.tp = 8, .ep = 3}, "ep 3", "tp 8");
    assert_refused("tiny", (k3_layout_request_t){.tp = 8, .ep = 16}, "ep 16", "tp 8");
    assert_refused("tiny", (k3_layout_request_t){.tp = 8, .ep = 4, .spans = 1}, "ep 4", "spans");
    assert_refused("tiny", (k3_layout_request_t){.tp = UINT64_MAX}, "18446744073709551615",
                   "65536");
    assert_refused("tiny", (k3_layout_request_t){.tp = 8, .dp = UINT64_C(1) << 32}, "4294967296",
                   "65536");
    assert_refused("tiny", (k3_layout_request_t){.tp = 8, .tokens = UINT64_MAX / 2}, "tokens",
                   "16777216");
}

static void test_L06_experts_must_divide(void **state)
{
    (void)state;
    assert_refused("deepseek-v3:E=288", (k3_layout_request_t){.tp = 64, .spans = 1}, "288", "64");
}

static void test_L08_7_and_14_ranks(void **state)
{
    static const char text[] = "kimi-k3:H=128,L=64,I=64";
    k3_model_t        model = parse_model(text);
    k3_layout_t       seven = create(text, (k3_layout_request_t){.tp = 7, .spans = 1, .tokens = 4});
    k3_layout_t fourteen = create(text, (k3_layout_request_t){.tp = 14, .spans = 1, .tokens = 4});

    (void)state;
    assert_int_equal(k3_layout_local_experts(&seven, &model), 128);
    assert_int_equal(k3_layout_local_experts(&fourteen, &model), 64);
    assert_int_equal(k3_layout_first_expert(&fourteen, &model, 13), 832);
    k3_layout_destroy(&seven);
    k3_layout_destroy(&fourteen);
}

static void test_L04_ten_rows_over_eight_ranks(void **state)
{
    static const uint64_t rows[8] = {2, 2, 2, 2, 2, 0, 0, 0};
    k3_layout_t l = create("kimi-k3", (k3_layout_request_t){.tp = 8, .spans = 1, .skew = "10"});

    (void)state;
    for (uint32_t r = 0; r < 8; r++) {
        assert_int_equal(l.rows[r], rows[r]);
        assert_int_equal(l.rows[r] + l.padding[r], 2);
    }
    assert_int_equal(l.rows_global, 10);
    assert_int_equal(l.rows_padding, 6);
    check_sums(&l);
    k3_layout_destroy(&l);
}

static void test_L05_empty_dp_group(void **state)
{
    static const uint64_t rows[8] = {2, 2, 2, 1, 0, 0, 0, 0};
    k3_layout_t           l =
        create("kimi-k3", (k3_layout_request_t){.tp = 8, .dp = 2, .spans = 1, .skew = "7,0"});

    (void)state;
    for (uint32_t r = 0; r < 8; r++) {
        assert_int_equal(l.rows[r], rows[r]);
        assert_int_equal(l.padding[r], r == 3 ? 1 : 0);
    }
    assert_int_equal(l.rows_global, 7);
    assert_int_equal(l.rows_padding, 1);
    assert_int_equal(k3_layout_group_rows(&l, 1), 7);
    assert_int_equal(k3_layout_group_rows(&l, 6), 0);
    check_sums(&l);
    k3_layout_destroy(&l);
}

static void test_P13_named_skews(void **state)
{
    static const struct {
        const char *skew;
        uint64_t    rows[8];
    } cases[] = {
        {NULL, {4, 4, 4, 4, 4, 4, 4, 4}},
        {"equal", {4, 4, 4, 4, 4, 4, 4, 4}},
        {"ragged", {4, 3, 2, 4, 3, 2, 4, 3}},
        {"one-empty", {0, 4, 4, 4, 4, 4, 4, 4}},
        {"all-but-one-empty", {0, 0, 0, 0, 0, 0, 0, 4}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        k3_layout_t l =
            create("tiny", (k3_layout_request_t){.tp = 8, .tokens = 4, .skew = cases[i].skew});

        assert_memory_equal(l.rows, cases[i].rows, sizeof(cases[i].rows));
        check_sums(&l);
        k3_layout_destroy(&l);
    }
}

static void test_U15_list_per_rank(void **state)
{
    static const uint64_t    rows[8] = {16, 8, 16, 1, 16, 16, 2, 16};
    static const char *const texts[] = {"16,8,16,1,16,16,2,16", "16:8:16:1:16:16:2:16"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        k3_layout_t l = create("tiny", (k3_layout_request_t){.tp = 8, .dp = 4, .skew = texts[i]});

        assert_memory_equal(l.rows, rows, sizeof(rows));
        assert_int_equal(l.rows_global, 91);
        assert_int_equal(l.rows_padding, 0);
        check_sums(&l);
        k3_layout_destroy(&l);
    }
}

static void test_skew_refusals(void **state)
{
    k3_layout_request_t request = {.tp = 8, .dp = 2, .tokens = 4};

    (void)state;
    request.skew = "1,2,3";
    assert_refused("tiny", request, "3 numbers", "8 (one for each rank) or 2");
    request.skew = "raged";
    assert_refused("tiny", request, "raged", "ragged");
    request.skew = "7,x";
    assert_refused("tiny", request, "tokens-skew", "x");
    request.skew = "7,";
    assert_refused("tiny", request, "tokens-skew", "");
    request.skew = "7,-1";
    assert_refused("tiny", request, "tokens-skew", "-1");
    request.skew = "7,16777217";
    assert_refused("tiny", request, "16777217", "16777216");
    request.skew = "";
    assert_refused("tiny", request, "tokens-skew", "");
}

/* Slices in rank order leave no gap, do not overlap, and differ by at most one unit. */
static void test_slices_cover_exactly(void **state)
{
    (void)state;
    for (uint32_t units = 1; units <= 40; units++) {
        for (uint32_t parts = 1; parts <= 45; parts++) {
            uint32_t next = 0;

            for (uint32_t part = 0; part < parts; part++) {
                uint32_t begin, end;

                k3_layout_slice(units * 32, 32, parts, part, &begin, &end);
                assert_int_equal(begin, next);
                assert_true(end >= begin && end - begin >= units / parts * 32);
                assert_true(end - begin <= (units / parts + 1) * 32);
                next = end;
            }
            assert_int_equal(next, units * 32);
        }
    }
}

static void test_expert_slices(void **state)
{
    k3_model_t  k3 = parse_model("kimi-k3"), v3 = parse_model("deepseek-v3");
    k3_layout_t l = create("kimi-k3", (k3_layout_request_t){.tp = 8, .tokens = 1});
    uint32_t    begin, end;

    (void)state;
    k3_layout_expert_slice(&l, &k3, 3, &begin, &end);
    assert_int_equal(begin, 3 * 384);
    assert_int_equal(end, 4 * 384);
    k3_layout_destroy(&l);

    /* 2048 / 128 = 16 scale groups over 32 ranks: half of the slices are empty. */
    l = create("deepseek-v3", (k3_layout_request_t){.tp = 32, .tokens = 1});
    k3_layout_expert_slice(&l, &v3, 15, &begin, &end);
    assert_int_equal(begin, 15 * 128);
    assert_int_equal(end, 2048);
    k3_layout_expert_slice(&l, &v3, 16, &begin, &end);
    assert_int_equal(begin, end);
    k3_layout_destroy(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_L01_tp32_dp4),
        cmocka_unit_test(test_upstream_layouts),
        cmocka_unit_test(test_cp_groups_and_expert_blocks),
        cmocka_unit_test(test_cp_view),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_L06_experts_must_divide),
        cmocka_unit_test(test_L08_7_and_14_ranks),
        cmocka_unit_test(test_L04_ten_rows_over_eight_ranks),
        cmocka_unit_test(test_L05_empty_dp_group),
        cmocka_unit_test(test_P13_named_skews),
        cmocka_unit_test(test_U15_list_per_rank),
        cmocka_unit_test(test_skew_refusals),
        cmocka_unit_test(test_slices_cover_exactly),
        cmocka_unit_test(test_expert_slices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
