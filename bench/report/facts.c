#include "bench/report/facts.h"

#include <math.h>
#include <string.h>

#include "bench/report/cellview.h"
#include "bench/report/fields.h"
#include "bench/report/values.h"
#include "harness/base/balance.h"
#include "harness/base/memory.h"

const k3_balance_measure_t k3_balance_measures[] = {
    {"dispatch", "busy_max_over_mean", "busy time of its lanes, max/mean", true},
    {"dispatch", "busy_gini", "busy time of its lanes, Gini", true},
    {"dispatch", "bytes_max_over_mean", "bytes of its lanes, max/mean", false},
    {"dispatch", "bytes_gini", "bytes of its lanes, Gini", false},
    {"combine", "busy_max_over_mean", "busy time of its lanes, max/mean", true},
    {"combine", "busy_gini", "busy time of its lanes, Gini", true},
    {"combine", "bytes_max_over_mean", "bytes of its lanes, max/mean", false},
    {"combine", "bytes_gini", "bytes of its lanes, Gini", false},
};
const size_t k3_balance_measure_count = sizeof(k3_balance_measures) / sizeof(*k3_balance_measures);

const char *k3_balance_name(const k3_balance_measure_t *measure, char *text, size_t size)
{
    snprintf(text, size, "%s.%s", measure->phase, measure->name);
    return text;
}

/* --- lanes ----------------------------------------------------------------------------------- */

/* Values of a column over the lanes of a phase that leave their rank. */
static size_t take_column(const json_t *qps, const char *phase, const char *name, double *values)
{
    const json_t *rows = json_object_get(qps, "rows"), *row;
    int    of = k3_column(qps, "phase"), lane = k3_column(qps, "lane"), at = k3_column(qps, name);
    size_t i, count = 0;

    json_array_foreach(rows, i, row)
    {
        if (k3_field_is(row, of, phase) && k3_field_text(row, lane)[0] != '\0' &&
            !k3_field_is(row, lane, "self") && json_is_number(k3_field(row, at))) {
            values[count++] = k3_field_number(row, at);
        }
    }
    return count;
}

static void set_measure(json_t *balance, const k3_balance_measure_t *m, double *values, size_t n)
{
    char   name[64];
    bool   gini = strstr(m->name, "gini") != NULL;
    double value = gini ? k3_gini(values, n) : k3_max_over_mean(values, n);

    if (isfinite(value)) {
        json_object_set_new(balance, k3_balance_name(m, name, sizeof(name)), k3_json_number(value));
    }
}

static bool has_all_lanes(const json_t *qps)
{
    const json_t *total = json_object_get(qps, "lanes_total");

    return json_is_array(json_object_get(qps, "rows")) &&
           (total == NULL || json_equal(total, json_object_get(qps, "lanes_kept")));
}

/* Empty where there are no lanes, or not all were kept. */
static json_t *balance_of(const json_t *cell)
{
    const json_t *qps = json_object_get(cell, "qps");
    json_t       *balance = json_object();
    double       *values = NULL;
    k3_error_t    unused = K3_ERROR_INIT;

    if (has_all_lanes(qps) && k3_alloc("lanes", json_array_size(json_object_get(qps, "rows")),
                                       sizeof(double), &values, &unused) == K3_OK) {
        for (size_t i = 0; i < k3_balance_measure_count; i++) {
            const k3_balance_measure_t *m = &k3_balance_measures[i];

            set_measure(balance, m, values,
                        take_column(qps, m->phase, m->timed ? "busy_us" : "bytes_wire", values));
        }
    }
    k3_free(values);
    return balance;
}

/* --- a record -------------------------------------------------------------------------------- */

static const char *state_of(const json_t *cell)
{
    const char *status = k3_get_text(cell, "status");

    if (strcmp(status, "failed") == 0 ||
        strcmp(k3_get_text(json_object_get(cell, "check"), "state"), "wrong") == 0) {
        return "broken";
    }
    return strcmp(status, "ok") == 0 ? "ok" : "none";
}

