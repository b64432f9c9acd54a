/* How something was measured, as {FIELD: text}: what gives the same work another time. */
#ifndef K3_RECORD_HOW_H
#define K3_RECORD_HOW_H

#include <jansson.h>

/* The first field that both have, and in which they differ; NULL: none. What is not known is not held against anybody:
 * older records have less. `except`, which may be NULL, is not looked at. */
const char *k3_how_differs(const json_t *a, const json_t *b, const char *except);

#endif
