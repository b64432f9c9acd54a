#include "bench/commands/records.h"

#include <stdlib.h>
#include <string.h>

#include "bench/report/outputs.h"
#include "bench/report/record.h"
#include "harness/record/brief.h"
#include "harness/record/document.h"

static const char *id_of(const json_t *document)
{
    return json_string_value(json_object_get(json_object_get(document, "run"), "id"));
}

static bool has_controls(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            return true;
        }
    }
    return false;
}

/* What a record says goes to terminals and spreadsheets: it may not steer them. */
static void clean_texts(json_t *value)
{
    const char *key;
    json_t     *member;
    size_t      i;

    if (json_is_string(value) && has_controls(json_string_value(value))) {
        char *text = strdup(json_string_value(value));

        for (char *c = text; c != NULL && *c != '\0'; c++) {
            *c = (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c;
        }
        if (text != NULL) {
            json_string_set(value, text);
        }
        free(text);
    }
    json_object_foreach(value, key, member)
    {
        clean_texts(member);
    }
    json_array_foreach(value, i, member)
    {
        clean_texts(member);
    }
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
    static const char *const statuses[] = {"ok",          "degraded", "failed",
                                           "unsupported", "skipped",  NULL};
    static const char *const states[] = {"ok", "wrong", "not checked", NULL};
    const json_t *phases = json_object_get(cell, "phases"), *check = json_object_get(cell, "check");
    const char   *wrong = NULL;

    if (!json_is_string(json_object_get(cell, "backend"))) {
        wrong = "backend";
    } else if (!is_one_of(json_object_get(cell, "status"), statuses)) {
        wrong = "status";
    } else if (!json_is_object(json_object_get(cell, "model")) ||
               !json_is_object(json_object_get(cell, "layout"))) {
        wrong = "model or layout";
    } else if (!json_is_array(phases) && !json_is_null(phases)) {
        wrong = "phases";
    } else if (json_is_array(phases) && !is_one_of(json_object_get(check, "state"), states)) {
        wrong = "check.state";
    }
    return wrong == NULL ? K3_OK
                         : k3_fail(err, K3_ERR_IO, "%s: cells[%zu].%s is not what schema %s says",
                                   path, index, wrong, K3_SCHEMA);
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
    clean_texts(document);
    return K3_OK;
}

static k3_status_t check_or_free(const char *path, json_t **document_p, k3_error_t *err)
{
    if (check_record(path, *document_p, err) != K3_OK) {
        json_decref(*document_p);
        *document_p = NULL;
    }
    return err->status;
}

/* What is asked of many records; "stable" holds whatever makes a machine. */
static const char *const brief_names[] = {"schema",      "run",        "id",
                                          "started_utc", "git_sha",    "fingerprint",
                                          "key",         "cells",      "backend",
                                          "mode",        "model",      "name",
                                          "layout",      "tp",         "dp",
                                          "cp",          "nodes",      "tokens",
                                          "total",       "component",  "status",
                                          "reason",      "work",       "routing_hash",
                                          "check",       "state",      "median",
                                          "path",        "moves_rows", "rows_dispatched",
                                          "value",       "topology",   "oversubscribed",
                                          "sync",        "method",     "qps",
                                          "transport",   "host",       "scaled_us",
                                          NULL};
static const char *const whole_names[] = {"stable", NULL};

static const char *const list_names[] = {"phases", "options", NULL};

/* The options that change how a cell is measured; then the phases that a cell can be judged by
 * (k3_cell_headline), and the bare loop. */
#define MEASURE_OPTIONS "check", "isa", "accounting"
static const char *const headlines[] = {MEASURE_OPTIONS, "region", "pair",    "dispatch", "combine",
                                        "expert_mlp",    "chain",  "control", NULL};

k3_status_t k3_records_brief(const char *path, const char *phase, json_t **document_p,
                             k3_error_t *err)
{
    const char *const one[] = {MEASURE_OPTIONS, phase, NULL};
    k3_wanted_t wanted = {brief_names, whole_names, list_names, phase != NULL ? one : headlines};

    return k3_document_read_brief(path, &wanted, document_p, err) == K3_OK
               ? check_or_free(path, document_p, err)
               : err->status;
}

static k3_status_t parse(const char *path, json_t **document_p, k3_error_t *err)
{
    return k3_document_read(path, document_p, err) == K3_OK ? check_or_free(path, document_p, err)
                                                            : err->status;
}

k3_status_t k3_records_note(k3_records_t *records, const char *path, const json_t *document,
                            k3_error_t *err)
{
    if (records->ids == NULL) {
        records->ids = json_object();
    }
    if (json_object_get(records->ids, id_of(document)) != NULL) {
        return k3_fail(err, K3_ERR_USAGE, "%s: run %s was already given", path, id_of(document));
    }
    json_object_set_new(records->ids, id_of(document), json_true());
    return K3_OK;
}

k3_status_t k3_records_read(k3_records_t *records, const char *path, json_t **document_p,
                            k3_error_t *err)
{
    if (parse(path, document_p, err) == K3_OK &&
        k3_records_note(records, path, *document_p, err) != K3_OK) {
        json_decref(*document_p);
        *document_p = NULL;
    }
    return err->status;
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
            k3_records_note(records, path, record, err) != K3_OK) {
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