/* A backend that moves nothing, the bare loop, and the experts of one that dispatches nothing measure the
 * host: dense arithmetic, copies, the harness. */
static bool is_control(const json_t *cell)
{
    const char *component = k3_get_text(cell, "component");

    return json_is_false(json_object_get(json_object_get(cell, "path"), "moves_rows")) ||
           strcmp(component, "control") == 0 ||
           (strcmp(component, "experts") == 0 &&
            !json_is_integer(json_object_get(json_object_get(cell, "work"), "rows_dispatched")));
}

static json_t *median_json(const json_t *cell, const char *phase)
{
    double us;

    return k3_cell_median(cell, phase, &us) ? json_real(us) : json_null();
}

/* Where it says why: "failed: ...", "check: ...", "unsupported: ...". */
static json_t *reason_json(const json_t *cell, const char *state)
{
    const char *status = k3_get_text(cell, "status"), *reason = k3_get_text(cell, "reason");

    if (strcmp(state, "ok") == 0) {
        return json_null();
    }
    status = strcmp(status, "ok") == 0 ? "check" : status;
    return json_sprintf("%s: %s", status, reason[0] != '\0' ? reason : "no reason is given");
}

static json_t *cell_facts(const json_t *cell)
{
    const char *state = state_of(cell);
    char        backend[32];
    json_t     *us = median_json(cell, k3_cell_headline(cell));
    json_t     *reason = reason_json(cell, state);

    if (strcmp(state, "ok") == 0 && !json_is_number(us)) {
        state = "none";
        json_decref(reason);
        reason = json_sprintf("it has no time of phase %s", k3_cell_headline(cell));
    }
    if (strcmp(state, "ok") != 0) {
        json_decref(us);
        us = json_null();
    }
    return json_pack("{s:s, s:s, s:b, s:s, s:o, s:s, s:o, s:o, s:o}", "key",
                     k3_get_text(cell, "key"), "backend",
                     k3_cell_backend(cell, backend, sizeof(backend)), "control", is_control(cell),
                     "state", state, "reason", reason, "routing",
                     k3_get_text(json_object_get(cell, "work"), "routing_hash"), "us", us,
                     "bound_us", median_json(cell, "control"), "balance", balance_of(cell));
}

/* "2026-01-31T12:00:00Z" */
static bool is_time(const char *text)
{
    static const char form[] = "dddd-dd-ddTdd:dd:ddZ";

    for (size_t i = 0; i < sizeof(form); i++) {
        bool digit = text[i] >= '0' && text[i] <= '9';

        if (form[i] == 'd' ? !digit : text[i] != form[i]) {
            return false;
        }
    }
    return true;
}

k3_status_t k3_facts(const json_t *record, json_t **facts_p, k3_error_t *err)
{
    const json_t *run = json_object_get(record, "run");
    const json_t *fingerprint = json_object_get(record, "fingerprint");
    const json_t *stable = json_object_get(fingerprint, "stable");
    const json_t *cells = json_object_get(record, "cells"), *cell;
    json_t       *list;
    size_t        i;

    *facts_p = NULL;
    if (!is_time(k3_get_text(run, "started_utc"))) {
        return k3_fail(err, K3_ERR_IO, "run.started_utc is \"%.40s\", no time of the form %s",
                       k3_get_text(run, "started_utc"), "2026-01-31T12:00:00Z");
    }
    if (k3_get_text(fingerprint, "key")[0] == '\0' || !json_is_object(stable)) {
        return k3_fail(err, K3_ERR_IO, "it has no fingerprint.key and fingerprint.stable");
    }
    list = json_array();
    json_array_foreach(cells, i, cell)
    {
        if (k3_get_text(cell, "key")[0] != '\0') {
            json_array_append_new(list, cell_facts(cell));
        }
    }
    *facts_p = json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "run", k3_get_text(run, "id"), "started",
                         k3_get_text(run, "started_utc"), "git_sha", k3_get_text(run, "git_sha"),
                         "machine", k3_get_text(fingerprint, "key"), "stable",
                         json_deep_copy(stable), "cells", list);
    return K3_OK;
}
