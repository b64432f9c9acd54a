/* cuBLASLt or, compiled with K3_RUNTIME_HIP, hipBLASLt: the two differ in names alone, and in that the header of
 * hipBLASLt is C++. A HIP build whose headers lack hipBLASLt has a table without functions. */
#include "kernels/gpu/blas.h"

#include <dlfcn.h>
#include <stdlib.h>

#ifdef K3_RUNTIME_HIP
#define OPS     k3_blas_hip
#define LIBRARY "hipBLASLt"
#define FILES   "libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so"
#if __has_include(<hipblaslt/hipblaslt.h>)
#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__
#endif
#include <hipblaslt/hipblaslt.h>
#define HAS_BLAS   1
#define LT(name)   hipblasLt##name
#define LT_T(name) hipblasLt##name##_t
#define ENUM(name) HIPBLASLT_##name
#define BF16       HIP_R_16BF
#define F32        HIP_R_32F
#define COMPUTE    HIPBLAS_COMPUTE_32F
#define OP_T       HIPBLAS_OP_T
#define STREAM     hipStream_t
#define STATUS     hipblasStatus_t
#define OPERATION  hipblasOperation_t
#define NONE_FOUND 7 /* HIPBLAS_STATUS_NOT_SUPPORTED */
#endif
#else
#include <cublasLt.h>
#define OPS        k3_blas_cuda
#define LIBRARY    "cuBLASLt"
#define FILES      "libcublasLt.so.13", "libcublasLt.so"
#define HAS_BLAS   1
#define LT(name)   cublasLt##name
#define LT_T(name) cublasLt##name##_t
#define ENUM(name) CUBLASLT_##name
#define BF16       CUDA_R_16BF
#define F32        CUDA_R_32F
#define COMPUTE    CUBLAS_COMPUTE_32F
#define OP_T       CUBLAS_OP_T
#define STREAM     cudaStream_t
#define STATUS     cublasStatus_t
#define OPERATION  cublasOperation_t
#define NONE_FOUND 15 /* CUBLAS_STATUS_NOT_SUPPORTED */
#endif

#ifdef HAS_BLAS

enum { PLANS = 32 };

/* One shape: descriptions, and what the library chose for it. */
typedef struct plan {
    uint32_t m, n, k;
    bool     f32;
    LT_T(MatmulDesc) product;
    LT_T(MatrixLayout) w, x, y;
    LT_T(MatmulAlgo) algorithm;
} plan_t;

struct k3_blas {
    void *library, *work;
    LT_T(Handle) handle;
    plan_t plans[PLANS];
    int    count;
    /* functions of the library */
    decltype(&LT(Create))                       create;
    decltype(&LT(Destroy))                      destroy;
    decltype(&LT(MatmulDescCreate))             desc_create;
    decltype(&LT(MatmulDescDestroy))            desc_destroy;
    decltype(&LT(MatmulDescSetAttribute))       desc_set;
    decltype(&LT(MatrixLayoutCreate))           layout_create;
    decltype(&LT(MatrixLayoutDestroy))          layout_destroy;
    decltype(&LT(MatmulPreferenceCreate))       preference_create;
    decltype(&LT(MatmulPreferenceDestroy))      preference_destroy;
    decltype(&LT(MatmulPreferenceSetAttribute)) preference_set;
    decltype(&LT(MatmulAlgoGetHeuristic))       choose;
    decltype(&LT(Matmul))                       matmul;
};

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

template <typename F> static bool find(void *library, const char *name, F *function)
{
    *function = reinterpret_cast<F>(dlsym(library, name));
    return *function != NULL;
}

static bool find_all(k3_blas_t *b)
{
    return find(b->library, TEXT(LT(Create)), &b->create) &&
           find(b->library, TEXT(LT(Destroy)), &b->destroy) &&
           find(b->library, TEXT(LT(MatmulDescCreate)), &b->desc_create) &&
           find(b->library, TEXT(LT(MatmulDescDestroy)), &b->desc_destroy) &&
           find(b->library, TEXT(LT(MatmulDescSetAttribute)), &b->desc_set) &&
           find(b->library, TEXT(LT(MatrixLayoutCreate)), &b->layout_create) &&
           find(b->library, TEXT(LT(MatrixLayoutDestroy)), &b->layout_destroy) &&
           find(b->library, TEXT(LT(MatmulPreferenceCreate)), &b->preference_create) &&
           find(b->library, TEXT(LT(MatmulPreferenceDestroy)), &b->preference_destroy) &&
           find(b->library, TEXT(LT(MatmulPreferenceSetAttribute)), &b->preference_set) &&
           find(b->library, TEXT(LT(MatmulAlgoGetHeuristic)), &b->choose) &&
           find(b->library, TEXT(LT(Matmul)), &b->matmul);
}

