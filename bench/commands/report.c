/* k3bench report: records to a table, or to a file whose ending says what it is. */
#include <unistd.h>

#include "bench/commands/command.h"
#include "bench/commands/records.h"
#include "bench/report/outputs.h"
#include "harness/base/memory.h"
#include "harness/base/text.h"

static k3_status_t read_records(const k3_options_t *options, json_t *records, size_t *first,
                                k3_error_t *err)
{
    size_t       count = k3_options_positional_count(options), base;
    bool         parted;
    k3_records_t read = {0};

    base = k3_options_first_group(options, &parted);
    if (count == 0 || (parted && (base == 0 || base == count))) {
        return k3_fail(err, K3_ERR_USAGE, "report: %s",
                       count == 0 ? "no record given" : "no record on one side of --");
    }
    for (size_t i = 0; i < count && err->status == K3_OK; i++) {
        *first = i == base ? json_array_size(records) : *first;
        k3_records_read_all(&read, k3_options_positional(options, i), records, err);
    }
    if (!parted) {
        *first = json_array_size(records);
    }
    k3_records_close(&read);
    return err->status;
}

/* What would be passed over. */
static k3_status_t check_format(const k3_options_t *options, k3_output_format_t format,
                                bool two_sides, k3_error_t *err)
{
    const char *path = k3_options_get(options, "output");
    bool        rows = path == NULL ? format == K3_OUTPUT_CSV : k3_ends_with(path, ".csv");

    if (two_sides && (path == NULL || !k3_ends_with(path, ".html"))) {
        return k3_fail(err, K3_ERR_USAGE,
                       "report: BASE -- NEW are held against each other on a page alone (-o "
                       "FILE.html); `compare BASE -- NEW` does it as text, Markdown or JSON");
    }
    if (path != NULL && k3_options_origin(options, "format") == K3_ORIGIN_COMMAND_LINE) {
        return k3_fail(err, K3_ERR_USAGE,
                       "format %s has no effect: the ending of -o %s says what is written",
                       k3_output_format_names[format], path);
    }
    if (!rows && k3_options_origin(options, "lanes") == K3_ORIGIN_COMMAND_LINE) {
        return k3_fail(err, K3_ERR_USAGE,
                       "lanes has no effect: CSV alone has a row for each queue pair (--format csv "
                       "or -o FILE.csv)");
    }
    return K3_OK;
}

static k3_status_t print(const k3_options_t *options, json_t *records, size_t first,
                         k3_error_t *err)
{
    const char *path = k3_options_get(options, "output");
    size_t      format, count = json_array_size(records);
    json_t    **documents = NULL;
    k3_output_t output = {.count = count, .first = first};

    if (k3_parse_name("format", k3_options_get(options, "format"), k3_output_format_names, &format,
                      err) != K3_OK ||
        check_format(options, (k3_output_format_t)format, first < count, err) != K3_OK ||
        k3_alloc("records", count, sizeof(json_t *), &documents, err) != K3_OK) {
        return err->status;
    }
    for (size_t i = 0; i < count; i++) {
        documents[i] = json_array_get(records, i);
    }
    output.documents = documents;
    output.lanes = k3_options_on(options, "lanes");
    if (path != NULL) {
        k3_output_write(&output, path, err);
    } else {
        k3_output_print(&output, (k3_output_format_t)format, isatty(STDOUT_FILENO), err);
    }
    k3_free(documents);
    return err->status;
}

static int run_report(int argc, char **argv)
{
    k3_error_t    err = K3_ERROR_INIT;
    k3_options_t *options = NULL;
    int           help = 0;
    size_t        first = 0;
    json_t       *records;

    if (k3_command_options(&k3_command_report, argc, argv, &options, &help, &err) != K3_OK ||
        help) {
        return k3_command_end(&err);
    }
    records = json_array();
    if (read_records(options, records, &first, &err) == K3_OK) {
        print(options, records, first, &err);
    }
    json_decref(records);
    k3_options_free(options);
    return k3_command_end(&err);
}

const k3_command_t k3_command_report = {
    .id = K3_COMMAND_REPORT,
    .name = "report",
    .usage = "RECORD... [-o FILE]   or   BASE... -- NEW... -o FILE.html",
    .what = "records as a table, a page with pictures, Markdown, CSV, a trace or metrics",
    .files = true,
    .groups = true,
    .run = run_report,
};
