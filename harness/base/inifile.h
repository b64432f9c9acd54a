/* Ini files from strangers: every line is checked before inih sees it, and every message names the
 * file and the line. Section heads are allowed and ignored, indentation has no meaning, comments
 * start with ';' or '#', a ';' after a blank ends a value. */
#ifndef K3_BASE_INIFILE_H
#define K3_BASE_INIFILE_H

#include "harness/base/status.h"

/* Called once per "key = value", in the order of the file; what it refuses ends the reading. */
typedef k3_status_t (*k3_ini_entry_t)(void *user, const char *path, int line, const char *key,
                                      const char *value, k3_error_t *err);

/* K3_ERR_IO when the file cannot be read or is above 1 MiB; K3_ERR_USAGE for a line that is too
 * long, holds a control character or has neither '=' nor ':'. */
k3_status_t k3_ini_read(const char *path, k3_ini_entry_t entry, void *user, k3_error_t *err);

#endif
