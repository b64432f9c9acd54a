/* Reading many files by as many threads as there are processors, taking them in order. */
#ifndef K3_RECORD_READERS_H
#define K3_RECORD_READERS_H

#include <jansson.h>
#include <stddef.h>

#include "harness/base/status.h"

/* Makes something of one file; called by several threads at a time. */
typedef k3_status_t (*k3_reader_t)(void *arg, const char *path, json_t **result_p, k3_error_t *err);

/* Takes the result for names[i], or the fault when there is none; it owns neither. One call at a time, in the
 * order of the list, in any of the threads. */
typedef k3_status_t (*k3_taker_t)(void *arg, size_t i, const json_t *result,
                                  const k3_error_t *fault, k3_error_t *err);

/* `folder` may be NULL: the names are paths. Ends at the first fault of `take`. */
k3_status_t k3_read_each(const char *folder, const char *const *names, size_t count,
                         k3_reader_t read, k3_taker_t take, void *arg, k3_error_t *err);

#endif
