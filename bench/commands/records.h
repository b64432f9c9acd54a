/* Reading records that others wrote: each is held against what its readers rely on. */
#ifndef K3_COMMANDS_RECORDS_H
#define K3_COMMANDS_RECORDS_H

#include <jansson.h>

#include "harness/base/status.h"

/* Launches that were read; starts zeroed. */
typedef struct k3_records {
    json_t *ids;
} k3_records_t;

/* K3_ERR_IO names file and fault; K3_ERR_USAGE when the same launch was read before: it would count
 * twice in every comparison. Control characters in texts become '?'. The caller frees the document. */
k3_status_t k3_records_read(k3_records_t *records, const char *path, json_t **document_p,
                            k3_error_t *err);
void        k3_records_close(k3_records_t *records);

#endif
