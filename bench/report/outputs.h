/* The formats of a report, by the ending of a file's name. */
#ifndef K3_REPORT_OUTPUTS_H
#define K3_REPORT_OUTPUTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "harness/base/status.h"

/* Documents of several records in one: {schema, records: [...]}; a reader takes it for its records. */
#define K3_MERGED_SCHEMA "k3bench.merged/1"

typedef struct k3_output {
    json_t *const *documents;
    size_t         count;
    size_t         first; /* records of the base; count: no base */
    bool           lanes; /* CSV: a row for each lane */
} k3_output_t;

/* Writes `path`, which must not exist: .html, .md, .csv, .prom, .trace.json or .json. */
k3_status_t k3_output_write(const k3_output_t *output, const char *path, k3_error_t *err);

/* To standard output; `format` is one of the names below. `colour`: the table may have some. */
typedef enum k3_output_format { K3_OUTPUT_TEXT, K3_OUTPUT_JSON, K3_OUTPUT_CSV } k3_output_format_t;
extern const char *const k3_output_format_names[]; /* "text", "json", "csv", NULL */

k3_status_t k3_output_print(const k3_output_t *output, k3_output_format_t format, bool colour,
                            k3_error_t *err);

#endif
