/* Random values and comparisons of the kernel tests. */
#ifndef K3_TESTS_KERNELS_SUPPORT_H
#define K3_TESTS_KERNELS_SUPPORT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"

#if defined(__aarch64__)
#define VECTOR_ISA "neon"
#else
#define VECTOR_ISA "avx2"
#endif

/* The vector kernels of row functions, or the test that needs them is skipped. */
static inline const k3_kernels_t *vector_or_skip(void)
{
    const k3_kernels_t *kernels = k3_kernels_cpu(VECTOR_ISA);

    if (kernels == NULL) {
        skip();
    }
    return kernels;
}

/* Where instructions are emulated, long tests take a part of their trials and places. */
#ifdef K3_TEST_EMULATED
enum { THINNED = 17, PLACES_STEP = 7 };
#else
enum { THINNED = 1, PLACES_STEP = 1 };
#endif

static inline uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Uniform in [-1, 1). */
static inline double random_value(uint64_t *state)
{
    return (double)next_random(state) / 1073741824.0 - 1.0;
}

/* Blocks of exactly the asked size, so that the address sanitizer sees one byte too far. */
static inline void *block(size_t bytes)
{
    void *memory = malloc(bytes != 0 ? bytes : 1);

    assert_non_null(memory);
    return memory;
}

static inline uint16_t *random_row(uint64_t *state, size_t n, double scale)
{
    uint16_t *row = block(sizeof *row * n);

    for (size_t i = 0; i < n; i++) {
        row[i] = k3_f32_to_bf16((float)(random_value(state) * scale));
    }
    return row;
}

/* |a - b| / |b| over all values. */
static inline double relative_error(const double *a, const double *b, size_t n)
{
    double difference = 0, size = 0;

    for (size_t i = 0; i < n; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return size == 0 ? sqrt(difference) : sqrt(difference / size);
}

#endif
