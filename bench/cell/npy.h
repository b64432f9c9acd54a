/* Reading and writing NumPy .npy files (format 1.0 and 2.0, C order, little endian). The file is
 * hostile until checked: header, type, shape and size must agree to the byte. */
#ifndef K3_CELL_NPY_H
#define K3_CELL_NPY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "harness/base/status.h"

typedef enum k3_npy_type {
    K3_NPY_I32,
    K3_NPY_I64,
    K3_NPY_F32,
    K3_NPY_U8,
    K3_NPY_U16,
    K3_NPY_F16
} k3_npy_type_t;

enum { K3_NPY_DIMS = 4 };

typedef struct k3_npy {
    k3_npy_type_t type;
    unsigned      dims;
    uint64_t      shape[K3_NPY_DIMS];
    void         *data; /* owned; k3_npy_free */
} k3_npy_t;

/* K3_ERR_IO when the file cannot be opened or read, K3_ERR_USAGE when it is not such an array; the
 * array is empty then. Only regular files are opened. */
k3_status_t k3_npy_read(const char *path, k3_npy_t *array, k3_error_t *err);

/* The same from a stream that can seek, from its beginning to its end; `name` is for messages. */
k3_status_t k3_npy_read_stream(FILE *file, const char *name, k3_npy_t *array, k3_error_t *err);
void        k3_npy_free(k3_npy_t *array);

/* Writes format 1.0. A file that cannot be completed is removed. */
k3_status_t k3_npy_write(const char *path, k3_npy_type_t type, unsigned dims, const uint64_t *shape,
                         const void *data, k3_error_t *err);

#endif
