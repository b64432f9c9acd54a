#include "tests/unit/plan/plan_test.h"

#include "bench/commands/command.h"
#include "bench/plan/requests.h"

/* --- models ---------------------------------------------------------------------------------- */

static void assert_split(const char *text, const char *const *want)
{
    k3_list_t list;
    size_t    n = 0;

    k3_split_models(text, &list);
    for (; want[n] != NULL; n++) {
        assert_true(n < list.count);
        assert_string_equal(list.items[n], want[n]);
    }
    assert_int_equal(list.count, n);
    k3_list_free(&list);
}

static void test_split_models(void **state)
{
    (void)state;
    assert_split("tiny", (const char *[]){"tiny", NULL});
    assert_split("tiny,kimi-k3", (const char *[]){"tiny", "kimi-k3", NULL});
    assert_split("tiny:E=32,K=4", (const char *[]){"tiny:E=32,K=4", NULL});
    assert_split("tiny:E=32,K=4,H=512,L=256,kimi-k3",
                 (const char *[]){"tiny:E=32,K=4,H=512,L=256", "kimi-k3", NULL});
    assert_split("kimi-k3,tiny:E=32,K=4,deepseek-v3:E=288",
                 (const char *[]){"kimi-k3", "tiny:E=32,K=4", "deepseek-v3:E=288", NULL});
    assert_split("tiny:E=32,tiny:E=64,K=2", (const char *[]){"tiny:E=32", "tiny:E=64,K=2", NULL});
    /* What comes first or follows nothing stays itself and is refused later. */
    assert_split("E=32", (const char *[]){"E=32", NULL});
    assert_split("E=32,K=4", (const char *[]){"E=32,K=4", NULL});
    assert_split("", (const char *[]){"", NULL});
    assert_split("tiny,,kimi-k3", (const char *[]){"tiny", "", "kimi-k3", NULL});
}

/* --- options to requests --------------------------------------------------------------------- */

typedef struct fixture {
    k3_options_t *options;
    k3_requests_t requests;
} fixture_t;

static k3_options_t *parse(const char *const *words)
{
    k3_option_table_t table = {k3_option_defs, k3_option_count, K3_COMMAND_PLAN};
    k3_error_t        err = K3_ERROR_INIT;
    k3_options_t     *options = NULL;
    char             *argv[32];
    int               argc = 0;

    for (; words[argc] != NULL; argc++) {
        argv[argc] = strdup(words[argc]);
    }
    if (k3_options_parse(&table, argc, argv, &options, &err) != K3_OK) {
        fail_msg("%s", err.text);
    }
    for (int i = 0; i < argc; i++) {
        free(argv[i]);
    }
    return options;
}

static fixture_t create(const char *const *words)
{
    fixture_t         f = {.options = parse(words)};
    k3_cell_request_t base = {.world = 0};
    k3_error_t        err = K3_ERROR_INIT;

    if (k3_requests_create(f.options, &base, &f.requests, &err) != K3_OK) {
        fail_msg("%s", err.text);
    }
    return f;
}

static void destroy(fixture_t *f)
{
    k3_requests_free(&f->requests);
    k3_options_free(f->options);
}

static void assert_refused(const char *const *words, const char *a, const char *b)
{
    k3_options_t     *options = parse(words);
    k3_cell_request_t base = {.world = 0};
    k3_requests_t     requests;
    k3_error_t        err = K3_ERROR_INIT;

    assert_int_equal(k3_requests_create(options, &base, &requests, &err), K3_ERR_USAGE);
    assert_says(&err, a, b, NULL);
    assert_null(requests.items);
    k3_options_free(options);
}

static void test_defaults_make_cells(void **state)
{
    static const char *const backends[] = {"mooncake", "deepep:ll", "none", "mpi"};
    fixture_t                f = create((const char *[]){NULL});

    (void)state;
    assert_int_equal(f.requests.count, 4);
    for (unsigned i = 0; i < 4; i++) {
        k3_cell_t cell = cell_of(f.requests.items[i]);

        assert_string_equal(cell.profile->name, backends[i]);
        assert_string_equal(cell.model.name, "tiny");
        assert_int_equal(cell.layout.tp, 8);
        assert_int_equal(cell.layout.tokens, 16);
        assert_int_equal(cell.seed, 1);
        assert_true(cell.p2p);
        k3_cell_destroy(&cell);
    }
    destroy(&f);
}

