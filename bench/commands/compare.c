/* k3bench compare: two sets of records, or the backends of one set. */
#include <stdint.h>
#include <string.h>

#include "bench/commands/command.h"
#include "bench/commands/records.h"
#include "bench/commands/verdict_print.h"
#include "bench/plan/phase.h"
#include "bench/profiles/profile.h"
#include "bench/report/comparison.h"
#include "bench/report/facts.h"
#include "bench/report/fields.h"
#include "harness/base/memory.h"
#include "harness/record/document.h"
#include "harness/record/readers.h"

static k3_status_t read_options(const k3_options_t *options, k3_comparison_t *c,
                                k3_verdict_rule_t *rule, k3_error_t *err)
{
    const k3_profile_t *profile;
    const char         *asked = k3_options_get(options, "floor");
    double              floor = 1.0;
    size_t              index;

    c->phase = k3_options_get(options, "phase");
    c->baseline = k3_options_get(options, "baseline");
    if ((asked != NULL && k3_parse_double("floor", asked, 0.0, 1000.0, &floor, err) != K3_OK) ||
        k3_parse_switch("scaled", k3_options_get(options, "scaled"), &c->scaled, err) != K3_OK ||
        (c->phase != NULL &&
         k3_parse_name("phase", c->phase, k3_phase_names, &index, err) != K3_OK) ||
        (c->baseline != NULL && k3_registry_find(c->baseline, &profile, err) != K3_OK)) {
        return err->status;
    }
    if (c->baseline != NULL && c->sides) {
        return k3_fail(err, K3_ERR_USAGE,
                       "baseline %s: between two sets (A... -- B...) the first set is the base",
                       c->baseline);
    }
    if (c->scaled && c->phase != NULL) {
        return k3_fail(err, K3_ERR_USAGE, "phase %s: only headlines are scaled", c->phase);
    }
    rule->floor = floor / 100.0;
    return K3_OK;
}

typedef struct adding {
    k3_comparison_t   *comparison;
    const char *const *paths;
    size_t             first; /* records of the base */
    k3_records_t       read;
} adding_t;

static k3_status_t read_facts(void *arg, const char *path, json_t **facts_p, k3_error_t *err)
{
    const adding_t         *a = arg;
    const k3_facts_wanted_t wanted = {.phase = a->comparison->phase,
                                      .scaled = a->comparison->scaled};

    return k3_facts_read(path, &wanted, facts_p, err);
}

static k3_status_t add(void *arg, size_t i, const json_t *facts, const k3_error_t *fault,
                       k3_error_t *err)
{
    adding_t *a = arg;

    if (facts == NULL) {
        return k3_fail(err, fault->status, "%s", fault->text);
    }
    if (k3_records_note(&a->read, a->paths[i], k3_get_text(facts, "run"), err) == K3_OK) {
        k3_comparison_add(a->comparison, i < a->first ? K3_SIDE_BASE : K3_SIDE_NEW, facts);
    }
    return err->status;
}

static k3_status_t add_records(const k3_options_t *options, size_t first, k3_comparison_t *c,
                               k3_error_t *err)
{
    size_t       count = k3_options_positional_count(options);
    const char **paths = NULL;
    adding_t     a = {.comparison = c, .first = first};

    if (k3_alloc("records", count, sizeof(*paths), &paths, err) != K3_OK) {
        return err->status;
    }
    for (size_t i = 0; i < count; i++) {
        paths[i] = k3_options_positional(options, i);
    }
    a.paths = paths;
    k3_read_each(NULL, paths, count, read_facts, add, &a, err);
    k3_records_close(&a.read);
    k3_free(paths);
    return err->status;
}

static const char *first_key(const json_t *cells)
{
    const char *key = json_object_iter_key(json_object_iter((json_t *)(uintptr_t)cells));

    return key != NULL ? key : "none";
}

/* A table in which every cell stands alone compares nothing. */
static k3_status_t check_pairs(const k3_comparison_t *c, const json_t *document, k3_error_t *err)
{
    if (json_integer_value(json_object_get(document, "pairs")) > 0) {
        return K3_OK;
    }
    if (c->sides) {
        return k3_fail(err, K3_ERR_USAGE,
                       "compare: no cell of the base is in the new set, nor one with the same work "
                       "and backend; the first of each: %.200s and %.200s; the backends of one set "
                       "are compared without --",
                       first_key(c->cells[K3_SIDE_BASE]), first_key(c->cells[K3_SIDE_NEW]));
    }
    return k3_fail(
        err, K3_ERR_USAGE,
        "compare: no two cells of this set that move rows did the same work%s%s, so there is "
        "nothing to compare (the first: %.300s); two sets: BASE... -- NEW...",
        c->baseline != NULL ? ", one of them by baseline " : "",
        c->baseline != NULL ? c->baseline : "", first_key(c->cells[K3_SIDE_BASE]));
}

static k3_status_t compare(const k3_options_t *options, size_t *worse, k3_error_t *err)
{
    k3_verdict_rule_t rule = {.level = 0.95};
    k3_comparison_t   c = {0};
    json_t           *document = NULL;
    size_t            count = k3_options_positional_count(options);
    size_t            first = k3_options_first_group(options, &c.sides);

    if (first == 0 || (c.sides && first == count)) {
        return k3_fail(err, K3_ERR_USAGE,
                       "compare: %s: give A... -- B..., or the records of one set",
                       count == 0 ? "no record given" : "no record on one side of --");
    }
    if (read_options(options, &c, &rule, err) == K3_OK && k3_comparison_open(&c, err) == K3_OK &&
        add_records(options, first, &c, err) == K3_OK &&
        k3_comparison_judge(&c, &rule, &document, worse, err) == K3_OK &&
        check_pairs(&c, document, err) == K3_OK) {
        k3_verdict_print(document, k3_options_get(options, "output"), k3_comparison_text,
                         k3_comparison_markdown, err);
    }
    json_decref(document);
    k3_comparison_close(&c);
    return err->status;
}

static int run_compare(int argc, char **argv)
{
    k3_error_t    err = K3_ERROR_INIT;
    k3_options_t *options = NULL;
    int           help = 0, code;
    size_t        worse = 0;

    if (k3_command_options(&k3_command_compare, argc, argv, &options, &help, &err) != K3_OK ||
        help) {
        return k3_command_end(&err);
    }
    compare(options, &worse, &err);
    k3_options_free(options);
    code = k3_command_end(&err);
    return code == 0 && worse > 0 ? k3_exit_code(K3_ERR_CHECK) : code;
}

const k3_command_t k3_command_compare = {
    .id = K3_COMMAND_COMPARE,
    .name = "compare",
    .usage = "BASE... -- NEW... [OPTIONS]   or   RECORD... [OPTIONS]",
    .what = "a verdict for each cell: two sets of launches, or backend against backend",
    .files = true,
    .groups = true,
    .run = run_compare,
};
