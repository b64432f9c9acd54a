/* The cells' histories: where their level changed, since which launch, and whether that is recent. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "bench/report/fields.h"
#include "bench/report/gate_internal.h"
#include "bench/report/values.h"
#include "harness/base/changepoint.h"
#include "harness/base/memory.h"

/* Values on each side of a change; a step is therefore seen in the third launch after it. */
enum { LEAST = 3, PERMUTATIONS_LEAST = 999, PERMUTATIONS_MOST = 9999 };

/* Changes of a cell; of the launches `points` [{us, run, started, git_sha}]. */
typedef struct series {
    k3_gate_row_t *row;
    json_t        *points;
    double        *us;
    size_t         n, change_count;
    k3_change_t   *changes;
    double         best_us;
} series_t;

typedef struct look {
    k3_gate_work_t  *work;
    k3_change_rule_t rule;
    char             since[11]; /* the first day on which a change is recent */
} look_t;

/* --- series ---------------------------------------------------------------------------------- */

/* The new launches of the cell, behind those of the history. */
static void append_new(const k3_gate_row_t *row, const json_t *new_runs, json_t *points)
{
    const json_t *runs = json_object_get(row->fresh, "runs"), *run;
    size_t        i;

    json_array_foreach(runs, i, run)
    {
        json_t *point = json_copy(json_object_get(new_runs, json_string_value(run)));

        json_object_set(point, "us", json_array_get(json_object_get(row->fresh, "us"), i));
        json_array_append_new(points, point);
    }
}

static bool started_before(const json_t *a, const json_t *b)
{
    int order = strcmp(k3_get_text(a, "started"), k3_get_text(b, "started"));

    return order != 0 ? order < 0 : strcmp(k3_get_text(a, "run"), k3_get_text(b, "run")) < 0;
}

/* New launches may have started between those of the history. Few are out of order. */
static void sort_points(json_t *points)
{
    for (size_t i = 1; i < json_array_size(points); i++) {
        size_t  at = i;
        json_t *point = json_incref(json_array_get(points, i));

        while (at > 0 && started_before(point, json_array_get(points, at - 1))) {
            at--;
        }
        if (at != i) {
            json_array_remove(points, i);
            json_array_insert(points, at, point);
        }
        json_decref(point);
    }
}

static void keep_last(json_t *points, size_t most)
{
    while (json_array_size(points) > most) {
        json_array_remove(points, 0);
    }
}

/* Run -> launch. */
static json_t *runs_of(const json_t *list)
{
    json_t       *runs = json_object();
    const json_t *launch;
    size_t        i;

    json_array_foreach(list, i, launch)
    {
        json_object_set(runs, k3_get_text(launch, "run"), (json_t *)(uintptr_t)launch);
    }
    return runs;
}

static k3_status_t load(const k3_gate_work_t *work, const json_t *new_runs, series_t *s,
                        k3_error_t *err)
{
    const k3_gate_t      *g = work->gate;
    k3_history_question_t q = {s->row->machine, g->fresh->last, s->row->key,
                               k3_get_text(s->row->fresh, "routing"),
                               json_object_get(s->row->fresh, "how")};

    if (k3_history_series(g->history, &q, g->window, new_runs, &s->points, err) != K3_OK ||
        k3_history_best(g->history, &q, &s->best_us, err) != K3_OK) {
        return err->status;
    }
    append_new(s->row, new_runs, s->points);
    sort_points(s->points);
    keep_last(s->points, g->window);
    s->n = json_array_size(s->points);
    if (k3_alloc("series", s->n, sizeof(double), &s->us, err) != K3_OK ||
        k3_alloc("changes", s->n / LEAST + 1, sizeof(k3_change_t), &s->changes, err) != K3_OK) {
        return err->status;
    }
    for (size_t i = 0; i < s->n; i++) {
        s->us[i] = json_number_value(json_object_get(json_array_get(s->points, i), "us"));
    }
    return K3_OK;
}

static void free_series(series_t *s)
{
    json_decref(s->points);
    k3_free(s->changes);
    k3_free(s->us);
}

/* --- changes --------------------------------------------------------------------------------- */

/* Median of the part of the series that ends before change number c (from 0) or, for the count of
 * changes, at the end. */
static double level_of(const series_t *s, size_t c)
{
    size_t     from = c == 0 ? 0 : s->changes[c - 1].at;
    size_t     to = c == s->change_count ? s->n : s->changes[c].at;
    double    *scratch = NULL, level = NAN;
    k3_error_t unused = K3_ERROR_INIT;

    if (k3_alloc("level", to - from, sizeof(double), &scratch, &unused) == K3_OK) {
        level = k3_median_of(s->us + from, to - from, scratch);
    }
    k3_free(scratch);
    return level;
}

static json_t *launch_json(const series_t *s, size_t i)
{
    json_t *launch = json_copy(json_array_get(s->points, i));

    json_object_del(launch, "us");
    return launch;
}

