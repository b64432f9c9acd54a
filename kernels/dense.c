/* Dense layers y = x W^T through oneDNN, columns cut over the threads.
 *
 * A CPU without bf16 instructions would run oneDNN's bf16 matmul in its reference code, which is
 * slower by orders of magnitude; there, rows of W are widened to f32 a panel at a time.
 *
 * Each GEMM of the library runs on one thread, on columns that do not depend on how many threads
 * there are: so neither do the results. */
#include "kernels/dense.h"

#include <stdio.h>
#include <stdlib.h>

#include <oneapi/dnnl/dnnl.h>

#include "kernels/cpu/cpu.h"
#include "kernels/threads.h"

enum {
    CHUNK = 256, /* rows of x in one go, so that work space does not grow with max_m */
    PANEL = 128, /* rows of W widened at a time */
    PART = 1024, /* rows of W in one bf16 matmul */
    FEW = 4      /* rows up to which the dot kernel reads W directly */
};

struct k3_dense {
    const uint16_t     *w;
    size_t              n, k;
    const k3_kernels_t *kernels;
    const k3_row_ops_t *ops;
    k3_dense_matmul_t **parts; /* NULL on the f32 path */
    float              *x;
    float              *panel, *y;              /* of all threads */
    size_t              panel_floats, y_floats; /* of one; y of the bf16 path is not cut */
    size_t              threads;                /* that the two were made for */
};

typedef struct k3_dense_sizes {
    size_t x, panel, y; /* floats, the last two of a thread */
} k3_dense_sizes_t;

static size_t rounded(size_t floats)
{
    return (floats + 15) / 16 * 16 + 16;
}

static k3_dense_sizes_t sizes_of(k3_dense_path_t path, size_t n, size_t k, size_t max_m)
{
    size_t           rows = max_m < CHUNK ? max_m : CHUNK;
    size_t           panel = n < PANEL ? n : PANEL;
    k3_dense_sizes_t sizes = {rounded(0), rounded(0), rounded(0)};

    if (path == K3_DENSE_BF16) {
        sizes.y = rounded(rows * n);
    } else {
        sizes.x = rounded(rows * k);
        sizes.panel = rounded(panel * k);
        sizes.y = rounded(rows * panel);
    }
    return sizes;
}

static size_t copies_of(k3_dense_path_t path)
{
    return path == K3_DENSE_BF16 ? 1 : (size_t)k3_threads();
}

static size_t parts_of(size_t n)
{
    return (n + PART - 1) / PART;
}

/* Columns first .. first + the result of n. */
static size_t width_at(size_t n, size_t first, size_t most)
{
    return n - first < most ? n - first : most;
}

k3_dense_path_t k3_dense_best_path(void)
{
    unsigned isa = dnnl_get_effective_cpu_isa();
    unsigned bf16 = dnnl_cpu_isa_avx512_core_bf16;

    /* The values are bit sets; later ISAs, as those with AMX, contain the earlier ones. */
    return (isa & bf16) == bf16 ? K3_DENSE_BF16 : K3_DENSE_F32;
}

static bool create_parts(k3_dense_t *dense, size_t max_m)
{
    dense->parts = calloc(parts_of(dense->n), sizeof *dense->parts);
    for (size_t i = 0; dense->parts != NULL && i < parts_of(dense->n); i++) {
        size_t first = i * PART;

        dense->parts[i] =
            k3_dense_matmul_create(dense->w + first * dense->k, width_at(dense->n, first, PART),
                                   dense->k, max_m, dense->n);
        if (dense->parts[i] == NULL) {
            return false;
        }
    }
    return dense->parts != NULL;
}

static void *floats(size_t count)
{
    return aligned_alloc(64, sizeof(float) * count);
}

k3_dense_t *k3_dense_create_on(k3_dense_path_t path, const uint16_t *w, size_t n, size_t k,
                               size_t max_m)
{
    k3_dense_sizes_t sizes = sizes_of(path, n, k, max_m);
    k3_dense_t      *dense = calloc(1, sizeof *dense);
    bool             ok = true;

    if (dense == NULL) {
        return NULL;
    }
    dense->w = w;
    dense->n = n;
    dense->k = k;
    dense->kernels = k3_kernels_cpu(NULL);
    dense->ops = k3_row_ops_cpu();
    dense->panel_floats = sizes.panel;
    dense->y_floats = sizes.y;
    dense->threads = copies_of(path);
    dense->x = floats(sizes.x);
    dense->panel = floats(sizes.panel * dense->threads);
    dense->y = floats(sizes.y * dense->threads);
    if (path == K3_DENSE_BF16) {
        ok = n != 0 && k != 0 && create_parts(dense, max_m);
    }
    if (!ok || dense->x == NULL || dense->panel == NULL || dense->y == NULL) {
        k3_dense_destroy(dense);
        return NULL;
    }
    return dense;
}

k3_dense_t *k3_dense_create(const uint16_t *w, size_t n, size_t k, size_t max_m)
{
    k3_dense_t *dense = k3_dense_create_on(k3_dense_best_path(), w, n, k, max_m);

    return dense != NULL ? dense : k3_dense_create_on(K3_DENSE_F32, w, n, k, max_m);
}

void k3_dense_destroy(k3_dense_t *dense)
{
    if (dense == NULL) {
        return;
    }
    for (size_t i = 0; dense->parts != NULL && i < parts_of(dense->n); i++) {
        if (dense->parts[i] != NULL) {
            k3_dense_matmul_destroy(dense->parts[i]);
        }
    }
    free(dense->parts);
    free(dense->x);
    free(dense->panel);
    free(dense->y);
    free(dense);
}

