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

/* The same launch twice would count twice in every comparison. */
static k3_status_t add_record(const char *path, json_t **documents, size_t n, k3_error_t *err)
{
    const char *schema;

    if (k3_document_read(path, &documents[n], err) != K3_OK) {
        return err->status;
    }
    schema = json_string_value(json_object_get(documents[n], "schema"));
    if (schema == NULL || strcmp(schema, K3_SCHEMA) != 0 || id_of(documents[n]) == NULL ||
        !json_is_array(json_object_get(documents[n], "cells"))) {
        return k3_fail(err, K3_ERR_IO, "%s: no record of schema %s (schema: %s)", path, K3_SCHEMA,
                       schema != NULL ? schema : "none");
    }
    for (size_t i = 0; i < n; i++) {
        if (strcmp(id_of(documents[i]), id_of(documents[n])) == 0) {
            return k3_fail(err, K3_ERR_USAGE, "%s: run %s was already given", path,
                           id_of(documents[n]));
        }
    }
    return K3_OK;
}

static k3_status_t write_file(const char *path, json_t *const *documents, size_t count,
                              k3_error_t *err)
{
    const char *ending = strrchr(path, '.');
    bool        csv = ending != NULL && strcmp(ending, ".csv") == 0;
    FILE       *out;

    if (!csv && (ending == NULL || strcmp(ending, ".md") != 0)) {
        return k3_fail(err, K3_ERR_USAGE, "output: \"%s\" ends in none of .md, .csv", path);
    }
    out = fopen(path, "wx");
    if (out == NULL) {
        return k3_fail(err, K3_ERR_IO, "%s: %s", path, strerror(errno));
    }
    (csv ? k3_report_csv : k3_report_markdown)(documents, count, out);
    if (ferror(out) != 0) {
        k3_fail(err, K3_ERR_IO, "%s: %s", path, strerror(errno));
    }
    if (fclose(out) != 0) {
        k3_fail(err, K3_ERR_IO, "%s: %s", path, strerror(errno));
    }
    if (err->status != K3_OK) {
        unlink(path);
    }
    return err->status;
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
