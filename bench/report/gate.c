#include "bench/report/gate.h"

#include <math.h>
#include <string.h>

#include "bench/report/baseline.h"
#include "bench/report/fields.h"
#include "bench/report/gate_internal.h"
#include "bench/report/judged.h"
#include "bench/report/sides.h"
#include "bench/report/values.h"
#include "harness/base/memory.h"
#include "harness/record/json_values.h"

/* --- cells ----------------------------------------------------------------------------------- */

static void refuse(k3_gate_row_t *row, k3_verdict_t verdict, const char *reason)
{
    row->verdict = verdict;
    row->reason = reason;
}

static const char *why_none(const json_t *entry)
{
    const char *reason = json_string_value(json_object_get(entry, "none"));

    return reason != NULL ? reason : "the new records do not have the cell";
}

/* Why a cell cannot be judged; reason NULL: it can. */
static void examine(k3_gate_row_t *row)
{
    const char *wrong = k3_side_wrong(row->fresh);

    if (wrong != NULL) {
        refuse(row, K3_VERDICT_BROKEN, wrong);
    } else if (!k3_side_has_times(row->fresh)) {
        refuse(row, K3_VERDICT_MISSING, why_none(row->fresh));
    } else if (row->promotion == NULL) {
        refuse(row, K3_VERDICT_INCOMPARABLE, "the baseline does not know this machine");
    } else if (!k3_side_has_times(row->base)) {
        refuse(row, K3_VERDICT_ADDED, "the baseline does not have the cell");
    } else if (k3_sides_differ(row->base, row->fresh, false, row->how, sizeof(row->how))) {
        refuse(row, K3_VERDICT_INCOMPARABLE, row->how);
    }
}

/* Cells that neither side could time are not held against anything. */
static k3_status_t add_row(k3_gate_work_t *work, const char *key, const char *machine,
                           const json_t *fresh, k3_error_t *err)
{
    k3_gate_row_t *row = &work->rows[work->count];

    *row = (k3_gate_row_t){.key = key, .machine = machine, .fresh = fresh};
    row->promotion = k3_baseline_find(work->gate->baseline, machine);
    row->base = json_object_get(json_object_get(row->promotion, "cells"), key);
    examine(row);
    if (row->reason != NULL && row->verdict == K3_VERDICT_MISSING &&
        !k3_side_has_times(row->base)) {
        return K3_OK;
    }
    work->count++;
    if (row->reason == NULL) {
        row->judged.apart = !k3_side_moves(fresh);
        k3_judged_take(json_object_get(row->base, "us"), json_object_get(fresh, "us"), &row->judged,
                       &row->values, err);
    }
    return err->status;
}

/* The cells of the baseline of a machine, in its order. */
static k3_status_t add_known(k3_gate_work_t *work, const char *machine, k3_error_t *err)
{
    const json_t *promotion = k3_baseline_find(work->gate->baseline, machine);
    json_t       *side = work->gate->fresh->side, *entry, *fresh;
    const char   *key;

    json_object_foreach(json_object_get(promotion, "cells"), key, entry)
    {
        fresh = json_object_get(side, key);
        if (fresh != NULL && strcmp(k3_get_text(fresh, "machine"), machine) != 0) {
            continue; /* it stands at the machine that has it now */
        }
        if (add_row(work, key, machine, fresh, err) != K3_OK) {
            break;
        }
    }
    return err->status;
}

/* First what the baseline has, then what is new. */
static k3_status_t add_rows(k3_gate_work_t *work, k3_error_t *err)
{
    const k3_launches_t *fresh = work->gate->fresh;
    size_t               most = json_object_size(fresh->side);
    const char          *key, *machine;
    json_t              *entry;

    json_object_foreach(fresh->machines, machine, entry)
    {
        most += json_object_size(
            json_object_get(k3_baseline_find(work->gate->baseline, machine), "cells"));
    }
    if (k3_alloc("cells", most, sizeof(*work->rows), &work->rows, err) != K3_OK) {
        return err->status;
    }
    json_object_foreach(fresh->machines, machine, entry)
    {
        if (add_known(work, machine, err) != K3_OK) {
            return err->status;
        }
    }
    json_object_foreach(fresh->side, key, entry)
    {
        const json_t *promotion =
            k3_baseline_find(work->gate->baseline, k3_get_text(entry, "machine"));

        if (json_object_get(json_object_get(promotion, "cells"), key) == NULL &&
            add_row(work, key, k3_get_text(entry, "machine"), entry, err) != K3_OK) {
            break;
        }
    }
    return err->status;
}

