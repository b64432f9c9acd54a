/* k3bench gate: new launches against the baseline and the history of their machine. */
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "bench/commands/command.h"
#include "bench/commands/records.h"
#include "bench/commands/verdict_print.h"
#include "bench/report/baseline.h"
#include "bench/report/facts.h"
#include "bench/report/fields.h"
#include "bench/report/gate.h"
#include "harness/record/document.h"
#include "harness/record/fingerprint.h"
#include "harness/record/history.h"

typedef struct gate {
    const k3_options_t  *options;
    const char          *folder;
    char                 baseline_path[1024];
    bool                 promote, rebuild;
    double               timeout;
    k3_gate_t            rule;
    k3_launches_t        fresh;
    k3_history_t        *history;
    k3_history_changes_t changes;
    json_t              *baseline;
} gate_t;

/* --- options --------------------------------------------------------------------------------- */

static k3_status_t read_numbers(gate_t *g, k3_error_t *err)
{
    const char *asked = k3_options_get(g->options, "floor");
    uint64_t    window, sessions;
    double      floor = 3.0, balance;

    if ((asked != NULL && k3_parse_double("floor", asked, 0.0, 1000.0, &floor, err) != K3_OK) ||
        k3_parse_double("balance-floor", k3_options_get(g->options, "balance-floor"), 0.0, 1000.0,
                        &balance, err) != K3_OK ||
        k3_parse_u64("window", k3_options_get(g->options, "window"), 6, 1000, &window, err) !=
            K3_OK ||
        k3_parse_u64("sessions", k3_options_get(g->options, "sessions"), 1, 1000, &sessions, err) !=
            K3_OK ||
        k3_parse_double("timeout", k3_options_get(g->options, "timeout"), 0.0, 86400.0, &g->timeout,
                        err) != K3_OK) {
        return err->status;
    }
    g->rule.verdict = (k3_verdict_rule_t){.level = 0.95, .floor = floor / 100.0};
    g->rule.balance_floor = balance / 100.0;
    g->rule.window = window;
    g->rule.sessions = sessions;
    return K3_OK;
}

/* Options that would be passed over. */
static k3_status_t check_effect(const gate_t *g, k3_error_t *err)
{
    static const char *const of_verdict[] = {"floor", "balance-floor", "window", "sessions",
                                             "output"};
    bool                     judges = !g->promote && k3_options_positional_count(g->options) > 0;

    if (!g->promote && k3_options_get(g->options, "why") != NULL) {
        return k3_fail(err, K3_ERR_USAGE, "why: it belongs to --promote");
    }
    if (!g->promote && k3_options_get(g->options, "who") != NULL) {
        return k3_fail(err, K3_ERR_USAGE, "who: it belongs to --promote");
    }
    for (size_t i = 0; i < sizeof(of_verdict) / sizeof(of_verdict[0]) && !judges; i++) {
        if (k3_options_origin(g->options, of_verdict[i]) == K3_ORIGIN_COMMAND_LINE) {
            return k3_fail(err, K3_ERR_USAGE, "%s: it belongs to a verdict, and --%s gives none",
                           of_verdict[i], g->promote ? "promote" : "rebuild");
        }
    }
    return K3_OK;
}

static k3_status_t read_options(gate_t *g, k3_error_t *err)
{
    const char *file = k3_options_get(g->options, "baseline-file");
    const char *why = k3_options_get(g->options, "why");
    int         length;

    g->folder = k3_options_get(g->options, "history");
    g->promote = k3_options_on(g->options, "promote");
    g->rebuild = k3_options_on(g->options, "rebuild");
    if (g->folder == NULL) {
        return k3_fail(err, K3_ERR_USAGE, "gate: --history DIR is missing: the folder of records");
    }
    if (g->promote && (why == NULL || why[0] == '\0')) {
        return k3_fail(err, K3_ERR_USAGE,
                       "promote: --why TEXT is missing: the baseline keeps the reason");
    }
    length = file != NULL ? snprintf(g->baseline_path, sizeof(g->baseline_path), "%s", file)
                          : snprintf(g->baseline_path, sizeof(g->baseline_path), "%s/%s", g->folder,
                                     K3_HISTORY_BASELINE);
    if (length >= (int)sizeof(g->baseline_path)) {
        return k3_fail(err, K3_ERR_USAGE, "the path of the baseline is too long");
    }
    if (k3_options_positional_count(g->options) == 0 && (g->promote || !g->rebuild)) {
        return k3_fail(err, K3_ERR_USAGE, "gate: no record given: name the new ones");
    }
    return check_effect(g, err) == K3_OK ? read_numbers(g, err) : err->status;
}

/* --- records --------------------------------------------------------------------------------- */

/* Facts of a record that says when and where it ran. */
static k3_status_t read_facts(const char *path, bool lanes, json_t **facts_p, k3_error_t *err)
{
    const k3_facts_wanted_t wanted = {.lanes = lanes};

    if (k3_facts_read(path, &wanted, facts_p, err) == K3_OK &&
        k3_facts_placed(path, *facts_p, err) != K3_OK) {
        json_decref(*facts_p);
        *facts_p = NULL;
    }
    return err->status;
}

static k3_status_t read_for_index(void *arg, const char *path, json_t **facts_p, k3_error_t *err)
{
    (void)arg;
    return read_facts(path, false, facts_p, err);
}

