/* Which cell is called the fastest: apart from all rivals, on a machine that kept its speed between them. */
#include "report_test.h"

#include "bench/report/cellview.h"
#include "bench/report/fastest.h"
#include "bench/report/html.h"
#include "bench/report/markdown.h"
#include "bench/report/table.h"

typedef struct made {
    const char *backend;
    double      us, shared_us, latent_us; /* region, shared_expert, latent_down */
    double      wide;                     /* half width of the intervals over the median; 0: 0.02 */
    bool        moves_nothing;
} made_t;

static json_t *phase(const char *name, double us, double wide)
{
    wide = wide > 0.0 ? wide : 0.02;
    return json_pack("{s:s, s:f, s:[f, f], s:i}", "name", name, "median", us, "ci95",
                     us * (1 - wide), us * (1 + wide), "slowest_rank", 0);
}

static json_t *cell_of_made(const made_t *m)
{
    json_t *cell = parse_json(
        "{\"mode\": \"\", \"component\": \"region\", \"status\": \"ok\", \"reason\": null, "
        "\"model\": {\"name\": \"tiny\"}, \"layout\": {\"tp\": 8, \"dp\": 2, \"ep\": 8}, "
        "\"work\": {\"routing_hash\": \"h\"}, \"path\": {\"fast\": true}, \"tokens\": {\"asked\": "
        "16}, \"check\": {\"state\": \"ok\"}, "
        "\"choices\": {\"shared\": \"replicated\", \"shared_overlap\": false, \"dispatch_dtype\": "
        "\"fp8\", \"combine_dtype\": \"bf16\", \"recipe\": {\"runner\": \"deep_gemm\"}}}");

    json_object_set_new(cell, "backend", json_string(m->backend));
    json_object_set_new(json_object_get(cell, "path"), "moves_rows",
                        json_boolean(!m->moves_nothing));
    json_object_set_new(cell, "phases",
                        json_pack("[o, o, o]", phase("latent_down", m->latent_us, 0.0),
                                  phase("shared_expert", m->shared_us, m->wide),
                                  phase("region", m->us, 0.0)));
    return cell;
}

/* The cells of a launch, the fastest second. */
static json_t *cells_of(made_t first, made_t second)
{
    static const made_t nothing = {
        .backend = "null", .us = 1.0, .shared_us = 1.0, .latent_us = 1.0, .moves_nothing = true};

    return json_pack("[o, o, o]", cell_of_made(&first), cell_of_made(&second),
                     cell_of_made(&nothing));
}

static const made_t slow = {
    .backend = "mooncake", .us = 200.0, .shared_us = 50.0, .latent_us = 10.0};
static const made_t quick = {.backend = "mpi", .us = 100.0, .shared_us = 50.0, .latent_us = 10.0};

static void expect(json_t *cells, bool apart, const char *work)
{
    const json_t *cell = json_array_get(cells, 1);
    k3_fastest_t  f;
    char          text[240];

    k3_fastest(cells, cell, &f);
    assert_int_equal(f.apart, apart);
    if (work == NULL) {
        assert_null(f.work);
    } else {
        assert_non_null(f.work);
        assert_string_equal(f.work, work);
        assert_ptr_equal(f.other, json_array_get(cells, 0));
    }
    assert_int_equal(k3_is_fastest(cells, cell), apart && work == NULL);
    assert_int_equal(k3_fastest_doubt(&f, text, sizeof(text)), work != NULL);
    assert_false(k3_is_fastest(cells, json_array_get(cells, 0)));
    assert_false(k3_is_fastest(cells, json_array_get(cells, 2)));
    json_decref(cells);
}

static void a_steady_machine(void **state)
{
    made_t near = slow;

    (void)state;
    expect(cells_of(slow, quick), true, NULL);
    near.us = 103.0; /* the intervals touch */
    expect(cells_of(near, quick), false, NULL);
    expect(json_pack("[o, o, o]", cell_of_made(&quick), cell_of_made(&quick), json_object()), false,
           NULL);
}

/* By more than 15 % and apart from the intervals, in the largest of the phases that are the same work. */
static void the_bound(void **state)
{
    made_t m = slow;

    (void)state;
    m.shared_us = 57.0;
    expect(cells_of(m, quick), true, NULL);
    m.shared_us = 58.0;
    expect(cells_of(m, quick), true, "shared_expert");
    m.wide = 0.2; /* noise of this launch */
    expect(cells_of(m, quick), true, NULL);
    m = slow;
    m.shared_us = 40.0; /* the other way round */
    expect(cells_of(m, quick), true, "shared_expert");
    m = slow;
    m.latent_us = 20.0; /* a small phase does not decide */
    expect(cells_of(m, quick), true, NULL);
    m.latent_us = 80.0;
    expect(cells_of(m, quick), true, "latent_down");
}

