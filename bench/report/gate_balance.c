/* How evenly the lanes are used, against the baseline; and whether the machine itself is slower. */
#include <math.h>
#include <string.h>

#include "bench/report/balance.h"
#include "bench/report/gate_internal.h"
#include "bench/report/values.h"
#include "harness/base/memory.h"
#include "harness/record/json_values.h"

/* A smaller rise of max/mean or of the Gini coefficient is none, however small the base: what is spread
 * almost evenly has no share of which a percentage would say anything. */
#define RISE_LEAST 0.05

/* --- a family of values that are judged as times are ----------------------------------------- */

typedef struct judgement {
    k3_gate_row_t *row;
    double        *values;
} judgement_t;

typedef struct family {
    judgement_t *of;
    k3_judged_t *judged;
    size_t       count;
} family_t;

static k3_status_t open_family(size_t most, family_t *f, k3_error_t *err)
{
    *f = (family_t){0};
    if (k3_alloc("judgements", most, sizeof(*f->of), &f->of, err) == K3_OK) {
        k3_alloc("judgements", most, sizeof(*f->judged), &f->judged, err);
    }
    return err->status;
}

static void close_family(family_t *f)
{
    for (size_t i = 0; i < f->count; i++) {
        k3_free(f->of[i].values);
    }
    k3_free(f->judged);
    k3_free(f->of);
}

/* Nothing where a side has no values. */
static k3_status_t add_to_family(family_t *f, k3_gate_row_t *row, const json_t *base,
                                 const json_t *fresh, k3_error_t *err)
{
    if (json_array_size(base) > 0 && json_array_size(fresh) > 0 &&
        k3_judged_take(base, fresh, &f->judged[f->count], &f->of[f->count].values, err) == K3_OK) {
        f->of[f->count++].row = row;
    }
    return err->status;
}

/* --- balance --------------------------------------------------------------------------------- */

/* What follows from the plan is the same in every launch and needs no test. */
static void judge_planned(k3_judged_t *j)
{
    double rise = j->median_b - j->median_a;

    j->verdict = rise >= j->margin    ? K3_VERDICT_WORSE
                 : rise <= -j->margin ? K3_VERDICT_BETTER
                                      : K3_VERDICT_SAME;
}

static void report_measure(k3_gate_work_t *work, const k3_balance_measure_t *m, k3_gate_row_t *row,
                           const k3_judged_t *j)
{
    json_t *balance = json_object_get(row->json, "balance");
    char    name[64];

    json_object_set_new(balance, k3_balance_name(m, name, sizeof(name)),
                        json_pack("{s:o, s:o, s:o, s:s}", "base", k3_json_number(j->median_a),
                                  "new", k3_json_number(j->median_b), "floor",
                                  k3_json_number(j->margin), "verdict",
                                  k3_verdict_names[j->verdict]));
    if (j->verdict == K3_VERDICT_WORSE) {
        k3_gate_find(work, K3_SEVERITY_FAIL, "balance", row->key,
                     "%s: %s: %.4g in the baseline, now %.4g", m->phase, m->text, j->median_a,
                     j->median_b);
    }
}

static k3_status_t judge_measure(k3_gate_work_t *work, const k3_balance_measure_t *m,
                                 k3_error_t *err)
{
    k3_verdict_rule_t rule = {.level = work->gate->verdict.level,
                              .floor = work->gate->balance_floor,
                              .floor_abs = RISE_LEAST};
    family_t          f;
    char              name[64];

    k3_balance_name(m, name, sizeof(name));
    open_family(work->count, &f, err);
    for (size_t i = 0; i < work->count && err->status == K3_OK; i++) {
        k3_gate_row_t *row = &work->rows[i];

        if (row->reason == NULL) {
            add_to_family(&f, row, json_object_get(json_object_get(row->base, "balance"), name),
                          json_object_get(json_object_get(row->fresh, "balance"), name), err);
        }
    }
    if (err->status == K3_OK && k3_judge(f.judged, f.count, &rule, err) == K3_OK) {
        for (size_t i = 0; i < f.count; i++) {
            if (!m->timed) {
                judge_planned(&f.judged[i]);
            }
            report_measure(work, m, f.of[i].row, &f.judged[i]);
        }
    }
    close_family(&f);
    return err->status;
}

