/* plan --fit: every way to cut `tp` ranks into attention groups and expert ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/commands/plan_model.h"
#include "harness/base/memory.h"

k3_status_t k3_plan_fit(const k3_cell_request_t *request, const k3_machine_file_t *machine,
                        json_t *cells, k3_refusals_t *refused, k3_error_t *err)
{
    k3_cell_request_t one = *request;

    for (one.dp = 1; one.dp <= request->tp && err->status == K3_OK; one.dp++) {
        if (request->tp % one.dp != 0) {
            continue;
        }
        for (one.ep = 1; one.ep <= request->tp && err->status == K3_OK; one.ep++) {
            k3_error_t fault = K3_ERROR_INIT;
            json_t    *object = NULL;

            if (request->tp % one.ep != 0) {
                continue;
            }
            if (k3_plan_one(&one, machine, false, &object, &fault) == K3_OK) {
                json_array_append_new(cells, object);
            } else if (fault.status == K3_ERR_UNSUPPORTED || fault.status == K3_ERR_USAGE) {
                /* Spanning backends refuse all but ep = tp; why that one cannot be says more. */
                if (refused->count++ == 0 || one.ep == request->tp) {
                    memcpy(refused->reason, fault.text, sizeof(refused->reason));
                }
            } else {
                k3_fail(err, fault.status, "%s", fault.text);
            }
        }
    }
    return err->status;
}

/* Infinite where there is no prediction; memory that does not fit puts a cell behind all that do. */
static double rank_of(const json_t *cell)
{
    const json_t *phases = json_object_get(json_object_get(cell, "prediction"), "phases");
    const json_t *device = json_object_get(json_object_get(cell, "memory"), "device");
    double        us = 1e15;

    for (size_t i = 0; i < json_array_size(phases); i++) {
        const json_t *p = json_array_get(phases, i);

        if (strcmp(json_string_value(json_object_get(p, "name")), "region") == 0) {
            us = json_number_value(json_object_get(p, "us"));
        }
    }
    return json_is_true(json_object_get(device, "fits")) ? us : us + 1e16;
}

static double needed_gb(const json_t *cell)
{
    const json_t *device = json_object_get(json_object_get(cell, "memory"), "device");

    return (json_number_value(json_object_get(device, "weights_bytes")) +
            json_number_value(json_object_get(device, "buffers_bytes"))) *
           1e-9;
}

static int compare_cells(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    double        left = rank_of(x), right = rank_of(y);

    if (left != right) {
        return left < right ? -1 : 1;
    }
    if (needed_gb(x) != needed_gb(y)) {
        return needed_gb(x) < needed_gb(y) ? -1 : 1;
    }
    return strcmp(json_string_value(json_object_get(x, "key")),
                  json_string_value(json_object_get(y, "key")));
}

static k3_status_t sort_cells(json_t *cells, k3_error_t *err)
{
    size_t   count = json_array_size(cells);
    json_t **order = NULL;

    if (k3_alloc("order of layouts", count, sizeof(json_t *), (void **)&order, err) != K3_OK) {
        return err->status;
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = json_incref(json_array_get(cells, i));
    }
    qsort(order, count, sizeof(order[0]), compare_cells);
    json_array_clear(cells);
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(cells, order[i]);
    }
    k3_free(order);
    return K3_OK;
}

k3_status_t k3_plan_sort(json_t *cells, const k3_refusals_t *refused, k3_error_t *err)
{
    const json_t *device;
    double        least = INFINITY;

    if (json_array_size(cells) == 0) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "fit: none of %llu layouts is legal; of one: %.500s",
                       (unsigned long long)refused->count, refused->reason);
    }
    if (sort_cells(cells, err) != K3_OK) {
        return err->status;
    }
    device = json_object_get(json_object_get(json_array_get(cells, 0), "memory"), "device");
    if (json_is_true(json_object_get(device, "fits"))) {
        return K3_OK;
    }
    for (size_t i = 0; i < json_array_size(cells); i++) {
        double gb = needed_gb(json_array_get(cells, i));

        least = gb < least ? gb : least;
    }
    return k3_fail(err, K3_ERR_UNSUPPORTED,
                   "fit: no layout fits: the smallest needs %.1f GB of weights and buffers a rank, "
                   "a device of "
                   "the machine has %.1f GB; more ranks (--ranks) share the experts",
                   least, json_number_value(json_object_get(device, "device_bytes")) * 1e-9);
}
