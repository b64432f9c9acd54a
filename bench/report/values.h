/* Values of a record: what is not known, not finite or too large for JSON is null with a reason. */
#ifndef K3_REPORT_VALUES_H
#define K3_REPORT_VALUES_H

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "harness/record/json_values.h"

static inline void k3_set_null(json_t *object, const char *name, const char *reason)
{
    char key[64];

    snprintf(key, sizeof(key), "%s_reason", name);
    json_object_set_new(object, name, json_null());
    json_object_set_new(object, key, json_string(reason));
}

/* Texts come from users, files and libraries: they need not be UTF-8. */
static inline void k3_set_text(json_t *object, const char *name, const char *text)
{
    json_object_set_new(object, name, k3_json_string(text));
}

static inline void k3_set_count(json_t *object, const char *name, uint64_t value)
{
    if (value > INT64_MAX) {
        k3_set_null(object, name, "above 2^63 - 1");
    } else {
        json_object_set_new(object, name, json_integer((json_int_t)value));
    }
}

static inline void k3_set_number(json_t *object, const char *name, double value)
{
    if (isfinite(value)) {
        json_object_set_new(object, name, k3_json_number(value));
    } else {
        k3_set_null(object, name, "not a finite number");
    }
}

static inline void k3_set_bool(json_t *object, const char *name, bool value)
{
    json_object_set_new(object, name, json_boolean(value));
}

#endif