static k3_status_t read_new(gate_t *g, k3_error_t *err)
{
    size_t       count = k3_options_positional_count(g->options);
    k3_records_t read = {0};

    for (size_t i = 0; i < count && err->status == K3_OK; i++) {
        const char *path = k3_options_positional(g->options, i);
        json_t     *facts = NULL;

        if (read_facts(path, true, &facts, err) == K3_OK &&
            k3_records_note(&read, path, k3_get_text(facts, "run"), err) == K3_OK) {
            k3_launches_add(&g->fresh, path, facts, err);
        }
        json_decref(facts);
    }
    k3_records_close(&read);
    return err->status;
}

/* --- promoting ------------------------------------------------------------------------------- */

static const char *who(const k3_options_t *options)
{
    const char          *name = k3_options_get(options, "who");
    const struct passwd *user = name == NULL ? getpwuid(getuid()) : NULL;

    return name != NULL ? name : user != NULL ? user->pw_name : "unknown";
}

static void print_keys(const json_t *promotion, const char *name)
{
    const json_t *keys = json_object_get(promotion, name), *key;
    size_t        i;

    json_array_foreach(keys, i, key)
    {
        printf("%s %s\n", name, json_string_value(key));
    }
}

static void print_promotion(const gate_t *g, const json_t *made)
{
    print_keys(made, "added");
    print_keys(made, "dropped");
    printf("promoted: %zu launches, %zu cells of machine %s are number %lld in %s\n",
           json_array_size(json_object_get(made, "launches")),
           json_object_size(json_object_get(made, "cells")), k3_get_text(made, "machine"),
           k3_get_int(made, "number"), g->baseline_path);
}

/* Under the history's lock, so that two promotions do not lose one another. */
static k3_status_t promote(gate_t *g, k3_error_t *err)
{
    char           now[21];
    k3_promotion_t promotion = {who(g->options), now, k3_options_get(g->options, "why")};
    size_t         before = json_array_size(json_object_get(g->baseline, "promotions"));
    const json_t  *promotions;

    k3_utc_now(now);
    if (k3_baseline_promote(&g->baseline, &g->fresh, &promotion, err) != K3_OK ||
        k3_document_replace(g->baseline, g->baseline_path, err) != K3_OK) {
        return err->status;
    }
    promotions = json_object_get(g->baseline, "promotions");
    for (size_t i = before; i < json_array_size(promotions); i++) {
        print_promotion(g, json_array_get(promotions, i));
    }
    return K3_OK;
}

/* --- judging --------------------------------------------------------------------------------- */

static k3_status_t judge(gate_t *g, size_t *failures, k3_error_t *err)
{
    json_t *document = NULL;

    if (g->baseline == NULL) {
        return k3_fail(err, K3_ERR_USAGE,
                       "%.300s: there is no baseline; make one: k3bench gate --history %.200s "
                       "--promote --why TEXT RECORD...",
                       g->baseline_path, g->folder);
    }
    g->rule.history = g->history;
    g->rule.folder = g->folder;
    g->rule.baseline_path = g->baseline_path;
    g->rule.baseline = g->baseline;
    g->rule.fresh = &g->fresh;
    if (k3_gate_judge(&g->rule, &document, failures, err) == K3_OK) {
        k3_verdict_print(document, k3_options_get(g->options, "output"), k3_gate_text,
                         k3_gate_markdown, err);
    }
    json_decref(document);
    return err->status;
}

static void print_rebuilt(const gate_t *g)
{
    printf("index of %s rebuilt: %zu launches\n", g->folder, g->changes.added);
}

static k3_status_t work(gate_t *g, size_t *failures, k3_error_t *err)
{
    if (read_new(g, err) != K3_OK ||
        k3_history_open(g->folder, g->timeout, &g->history, err) != K3_OK ||
        k3_history_refresh(g->history, g->rebuild, read_for_index, &g->changes, err) != K3_OK ||
        k3_baseline_read(g->baseline_path, &g->baseline, err) != K3_OK) {
        return err->status;
    }
    if (k3_options_positional_count(g->options) == 0) {
        print_rebuilt(g);
        return K3_OK;
    }
    return g->promote ? promote(g, err) : judge(g, failures, err);
}

static int run_gate(int argc, char **argv)
{
    k3_error_t    err = K3_ERROR_INIT;
    k3_options_t *options = NULL;
    gate_t        g = {0};
    int           help = 0, code;
    size_t        failures = 0;

    if (k3_command_options(&k3_command_gate, argc, argv, &options, &help, &err) != K3_OK || help) {
        return k3_command_end(&err);
    }
    g.options = options;
    if (read_options(&g, &err) == K3_OK && k3_launches_open(&g.fresh, &err) == K3_OK) {
        work(&g, &failures, &err);
    }
    k3_history_close(g.history);
    k3_launches_close(&g.fresh);
    json_decref(g.baseline);
    k3_options_free(options);
    code = k3_command_end(&err);
    return code == 0 && failures > 0 ? k3_exit_code(K3_ERR_CHECK) : code;
}

const k3_command_t k3_command_gate = {
    .id = K3_COMMAND_GATE,
    .name = "gate",
    .usage = "--history DIR RECORD... [OPTIONS]",
    .what = "new launches against the baseline and the history of their machine, the same cells on "
            "each side",
    .files = true,
    .run = run_gate,
};
