/* Launches put together as one side of a comparison. */
#include <stdint.h>
#include <string.h>

#include "bench/report/facts.h"
#include "bench/report/fields.h"
#include "harness/base/memory.h"
#include "harness/base/stats.h"
#include "harness/record/document.h"

/* Null when there is none. */
static json_t *median_json(const json_t *values)
{
    size_t       n = json_array_size(values);
    double      *list = NULL;
    k3_summary_t summary = {0};
    k3_error_t   unused = K3_ERROR_INIT;

    if (k3_alloc("attempts", 2 * n + 1, sizeof(double), &list, &unused) == K3_OK) {
        for (size_t i = 0; i < n; i++) {
            list[i] = json_number_value(json_array_get(values, i));
        }
        k3_summarize(list, n, list + n, &summary);
    }
    k3_free(list);
    return summary.valid ? k3_json_number(summary.median) : json_null();
}

static void append_number(json_t *object, const char *name, const json_t *value)
{
    json_t *list = json_object_get(object, name);

    if (list == NULL) {
        list = json_array();
        json_object_set_new(object, name, list);
    }
    if (json_is_number(value)) {
        json_array_append(list, (json_t *)(uintptr_t)value);
    }
}

static json_t *entry_of(json_t *side, const json_t *cell)
{
    json_t *entry = json_object_get(side, k3_get_text(cell, "key"));

    if (entry == NULL) {
        entry =
            json_pack("{s:O, s:O, s:O, s:[], s:[], s:[], s:{}, s:n, s:n}", "backend",
                      json_object_get(cell, "backend"), "control", json_object_get(cell, "control"),
                      "routing", json_object_get(cell, "routing"), "runs", "us", "bound_us",
                      "balance", "wrong", "none");
        json_object_set_new(side, k3_get_text(cell, "key"), entry);
    }
    return entry;
}

/* Into the entry's lists. */
static void add_numbers(json_t *entry, const json_t *cell)
{
    const char *name;
    json_t     *value;

    append_number(entry, "us", json_object_get(cell, "us"));
    append_number(entry, "bound_us", json_object_get(cell, "bound_us"));
    json_object_foreach(json_object_get(cell, "balance"), name, value)
    {
        append_number(json_object_get(entry, "balance"), name, value);
    }
}

static void add_reason(json_t *entry, const json_t *cell)
{
    const char *state = k3_get_text(cell, "state");
    const char *name = strcmp(state, "broken") == 0 ? "wrong"
                       : strcmp(state, "none") == 0 ? "none"
                                                    : NULL;

    if (name != NULL) {
        json_object_set(entry, name, json_object_get(cell, "reason"));
    }
}

/* The lists of an entry's attempts become one value each. */
static json_t *medians_of(const json_t *attempts)
{
    json_t     *balance = json_object(), *list;
    const char *name;

    json_object_foreach(json_object_get(attempts, "balance"), name, list)
    {
        json_object_set_new(balance, name, median_json(list));
    }
    return json_pack("{s:o, s:o, s:o}", "us", median_json(json_object_get(attempts, "us")),
                     "bound_us", median_json(json_object_get(attempts, "bound_us")), "balance",
                     balance);
}

void k3_side_add(json_t *side, const json_t *facts)
{
    const json_t *cells = json_object_get(facts, "cells"), *cell;
    json_t       *launch = json_object(), *attempts;
    const char   *key;
    size_t        i;

    json_array_foreach(cells, i, cell)
    {
        add_numbers(entry_of(launch, cell), cell);
        add_reason(entry_of(side, cell), cell);
        json_object_set(entry_of(side, cell), "routing", json_object_get(cell, "routing"));
    }
    json_object_foreach(launch, key, attempts)
    {
        json_t *medians = medians_of(attempts);

        add_numbers(json_object_get(side, key), medians);
        if (json_is_number(json_object_get(medians, "us"))) {
            json_array_append(json_object_get(json_object_get(side, key), "runs"),
                              json_object_get(facts, "run"));
        }
        json_decref(medians);
    }
    json_decref(launch);
}
