#include "bench/report/outputs.h"

#include "bench/report/csv.h"
#include "bench/report/html.h"
#include "bench/report/markdown.h"
#include "bench/report/metrics.h"
#include "bench/report/table.h"
#include "bench/report/trace.h"
#include "harness/base/text.h"
#include "harness/record/document.h"

const char *const k3_output_format_names[] = {"text", "json", "csv", NULL};

static int fill_csv(FILE *file, const void *arg)
{
    const k3_output_t *o = arg;

    (o->lanes ? k3_report_csv_lanes : k3_report_csv)(o->documents, o->count, file);
    return 0;
}

static int fill_markdown(FILE *file, const void *arg)
{
    const k3_output_t *o = arg;

    k3_report_markdown(o->documents, o->count, file);
    return 0;
}

static int fill_html(FILE *file, const void *arg)
{
    const k3_output_t *o = arg;

    k3_report_html(o->documents, o->count, o->first, file);
    return 0;
}

static int fill_metrics(FILE *file, const void *arg)
{
    const k3_output_t *o = arg;

    k3_report_metrics(o->documents, o->count, file);
    return 0;
}

static int fill_trace(FILE *file, const void *arg)
{
    const k3_output_t *o = arg;

    k3_report_trace(o->documents, o->count, file);
    return 0;
}

/* One record stays what it is. */
static json_t *merged(const k3_output_t *o)
{
    json_t *records = json_array();

    if (o->count == 1) {
        json_decref(records);
        return json_incref(o->documents[0]);
    }
    for (size_t d = 0; d < o->count; d++) {
        json_array_append(records, o->documents[d]);
    }
    return json_pack("{s:s, s:o}", "schema", K3_MERGED_SCHEMA, "records", records);
}

static k3_status_t write_merged(const k3_output_t *o, const char *path, k3_error_t *err)
{
    json_t *document = merged(o);

    if (document == NULL) {
        return k3_fail(err, K3_ERR_ENV, "memory is short");
    }
    k3_document_write(document, path, err);
    json_decref(document);
    return err->status;
}

/* The first ending that fits counts; without `fill`: the merged document. */
static const struct ending {
    const char    *text;
    k3_file_fill_t fill;
} endings[] = {
    {".html", fill_html},        {".md", fill_markdown}, {".csv", fill_csv},
    {".trace.json", fill_trace}, {".json", NULL},        {".prom", fill_metrics},
};

k3_status_t k3_output_write(const k3_output_t *o, const char *path, k3_error_t *err)
{
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        if (k3_ends_with(path, endings[i].text)) {
            return endings[i].fill != NULL ? k3_file_write(path, endings[i].fill, o, err)
                                           : write_merged(o, path, err);
        }
    }
    return k3_fail(err, K3_ERR_USAGE,
                   "output: \"%s\" ends in none of .html, .md, .csv, .json, .trace.json, .prom",
                   path);
}

k3_status_t k3_output_print(const k3_output_t *o, k3_output_format_t format, bool colour,
                            k3_error_t *err)
{
    switch (format) {
    case K3_OUTPUT_JSON:
        return write_merged(o, "-", err);
    case K3_OUTPUT_CSV:
        fill_csv(stdout, o);
        return K3_OK;
    default:
        for (size_t d = 0; d < o->count; d++) {
            if (o->count > 1) {
                k3_table_head(o->documents[d], stdout);
            }
            k3_table_print(o->documents[d], stdout, colour);
            fputs(d + 1 < o->count ? "\n" : "", stdout);
        }
        return K3_OK;
    }
}