/* Those that can be judged are one family; cells that move no rows are one of their own. */
static k3_status_t judge_rows(k3_gate_work_t *work, k3_error_t *err)
{
    k3_judged_t *family = NULL;
    size_t       count = 0;

    if (k3_alloc("judgements", work->count, sizeof(*family), &family, err) != K3_OK) {
        return err->status;
    }
    for (size_t i = 0; i < work->count; i++) {
        if (work->rows[i].reason == NULL) {
            family[count++] = work->rows[i].judged;
        }
    }
    k3_judge(family, count, &work->gate->verdict, err);
    count = 0;
    for (size_t i = 0; i < work->count && err->status == K3_OK; i++) {
        if (work->rows[i].reason == NULL) {
            work->rows[i].judged = family[count++];
            work->rows[i].verdict = work->rows[i].judged.verdict;
        }
    }
    k3_free(family);
    return err->status;
}

/* --- findings -------------------------------------------------------------------------------- */

static void find_shift(k3_gate_work_t *work, const k3_gate_row_t *row)
{
    const k3_judged_t *j = &row->judged;
    bool               worse = row->verdict == K3_VERDICT_WORSE;
    char               percent[32] = "";

    if (j->ratios) {
        snprintf(percent, sizeof(percent), " (%+.1f %%)", 100.0 * j->shift.shift);
    }
    k3_gate_find(work, worse ? K3_SEVERITY_FAIL : K3_SEVERITY_WARN, k3_verdict_names[row->verdict],
                 row->key, "%s: %.6g us in the baseline, now %.6g us%s, p %.2g",
                 worse ? "slower" : "faster; promote it if it is meant to stay", j->median_a,
                 j->median_b, percent, j->p_family);
}

static void find_in_row(k3_gate_work_t *work, const k3_gate_row_t *row)
{
    switch (row->verdict) {
    case K3_VERDICT_BROKEN:
        k3_gate_find(work, K3_SEVERITY_FAIL, "check", row->key, "%s", row->reason);
        break;
    case K3_VERDICT_MISSING:
        k3_gate_find(work, K3_SEVERITY_FAIL, "lost", row->key, "the baseline has the cell; %s",
                     row->reason);
        break;
    case K3_VERDICT_ADDED:
        k3_gate_find(work, K3_SEVERITY_FAIL, "no baseline", row->key,
                     "%s; promote records that have it", row->reason);
        break;
    case K3_VERDICT_INCOMPARABLE:
        if (row->promotion != NULL) {
            k3_gate_find(work, K3_SEVERITY_FAIL, "incomparable", row->key, "%s", row->reason);
        }
        break;
    case K3_VERDICT_WORSE:
    case K3_VERDICT_BETTER:
        find_shift(work, row);
        break;
    case K3_VERDICT_INCONCLUSIVE:
        k3_gate_find(work, K3_SEVERITY_WARN, "inconclusive", row->key, "%s",
                     k3_get_text(row->json, "reason"));
        break;
    default:
        break;
    }
}

/* Against which machine, and in what it differs: of the last promotion. */
static void find_machine(k3_gate_work_t *work, const char *machine, const json_t *stable)
{
    const json_t *promotions = json_object_get(work->gate->baseline, "promotions");
    const json_t *last = json_array_get(promotions, json_array_size(promotions) - 1);
    char          text[160] = "nothing was promoted yet";

    if (k3_baseline_find(work->gate->baseline, machine) != NULL) {
        return;
    }
    if (json_array_size(promotions) > 0) {
        k3_machines_differ(json_object_get(last, "stable"), stable, text, sizeof(text));
    }
    k3_gate_find(work, K3_SEVERITY_FAIL, "no baseline", NULL,
                 "the baseline does not know machine %s: %s; promote records of this machine",
                 machine, text);
}

static bool holds_run(const json_t *launches, const char *run)
{
    const json_t *launch;
    size_t        i;

    json_array_foreach(launches, i, launch)
    {
        if (strcmp(k3_get_text(launch, "run"), run) == 0) {
            return true;
        }
    }
    return false;
}

