#include "bench/report/baseline.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "bench/report/fields.h"
#include "bench/report/sides.h"
#include "harness/record/document.h"
#include "harness/record/json_values.h"

/* --- reading --------------------------------------------------------------------------------- */

static bool are_numbers(const json_t *list)
{
    const json_t *value;
    size_t        i;

    json_array_foreach(list, i, value)
    {
        if (!json_is_number(value)) {
            return false;
        }
    }
    return json_is_array(list);
}

static bool is_cell(const json_t *cell)
{
    const json_t *balance = json_object_get(cell, "balance");
    const char   *name;
    json_t       *list;

    json_object_foreach((json_t *)(uintptr_t)balance, name, list)
    {
        if (!are_numbers(list)) {
            return false;
        }
    }
    return json_is_object(balance) && are_numbers(json_object_get(cell, "us")) &&
           are_numbers(json_object_get(cell, "bound_us")) &&
           json_is_string(json_object_get(cell, "routing"));
}

static k3_status_t check_promotion(const char *path, size_t number, const json_t *promotion,
                                   k3_error_t *err)
{
    static const char *const texts[] = {"who", "when", "why", "machine"};
    json_t                  *cells = json_object_get(promotion, "cells"), *cell;
    const char              *key;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (!json_is_string(json_object_get(promotion, texts[i]))) {
            return k3_fail(err, K3_ERR_IO, "%.300s: promotions[%zu].%s is no text", path, number,
                           texts[i]);
        }
    }
    if (!json_is_object(cells) || !json_is_array(json_object_get(promotion, "launches"))) {
        return k3_fail(err, K3_ERR_IO, "%.300s: promotions[%zu] has no cells or launches", path,
                       number);
    }
    json_object_foreach(cells, key, cell)
    {
        if (!is_cell(cell)) {
            return k3_fail(err, K3_ERR_IO,
                           "%.300s: promotions[%zu]: cell %.200s is not what schema %s says", path,
                           number, key, K3_BASELINE_SCHEMA);
        }
    }
    return K3_OK;
}

k3_status_t k3_baseline_read(const char *path, json_t **baseline_p, k3_error_t *err)
{
    json_t       *document = NULL;
    const json_t *promotions, *promotion;
    size_t        i;

    *baseline_p = NULL;
    if (access(path, F_OK) != 0) {
        return K3_OK;
    }
    if (k3_document_read(path, &document, err) != K3_OK) {
        return err->status;
    }
    promotions = json_object_get(document, "promotions");
    if (strcmp(k3_get_text(document, "schema"), K3_BASELINE_SCHEMA) != 0 ||
        !json_is_array(promotions)) {
        k3_fail(err, K3_ERR_IO, "%.300s: it is no document %s with promotions", path,
                K3_BASELINE_SCHEMA);
    }
    json_array_foreach(promotions, i, promotion)
    {
        if (check_promotion(path, i, promotion, err) != K3_OK) {
            break;
        }
    }
    if (err->status != K3_OK) {
        json_decref(document);
        return err->status;
    }
    *baseline_p = document;
    return K3_OK;
}

const json_t *k3_baseline_find(const json_t *baseline, const char *machine)
{
    const json_t *promotions = json_object_get(baseline, "promotions");

    for (size_t i = json_array_size(promotions); i-- > 0;) {
        const json_t *promotion = json_array_get(promotions, i);

        if (strcmp(k3_get_text(promotion, "machine"), machine) == 0) {
            return promotion;
        }
    }
    return NULL;
}

/* --- promoting ------------------------------------------------------------------------------- */

/* A broken cell is no state to be held against, nor are times of several kinds. */
static k3_status_t check_cells(const k3_launches_t *launches, k3_error_t *err)
{
    const char *key, *wrong, *mixed;
    size_t      timed = 0;
    json_t     *entry;

    json_object_foreach(launches->side, key, entry)
    {
        wrong = k3_side_wrong(entry);
        if (wrong != NULL) {
            return k3_fail(err, K3_ERR_CHECK, "%.300s: a broken cell is not promoted: %.300s", key,
                           wrong);
        }
        mixed = k3_side_mixed(entry, false);
        if (mixed != NULL) {
            return k3_fail(err, K3_ERR_USAGE, "%.300s: it is not promoted: %.300s", key, mixed);
        }
        timed += k3_side_has_times(entry);
    }
    return timed > 0 ? K3_OK
                     : k3_fail(err, K3_ERR_USAGE, "promote: no cell of these records has a time");
}

/* Cells of a machine with a time. Its facts stand in the promotion, once. */
static json_t *choose_cells(const k3_launches_t *launches, const char *machine)
{
    json_t     *chosen = json_object(), *entry;
    const char *key;

    json_object_foreach(launches->side, key, entry)
    {
        if (k3_side_has_times(entry) && strcmp(k3_get_text(entry, "machine"), machine) == 0) {
            json_t *cell = json_copy(entry);

            json_object_del(cell, "stable");
            json_object_set_new(chosen, key, cell);
        }
    }
    return chosen;
}

static json_t *launches_of(const k3_launches_t *launches, const char *machine)
{
    json_t       *list = json_array();
    const json_t *launch;
    size_t        i;

    json_array_foreach(launches->list, i, launch)
    {
        if (strcmp(k3_get_text(launch, "machine"), machine) == 0) {
            json_array_append(list, (json_t *)(uintptr_t)launch);
        }
    }
    return list;
}

/* Keys of `cells` that `others` does not have. */
static json_t *keys_not_in(const json_t *cells, const json_t *others)
{
    json_t     *keys = json_array(), *entry;
    const char *key;

    json_object_foreach((json_t *)(uintptr_t)cells, key, entry)
    {
        if (json_object_get(others, key) == NULL) {
            json_array_append_new(keys, json_string(key));
        }
    }
    return keys;
}

static void promote(json_t *baseline, const k3_launches_t *launches, const char *machine,
                    const k3_promotion_t *p)
{
    json_t       *promotions = json_object_get(baseline, "promotions");
    json_t       *cells = choose_cells(launches, machine);
    const json_t *before = json_object_get(k3_baseline_find(baseline, machine), "cells");

    if (json_object_size(cells) == 0) {
        json_decref(cells);
        return;
    }
    json_array_append_new(
        promotions, json_pack("{s:i, s:o, s:s, s:o, s:s, s:O, s:o, s:o, s:o, s:o}", "number",
                              (int)json_array_size(promotions) + 1, "who", k3_json_string(p->who),
                              "when", p->when, "why", k3_json_string(p->why), "machine", machine,
                              "stable", json_object_get(launches->machines, machine), "launches",
                              launches_of(launches, machine), "added", keys_not_in(cells, before),
                              "dropped", keys_not_in(before, cells), "cells", cells));
}

k3_status_t k3_baseline_promote(json_t **baseline_p, const k3_launches_t *launches,
                                const k3_promotion_t *promotion, k3_error_t *err)
{
    const char *machine;
    json_t     *stable;

    if (check_cells(launches, err) != K3_OK) {
        return err->status;
    }
    if (*baseline_p == NULL) {
        *baseline_p = json_pack("{s:s, s:[]}", "schema", K3_BASELINE_SCHEMA, "promotions");
    }
    json_object_foreach(launches->machines, machine, stable)
    {
        promote(*baseline_p, launches, machine, promotion);
    }
    return K3_OK;
}
