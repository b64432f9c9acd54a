/* Times of one thing, and memory to measure with. */
#define _GNU_SOURCE
#include "kernels/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

double k3_bench_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void k3_bench_add(k3_bench_series_t *series, double since)
{
    series->seconds[series->count++] = k3_bench_now() - since;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double k3_bench_median(k3_bench_series_t *series)
{
    int n = series->count;

    qsort(series->seconds, (size_t)n, sizeof *series->seconds, compare);
    return (series->seconds[(n - 1) / 2] + series->seconds[n / 2]) / 2;
}

/* Huge pages where they are to be had, as k3bench's own blocks. */
void *k3_bench_block(uint64_t bytes)
{
    uint64_t align = (uint64_t)2 << 20, rounded = (bytes + align - 1) / align * align, seed = bytes;
    uint64_t *block = aligned_alloc(align, rounded);

    if (block == NULL) {
        fprintf(stderr, "no memory for %llu bytes\n", (unsigned long long)bytes);
        exit(3);
    }
    (void)madvise(block, rounded, MADV_HUGEPAGE);
    for (uint64_t i = 0; i < rounded / 8; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        block[i] = seed ^ seed >> 33;
    }
    return block;
}
