#include "bench/report/limits.h"

#include <string.h>

#include "bench/report/fields.h"
#include "bench/report/values.h"

/* A time this much below the limit is no rounding of either. */
static const double slack = 0.02;

/* Below it a share of the limit is not told. */
static const double least_share = 0.01;

static double median_of(const json_t *cell, const char *name)
{
    const json_t *phases = json_object_get(cell, "phases");

    for (size_t i = 0; i < json_array_size(phases); i++) {
        const json_t *p = json_array_get(phases, i);

        if (strcmp(json_string_value(json_object_get(p, "name")), name) == 0) {
            return json_number_value(json_object_get(p, "median"));
        }
    }
    return 0;
}

static json_t *phase_limit(const k3_prediction_phase_t *p, const char *name, double measured)
{
    json_t *o = json_object();

    k3_set_text(o, "name", name);
    k3_set_number(o, "measured_us", measured);
    k3_set_number(o, "predicted_us", p->us);
    k3_set_number(o, "limit_us", p->limit_us);
    k3_set_text(o, "limited_by", k3_term_names[p->limit_by]);
    k3_set_number(o, "efficiency", p->limit_us / measured);
    k3_set_bool(o, "above_limit", measured < p->limit_us * (1 - slack));
    return o;
}

void k3_record_limits(json_t *cell, const k3_machine_file_t *machine,
                      const k3_prediction_t *prediction)
{
    json_t *o = json_object(), *rows = json_array();

    for (int i = 0; i < K3_PREDICT_COUNT; i++) {
        const k3_prediction_phase_t *p = &prediction->phase[i];
        double                       measured = median_of(cell, k3_predicted_names[i]);

        if (p->known && p->limit_us > 0 && measured > 0) {
            json_array_append_new(rows, phase_limit(p, k3_predicted_names[i], measured));
        }
    }
    k3_set_text(o, "machine", machine->name);
    json_object_set_new(o, "phases", rows);
    json_object_set_new(cell, "limits", o);
}

const json_t *k3_limits_of(const json_t *cell, const char *phase)
{
    const json_t *rows = json_object_get(json_object_get(cell, "limits"), "phases"), *row;
    size_t        i;

    json_array_foreach(rows, i, row)
    {
        if (strcmp(k3_get_text(row, "name"), phase) == 0) {
            return row;
        }
    }
    return NULL;
}

/* A phase that is told: one far from its limit is held back by what the limit knows nothing of. */
static bool is_told(const json_t *phase)
{
    return json_is_true(json_object_get(phase, "above_limit")) ||
           json_number_value(json_object_get(phase, "efficiency")) >= least_share;
}

static const json_t *told(const json_t *phases, size_t index)
{
    const json_t *phase;
    size_t        i;

    json_array_foreach(phases, i, phase)
    {
        if (is_told(phase) && index-- == 0) {
            return phase;
        }
    }
    return NULL;
}

bool k3_limits_text(const json_t *cell, size_t index, char *text, size_t size)
{
    const json_t *limits = json_object_get(cell, "limits");
    const json_t *p = told(json_object_get(limits, "phases"), index);
    const char   *machine = json_string_value(json_object_get(limits, "machine"));
    const char   *name = json_string_value(json_object_get(p, "name"));
    const char   *by = json_string_value(json_object_get(p, "limited_by"));

    if (machine == NULL || name == NULL || by == NULL) {
        return false;
    }
    if (json_is_true(json_object_get(p, "above_limit"))) {
        snprintf(text, size,
                 "ERROR of the measurement, or of machine %s: %s took %.1f us, its %s allows %.1f",
                 machine, name, json_number_value(json_object_get(p, "measured_us")), by,
                 json_number_value(json_object_get(p, "limit_us")));
    } else {
        snprintf(text, size, "%s at %.0f %% of the limit of %s (%.1f us, %s)", name,
                 100 * json_number_value(json_object_get(p, "efficiency")), machine,
                 json_number_value(json_object_get(p, "limit_us")), by);
    }
    return true;
}
