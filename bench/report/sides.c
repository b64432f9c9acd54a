#include "bench/report/sides.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "bench/report/facts.h"
#include "bench/report/fields.h"
#include "bench/report/judged.h"
#include "harness/base/memory.h"
#include "harness/base/stats.h"
#include "harness/record/document.h"
#include "harness/record/how.h"

#define ROUTING "work.routing_hash"

/* Of the first launch that holds the cell; what the others have is held against it. */
static const char *const of_launch[] = {"machine", "stable", "asked"};

/* --- values ---------------------------------------------------------------------------------- */

static json_t *entry_of(json_t *side, const json_t *facts, const json_t *cell)
{
    json_t *entry = json_object_get(side, k3_get_text(cell, "key"));

    if (entry == NULL) {
        entry = json_pack("{s:O, s:O, s:O, s:O, s:O, s:[], s:[], s:[], s:{}, s:{}, s:{}, s:n, s:n}",
                          "backend", json_object_get(cell, "backend"), "work",
                          json_object_get(cell, "work"), "control",
                          json_object_get(cell, "control"), "moves", json_object_get(cell, "moves"),
                          "routing", json_object_get(cell, "routing"), "runs", "us", "bound_us",
                          "balance", "how", "mixed", "wrong", "none");
        for (size_t i = 0; i < sizeof(of_launch) / sizeof(of_launch[0]); i++) {
            json_object_set(entry, of_launch[i], json_object_get(facts, of_launch[i]));
        }
        json_object_set_new(side, k3_get_text(cell, "key"), entry);
    }
    return entry;
}

/* A number of a cell: its member, or (measure) that of its balance. */
static const json_t *number_of(const json_t *cell, const char *member, const char *measure)
{
    const json_t *value = json_object_get(cell, member);

    value = measure != NULL ? json_object_get(value, measure) : value;
    return json_is_number(value) ? value : NULL;
}

/* Median of the numbers of the first `count` cells that have this key; *found: how many. */
static double median_of(const json_t *cells, size_t count, const char *key, const char *member,
                        const char *measure, size_t *found)
{
    double      *list = NULL;
    k3_summary_t summary = {0};
    k3_error_t   unused = K3_ERROR_INIT;

    *found = 0;
    if (k3_alloc("attempts", 2 * count, sizeof(double), &list, &unused) == K3_OK) {
        for (size_t i = 0; i < count; i++) {
            const json_t *cell = json_array_get(cells, i);
            const json_t *value = number_of(cell, member, measure);

            if (value != NULL && strcmp(k3_get_text(cell, "key"), key) == 0) {
                list[(*found)++] = json_number_value(value);
            }
        }
        k3_summarize(list, *found, list + count, &summary);
    }
    k3_free(list);
    return summary.median;
}

typedef struct launch {
    json_t *side, *run, *seen; /* seen: keys of the cells before */
    json_t *cells;
    size_t  at; /* the cell that is added */
} launch_t;

/* Appends a number of the cell to a list; again: the launch is the unit, its last value becomes the median. True when it
 * is the launch's first. */
static bool add_number(const launch_t *l, const char *key, bool again, json_t *list,
                       const char *member, const char *measure)
{
    const json_t *value = number_of(json_array_get(l->cells, l->at), member, measure);
    size_t        found = 1;
    double        median = 0.0;

    if (value == NULL) {
        return false;
    }
    if (again) {
        median = median_of(l->cells, l->at + 1, key, member, measure, &found);
    }
    if (found > 1) {
        json_array_set_new(list, json_array_size(list) - 1, json_real(median));
        return false;
    }
    json_array_append(list, (json_t *)(uintptr_t)value);
    return true;
}

