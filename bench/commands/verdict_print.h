/* Where the document of a verdict (compare, gate) goes: text to the terminal, or a file by its ending. */
#ifndef K3_COMMANDS_VERDICT_PRINT_H
#define K3_COMMANDS_VERDICT_PRINT_H

#include <jansson.h>
#include <stdio.h>

#include "harness/base/status.h"

typedef void (*k3_verdict_form_t)(const json_t *document, FILE *out);

/* `path` NULL: text to standard output; "-": JSON there; FILE.json, FILE.md: a new file. K3_ERR_USAGE for
 * another ending. */
k3_status_t k3_verdict_print(const json_t *document, const char *path, k3_verdict_form_t text,
                             k3_verdict_form_t markdown, k3_error_t *err);

#endif
