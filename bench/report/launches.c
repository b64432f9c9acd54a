#include "bench/report/launches.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "bench/report/fields.h"
#include "bench/report/judged.h"
#include "bench/report/sides.h"

k3_status_t k3_launches_open(k3_launches_t *l, k3_error_t *err)
{
    *l = (k3_launches_t){.list = json_array(), .side = json_object(), .machines = json_object()};
    return l->list != NULL && l->side != NULL && l->machines != NULL
               ? K3_OK
               : k3_fail(err, K3_ERR_ENV, "memory is short");
}

void k3_launches_close(k3_launches_t *l)
{
    json_decref(l->list);
    json_decref(l->side);
    json_decref(l->machines);
}

static bool is_before(const json_t *a, const json_t *b)
{
    int order = strcmp(k3_get_text(a, "started"), k3_get_text(b, "started"));

    return order != 0 ? order < 0 : strcmp(k3_get_text(a, "run"), k3_get_text(b, "run")) < 0;
}

static void insert(json_t *list, const json_t *facts)
{
    size_t at = json_array_size(list);

    while (at > 0 && is_before(facts, json_array_get(list, at - 1))) {
        at--;
    }
    json_array_insert_new(list, at,
                          json_pack("{s:O, s:O, s:O, s:O}", "run", json_object_get(facts, "run"),
                                    "started", json_object_get(facts, "started"), "git_sha",
                                    json_object_get(facts, "git_sha"), "machine",
                                    json_object_get(facts, "machine")));
}

/* Another part of the same machine, as launches of other layouts take it. */
static bool is_same_machine(const json_t *a, const json_t *b)
{
    json_t *x = json_copy((json_t *)(uintptr_t)a), *y = json_copy((json_t *)(uintptr_t)b);
    bool    same;

    for (int i = 0; i < 2; i++) {
        static const char *const of_layout[] = {"ranks", "nodes"};

        json_object_del(x, of_layout[i]);
        json_object_del(y, of_layout[i]);
    }
    same = json_equal(x, y);
    json_decref(x);
    json_decref(y);
    return same;
}

k3_status_t k3_launches_add(k3_launches_t *l, const char *path, const json_t *facts,
                            k3_error_t *err)
{
    const char *machine = k3_get_text(facts, "machine"), *started = k3_get_text(facts, "started");
    json_t     *stable = json_object_get(facts, "stable");
    json_t     *first = json_object_iter_value(json_object_iter(l->machines));
    char        difference[160];

    if (first != NULL && json_object_get(l->machines, machine) == NULL &&
        !is_same_machine(first, stable)) {
        k3_machines_differ(first, stable, difference, sizeof(difference));
        return k3_fail(err, K3_ERR_USAGE, "%.300s: %s; give the records of one machine", path,
                       difference);
    }
    json_object_set(l->machines, machine, stable);
    if (strcmp(started, l->last) > 0) {
        snprintf(l->last, sizeof(l->last), "%s", started);
    }
    insert(l->list, facts);
    k3_side_add(l->side, facts);
    return K3_OK;
}