/* Other rows, another slice: times that may differ. */
static void another_shape(void **state)
{
    static const char *const members[][3] = {{"path", "fast", "false"},
                                             {"layout", "ep", "1"},
                                             {"choices", "shared", "\"sharded\""},
                                             {"choices", "shared_overlap", "true"}};
    made_t                   m = slow;

    (void)state;
    m.shared_us = 150.0;
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        json_t *cells = cells_of(m, quick), *cell = json_array_get(cells, 0);

        json_object_set_new(json_object_get(cell, members[i][0]), members[i][1],
                            json_loads(members[i][2], JSON_DECODE_ANY, NULL));
        expect(cells, true, NULL);
    }
}

/* Where no phase is the same work, the beat of the host is. */
static void by_the_beat(void **state)
{
    static const double beats[] = {57.0, 58.0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        json_t *cells = cells_of(slow, quick);

        for (size_t c = 0; c < 2; c++) {
            json_t *cell = json_array_get(cells, c);

            json_array_remove(json_object_get(cell, "phases"), 0);
            json_array_remove(json_object_get(cell, "phases"), 0);
            json_object_set_new(cell, "host",
                                json_pack("{s:f}", "beat_us", c == 0 ? beats[i] : 50.0));
        }
        expect(cells, true, i == 0 ? NULL : "the beat of the host");
    }
}

static json_t *document_of(json_t *cells)
{
    return json_pack("{s:{s:s}, s:o}", "run", "id", "x", "cells", cells);
}

static void expect_texts(json_t *cells, const char *table, const char *markdown, const char *page)
{
    json_t *doc = document_of(cells);
    char   *text = NULL;

    CAPTURE(text, k3_table_print(doc, out, false));
    if (strstr(text, table) == NULL) {
        fail_msg("no %s in\n%s", table, text);
    }
    free(text);
    CAPTURE(text, k3_report_markdown(&doc, 1, out));
    if (strstr(text, markdown) == NULL) {
        fail_msg("no %s in\n%s", markdown, text);
    }
    free(text);
    CAPTURE(text, k3_report_html(&doc, 1, 1, out));
    if (strstr(text, page) == NULL) {
        fail_msg("no %s in\n%s", page, text);
    }
    free(text);
    json_decref(doc);
}

static void lacks(json_t *cells, const char *const *marks)
{
    json_t *doc = document_of(cells);
    char   *text = NULL;

    CAPTURE(text, k3_table_print(doc, out, true));
    assert_null(strstr(text, marks[0]));
    free(text);
    CAPTURE(text, k3_report_markdown(&doc, 1, out));
    assert_null(strstr(text, marks[1]));
    free(text);
    CAPTURE(text, k3_report_html(&doc, 1, 1, out));
    assert_null(strstr(text, marks[2]));
    assert_null(strstr(text, marks[3]));
    free(text);
    json_decref(doc);
}

static void what_readers_see(void **state)
{
    static const char *const marks[] = {" *\033", "**mpi**", "is the fastest", "class=best"};
    made_t                   m = slow;

    (void)state;
    expect_texts(cells_of(slow, quick), "ok *\n", "**mpi**", "is the fastest in this launch: 100");
    m.shared_us = 100.0;
    lacks(cells_of(m, quick), marks);
    expect_texts(
        cells_of(m, quick),
        "no star for mpi tp8 dp2 T16: the machine changed its speed in this launch:\n"
        "  shared_expert, the same work in both, took 50 us there and 100 us in mooncake\n",
        "- mpi tp8 dp2 T16 is the fastest by its time, but the machine changed its speed in this "
        "launch: shared\\_expert, the same work in both, took 50 us there and 100 us in mooncake\n",
        "mpi tp8 dp2 T16 has the shortest time, but the machine changed its speed in this launch: "
        "shared_expert, the same work in both, took 50 us there and 100 us in mooncake.");
}

static void other_formats(void **state)
{
    json_t *cells = cells_of(slow, quick);
    json_t *choices = json_object_get(json_array_get(cells, 1), "choices");

    (void)state;
    json_object_set_new(choices, "dispatch_dtype", json_string("bf16"));
    json_object_set_new(choices, "recipe", json_pack("{s:s}", "runner", "marlin"));
    expect_texts(
        json_incref(cells),
        "* mpi tp8 dp2 T16: it and the next differ in more than the backend:\n"
        "  rows bf16, results bf16, runner marlin; mooncake, the next: rows fp8, results "
        "bf16, runner deep_gemm\n",
        "- mpi tp8 dp2 T16 is the fastest, but it and the next differ in more than the "
        "backend: rows bf16, ",
        "The two differ in more than the backend: rows bf16, results bf16, runner marlin;");
    expect_texts(cells, "ok *\n", "| bf16 | bf16 | marlin | ok | ok |",
                 "<td class=\"t\">bf16</td><td class=\"t\">bf16</td><td class=\"t\">marlin</td>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_machine), cmocka_unit_test(the_bound),
        cmocka_unit_test(another_shape),    cmocka_unit_test(by_the_beat),
        cmocka_unit_test(what_readers_see), cmocka_unit_test(other_formats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