static void test_backend_varies_fastest(void **state)
{
    fixture_t f = create((const char *[]){"--backend", "mooncake,none", "--tokens", "8,16,32",
                                          "--model", "tiny,tiny:E=32,K=2", NULL});

    (void)state;
    assert_int_equal(f.requests.count, 12);
    for (unsigned i = 0; i < 12; i++) {
        static const uint64_t    tokens[] = {8, 16, 32};
        const k3_cell_request_t *q = &f.requests.items[i];

        assert_string_equal(q->backend, i % 2 == 0 ? "mooncake" : "none");
        assert_int_equal(q->tokens, tokens[i / 2 % 3]);
        assert_string_equal(q->model, i < 6 ? "tiny" : "tiny:E=32,K=2");
    }
    destroy(&f);
}

/* Every axis multiplies, in a fixed order: no combination twice. */
static void test_every_axis_multiplies(void **state)
{
    fixture_t f = create((const char *[]){
        "--component", "region,pair", "--generation=k3,stock", "--tp=8,16", "--dp=1,2", "--cp=1,2",
        "--ep=1,8", "--routing=uniform,zipf:1.2", "--path=auto,fallback",
        "--path-rule=registry,unlisted", "--runner=auto,marlin", "--dispatch-dtype=auto,bf16",
        "--combine-dtype=auto,bf16", "--qps=auto,2", "--backend=none,mpi", NULL});

    (void)state;
    assert_int_equal(f.requests.count, 1 << 14);
    for (size_t i = 1; i < f.requests.count; i++) {
        assert_memory_not_equal(&f.requests.items[i], &f.requests.items[i - 1],
                                sizeof(f.requests.items[i]));
    }
    destroy(&f);
}

static void test_qps_list_with_auto(void **state)
{
    fixture_t f = create((const char *[]){"--backend=mooncake", "--qps", "auto,1,16,auto", NULL});

    (void)state;
    assert_int_equal(f.requests.count, 4);
    assert_int_equal(f.requests.items[0].qps, 0);
    assert_int_equal(f.requests.items[1].qps, 1);
    assert_int_equal(f.requests.items[2].qps, 16);
    assert_int_equal(f.requests.items[3].qps, 0);
    destroy(&f);
}

/* A list of rows is one skew, not eight cells. */
static void test_skew_list_is_one_value(void **state)
{
    fixture_t f = create(
        (const char *[]){"--backend=mooncake,none", "--tokens-skew", "16,8,16,1,16,16,2,16", NULL});

    (void)state;
    assert_int_equal(f.requests.count, 2);
    assert_string_equal(f.requests.items[0].skew, "16,8,16,1,16,16,2,16");
    assert_string_equal(f.requests.items[1].skew, "16,8,16,1,16,16,2,16");
    destroy(&f);
}

static void test_common_values(void **state)
{
    fixture_t f =
        create((const char *[]){"--max-tokens", "2k", "--nodes-as=2", "--seed=18446744073709551615",
                                "--p2p=off", "--fabric=roce", "--tokens=1Ki", NULL});

    (void)state;
    for (size_t i = 0; i < f.requests.count; i++) {
        const k3_cell_request_t *q = &f.requests.items[i];

        assert_int_equal(q->max_tokens, 2000);
        assert_int_equal(q->nodes_as, 2);
        assert_true(q->seed == UINT64_MAX);
        assert_false(q->p2p);
        assert_string_equal(q->fabric, "roce");
        assert_int_equal(q->tokens, 1024);
        assert_int_equal(q->tp, 0);
    }
    destroy(&f);
}