static void add_balance(const launch_t *l, const char *key, bool again, json_t *lists)
{
    json_t     *balance = json_object_get(json_array_get(l->cells, l->at), "balance"), *value;
    const char *measure;

    json_object_foreach(balance, measure, value)
    {
        if (json_object_get(lists, measure) == NULL) {
            json_object_set_new(lists, measure, json_array());
        }
        add_number(l, key, again, json_object_get(lists, measure), "balance", measure);
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

/* --- how it was measured --------------------------------------------------------------------- */

static void note_mixed(json_t *entry, const char *field, const char *known, const char *text)
{
    json_object_set_new(
        json_object_get(entry, "mixed"), field,
        json_sprintf("launches of one side differ in %s: %s and %s", field, known, text));
}

static void note(json_t *entry, const char *field, json_t *value)
{
    json_t     *how = json_object_get(entry, "how");
    const char *known = k3_get_text(how, field), *text = json_string_value(value);

    if (text == NULL || strcmp(known, text) == 0) {
        return;
    }
    if (known[0] == '\0') {
        json_object_set(how, field, value);
    } else {
        note_mixed(entry, field, known, text);
    }
}

static void note_all(json_t *entry, json_t *how)
{
    const char *field;
    json_t     *value;

    json_object_foreach(how, field, value)
    {
        note(entry, field, value);
    }
}

/* Number of ranks and nodes are facts of a machine too, but all launches of a cell have the same: the layout says it. */
static void note_machine(json_t *entry, const json_t *facts)
{
    const char *known = k3_get_text(entry, "machine"), *machine = k3_get_text(facts, "machine");
    char        text[160];

    if (strcmp(known, machine) != 0) {
        k3_machines_differ(json_object_get(entry, "stable"), json_object_get(facts, "stable"), text,
                           sizeof(text));
        json_object_set_new(json_object_get(entry, "mixed"), "machine",
                            json_sprintf("launches of one side: %s", text));
    }
    if (strcmp(k3_get_text(entry, "asked"), k3_get_text(facts, "asked")) != 0) {
        json_object_del(entry, "asked");
    }
}

static void note_how(json_t *entry, const json_t *facts, const json_t *cell)
{
    const char *routing = k3_get_text(cell, "routing"), *known = k3_get_text(entry, "routing");

    note_all(entry, json_object_get(facts, "how"));
    note_all(entry, json_object_get(cell, "how"));
    if (routing[0] != '\0' && known[0] == '\0') {
        json_object_set(entry, "routing", json_object_get(cell, "routing"));
    } else if (routing[0] != '\0' && strcmp(routing, known) != 0) {
        note_mixed(entry, ROUTING, known, routing);
    }
}

/* --- a side ---------------------------------------------------------------------------------- */

static void add_cell(launch_t *l, const json_t *facts, const json_t *cell)
{
    const char *key = k3_get_text(cell, "key");
    json_t     *entry = entry_of(l->side, facts, cell);
    bool        again = json_object_get(l->seen, key) != NULL;

    if (add_number(l, key, again, json_object_get(entry, "us"), "us", NULL)) {
        json_array_append(json_object_get(entry, "runs"), l->run);
    }
    add_number(l, key, again, json_object_get(entry, "bound_us"), "bound_us", NULL);
    add_balance(l, key, again, json_object_get(entry, "balance"));
    add_reason(entry, cell);
    note_machine(entry, facts);
    note_how(entry, facts, cell);
    json_object_set_new(l->seen, key, json_true());
}

void k3_side_add(json_t *side, const json_t *facts)
{
    launch_t l = {.side = side,
                  .run = json_object_get(facts, "run"),
                  .seen = json_object(),
                  .cells = json_object_get(facts, "cells")};
    json_t  *cell;

    json_array_foreach(l.cells, l.at, cell)
    {
        add_cell(&l, facts, cell);
    }
    json_decref(l.seen);
}

bool k3_side_has_times(const json_t *entry)
{
    return json_array_size(json_object_get(entry, "us")) > 0;
}

const char *k3_side_wrong(const json_t *entry)
{
    return json_string_value(json_object_get(entry, "wrong"));
}

bool k3_side_moves(const json_t *entry)
{
    return !json_is_false(json_object_get(entry, "moves"));
}

bool k3_sides_asked(const json_t *base, const json_t *fresh, char *text, size_t size)
{
    const char *a = k3_get_text(base, "asked"), *b = k3_get_text(fresh, "asked");

    text[0] = '\0';
    if (a[0] == '\0' || b[0] == '\0' || strcmp(a, b) == 0) {
        return false;
    }
    snprintf(text, size, "%s -> %s", a, b);
    return true;
}

static bool machines_differ(const json_t *a, const json_t *b, char *text, size_t size)
{
    const char *x = k3_get_text(a, "machine"), *y = k3_get_text(b, "machine");

    if (x[0] == '\0' || y[0] == '\0' || strcmp(x, y) == 0) {
        return false;
    }
    k3_machines_differ(json_object_get(a, "stable"), json_object_get(b, "stable"), text, size);
    return true;
}

const char *k3_side_mixed(const json_t *entry, bool transports)
{
    const char *field;
    json_t     *text;

    json_object_foreach(json_object_get(entry, "mixed"), field, text)
    {
        if (json_is_string(text) && (!transports || strcmp(field, K3_HOW_TRANSPORT) != 0)) {
            return json_string_value(text);
        }
    }
    return NULL;
}

bool k3_sides_differ(const json_t *base, const json_t *fresh, bool transports, char *text,
                     size_t size)
{
    const json_t *a = json_object_get(base, "how"), *b = json_object_get(fresh, "how");
    const char   *mixed = k3_side_mixed(base, transports), *field;

    mixed = mixed != NULL ? mixed : k3_side_mixed(fresh, transports);
    if (mixed != NULL) {
        snprintf(text, size, "%s", mixed);
        return true;
    }
    if (machines_differ(base, fresh, text, size)) {
        return true;
    }
    if (strcmp(k3_get_text(base, "routing"), k3_get_text(fresh, "routing")) != 0) {
        snprintf(text, size, "the routing differs (" ROUTING ")");
        return true;
    }
    field = k3_how_differs(a, b, transports ? K3_HOW_TRANSPORT : NULL);
    if (field != NULL) {
        snprintf(text, size, "measured differently: %s is %s and %s", field, k3_get_text(a, field),
                 k3_get_text(b, field));
    }
    return field != NULL;
}
