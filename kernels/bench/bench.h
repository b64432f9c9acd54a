/* bench-kernels: the kernels' times beside what this machine can do at best, from one run. */
#ifndef K3_KERNELS_BENCH_BENCH_H
#define K3_KERNELS_BENCH_BENCH_H

#include "kernels/kernels.h"

enum { K3_BENCH_ROUNDS = 200 };

/* Times of one thing, in seconds. */
typedef struct k3_bench_series {
    double seconds[K3_BENCH_ROUNDS];
    int    count;
} k3_bench_series_t;

typedef struct k3_bench {
    const k3_kernels_t *kernels;
    double              seconds; /* to spend on one line */
} k3_bench_t;

/* --- series.c --------------------------------------------------------------------------------- */

double k3_bench_now(void);
void   k3_bench_add(k3_bench_series_t *series, double since); /* what has passed since then */
double k3_bench_median(k3_bench_series_t *series);            /* sorts it */

/* Exits when memory is short. Random bytes, so that nothing is compressed or merged. */
void *k3_bench_block(uint64_t bytes);

/* --- ceilings.c: on all threads of the kernels ------------------------------------------------ */

void   k3_bench_read(const void *from, uint64_t bytes);
void   k3_bench_copy(void *to, const void *from, uint64_t bytes);
double k3_bench_peak(const char *isa); /* multiply-adds in registers, FLOP/s */

/* The three GEMMs of an expert as dense layers by oneDNN, m rows. NULL: the library has no such
 * GEMM for this processor. */
typedef struct k3_bench_dense k3_bench_dense_t;

k3_bench_dense_t *k3_bench_dense_create(const k3_expert_shape_t *shape, size_t max_m, bool bf16);
void              k3_bench_dense_run(k3_bench_dense_t *dense, size_t m);
void              k3_bench_dense_destroy(k3_bench_dense_t *dense);

/* --- the parts -------------------------------------------------------------------------------- */

bool k3_bench_experts(const k3_bench_t *bench, const char *model, const char *recipe,
                      const char *rows);
void k3_bench_rows(const k3_bench_t *bench);

#endif