static void drop_plan(k3_blas_t *b, plan_t *p)
{
    if (p->product != NULL) {
        b->desc_destroy(p->product);
    }
    if (p->w != NULL) {
        b->layout_destroy(p->w);
    }
    if (p->x != NULL) {
        b->layout_destroy(p->x);
    }
    if (p->y != NULL) {
        b->layout_destroy(p->y);
    }
    *p = plan_t();
}

static void close_blas(k3_blas_t *b)
{
    for (int i = 0; i < b->count; i++) {
        drop_plan(b, &b->plans[i]);
    }
    if (b->handle != NULL) {
        b->destroy(b->handle);
    }
    if (b->library != NULL) {
        dlclose(b->library);
    }
    free(b);
}

static k3_blas_t *open_blas(void *work)
{
    static const char *const files[] = {FILES};
    k3_blas_t               *b = static_cast<k3_blas_t *>(calloc(1, sizeof(*b)));

    if (b == NULL) {
        return NULL;
    }
    b->work = work;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && b->library == NULL; i++) {
        b->library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (b->library == NULL || !find_all(b) || b->create(&b->handle) != 0) {
        close_blas(b);
        return NULL;
    }
    return b;
}

static STATUS choose_algorithm(k3_blas_t *b, plan_t *p)
{
    LT_T(MatmulPreference) preference = NULL;
    LT_T(MatmulHeuristicResult) found;
    size_t room = K3_BLAS_WORK;
    int    count = 0;
    STATUS status = b->preference_create(&preference);

    if (status == 0) {
        status = b->preference_set(preference, ENUM(MATMUL_PREF_MAX_WORKSPACE_BYTES), &room,
                                   sizeof(room));
    }
    if (status == 0) {
        status =
            b->choose(b->handle, p->product, p->w, p->x, p->y, p->y, preference, 1, &found, &count);
    }
    if (preference != NULL) {
        b->preference_destroy(preference);
    }
    if (status == 0 && count > 0) {
        p->algorithm = found.algo;
    }
    return status == 0 && count == 0 ? (STATUS)NONE_FOUND : status;
}

/* The library counts by columns: y' [n][m] = (w' [k][n])' x' [k][m]. */
static STATUS make_plan(k3_blas_t *b, const k3_gpu_dense_t *a, plan_t *p)
{
    OPERATION transposed = OP_T;
    STATUS    status = b->desc_create(&p->product, COMPUTE, F32);

    p->m = a->m;
    p->n = a->n;
    p->k = a->k;
    p->f32 = a->y_f32 != NULL;
    if (status == 0) {
        status = b->desc_set(p->product, ENUM(MATMUL_DESC_TRANSA), &transposed, sizeof(transposed));
    }
    if (status == 0) {
        status = b->layout_create(&p->w, BF16, a->k, a->n, a->k);
    }
    if (status == 0) {
        status = b->layout_create(&p->x, BF16, a->k, a->m, a->k);
    }
    if (status == 0) {
        status = b->layout_create(&p->y, p->f32 ? F32 : BF16, a->n, a->m, a->n);
    }
    return status == 0 ? choose_algorithm(b, p) : status;
}

static plan_t *plan_of(k3_blas_t *b, const k3_gpu_dense_t *a, STATUS *status)
{
    plan_t *p;

    for (int i = 0; i < b->count; i++) {
        p = &b->plans[i];
        if (p->m == a->m && p->n == a->n && p->k == a->k && p->f32 == (a->y_f32 != NULL)) {
            return p;
        }
    }
    if (b->count == PLANS) { /* shapes of one cell are far fewer */
        drop_plan(b, &b->plans[--b->count]);
    }
    p = &b->plans[b->count];
    *status = make_plan(b, a, p);
    if (*status != 0) {
        drop_plan(b, p);
        return NULL;
    }
    b->count++;
    return p;
}

static int run_dense(k3_blas_t *b, const k3_gpu_dense_t *a, unsigned number, void *stream)
{
    const float one = 1.0f, zero = 0.0f;
    void       *y = a->y_f32 != NULL ? static_cast<void *>(a->y_f32) : a->y_bf16;
    STATUS      status = (STATUS)0;
    plan_t     *p;

    if (a->m == 0) {
        return 0;
    }
    p = plan_of(b, a, &status);
    if (p != NULL) {
        status = b->matmul(b->handle, p->product, &one, a->w, p->w, a->x, p->x, &zero, y, p->y, y,
                           p->y, &p->algorithm, (char *)b->work + (size_t)number * K3_BLAS_WORK,
                           K3_BLAS_WORK, (STREAM)stream);
    }
    return -(int)status;
}

const k3_blas_ops_t OPS = {LIBRARY, open_blas, close_blas, run_dense};

#else

const k3_blas_ops_t OPS = {LIBRARY, NULL, NULL, NULL};

#endif
