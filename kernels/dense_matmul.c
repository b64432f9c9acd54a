/* Dense layers by oneDNN's bf16 matmul. The layout of the packed W is the one that the library
 * wants for the largest count of rows. There is a primitive for each power of two of rows, and a
 * call is divided into such counts, because a primitive is bound to its count. */
#include "kernels/dense.h"

#include <stdlib.h>

#include <oneapi/dnnl/dnnl.h>

enum { COUNTS = 9 }; /* 1, 2, 4, ... 256 rows */

struct k3_dense_matmul {
    size_t           n, k, stride; /* between rows of the result */
    dnnl_engine_t    engine;
    dnnl_stream_t    stream;
    dnnl_memory_t    weights, scratch;
    dnnl_primitive_t primitives[COUNTS];
    dnnl_memory_t    x[COUNTS], y[COUNTS];
    int              counts;
};

static int count_of(size_t max_m)
{
    int counts = 1;

    while (counts < COUNTS && (size_t)1 << counts <= max_m) {
        counts++;
    }
    return counts;
}

/* Rows of the result lie `stride` apart. */
static dnnl_memory_desc_t describe_result(size_t rows, size_t columns, size_t stride)
{
    dnnl_dims_t        dims = {(dnnl_dim_t)rows, (dnnl_dim_t)columns};
    dnnl_dims_t        strides = {(dnnl_dim_t)stride, 1};
    dnnl_memory_desc_t desc = {0};

    dnnl_memory_desc_init_by_strides(&desc, 2, dims, dnnl_f32, strides);
    return desc;
}

static dnnl_memory_desc_t describe(size_t rows, size_t columns, dnnl_data_type_t type,
                                   dnnl_format_tag_t tag)
{
    dnnl_dims_t        dims = {(dnnl_dim_t)rows, (dnnl_dim_t)columns};
    dnnl_memory_desc_t desc = {0};

    dnnl_memory_desc_init_by_tag(&desc, 2, dims, type, tag);
    return desc;
}

/* The plan for `m` rows with W in the given layout, scratch memory to be given by us. */
static dnnl_primitive_desc_t plan(dnnl_engine_t engine, size_t m, size_t n, size_t k, size_t stride,
                                  const dnnl_memory_desc_t *weights)
{
    dnnl_memory_desc_t    x = describe(m, k, dnnl_bf16, dnnl_ab);
    dnnl_memory_desc_t    y = describe_result(m, n, stride);
    dnnl_matmul_desc_t    matmul;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t result = NULL;

    if (dnnl_matmul_desc_init(&matmul, &x, weights, NULL, &y) != dnnl_success ||
        dnnl_primitive_attr_create(&attr) != dnnl_success) {
        return NULL;
    }
    dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (dnnl_primitive_desc_create(&result, &matmul, attr, engine, NULL) != dnnl_success) {
        result = NULL;
    }
    dnnl_primitive_attr_destroy(attr);
    return result;
}

/* Plans for all counts, the largest first as it chooses the layout of W. */
static bool make_plans(dnnl_engine_t engine, size_t n, size_t k, size_t stride, int counts,
                       dnnl_primitive_desc_t *plans, dnnl_memory_desc_t *weights, size_t *scratch)
{
    *weights = describe(k, n, dnnl_bf16, dnnl_format_tag_any);
    *scratch = 64;
    for (int i = counts - 1; i >= 0; i--) {
        size_t bytes;

        plans[i] = plan(engine, (size_t)1 << i, n, k, stride, weights);
        if (plans[i] == NULL) {
            return false;
        }
        *weights = *dnnl_primitive_desc_query_md(plans[i], dnnl_query_weights_md, 0);
        bytes = dnnl_memory_desc_get_size(
            dnnl_primitive_desc_query_md(plans[i], dnnl_query_scratchpad_md, 0));
        *scratch = bytes > *scratch ? bytes : *scratch;
    }
    return true;
}

static void drop_plans(dnnl_primitive_desc_t *plans)
{
    for (int i = 0; i < COUNTS; i++) {
        if (plans[i] != NULL) {
            dnnl_primitive_desc_destroy(plans[i]);
        }
    }
}

uint64_t k3_dense_matmul_bytes(size_t n, size_t k, size_t max_m, size_t stride)
{
    dnnl_primitive_desc_t plans[COUNTS] = {NULL};
    dnnl_memory_desc_t    weights;
    dnnl_engine_t         engine;
    size_t                scratch;
    uint64_t              bytes = 0;

    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) {
        return 0;
    }
    if (make_plans(engine, n, k, stride, count_of(max_m), plans, &weights, &scratch)) {
        bytes = sizeof(k3_dense_matmul_t) + dnnl_memory_desc_get_size(&weights) + scratch;
    }
    drop_plans(plans);
    dnnl_engine_destroy(engine);
    return bytes;
}

