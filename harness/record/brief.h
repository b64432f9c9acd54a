/* Reading of a document only what is wanted. A record of many cells is mostly lanes, samples and statistics;
 * who wants one number of each cell of ten thousand records need not make objects of the rest. */
#ifndef K3_RECORD_BRIEF_H
#define K3_RECORD_BRIEF_H

#include <jansson.h>

#include "harness/base/status.h"

/* Names of members, NULL at the end; they count at any depth. Members of other names are dropped, with all
 * that is in them. */
typedef struct k3_wanted {
    const char *const *names;
    const char *const *whole; /* kept with all that is in them */
    const char *const *lists; /* lists of objects: those that begin with "name" are kept only */
    const char *const *items; /* ... when the name is one of these */
} k3_wanted_t;

/* What is kept is read as strictly as by k3_document_read; of what is dropped only strings and brackets are
 * looked at. Faults are described in the same way. */
k3_status_t k3_document_read_brief(const char *path, const k3_wanted_t *wanted, json_t **document_p,
                                   k3_error_t *err);

/* Drops members from `text` in place and returns the new length; 0: it is no JSON that this can tell
 * apart. text[length] must be writable. */
size_t k3_brief_text(char *text, size_t length, const k3_wanted_t *wanted);

#endif