static void test_base_is_kept(void **state)
{
    static const int  nodes[] = {0, 1};
    k3_options_t     *options = parse((const char *[]){"--tp=2", NULL});
    k3_cell_request_t base = {.world = 2, .node_of = nodes, .ranks_per_node = 1};
    k3_requests_t     requests;
    k3_error_t        err = K3_ERROR_INIT;

    (void)state;
    assert_int_equal(k3_requests_create(options, &base, &requests, &err), K3_OK);
    assert_int_equal(requests.items[3].world, 2);
    assert_ptr_equal(requests.items[3].node_of, nodes);
    assert_int_equal(requests.items[3].ranks_per_node, 1);
    assert_int_equal(requests.items[3].tp, 2);
    k3_requests_free(&requests);
    k3_options_free(options);
}

/* --- refusals -------------------------------------------------------------------------------- */

static void test_empty_items(void **state)
{
    (void)state;
    assert_refused((const char *[]){"--backend", "mooncake,,none", NULL}, "backend", "empty");
    assert_refused((const char *[]){"--backend", "mooncake,", NULL}, "backend", "empty");
    assert_refused((const char *[]){"--model", "tiny,,kimi-k3", NULL}, "model", "empty");
    assert_refused((const char *[]){"--model", ",tiny", NULL}, "model", "empty");
    assert_refused((const char *[]){"--tokens", "8,", NULL}, "tokens", "empty");
    assert_refused((const char *[]){"--tokens=", NULL}, "tokens", "empty");
    assert_refused((const char *[]){"--qps", ",", NULL}, "qps", "empty");
    assert_refused((const char *[]){"--routing", "uniform,,zipf:1", NULL}, "routing", "empty");
}

static void test_O01_wrong_numbers(void **state)
{
    static const struct {
        const char *option, *text;
    } rows[] = {
        {"tokens", "2Mx"}, {"tokens", "8,-1"},     {"tokens", "8 9"},     {"tokens", "16777217"},
        {"tp", "0"},       {"tp", "8,65537"},      {"dp", "0"},           {"cp", "x"},
        {"ep", "0"},       {"qps", "0"},           {"qps", "automatic"},  {"max-tokens", "0"},
        {"nodes-as", "0"}, {"seed", "-1"},         {"seed", "1.5"},       {"p2p", "maybe"},
        {"tokens", "1e3"}, {"max-tokens", "8,16"}, {"nodes-as", "65537"},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char        word[64];
        const char *words[] = {word, NULL};

        snprintf(word, sizeof(word), "--%s=%s", rows[i].option, rows[i].text);
        assert_refused(words, rows[i].option, NULL);
    }
}

/* A seed is a number of the record: it must come back as it was given. */
static void test_seed_fits_the_record(void **state)
{
    fixture_t f = create((const char *[]){"--seed=9223372036854775807", NULL});

    (void)state;
    assert_true(f.requests.items[0].seed == INT64_MAX);
    destroy(&f);
}

static void test_too_many_cells(void **state)
{
    static char numbers[5][1200];

    (void)state;
    for (int i = 0; i < 5; i++) {
        snprintf(numbers[i], sizeof(numbers[i]), "--%s=1",
                 (const char *[]){"tp", "dp", "cp", "ep", "tokens"}[i]);
        for (unsigned n = 2; n <= 200; n++) {
            snprintf(numbers[i] + strlen(numbers[i]), 16, ",%u", n);
        }
    }
    assert_refused(
        (const char *[]){numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], NULL},
        "100000", "cells");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_models),
        cmocka_unit_test(test_defaults_make_cells),
        cmocka_unit_test(test_backend_varies_fastest),
        cmocka_unit_test(test_every_axis_multiplies),
        cmocka_unit_test(test_qps_list_with_auto),
        cmocka_unit_test(test_skew_list_is_one_value),
        cmocka_unit_test(test_common_values),
        cmocka_unit_test(test_base_is_kept),
        cmocka_unit_test(test_empty_items),
        cmocka_unit_test(test_O01_wrong_numbers),
        cmocka_unit_test(test_seed_fits_the_record),
        cmocka_unit_test(test_too_many_cells),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