/* What is held against itself is the same, whatever happened. */
static void find_same_launches(k3_gate_work_t *work)
{
    const json_t *fresh = work->gate->fresh->list, *launch;
    size_t        i, same = 0;

    json_array_foreach(fresh, i, launch)
    {
        const json_t *promotion =
            k3_baseline_find(work->gate->baseline, k3_get_text(launch, "machine"));

        same += holds_run(json_object_get(promotion, "launches"), k3_get_text(launch, "run"));
    }
    if (same > 0) {
        k3_gate_find(work, K3_SEVERITY_WARN, "same launches", NULL,
                     "%zu of the %zu new launches are the baseline's own: what is held against "
                     "itself is never worse",
                     same, i);
    }
}

/* --- the document ---------------------------------------------------------------------------- */

static double median_of_list(const json_t *list)
{
    k3_judged_t item = {0};
    double     *values = NULL, median = NAN;
    size_t      n = json_array_size(list);
    k3_error_t  unused = K3_ERROR_INIT;

    if (n == 0) {
        return NAN;
    }
    if (k3_judged_take(list, list, &item, &values, &unused) == K3_OK) {
        median = k3_median_of(item.a, n, values + n);
    }
    k3_free(values);
    return median;
}

/* How near a side comes to a bare loop of the same messages. */
static void set_bound(json_t *side, const json_t *entry, double median)
{
    double bound = median_of_list(json_object_get(entry, "bound_us"));

    if (isfinite(bound) && isfinite(median) && median > 0.0) {
        k3_set_number(side, "bound_us", bound);
        k3_set_number(side, "share_of_bound_pct", 100.0 * bound / median);
    } else {
        k3_set_null(side, "share_of_bound_pct", "only --component control measures a bound");
    }
}

static json_t *side_json(const json_t *entry)
{
    const json_t *us = json_object_get(entry, "us");
    double        median = median_of_list(us);
    json_t       *side = k3_judged_side(us, median);

    set_bound(side, entry, median);
    return side;
}

static json_t *row_json(const k3_gate_row_t *row)
{
    const json_t *of = row->fresh != NULL ? row->fresh : row->base;
    json_t       *json = json_object();

    k3_set_text(json, "key", row->key);
    k3_set_text(json, "machine", row->machine);
    k3_set_text(json, "backend", k3_get_text(of, "backend"));
    k3_set_bool(json, "control", json_is_true(json_object_get(of, "control")));
    k3_set_text(json, "verdict", k3_verdict_names[row->verdict]);
    if (row->reason == NULL) {
        k3_judged_reason(json, &row->judged);
        k3_judged_note(json, &row->judged);
        k3_judged_shift(json, &row->judged);
    } else {
        k3_set_text(json, "reason", row->reason);
    }
    json_object_set_new(json, "base", side_json(row->base));
    json_object_set_new(json, "new", side_json(row->fresh));
    return json;
}

static k3_status_t history_json(const k3_gate_work_t *work, json_t **json_p, k3_error_t *err)
{
    const k3_gate_t *g = work->gate;
    json_t          *faults = NULL, *stable;
    size_t           launches, all = 0;
    const char      *machine;

    json_object_foreach(g->fresh->machines, machine, stable)
    {
        k3_history_question_t q = {.machine = machine, .until = g->fresh->last};

        if (k3_history_launches(g->history, &q, &launches, err) != K3_OK) {
            return err->status;
        }
        all += launches;
    }
    k3_history_faults(g->history, &faults, err);
    *json_p = json_pack("{s:o, s:I, s:o}", "folder", k3_json_string(g->folder), "launches",
                        (json_int_t)all, "not_records", faults);
    return err->status;
}

/* Of each machine the promotion that counts. */
static json_t *baselines_json(const k3_gate_t *g)
{
    json_t     *list = json_array(), *stable;
    const char *machine;

    json_object_foreach(g->fresh->machines, machine, stable)
    {
        const json_t *p = k3_baseline_find(g->baseline, machine);

        if (p != NULL) {
            json_array_append_new(list, json_pack("{s:o, s:s, s:O, s:O, s:O, s:O, s:O}", "file",
                                                  k3_json_string(g->baseline_path), "machine",
                                                  machine, "number", json_object_get(p, "number"),
                                                  "who", json_object_get(p, "who"), "when",
                                                  json_object_get(p, "when"), "why",
                                                  json_object_get(p, "why"), "launches",
                                                  json_object_get(p, "launches")));
        }
    }
    return list;
}

