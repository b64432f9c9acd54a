/* Inside of the dense layers: the ways to run one, chosen by the CPU. Tests ask for each of them.
 */
#ifndef K3_KERNELS_DENSE_H
#define K3_KERNELS_DENSE_H

#include "kernels/kernels.h"

typedef enum k3_dense_path {
    K3_DENSE_BF16, /* oneDNN bf16 matmul on W packed once: only where the CPU multiplies bf16 */
    K3_DENSE_F32   /* panels of W widened to f32 for oneDNN's sgemm, a dot kernel for few rows */
} k3_dense_path_t;

k3_dense_path_t k3_dense_best_path(void);
k3_dense_t     *k3_dense_create_on(k3_dense_path_t path, const uint16_t *w, size_t n, size_t k,
                                   size_t max_m);
uint64_t        k3_dense_bytes_on(k3_dense_path_t path, size_t n, size_t k, size_t max_m);

/* kernels/dense_matmul.c: the bf16 path. Rows of the f32 result lie `stride` values apart. */
typedef struct k3_dense_matmul k3_dense_matmul_t;

k3_dense_matmul_t *k3_dense_matmul_create(const uint16_t *w, size_t n, size_t k, size_t max_m,
                                          size_t stride);
void               k3_dense_matmul_destroy(k3_dense_matmul_t *matmul);
void     k3_dense_matmul_run(k3_dense_matmul_t *matmul, const uint16_t *x, size_t m, float *y);
uint64_t k3_dense_matmul_bytes(size_t n, size_t k, size_t max_m,
                               size_t stride); /* 0: refused by the library */

#endif
