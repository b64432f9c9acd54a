/* k3bench report: records to a table, HTML, Markdown or CSV. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/commands/command.h"
#include "bench/commands/records.h"
#include "bench/report/files.h"
#include "bench/report/html.h"
#include "bench/report/table.h"
#include "harness/base/memory.h"
#include "harness/record/document.h"

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

static int fill_html(FILE *file, const void *arg)
{
    const records_t *r = arg;

    k3_report_html(r->documents, r->count, file);
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
    if (ending != NULL && strcmp(ending, ".html") == 0) {
        return k3_file_write(path, fill_html, &records, err);
    }
    return k3_fail(err, K3_ERR_USAGE, "output: \"%s\" ends in none of .html, .md, .csv", path);
}

static k3_status_t report_all(const k3_options_t *options, json_t **documents, size_t count,
                              k3_error_t *err)
{
    const char *output = k3_options_get(options, "output");

    k3_records_t read = {0};

    for (size_t i = 0; i < count && err->status == K3_OK; i++) {
        k3_records_read(&read, k3_options_positional(options, i), &documents[i], err);
    }
    k3_records_close(&read);
    if (err->status != K3_OK) {
        return err->status;
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
    .usage = "RECORD... [-o FILE.html|FILE.md|FILE.csv]",
    .what = "records as a table, a page with pictures (HTML), Markdown or CSV",
    .files = true,
    .run = run_report,
};
