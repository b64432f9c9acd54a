#define _GNU_SOURCE
/* Dense layers y = x W^T through oneDNN, on one thread.
 *
 * A CPU without bf16 instructions would run oneDNN's bf16 matmul in its reference code, which is
 * slower by orders of magnitude; there, rows of W are widened to f32 a panel at a time. */
#include "kernels/dense.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <oneapi/dnnl/dnnl.h>

#include "kernels/cpu/cpu.h"

enum {
    CHUNK = 256, /* rows of x in one go, so that work space does not grow with max_m */
    PANEL = 128, /* rows of W widened at a time */
    FEW = 4      /* rows up to which the dot kernel reads W directly */
};

struct k3_dense {
    const uint16_t     *w;
    size_t              n, k;
    const k3_kernels_t *kernels;
    const k3_row_ops_t *ops;
    k3_dense_matmul_t  *matmul; /* NULL on the f32 path */
    float              *x, *panel, *y;
};

typedef struct k3_dense_sizes {
    size_t x, panel, y; /* bytes */
} k3_dense_sizes_t;

static size_t rounded(size_t floats)
{
    return (sizeof(float) * floats + 63) / 64 * 64;
}

static k3_dense_sizes_t sizes_of(k3_dense_path_t path, size_t n, size_t k, size_t max_m)
{
    size_t           rows = max_m < CHUNK ? max_m : CHUNK;
    size_t           panel = n < PANEL ? n : PANEL;
    size_t           narrow = rows < FEW ? rows : FEW;
    k3_dense_sizes_t sizes = {64, 64, 64};

    if (path == K3_DENSE_BF16) {
        sizes.y += rounded(rows * n);
    } else {
        sizes.x += rounded(rows * k);
        sizes.panel += rounded(panel * k);
        sizes.y += rounded(rows * panel > narrow * n ? rows * panel : narrow * n);
    }
    return sizes;
}

k3_dense_path_t k3_dense_best_path(void)
{
    unsigned isa = dnnl_get_effective_cpu_isa();
    unsigned bf16 = dnnl_cpu_isa_avx512_core_bf16;

    /* The values are bit sets; later ISAs, as those with AMX, contain the earlier ones. */
    return (isa & bf16) == bf16 ? K3_DENSE_BF16 : K3_DENSE_F32;
}

/* Ranks outnumber cores, so that oneDNN must not start threads. Debian builds it on OpenMP, whose
 * thread count belongs to the calling thread; the call is looked up as nothing else links OpenMP.
 */
static void use_one_thread(void)
{
    static void (*set_threads)(int);
    static bool looked_up;

    if (!looked_up) {
        *(void **)&set_threads = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
        looked_up = true;
    }
    if (set_threads != NULL) {
        set_threads(1);
    }
}

k3_dense_t *k3_dense_create_on(k3_dense_path_t path, const uint16_t *w, size_t n, size_t k,
                               size_t max_m)
{
    k3_dense_sizes_t sizes = sizes_of(path, n, k, max_m);
    k3_dense_t      *dense = calloc(1, sizeof *dense);

    if (dense == NULL) {
        return NULL;
    }
    use_one_thread();
    dense->w = w;
    dense->n = n;
    dense->k = k;
    dense->kernels = k3_kernels_cpu(NULL);
    dense->ops = k3_row_ops_cpu();
    dense->x = aligned_alloc(64, sizes.x);
    dense->panel = aligned_alloc(64, sizes.panel);
    dense->y = aligned_alloc(64, sizes.y);
    if (path == K3_DENSE_BF16 && n != 0 && k != 0) {
        dense->matmul = k3_dense_matmul_create(w, n, k, max_m);
    }
    if (dense->x == NULL || dense->panel == NULL || dense->y == NULL ||
        (path == K3_DENSE_BF16 && dense->matmul == NULL)) {
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
    if (dense->matmul != NULL) {
        k3_dense_matmul_destroy(dense->matmul);
    }
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

static void run_panels(k3_dense_t *dense, size_t m, float *y_f32, uint16_t *y_bf16)
{
    for (size_t j = 0; j < dense->n; j += PANEL) {
        size_t columns = dense->n - j < PANEL ? dense->n - j : PANEL;
        size_t stride = y_f32 != NULL ? dense->n : columns;
        float *y = y_f32 != NULL ? y_f32 + j : dense->y;

        widen(dense, dense->w + j * dense->k, columns * dense->k, dense->panel);
        dnnl_sgemm('N', 'T', (dnnl_dim_t)m, (dnnl_dim_t)columns, (dnnl_dim_t)dense->k, 1.0f,
                   dense->x, (dnnl_dim_t)dense->k, dense->panel, (dnnl_dim_t)dense->k, 0.0f, y,
                   (dnnl_dim_t)stride);
        if (y_bf16 != NULL) {
            store(dense, y, m, stride, j, columns, y_bf16);
        }
    }
}

static void run_chunk(k3_dense_t *dense, const uint16_t *x, size_t m, float *y_f32,
                      uint16_t *y_bf16)
{
    float *y = y_f32 != NULL ? y_f32 : dense->y;

    if (dense->matmul != NULL) {
        k3_dense_matmul_run(dense->matmul, x, m, y);
    } else {
        widen(dense, x, m * dense->k, dense->x);
        if (m > FEW || dense->ops->dot == NULL) {
            run_panels(dense, m, y_f32, y_bf16);
            return;
        }
        dense->ops->dot(dense->w, dense->n, dense->k, dense->x, m, y);
    }
    if (y_bf16 != NULL) {
        store(dense, y, m, dense->n, 0, dense->n, y_bf16);
    }
}

void k3_dense_run(k3_dense_t *dense, const uint16_t *x, size_t m, float *y_f32, uint16_t *y_bf16)
{
    use_one_thread();
    for (size_t i = 0; i < m; i += CHUNK) {
        size_t count = m - i < CHUNK ? m - i : CHUNK;

        run_chunk(dense, x + i * dense->k, count, y_f32 == NULL ? NULL : y_f32 + i * dense->n,
                  y_bf16 == NULL ? NULL : y_bf16 + i * dense->n);
    }
}

uint64_t k3_dense_bytes_on(k3_dense_path_t path, size_t n, size_t k, size_t max_m)
{
    k3_dense_sizes_t sizes = sizes_of(path, n, k, max_m);
    uint64_t         bytes = sizeof(k3_dense_t) + sizes.x + sizes.panel + sizes.y;

    return path == K3_DENSE_BF16 ? bytes + k3_dense_matmul_bytes(n, k, max_m) : bytes;
}

uint64_t k3_dense_bytes(size_t n, size_t k, size_t max_m)
{
    k3_dense_path_t path = k3_dense_best_path();

    if (path == K3_DENSE_BF16 && k3_dense_matmul_bytes(n, k, max_m) == 0) {
        path = K3_DENSE_F32;
    }
    return k3_dense_bytes_on(path, n, k, max_m);
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