k3_status_t k3_gate_balance(k3_gate_work_t *work, k3_error_t *err)
{
    for (size_t i = 0; i < work->count; i++) {
        json_object_set_new(work->rows[i].json, "balance", json_object());
    }
    for (size_t m = 0; m < k3_balance_measure_count && err->status == K3_OK; m++) {
        judge_measure(work, &k3_balance_measures[m], err);
    }
    return err->status;
}

/* --- the machine ----------------------------------------------------------------------------- */

/* The bare loop where there is one: the dispatch beside it hangs on the backend. */
static const char *control_value(const k3_gate_row_t *row)
{
    return json_array_size(json_object_get(row->fresh, "bound_us")) > 0 ? "bound_us" : "us";
}

static k3_status_t collect_controls(k3_gate_work_t *work, family_t *f, size_t *seen,
                                    k3_error_t *err)
{
    for (size_t i = 0; i < work->count && err->status == K3_OK; i++) {
        k3_gate_row_t *row = &work->rows[i];

        if (json_is_true(json_object_get(row->fresh, "control"))) {
            ++*seen;
        }
        if (json_is_true(json_object_get(row->fresh, "control")) && row->reason == NULL) {
            const char *value = control_value(row);

            add_to_family(f, row, json_object_get(row->base, value),
                          json_object_get(row->fresh, value), err);
        }
    }
    return err->status;
}

static json_t *control_cells(const family_t *f, size_t *slower)
{
    json_t *cells = json_array();

    for (size_t i = 0; i < f->count; i++) {
        const k3_judged_t *j = &f->judged[i];

        *slower += j->verdict == K3_VERDICT_WORSE;
        json_array_append_new(
            cells, json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "key", f->of[i].row->key, "value",
                             control_value(f->of[i].row), "verdict", k3_verdict_names[j->verdict],
                             "base_us", k3_json_number(j->median_a), "new_us",
                             k3_json_number(j->median_b), "shift_pct",
                             j->ratios ? k3_json_number(100.0 * j->shift.shift) : json_null()));
    }
    return cells;
}

static bool all_are(const family_t *f, k3_verdict_t verdict)
{
    size_t n = 0;

    while (n < f->count && f->judged[n].verdict == verdict) {
        n++;
    }
    return n == f->count && n > 0;
}

static json_t *control_json(const family_t *f, size_t seen)
{
    size_t      slower = 0;
    json_t     *cells = control_cells(f, &slower);
    const char *state = "unknown", *text;

    if (seen == 0) {
        text = "no host-control cell: a slow machine cannot be told from a slow backend (add a "
               "backend that moves nothing, or --component control)";
    } else if (f->count == 0) {
        text = "the host-control cells cannot be compared with the baseline";
    } else if (slower > 0) {
        state = "slower";
        text = "a host-control cell is worse too: the machine itself is slower than at the "
               "baseline, and what is slower here need not be a backend";
    } else if (all_are(f, K3_VERDICT_SAME)) {
        state = "same";
        text = "the host-control cells are the same as in the baseline: the machine is not what "
               "changed";
    } else {
        text = "the host-control cells are not worse, but too few launches show that they are the "
               "same";
        state = all_are(f, K3_VERDICT_BETTER) ? "faster" : state;
        text = all_are(f, K3_VERDICT_BETTER)
                   ? "the host-control cells are faster than in the baseline: so is the machine"
                   : text;
    }
    return json_pack("{s:s, s:s, s:o}", "state", state, "text", text, "cells", cells);
}

k3_status_t k3_gate_control(k3_gate_work_t *work, json_t **control_p, k3_error_t *err)
{
    family_t f;
    size_t   seen = 0;

    if (open_family(work->count, &f, err) == K3_OK &&
        collect_controls(work, &f, &seen, err) == K3_OK &&
        k3_judge(f.judged, f.count, &work->gate->verdict, err) == K3_OK) {
        *control_p = control_json(&f, seen);
    }
    close_family(&f);
    return err->status;
}
