/* Single arrays of a dump, and the bytes of its weights. */
#include <stdio.h>

#include "bench/region/dump_internal.h"
#include "harness/base/arith.h"
#include "harness/base/text.h"

uint64_t k3_dump_weight_bytes(const k3_cell_t *cell)
{
    const k3_model_t *m = &cell->model;

    return k3_add(k3_mul(k3_model_expert_bytes(m), m->experts),
                  k3_model_shared_bytes(m) + k3_model_dense_bytes(m));
}

k3_status_t k3_dump_array(k3_dump_t *d, const char *name, k3_npy_type_t type, unsigned dims,
                          const uint64_t *shape, const void *data, const char *what,
                          k3_error_t *err)
{
    static const char *const types[] = {
        [K3_NPY_I32] = "int32", [K3_NPY_I64] = "int64", [K3_NPY_F32] = "float32",
        [K3_NPY_U8] = "uint8",  [K3_NPY_U16] = "bf16",  [K3_NPY_F16] = "float16"};
    char   path[sizeof(d->folder) + 64], text[96] = "";
    size_t used = 0;

    for (unsigned i = 0; i < dims; i++) {
        used = k3_append(text, sizeof(text), used, "%s%llu", i > 0 ? ", " : "",
                         (unsigned long long)shape[i]);
    }
    snprintf(d->line[d->files++], K3_DUMP_LINE, "| %s.npy | [%s] | %s | %s |", name, text,
             types[type], what);
    snprintf(path, sizeof(path), "%s/%s.npy", d->folder, name);
    return k3_npy_write(path, type, dims, shape, data, err);
}
