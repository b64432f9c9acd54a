/* Writing and reading files of JSON documents strictly. */
#ifndef K3_RECORD_DOCUMENT_H
#define K3_RECORD_DOCUMENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "harness/base/status.h"

/* Writes what `fill` puts into the file to `path`, which must not exist: to a file of the same folder
 * that has no name yet (or a temporary one), synced, then linked into place, so that the name holds the whole text or does not exist, whatever
 * ends the program. Missing folders are not made. "-" writes to stdout. `fill` returns 0, else the file is
 * given up. K3_ERR_IO names path and cause. */
typedef int (*k3_file_fill_t)(FILE *file, const void *arg);
k3_status_t k3_file_write(const char *path, k3_file_fill_t fill, const void *arg, k3_error_t *err);

/* One JSON document, in the same way. */
k3_status_t k3_document_write(const json_t *document, const char *path, k3_error_t *err);

/* The same for the few files that change: what stands at `path` is replaced in one step, so that a reader
 * sees the old or the new document, never a part. */
k3_status_t k3_file_replace(const char *path, k3_file_fill_t fill, const void *arg,
                            k3_error_t *err);
k3_status_t k3_document_replace(const json_t *document, const char *path, k3_error_t *err);

/* Says, before any work is done, whether k3_document_write could succeed: the path does not exist and
 * its folder can be written. Leaves nothing behind. */
k3_status_t k3_document_check_path(const char *path, k3_error_t *err);

/* Reads one document; duplicate keys, trailing text, NaN and files above 1 GiB are refused, with line
 * and column. */
k3_status_t k3_document_read(const char *path, json_t **document_p, k3_error_t *err);

#endif
