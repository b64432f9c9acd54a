/* Ini files from strangers: every line is checked before inih sees it, and every message names the
 * file and the line. Indentation has no meaning, comments start with ';' or '#', a ';' after a blank
 * ends a value. A value that ends with a comma goes on in the next line, up to 4095 bytes;
 * one that looks like an option of its own (small letters and '=') is refused there. */
#ifndef K3_BASE_INIFILE_H
#define K3_BASE_INIFILE_H

#include "harness/base/status.h"

enum { K3_INI_SECTION_MAX = 48 }; /* bytes of a section's name, its end included */

typedef struct k3_ini_entry {
    const char *path;
    int         line;
    const char *section;     /* "" before the first head */
    const char *key, *value; /* NULL: the head of the section */
} k3_ini_entry_t;

/* Called once per head and per "key = value", in the order of the file; what it refuses ends the reading. */
typedef k3_status_t (*k3_ini_take_t)(void *user, const k3_ini_entry_t *entry, k3_error_t *err);

/* K3_ERR_IO when the file cannot be read or is above 1 MiB; K3_ERR_USAGE for a line that is too
 * long, holds a control character or has neither '=' nor ':', and for a head without a name, with a long
 * one, or with words behind it. */
k3_status_t k3_ini_read(const char *path, k3_ini_take_t take, void *user, k3_error_t *err);

#endif
