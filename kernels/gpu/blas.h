/* Dense layers by the vendor's library, opened at run time: the program runs without it, on plain kernels. */
#ifndef K3_KERNELS_GPU_BLAS_H
#define K3_KERNELS_GPU_BLAS_H

#include "kernels/gpu/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct k3_blas k3_blas_t;

/* Bytes of device memory that it works in for each stream, and how many streams may run at once. */
enum { K3_BLAS_WORK = 32 << 20, K3_BLAS_STREAMS = 2 };

typedef struct k3_blas_ops {
    const char *library; /* "cuBLASLt" */
    /* NULL: not here, or it does not start. `work` has K3_BLAS_STREAMS times K3_BLAS_WORK and must
     * outlive it. */
    k3_blas_t *(*open)(void *work);
    void (*close)(k3_blas_t *blas);
    /* As k3_gpu_t.dense, on stream `number` of those that run at once; its status is given below zero. What it chooses for a shape is chosen at the first
     * call with it. */
    int (*dense)(k3_blas_t *blas, const k3_gpu_dense_t *arguments, unsigned number, void *stream);
} k3_blas_ops_t;

extern const k3_blas_ops_t k3_blas_cuda, k3_blas_hip; /* where the build has them */

#ifdef __cplusplus
}
#endif

#endif
