#include "bench/report/balance.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/report/fields.h"
#include "harness/base/balance.h"
#include "harness/base/memory.h"
#include "harness/record/json_values.h"

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

json_t *k3_balance_of(const json_t *qps)
{
    json_t    *balance = json_object();
    double    *values = NULL;
    k3_error_t unused = K3_ERROR_INIT;

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
