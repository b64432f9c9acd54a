/* Reading records that others wrote: each is held against what its readers rely on. */
#ifndef K3_COMMANDS_RECORDS_H
#define K3_COMMANDS_RECORDS_H

#include <jansson.h>

#include "harness/base/status.h"

/* Launches that were read; starts zeroed. */
typedef struct k3_records {
    json_t *ids;
} k3_records_t;

/* The records of a file, appended to `list`: one, or those of a merged document (report -o X.json). K3_ERR_IO names file
 * and fault; K3_ERR_USAGE when the same launch was read before: it would count twice in every comparison. Control
 * characters in texts become '?'. */
k3_status_t k3_records_read_all(k3_records_t *records, const char *path, json_t *list,
                                k3_error_t *err);

/* For launches that were read in another way (k3_facts_read): refuses one that was read before. */
k3_status_t k3_records_note(k3_records_t *records, const char *path, const char *run,
                            k3_error_t *err);
void        k3_records_close(k3_records_t *records);

#endif
