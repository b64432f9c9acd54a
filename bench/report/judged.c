#include "bench/report/judged.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "bench/report/values.h"
#include "harness/base/memory.h"
#include "harness/base/text.h"
#include "harness/record/json_values.h"

json_t *k3_judged_side(const json_t *values, double median)
{
    json_t *side = json_object();

    k3_set_count(side, "launches", json_array_size(values));
    if (json_array_size(values) > 0) {
        k3_set_number(side, "median_us", median);
    } else {
        k3_set_null(side, "median_us", "no launch has it");
    }
    return side;
}

/* A shift and its interval as members NAME and ci95_UNIT. */
static void set_shift(json_t *row, const char *unit, const k3_shift_t *s, double scale)
{
    char name[24];

    snprintf(name, sizeof(name), "shift_%s", unit);
    k3_set_number(row, name, scale * s->shift);
    snprintf(name, sizeof(name), "ci95_%s", unit);
    if (s->has_range) {
        json_object_set_new(
            row, name,
            json_pack("[o, o]", k3_json_number(scale * s->low), k3_json_number(scale * s->high)));
    } else {
        k3_set_null(row, name, "too few launches for a 95 % interval");
    }
}

void k3_judged_shift(json_t *row, const k3_judged_t *j)
{
    if (j->ratios) {
        set_shift(row, "pct", &j->shift, 100.0);
        k3_set_number(row, "floor_pct", 100.0 * j->margin);
    } else {
        k3_set_null(row, "shift_pct", "a time is 0 and has no ratio: the shift is in us");
        k3_set_null(row, "ci95_pct", "a time is 0 and has no ratio: the interval is in us");
        set_shift(row, "us", &j->shift, 1.0);
        k3_set_number(row, "floor_us", j->margin);
    }
    k3_set_number(row, "p", j->test.p);
    k3_set_number(row, "p_family", j->p_family);
    k3_set_count(row, "family", j->family);
    k3_set_bool(row, "exact", j->test.exact);
}

void k3_judged_reason(json_t *row, const k3_judged_t *j)
{
    char   text[192];
    size_t used = 0;

    if (j->verdict != K3_VERDICT_INCONCLUSIVE) {
        json_object_set_new(row, "reason", json_null());
        json_object_set_new(row, "launches_needed", json_null());
        return;
    }
    text[0] = '\0';
    if (j->by_family) {
        used =
            k3_append(text, sizeof(text), used, "p is %.2g alone, %.2g after Holm over %zu cells; ",
                      j->test.p, j->p_family, j->family);
    }
    if (j->launches_needed == 0) {
        k3_append(text, sizeof(text), used,
                  "too noisy: more than %d launches a side would be needed", K3_LAUNCHES_MAX);
        k3_set_null(row, "launches_needed", text);
    } else {
        k3_append(text, sizeof(text), used, "about %zu launches a side would decide",
                  j->launches_needed);
        k3_set_count(row, "launches_needed", j->launches_needed);
    }
    k3_set_text(row, "reason", text);
}

void k3_judged_note(json_t *row, const k3_judged_t *j)
{
    double columns = j->median_b / j->median_a - 1.0, shift = j->shift.shift;
    bool   large = fabs(columns) >= j->margin || fabs(shift) >= j->margin;
    char   text[256] = "";

    if (j->ratios && columns * shift < 0.0 && large) {
        snprintf(text, sizeof(text),
                 "the medians say %s by %.1f %%, the shift %s by %.1f %%: it is the middle of the "
                 "ratios %s, and decides",
                 columns > 0.0 ? "slower" : "faster", 100.0 * fabs(columns),
                 shift > 0.0 ? "slower" : "faster", 100.0 * fabs(shift),
                 j->paired ? "within each launch" : "of every new launch to every one of the base");
        k3_set_text(row, "note", text);
    } else {
        json_object_set_new(row, "note", json_null());
    }
}

k3_status_t k3_judged_take(const json_t *base, const json_t *fresh, k3_judged_t *item,
                           double **values_p, k3_error_t *err)
{
    double *values = NULL;

    item->na = json_array_size(base);
    item->nb = json_array_size(fresh);
    if (k3_alloc("launches", item->na + item->nb, sizeof(double), &values, err) != K3_OK) {
        return err->status;
    }
    for (size_t i = 0; i < item->na; i++) {
        values[i] = json_number_value(json_array_get(base, i));
    }
    for (size_t i = 0; i < item->nb; i++) {
        values[item->na + i] = json_number_value(json_array_get(fresh, i));
    }
    item->a = values;
    item->b = values + item->na;
    *values_p = values;
    return K3_OK;
}

void k3_machines_differ(const json_t *a, const json_t *b, char *text, size_t size)
{
    const char *name;
    json_t     *value;

    json_object_foreach((json_t *)(uintptr_t)a, name, value)
    {
        const json_t *other = json_object_get(b, name);

        if (!json_equal(value, other)) {
            char *x = json_dumps(value, JSON_ENCODE_ANY), *y = json_dumps(other, JSON_ENCODE_ANY);

            snprintf(text, size, "machines differ in %s: %s and %s", name, x != NULL ? x : "?",
                     y != NULL ? y : "absent");
            free(x);
            free(y);
            return;
        }
    }
    snprintf(text, size, "machines differ");
}
