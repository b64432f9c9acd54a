/* Input files that come from outside: opened without waiting, looked at before they are read. */
#ifndef K3_BASE_FILE_H
#define K3_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "harness/base/status.h"

/* A descriptor for reading. Only regular files are opened, and no pipe is waited for. K3_ERR_IO names
 * path and cause. */
k3_status_t k3_file_open(const char *path, int *fd_p, k3_error_t *err);

/* A whole file as memory that is read only: pages come from the file when they are touched, and are
 * shared by all processes of the node. */
typedef struct k3_file_map {
    const uint8_t *data; /* NULL: an empty file, or nothing mapped */
    uint64_t       size;
} k3_file_map_t;

k3_status_t k3_file_map(const char *path, k3_file_map_t *map, k3_error_t *err);
void        k3_file_unmap(k3_file_map_t *map);

/* A text from outside as one line of at most size - 1 printable characters: others become '?', a long
 * text ends in "...". Returns `line`. */
const char *k3_printable(const char *text, char *line, size_t size);

#endif
