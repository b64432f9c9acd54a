/* What the files of the dump share: rank 0 writes into a folder that has not its name yet. */
#ifndef K3_REGION_DUMP_INTERNAL_H
#define K3_REGION_DUMP_INTERNAL_H

#include <stdio.h>

#include "bench/cell/npy.h"
#include "bench/region/dump.h"

enum { K3_DUMP_FILES = 32, K3_DUMP_LINE = 400 };

typedef struct k3_dump {
    const k3_region_t *region;
    uint64_t           payload;
    bool               writes; /* rank 0 */
    char               folder[4096];
    char               line[K3_DUMP_FILES][K3_DUMP_LINE]; /* of the README, one for each file */
    unsigned           files;
} k3_dump_t;

/* dump_arrays.c; rank 0: writes NAME.npy and keeps its line. */
k3_status_t k3_dump_array(k3_dump_t *dump, const char *name, k3_npy_type_t type, unsigned dims,
                          const uint64_t *shape, const void *data, const char *what,
                          k3_error_t *err);

/* dump_weights.c: rank 0 alone; every rank could. */
k3_status_t k3_dump_weights(k3_dump_t *dump, k3_error_t *err);

/* dump_text.c: README.md and dump.json. */
k3_status_t k3_dump_text(const k3_dump_t *dump, k3_error_t *err);

#endif