/* A change is a finding only when it is large enough, still there, recent, and not what people have
 * accepted by promoting later launches. */
static const char *state_of(const look_t *look, const series_t *s, size_t c)
{
    const k3_gate_t *g = look->work->gate;
    double           before = level_of(s, c), after = level_of(s, c + 1);
    double           last = level_of(s, s->change_count), floor = g->verdict.floor * fabs(before);
    const json_t    *promoted = json_object_get(s->row->promotion, "launches");
    const char      *started = k3_get_text(json_array_get(s->points, s->changes[c].at), "started");

    if (fabs(after - before) < floor || after == before) {
        return "small";
    }
    if ((after > before) != (last > before) || fabs(last - before) < floor) {
        return "over";
    }
    if (strncmp(started, look->since, 10) < 0) {
        return "old";
    }
    if (json_array_size(promoted) > 0 &&
        strcmp(started, k3_get_text(json_array_get(promoted, json_array_size(promoted) - 1),
                                    "started")) <= 0) {
        return "accepted";
    }
    return "new";
}

/* "same build abc" speaks for the machine or its set-up, "abc..def" for a commit in between. */
static json_t *commits_json(const char *good, const char *bad)
{
    if (good[0] == '\0' || bad[0] == '\0') {
        return json_null();
    }
    return strcmp(good, bad) == 0 ? json_sprintf("none, both ran %s", good)
                                  : json_sprintf("%s..%s", good, bad);
}

static json_t *change_json(const look_t *look, const series_t *s, size_t c)
{
    double  before = level_of(s, c), after = level_of(s, c + 1);
    json_t *change = json_object(), *good = launch_json(s, s->changes[c].at - 1);
    json_t *bad = launch_json(s, s->changes[c].at);

    k3_set_text(change, "direction", after > before ? "slower" : "faster");
    k3_set_text(change, "state", state_of(look, s, c));
    k3_set_number(change, "before_us", before);
    k3_set_number(change, "after_us", after);
    if (before != 0.0) {
        k3_set_number(change, "change_pct", 100.0 * (after - before) / before);
    } else {
        k3_set_null(change, "change_pct", "the level before is 0");
    }
    k3_set_number(change, "statistic", s->changes[c].q);
    k3_set_number(change, "p", s->changes[c].p);
    json_object_set_new(change, "commits",
                        commits_json(k3_get_text(good, "git_sha"), k3_get_text(bad, "git_sha")));
    json_object_set_new(change, "last_before", good);
    json_object_set_new(change, "first_after", bad);
    return change;
}

static void find_change(k3_gate_work_t *work, const series_t *s, const json_t *change)
{
    bool          slower = strcmp(k3_get_text(change, "direction"), "slower") == 0;
    const json_t *good = json_object_get(change, "last_before");
    const json_t *bad = json_object_get(change, "first_after"), *percent;
    char          by[32] = "";

    if (strcmp(k3_get_text(change, "state"), "new") != 0) {
        return;
    }
    percent = json_object_get(change, "change_pct");
    if (json_is_number(percent)) {
        snprintf(by, sizeof(by), " (%+.1f %%)", json_number_value(percent));
    }
    k3_gate_find(
        work, slower ? K3_SEVERITY_FAIL : K3_SEVERITY_WARN, "change", s->row->key,
        "%s since run %s of %s: %.6g us before, %.6g us after%s, p %.2g; last run before it "
        "%s of %s; commits: %s",
        slower ? "slower" : "faster", k3_get_text(bad, "run"), k3_get_text(bad, "started"),
        json_number_value(json_object_get(change, "before_us")),
        json_number_value(json_object_get(change, "after_us")), by,
        json_number_value(json_object_get(change, "p")), k3_get_text(good, "run"),
        k3_get_text(good, "started"),
        json_is_string(json_object_get(change, "commits")) ? k3_get_text(change, "commits")
                                                           : "not recorded");
}

/* --- the best time --------------------------------------------------------------------------- */

/* A baseline that was bad when it was promoted shows here. */
static void set_share(json_t *side, double best)
{
    double median = json_number_value(json_object_get(side, "median_us"));

    if (median > 0.0 && isfinite(best)) {
        k3_set_number(side, "share_of_best_pct", 100.0 * best / median);
    } else {
        k3_set_null(side, "share_of_best_pct", "no time");
    }
}

static double smallest(const json_t *values, double best)
{
    const json_t *value;
    size_t        i;

    json_array_foreach(values, i, value)
    {
        best = json_number_value(value) < best || !isfinite(best) ? json_number_value(value) : best;
    }
    return best;
}

/* --- all cells ------------------------------------------------------------------------------- */

