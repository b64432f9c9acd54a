#include "bench/commands/records.h"

#include <string.h>

#include "bench/report/cellview.h"
#include "bench/report/fields.h"
#include "bench/report/outputs.h"
#include "bench/report/record.h"
#include "harness/record/document.h"

static const char *id_of(const json_t *document)
{
    return json_string_value(json_object_get(json_object_get(document, "run"), "id"));
}

static bool is_one_of(const json_t *value, const char *const *names)
{
    for (int i = 0; names[i] != NULL && json_is_string(value); i++) {
        if (strcmp(json_string_value(value), names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* The members that a reader relies on. */
static k3_status_t check_cell(const char *path, size_t index, const json_t *cell, k3_error_t *err)
{
    const json_t *phases = json_object_get(cell, "phases"), *check = json_object_get(cell, "check");
    const char   *wrong = NULL;

    if (!json_is_string(json_object_get(cell, "backend"))) {
        wrong = "backend";
    } else if (!is_one_of(json_object_get(cell, "status"), k3_cell_statuses)) {
        wrong = "status";
    } else if (!json_is_object(json_object_get(cell, "model")) ||
               !json_is_object(json_object_get(cell, "layout"))) {
        wrong = "model or layout";
    } else if (!json_is_array(phases) && !json_is_null(phases)) {
        wrong = "phases";
    } else if (json_is_array(phases) &&
               !is_one_of(json_object_get(check, "state"), k3_cell_check_states)) {
        wrong = "check.state";
    }
    return wrong == NULL ? K3_OK : k3_cell_refuse(path, index, wrong, err);
}

static k3_status_t check_record(const char *path, json_t *document, k3_error_t *err)
{
    const char   *schema = json_string_value(json_object_get(document, "schema"));
    const json_t *cells = json_object_get(document, "cells");

    if (schema == NULL || strcmp(schema, K3_SCHEMA) != 0) {
        return k3_fail(err, K3_ERR_IO, "%s: schema is \"%s\", not %s", path,
                       schema != NULL ? schema : "absent", K3_SCHEMA);
    }
    if (id_of(document) == NULL || !json_is_array(cells)) {
        return k3_fail(err, K3_ERR_IO, "%s: %s; only records of `run` can be reported", path,
                       json_is_array(cells) ? "it has no run.id, it is a plan" : "it has no cells");
    }
    for (size_t i = 0; i < json_array_size(cells); i++) {
        if (check_cell(path, i, json_array_get(cells, i), err) != K3_OK) {
            return err->status;
        }
    }
    k3_clean_texts(document);
    return K3_OK;
}

k3_status_t k3_records_note(k3_records_t *records, const char *path, const char *run,
                            k3_error_t *err)
{
    if (records->ids == NULL) {
        records->ids = json_object();
    }
    if (json_object_get(records->ids, run) != NULL) {
        return k3_fail(err, K3_ERR_USAGE, "%s: run %s was already given", path, run);
    }
    json_object_set_new(records->ids, run, json_true());
    return K3_OK;
}

static bool is_merged(const json_t *document)
{
    const char *schema = json_string_value(json_object_get(document, "schema"));

    return schema != NULL && strcmp(schema, K3_MERGED_SCHEMA) == 0;
}

k3_status_t k3_records_read_all(k3_records_t *records, const char *path, json_t *list,
                                k3_error_t *err)
{
    json_t       *document = NULL, *one = NULL, *record;
    const json_t *all;
    size_t        i;

    if (k3_document_read(path, &document, err) != K3_OK) {
        return err->status;
    }
    one = json_array();
    if (!is_merged(document)) {
        json_array_append(one, document);
    }
    all = is_merged(document) ? json_object_get(document, "records") : one;
    if (json_array_size(all) == 0) {
        k3_fail(err, K3_ERR_IO, "%s: it holds no records", path);
    }
    json_array_foreach(all, i, record)
    {
        if (check_record(path, record, err) != K3_OK ||
            k3_records_note(records, path, id_of(record), err) != K3_OK) {
            break;
        }
        json_array_append(list, record);
    }
    json_decref(one);
    json_decref(document);
    return err->status;
}

void k3_records_close(k3_records_t *records)
{
    json_decref(records->ids);
    records->ids = NULL;
}