static void widen(const k3_dense_t *dense, const uint16_t *row, size_t n, float *out)
{
    dense->kernels->decode(K3_FORMAT_BF16, row, NULL, n, out);
}

/* `y` has rows of `stride`; columns first .. first + columns of the result. */
static void store(const k3_dense_t *dense, const float *y, size_t m, size_t stride, size_t first,
                  size_t columns, uint16_t *out)
{
    for (size_t i = 0; i < m; i++) {
        dense->ops->round(y + i * stride, columns, out + i * dense->n + first);
    }
}

/* One call of run, as its tasks see it. */
typedef struct k3_dense_call {
    k3_dense_t     *dense;
    const uint16_t *x;
    size_t          m;
    float          *y; /* of the whole result, NULL: each panel's own */
    uint16_t       *y_bf16;
} k3_dense_call_t;

/* A panel's columns on the f32 path. */
static void run_panel(void *arg, size_t index)
{
    const k3_dense_call_t *call = arg;
    const k3_dense_t      *d = call->dense;
    size_t                 thread = (size_t)k3_thread_index(), first = index * PANEL;
    size_t                 columns = width_at(d->n, first, PANEL);
    size_t                 stride = call->y != NULL ? d->n : columns;
    float                 *y = call->y != NULL ? call->y + first : d->y + thread * d->y_floats;
    float                 *panel = d->panel + thread * d->panel_floats;
    const uint16_t        *w = d->w + first * d->k;

    if (call->m <= FEW && d->ops->dot != NULL) {
        d->ops->dot(w, columns, d->k, d->x, call->m, y, stride);
    } else {
        widen(d, w, columns * d->k, panel);
        dnnl_sgemm('N', 'T', (dnnl_dim_t)call->m, (dnnl_dim_t)columns, (dnnl_dim_t)d->k, 1.0f, d->x,
                   (dnnl_dim_t)d->k, panel, (dnnl_dim_t)d->k, 0.0f, y, (dnnl_dim_t)stride);
    }
    if (call->y_bf16 != NULL) {
        store(d, y, call->m, stride, first, columns, call->y_bf16);
    }
}

/* A part's columns on the bf16 path. */
static void run_part(void *arg, size_t index)
{
    const k3_dense_call_t *call = arg;
    const k3_dense_t      *d = call->dense;
    size_t                 first = index * PART;
    float                 *y = (call->y != NULL ? call->y : d->y) + first;

    k3_dense_matmul_run(d->parts[index], call->x, call->m, y);
    if (call->y_bf16 != NULL) {
        store(d, y, call->m, d->n, first, width_at(d->n, first, PART), call->y_bf16);
    }
}

void k3_dense_run(k3_dense_t *dense, const uint16_t *x, size_t m, float *y_f32, uint16_t *y_bf16)
{
    for (size_t i = 0; i < m; i += CHUNK) {
        k3_dense_call_t call = {dense, x + i * dense->k, m - i < CHUNK ? m - i : CHUNK};

        call.y = y_f32 == NULL ? NULL : y_f32 + i * dense->n;
        call.y_bf16 = y_bf16 == NULL ? NULL : y_bf16 + i * dense->n;
        if (dense->parts != NULL) {
            k3_parallel(parts_of(dense->n), run_part, &call);
        } else {
            widen(dense, call.x, call.m * dense->k, dense->x);
            k3_parallel((dense->n + PANEL - 1) / PANEL, run_panel, &call);
        }
    }
}

/* Of all parts' matmuls; 0: refused by the library. */
static uint64_t parts_bytes(size_t n, size_t k, size_t max_m)
{
    uint64_t bytes = 0;

    for (size_t first = 0; first < n; first += PART) {
        uint64_t part = k3_dense_matmul_bytes(width_at(n, first, PART), k, max_m, n);

        if (part == 0) {
            return 0;
        }
        bytes += part + sizeof(k3_dense_matmul_t *);
    }
    return bytes;
}

uint64_t k3_dense_bytes_on(k3_dense_path_t path, size_t n, size_t k, size_t max_m)
{
    k3_dense_sizes_t sizes = sizes_of(path, n, k, max_m);
    uint64_t         floats = sizes.x + copies_of(path) * (sizes.panel + sizes.y);
    uint64_t         bytes = sizeof(k3_dense_t) + sizeof(float) * floats;

    return path == K3_DENSE_BF16 ? bytes + parts_bytes(n, k, max_m) : bytes;
}

uint64_t k3_dense_bytes(size_t n, size_t k, size_t max_m)
{
    k3_dense_path_t path = k3_dense_best_path();

    if (path == K3_DENSE_BF16 && parts_bytes(n, k, max_m) == 0) {
        path = K3_DENSE_F32;
    }
    return k3_dense_bytes_on(path, n, k, max_m);
}

const char *k3_dense_path_name(void)
{
    return k3_dense_best_path() == K3_DENSE_BF16 ? "bf16" : "f32";
}

const char *k3_dense_library(void)
{
    static char           name[48];
    const dnnl_version_t *version = dnnl_version();

    if (name[0] == '\0') {
        snprintf(name, sizeof name, "oneDNN %d.%d.%d", version->major, version->minor,
                 version->patch);
    }
    return name;
}