static void report(const look_t *look, series_t *s)
{
    json_t *history = json_object(), *changes = json_array();
    double  best = smallest(json_object_get(s->row->fresh, "us"),
                            smallest(json_object_get(s->row->base, "us"), s->best_us));

    k3_set_count(history, "launches", s->n);
    k3_set_number(history, "best_us", best);
    for (size_t c = 0; c < s->change_count; c++) {
        json_t *change = change_json(look, s, c);

        find_change(look->work, s, change);
        json_array_append_new(changes, change);
    }
    if (s->n >= 2 * LEAST) {
        json_object_set_new(history, "changes", changes);
    } else {
        json_decref(changes);
        k3_set_null(history, "changes", "fewer than 6 launches");
    }
    set_share(json_object_get(s->row->json, "base"), best);
    set_share(json_object_get(s->row->json, "new"), best);
    json_object_set_new(s->row->json, "history", history);
}

/* The level is shared by all series that are looked at. */
static void set_rule(look_t *look, const series_t *series, size_t count)
{
    size_t tested = 0;
    double needed;

    for (size_t i = 0; i < count; i++) {
        tested += series[i].n >= 2 * LEAST;
    }
    look->rule = (k3_change_rule_t){.least = LEAST, .seed = 1};
    look->rule.level = (1.0 - look->work->gate->verdict.level) / (double)(tested > 0 ? tested : 1);
    needed = 2.0 / look->rule.level;
    look->rule.permutations = needed < PERMUTATIONS_LEAST  ? PERMUTATIONS_LEAST
                              : needed > PERMUTATIONS_MOST ? PERMUTATIONS_MOST
                                                           : (size_t)needed;
    if (look->rule.level * (double)(look->rule.permutations + 1) < 1.0) {
        look->rule.level = 1.0 / (double)(look->rule.permutations + 1);
    }
}

/* Days of the history with launches that take as much of the machine as some of the new ones do. */
static k3_status_t add_days(const k3_gate_t *g, const char *machine, json_t *days, k3_error_t *err)
{
    k3_history_question_t q = {.machine = machine, .until = g->fresh->last};
    json_t               *past = NULL;
    const json_t         *day;
    size_t                i;

    if (k3_history_days(g->history, &q, g->sessions, &past, err) == K3_OK) {
        json_array_foreach(past, i, day)
        {
            json_object_set_new(days, json_string_value(day), json_true());
        }
    }
    json_decref(past);
    return err->status;
}

/* Those of the new launches count too, whether they lie in the folder or not. */
static k3_status_t find_days(const k3_gate_t *g, json_t *days, k3_error_t *err)
{
    const json_t *launch;
    json_t       *stable;
    const char   *machine;
    size_t        i;
    char          text[11];

    json_object_foreach(g->fresh->machines, machine, stable)
    {
        if (add_days(g, machine, days, err) != K3_OK) {
            return err->status;
        }
    }
    json_array_foreach(g->fresh->list, i, launch)
    {
        snprintf(text, sizeof(text), "%.10s", k3_get_text(launch, "started"));
        json_object_set_new(days, text, json_true());
    }
    return K3_OK;
}

static const char *oldest_of(json_t *days)
{
    const char *day, *oldest = "";
    json_t     *unused;

    json_object_foreach(days, day, unused)
    {
        oldest = oldest[0] == '\0' || strcmp(day, oldest) < 0 ? day : oldest;
    }
    return oldest;
}

static k3_status_t find_since(look_t *look, k3_error_t *err)
{
    json_t *days = json_object();

    if (find_days(look->work->gate, days, err) == K3_OK) {
        while (json_object_size(days) > look->work->gate->sessions) {
            json_object_del(days, oldest_of(days));
        }
        snprintf(look->since, sizeof(look->since), "%s", oldest_of(days));
    }
    json_decref(days);
    return err->status;
}

static k3_status_t look_at(look_t *look, series_t *series, size_t count, k3_error_t *err)
{
    json_t *new_runs = runs_of(look->work->gate->fresh->list);

    for (size_t i = 0; i < count && err->status == K3_OK; i++) {
        load(look->work, new_runs, &series[i], err);
    }
    json_decref(new_runs);
    set_rule(look, series, count);
    for (size_t i = 0; i < count && err->status == K3_OK; i++) {
        series_t *s = &series[i];

        if (k3_change_points(s->us, s->n, &look->rule, s->changes, &s->change_count, err) ==
            K3_OK) {
            report(look, s);
        }
    }
    return err->status;
}

k3_status_t k3_gate_changes(k3_gate_work_t *work, k3_error_t *err)
{
    look_t    look = {.work = work};
    series_t *series = NULL;
    size_t    count = 0;

    if (k3_alloc("series", work->count, sizeof(*series), &series, err) != K3_OK) {
        return err->status;
    }
    for (size_t i = 0; i < work->count; i++) {
        if (json_array_size(json_object_get(work->rows[i].fresh, "us")) > 0) {
            series[count++] = (series_t){.row = &work->rows[i]};
        }
    }
    if (find_since(&look, err) == K3_OK) {
        look_at(&look, series, count, err);
    }
    for (size_t i = 0; i < count; i++) {
        free_series(&series[i]);
    }
    k3_free(series);
    return err->status;
}
