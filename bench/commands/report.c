/* k3bench report: records to a table, Markdown or CSV. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/commands/command.h"
#include "bench/report/files.h"
#include "bench/report/record.h"
#include "bench/report/table.h"
#include "harness/base/memory.h"
#include "harness/record/document.h"

static const char *id_of(const json_t *document)
{
    return json_string_value(json_object_get(json_object_get(document, "run"), "id"));
}

/* What a record says goes to terminals and spreadsheets: it may not steer them. */
static void clean_texts(json_t *value)
{
    const char *key;
    json_t     *member;
    size_t      i;

    if (json_is_string(value)) {
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

/* The same launch twice would count twice in every comparison. */
static k3_status_t add_record(const char *path, json_t **documents, size_t n, k3_error_t *err)
{
    if (k3_document_read(path, &documents[n], err) != K3_OK ||
        check_record(path, documents[n], err) != K3_OK) {
        return err->status;
    }
    for (size_t i = 0; i < n; i++) {
        if (strcmp(id_of(documents[i]), id_of(documents[n])) == 0) {
            return k3_fail(err, K3_ERR_USAGE, "%s: run %s was already given", path,
                           id_of(documents[n]));
        }
    }
    return K3_OK;
}

typedef struct records {
    json_t *const *documents;
    size_t         count;
} records_t;

static int fill_csv(FILE *file, const void *arg)
{
    const records_t *r = arg;

    k3_report_csv(r->documents, r->count, file);
    return 0;
}

static int fill_markdown(FILE *file, const void *arg)
{
    const records_t *r = arg;

    k3_report_markdown(r->documents, r->count, file);
    return 0;
}

static k3_status_t write_file(const char *path, json_t *const *documents, size_t count,
                              k3_error_t *err)
{
    const char *ending = strrchr(path, '.');
    records_t   records = {documents, count};

    if (ending != NULL && strcmp(ending, ".csv") == 0) {
        return k3_file_write(path, fill_csv, &records, err);
    }
    if (ending != NULL && strcmp(ending, ".md") == 0) {
        return k3_file_write(path, fill_markdown, &records, err);
    }
    return k3_fail(err, K3_ERR_USAGE, "output: \"%s\" ends in none of .md, .csv", path);
}

static k3_status_t report_all(const k3_options_t *options, json_t **documents, size_t count,
                              k3_error_t *err)
{
    const char *output = k3_options_get(options, "output");

    for (size_t i = 0; i < count; i++) {
        if (add_record(k3_options_positional(options, i), documents, i, err) != K3_OK) {
            return err->status;
        }
    }
    if (output != NULL) {
        return write_file(output, documents, count, err);
    }
    for (size_t i = 0; i < count; i++) {
        k3_table_print(documents[i], stdout, isatty(STDOUT_FILENO));
    }
    return K3_OK;
}

static int run_report(int argc, char **argv)
{
    k3_error_t    err = K3_ERROR_INIT;
    k3_options_t *options = NULL;
    int           help = 0;
    json_t      **documents;
    size_t        count;

    if (k3_command_options(&k3_command_report, argc, argv, &options, &help, &err) != K3_OK ||
        help) {
        return k3_command_end(&err);
    }
    count = k3_options_positional_count(options);
    if (count == 0) {
        k3_fail(&err, K3_ERR_USAGE, "report: no record given");
    } else if (k3_alloc("records", count, sizeof(json_t *), &documents, &err) == K3_OK) {
        report_all(options, documents, count, &err);
        for (size_t i = 0; i < count; i++) {
            json_decref(documents[i]);
        }
        k3_free(documents);
    }
    k3_options_free(options);
    return k3_command_end(&err);
}

const k3_command_t k3_command_report = {
    .id = K3_COMMAND_REPORT,
    .name = "report",
    .usage = "RECORD... [-o FILE.md|FILE.csv]",
    .what = "records as a table, Markdown or CSV",
    .run = run_report,
};
