/* The .npy reader on hostile files. An input is read twice: as a whole file, and as the header text
 * (up to the first line end) and the data of a file with a right start, so that text seeds reach
 * the parser of the header. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cell/npy.h"

extern const char *const fuzz_seeds[];
int                      LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

const char *const fuzz_seeds[] = {
    "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }\n0123456789abcdef",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }\n0123456789abcdef",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, 2, 4), }\n0123456789abcdef",
    "{'descr': '<u2', 'fortran_order': False, 'shape': (), }\n01",
    "{'shape': (4294967296, 4294967296), 'descr': '<f4', 'fortran_order': False}\n",
    "{'descr': '>i4', 'fortran_order': True, 'shape': (-1, 0x2), }\n",
    "{\"descr\": [('a', '<i4')], 'shape': (99999999999999999999999,)}\n",
    NULL,
};

/* What was accepted must be an array whose every byte can be read. */
static void read_file(char *bytes, size_t size)
{
    static const uint64_t sizes[] = {4, 8, 4, 1, 2, 2};
    static volatile char  last;
    k3_error_t            err = K3_ERROR_INIT;
    k3_npy_t              array;
    FILE                 *file = fmemopen(bytes, size, "rb");

    if (file == NULL) {
        return;
    }
    if (k3_npy_read_stream(file, "fuzz", &array, &err) == K3_OK) {
        uint64_t count = sizes[array.type];

        for (unsigned d = 0; d < array.dims; d++) {
            count *= array.shape[d];
        }
        for (uint64_t i = 0; i < count; i++) {
            last = ((const char *)array.data)[i];
        }
        (void)last;
        k3_npy_free(&array);
    } else if (err.status == K3_OK || err.text[0] == '\0' || strchr(err.text, '\n') != NULL) {
        abort();
    }
    fclose(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *line_end = size == 0 ? NULL : memchr(data, '\n', size);
    size_t         header = line_end == NULL ? size : (size_t)(line_end - data) + 1;
    char          *bytes = malloc(size + 10);

    if (bytes == NULL || header > UINT16_MAX) {
        free(bytes);
        return 0;
    }
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    read_file(bytes, size);

    memcpy(bytes, "\x93NUMPY\x01\x00", 8);
    bytes[8] = (char)(header & 0xff);
    bytes[9] = (char)(header >> 8);
    if (size > 0) {
        memcpy(bytes + 10, data, size);
    }
    read_file(bytes, size + 10);
    free(bytes);
    return 0;
}