static json_t *rule_json(const k3_gate_t *g)
{
    return json_pack(
        "{s:f, s:o, s:o, s:i, s:i, s:s}", "level", g->verdict.level, "floor_pct",
        k3_json_number(100.0 * g->verdict.floor), "balance_floor_pct",
        k3_json_number(100.0 * g->balance_floor), "window_launches", (int)g->window,
        "sessions_days", (int)g->sessions, "method",
        "Mann-Whitney over launches, Holm over the family, Hodges-Lehmann shift of the "
        "ratios new over base; changes by E-divisive with permutations, Bonferroni over the "
        "series");
}

static json_t *counts_json(const k3_gate_work_t *work)
{
    size_t  counts[K3_VERDICT_COUNT] = {0};
    json_t *json = json_object();

    for (size_t i = 0; i < work->count; i++) {
        counts[work->rows[i].verdict]++;
    }
    for (int v = 0; v < K3_VERDICT_COUNT; v++) {
        k3_set_count(json, k3_verdict_names[v], counts[v]);
    }
    return json;
}

static json_t *cells_json(k3_gate_work_t *work)
{
    json_t *cells = json_array();

    for (size_t i = 0; i < work->count; i++) {
        json_array_append_new(cells, work->rows[i].json);
        work->rows[i].json = NULL;
    }
    return cells;
}

static json_t *document_json(k3_gate_work_t *work, json_t *history, json_t *control)
{
    const k3_launches_t *fresh = work->gate->fresh;
    size_t               warnings = json_array_size(work->findings) - work->failures;

    return json_pack("{s:s, s:b, s:i, s:i, s:o, s:O, s:o, s:o, s:O, s:o, s:o, s:O, s:o, s:o}",
                     "schema", "k3bench.gate/2", "passed", work->failures == 0, "failures",
                     (int)work->failures, "warnings", (int)warnings, "reach", k3_gate_reach(work),
                     "machines", fresh->machines, "baselines", baselines_json(work->gate),
                     "history", history, "launches", fresh->list, "rule", rule_json(work->gate),
                     "verdicts", counts_json(work), "findings", work->findings, "control", control,
                     "cells", cells_json(work));
}

static void warn_of_files(k3_gate_work_t *work, const json_t *history)
{
    const json_t *faults = json_object_get(history, "not_records"), *fault;
    size_t        i;

    json_array_foreach(faults, i, fault)
    {
        k3_gate_find(work, K3_SEVERITY_WARN, "file", NULL, "%s is no record of the history: %s",
                     k3_get_text(fault, "file"), k3_get_text(fault, "fault"));
    }
}

static k3_status_t judge(k3_gate_work_t *work, json_t **document_p, k3_error_t *err)
{
    json_t     *control = NULL, *history = NULL, *stable;
    const char *machine;

    if (add_rows(work, err) != K3_OK || judge_rows(work, err) != K3_OK) {
        return err->status;
    }
    json_object_foreach(work->gate->fresh->machines, machine, stable)
    {
        find_machine(work, machine, stable);
    }
    find_same_launches(work);
    for (size_t i = 0; i < work->count; i++) {
        work->rows[i].json = row_json(&work->rows[i]);
        find_in_row(work, &work->rows[i]);
    }
    if (k3_gate_changes(work, err) == K3_OK && k3_gate_balance(work, err) == K3_OK &&
        k3_gate_control(work, &control, err) == K3_OK &&
        history_json(work, &history, err) == K3_OK) {
        warn_of_files(work, history);
        *document_p = document_json(work, history, control);
    } else {
        json_decref(control);
        json_decref(history);
    }
    return err->status;
}

k3_status_t k3_gate_judge(const k3_gate_t *gate, json_t **document_p, size_t *failures,
                          k3_error_t *err)
{
    k3_gate_work_t work = {.gate = gate, .findings = json_array()};

    judge(&work, document_p, err);
    *failures = work.failures;
    for (size_t i = 0; i < work.count; i++) {
        k3_free(work.rows[i].values);
        json_decref(work.rows[i].json);
    }
    k3_free(work.rows);
    json_decref(work.findings);
    return err->status;
}