/* W [n][k] row major is a k x n matrix stored column by column. */
static bool pack_weights(k3_dense_matmul_t *matmul, const uint16_t *w,
                         const dnnl_memory_desc_t *layout)
{
    dnnl_memory_desc_t    plain = describe(matmul->k, matmul->n, dnnl_bf16, dnnl_ba);
    dnnl_memory_t         source = NULL;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_primitive_t      reorder = NULL;
    bool                  ok;

    ok =
        dnnl_memory_create(&matmul->weights, layout, matmul->engine, DNNL_MEMORY_ALLOCATE) ==
            dnnl_success &&
        dnnl_memory_create(&source, &plain, matmul->engine, (void *)(uintptr_t)w) == dnnl_success &&
        dnnl_reorder_primitive_desc_create(&desc, &plain, matmul->engine, layout, matmul->engine,
                                           NULL) == dnnl_success &&
        dnnl_primitive_create(&reorder, desc) == dnnl_success;
    if (ok) {
        dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, matmul->weights}};

        ok = dnnl_primitive_execute(reorder, matmul->stream, 2, args) == dnnl_success &&
             dnnl_stream_wait(matmul->stream) == dnnl_success;
    }
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(desc);
    dnnl_memory_destroy(source);
    return ok;
}

static bool make_primitives(k3_dense_matmul_t *matmul, dnnl_primitive_desc_t *plans,
                            size_t scratch_bytes)
{
    dnnl_dims_t        dims = {(dnnl_dim_t)scratch_bytes};
    dnnl_memory_desc_t scratch;

    if (dnnl_memory_desc_init_by_tag(&scratch, 1, dims, dnnl_u8, dnnl_a) != dnnl_success ||
        dnnl_memory_create(&matmul->scratch, &scratch, matmul->engine, DNNL_MEMORY_ALLOCATE) !=
            dnnl_success) {
        return false;
    }
    for (int i = 0; i < matmul->counts; i++) {
        size_t             m = (size_t)1 << i;
        dnnl_memory_desc_t x = describe(m, matmul->k, dnnl_bf16, dnnl_ab);
        dnnl_memory_desc_t y = describe_result(m, matmul->n, matmul->stride);

        if (dnnl_primitive_create(&matmul->primitives[i], plans[i]) != dnnl_success ||
            dnnl_memory_create(&matmul->x[i], &x, matmul->engine, DNNL_MEMORY_NONE) !=
                dnnl_success ||
            dnnl_memory_create(&matmul->y[i], &y, matmul->engine, DNNL_MEMORY_NONE) !=
                dnnl_success) {
            return false;
        }
    }
    return true;
}

k3_dense_matmul_t *k3_dense_matmul_create(const uint16_t *w, size_t n, size_t k, size_t max_m,
                                          size_t stride)
{
    dnnl_primitive_desc_t plans[COUNTS] = {NULL};
    dnnl_memory_desc_t    weights;
    size_t                scratch;
    k3_dense_matmul_t    *matmul = calloc(1, sizeof *matmul);
    bool                  ok;

    if (matmul == NULL) {
        return NULL;
    }
    matmul->n = n;
    matmul->k = k;
    matmul->stride = stride;
    matmul->counts = count_of(max_m);
    ok = dnnl_engine_create(&matmul->engine, dnnl_cpu, 0) == dnnl_success &&
         dnnl_stream_create(&matmul->stream, matmul->engine, dnnl_stream_default_flags) ==
             dnnl_success &&
         make_plans(matmul->engine, n, k, stride, matmul->counts, plans, &weights, &scratch) &&
         pack_weights(matmul, w, &weights) && make_primitives(matmul, plans, scratch);
    drop_plans(plans);
    if (!ok) {
        k3_dense_matmul_destroy(matmul);
        return NULL;
    }
    return matmul;
}

/* oneDNN's own destroy functions accept NULL. */
void k3_dense_matmul_destroy(k3_dense_matmul_t *matmul)
{
    for (int i = 0; i < COUNTS; i++) {
        dnnl_primitive_destroy(matmul->primitives[i]);
        dnnl_memory_destroy(matmul->x[i]);
        dnnl_memory_destroy(matmul->y[i]);
    }
    dnnl_memory_destroy(matmul->weights);
    dnnl_memory_destroy(matmul->scratch);
    dnnl_stream_destroy(matmul->stream);
    dnnl_engine_destroy(matmul->engine);
    free(matmul);
}

void k3_dense_matmul_run(k3_dense_matmul_t *matmul, const uint16_t *x, size_t m, float *y)
{
    while (m > 0) {
        int    i = count_of(m) < matmul->counts ? count_of(m) - 1 : matmul->counts - 1;
        size_t rows = (size_t)1 << i;

        dnnl_memory_set_data_handle(matmul->x[i], (void *)(uintptr_t)x);
        dnnl_memory_set_data_handle(matmul->y[i], y);
        dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, matmul->x[i]},
                                  {DNNL_ARG_WEIGHTS, matmul->weights},
                                  {DNNL_ARG_DST, matmul->y[i]},
                                  {DNNL_ARG_SCRATCHPAD, matmul->scratch}};

        dnnl_primitive_execute(matmul->primitives[i], matmul->stream, 4, args);
        dnnl_stream_wait(matmul->stream);
        x += rows * matmul->k;
        y += rows * matmul->stride;
        m -= rows;
    }
}
