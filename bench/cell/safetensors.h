/* Reading safetensors files. A file is: the length of a header (u64, little endian), the header (JSON:
 * name -> dtype, shape, data_offsets), and the data, which every offset counts from the beginning of.
 *
 * The file is mapped, not copied. It is hostile until checked: the header is bounded and lies inside the
 * file, names are unique, a tensor's bytes are what type and shape need, and all tensors together cover
 * the data without gap or overlap to the file's last byte. */
#ifndef K3_CELL_SAFETENSORS_H
#define K3_CELL_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "harness/base/file.h"
#include "harness/base/status.h"

enum { K3_SAFETENSORS_DIMS = 8, K3_SAFETENSORS_NAME = 256, K3_SAFETENSORS_SHAPE = 200 };

typedef struct k3_safetensor {
    const char    *name;
    const char    *type; /* "BF16", "U8", ...: a name of the format's table */
    unsigned       dims;
    uint64_t       shape[K3_SAFETENSORS_DIMS];
    uint64_t       begin, end; /* bytes of the data */
    const uint8_t *data;       /* end - begin bytes, at any alignment */
} k3_safetensor_t;

typedef struct k3_safetensors {
    k3_file_map_t    map;
    k3_safetensor_t *tensors; /* [count] by name */
    size_t           count;
    char            *names; /* what the tensors' names point into */
} k3_safetensors_t;

/* K3_ERR_IO when the file cannot be opened or mapped, K3_ERR_USAGE when it is no such file, with the name
 * of the tensor at fault. On failure nothing is left to close. */
k3_status_t k3_safetensors_open(const char *path, k3_safetensors_t *file, k3_error_t *err);
void        k3_safetensors_close(k3_safetensors_t *file);

/* The same from memory, which stays the caller's; `path` is for messages. */
k3_status_t k3_safetensors_parse(const char *path, const uint8_t *data, uint64_t size,
                                 k3_safetensors_t *file, k3_error_t *err);

/* NULL: the file has no tensor of this name. */
const k3_safetensor_t *k3_safetensors_find(const k3_safetensors_t *file, const char *name);

/* "BF16 [64, 512]" in `text` of K3_SAFETENSORS_SHAPE bytes. */
const char *k3_safetensors_shape(const char *type, unsigned dims, const uint64_t *shape,
                                 char *text);

#endif
