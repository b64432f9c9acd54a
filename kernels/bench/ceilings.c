/* What the kernels are held against: reading, copying, multiply-adds, dense GEMMs. */
#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "kernels/bench/bench.h"
#include "kernels/cpu/avx512.h"
#include "kernels/cpu/neon.h"
#include "kernels/cpu/simd_amx.h"
#include "kernels/dense.h"
#include "kernels/threads.h"

#if defined(__x86_64__)
#define WIDE __attribute__((target_clones("default", "arch=haswell", "arch=skylake-avx512")))
#else
#define WIDE
#endif

enum {
    PARTS = 64,    /* of a block that threads read or copy */
    AHEAD = 1024,  /* bytes fetched before their use */
    CHAINS = 12,   /* independent ones of multiply-adds */
    STEPS = 400000 /* of each */
};

/* --- reading and copying ---------------------------------------------------------------------- */

typedef struct k3_span_of_bytes {
    const char *from;
    char       *to;
    uint64_t    bytes;
} k3_span_of_bytes_t;

static volatile uint64_t sink;

/* The size of a part, whole lines. */
static uint64_t part_of(uint64_t bytes)
{
    return (bytes / PARTS + 63) / 64 * 64;
}

static bool cut(const k3_span_of_bytes_t *all, size_t i, uint64_t *first, uint64_t *bytes)
{
    uint64_t part = part_of(all->bytes);

    *first = i * part;
    if (*first >= all->bytes) {
        return false;
    }
    *bytes = all->bytes - *first < part ? all->bytes - *first : part;
    return true;
}

WIDE static uint64_t read_lines(const char *from, uint64_t bytes)
{
    uint64_t all[16] = {0}, result = 0;

    for (uint64_t i = 0; i + 128 <= bytes; i += 128) {
        uint64_t lines[16];

        __builtin_prefetch(from + i + AHEAD);
        __builtin_prefetch(from + i + AHEAD + 64);
        memcpy(lines, from + i, sizeof lines);
        for (int j = 0; j < 16; j++) {
            all[j] |= lines[j];
        }
    }
    for (int j = 0; j < 16; j++) {
        result |= all[j];
    }
    return result;
}

static void read_part(void *span, size_t i)
{
    const k3_span_of_bytes_t *all = span;
    uint64_t                  first, bytes;

    if (cut(all, i, &first, &bytes)) {
        sink = read_lines(all->from + first, bytes);
    }
}

static void copy_part(void *span, size_t i)
{
    const k3_span_of_bytes_t *all = span;
    uint64_t                  first, bytes;

    if (cut(all, i, &first, &bytes)) {
        memcpy(all->to + first, all->from + first, bytes);
    }
}

void k3_bench_read(const void *from, uint64_t bytes)
{
    k3_span_of_bytes_t span = {.from = from, .bytes = bytes};

    k3_parallel(PARTS, read_part, &span);
}

void k3_bench_copy(void *to, const void *from, uint64_t bytes)
{
    k3_span_of_bytes_t span = {.from = from, .to = to, .bytes = bytes};

    k3_parallel(PARTS, copy_part, &span);
}

/* --- multiply-adds ---------------------------------------------------------------------------- */

#if defined(__x86_64__)
K3_AVX2 static float multiply_add_avx2(void)
{
    __m256 sum[CHAINS], factor = _mm256_set1_ps(0.999f), step = _mm256_set1_ps(1e-3f);
    float  result = 0;

    for (int c = 0; c < CHAINS; c++) {
        sum[c] = _mm256_set1_ps((float)c);
    }
    for (int i = 0; i < STEPS; i++) {
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++) {
            sum[c] = _mm256_fmadd_ps(sum[c], factor, step);
        }
    }
    for (int c = 0; c < CHAINS; c++) {
        result += _mm256_cvtss_f32(sum[c]);
    }
    return result;
}

K3_AVX512 static float multiply_add_avx512(void)
{
    __m512 sum[CHAINS], factor = _mm512_set1_ps(0.999f), step = _mm512_set1_ps(1e-3f);
    float  result = 0;

    for (int c = 0; c < CHAINS; c++) {
        sum[c] = _mm512_set1_ps((float)c);
    }
    for (int i = 0; i < STEPS; i++) {
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++) {
            sum[c] = _mm512_fmadd_ps(sum[c], factor, step);
        }
    }
    for (int c = 0; c < CHAINS; c++) {
        result += _mm512_cvtss_f32(sum[c]);
    }
    return result;
}
#endif

#if defined(__x86_64__)
K3_AVX512_BF16 static float multiply_add_avx512_bf16(void)
{
    __m512   sum[CHAINS];
    __m512bh ones = (__m512bh)_mm512_set1_epi16(0x3f80);
    float    result = 0;

    for (int c = 0; c < CHAINS; c++) {
        sum[c] = _mm512_set1_ps((float)c);
    }
    for (int i = 0; i < STEPS; i++) {
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++) {
            sum[c] = _mm512_dpbf16_ps(sum[c], ones, ones);
        }
    }
    for (int c = 0; c < CHAINS; c++) {
        result += _mm512_cvtss_f32(sum[c]);
    }
    return result;
}

/* CHAINS products of tiles in each step, on four sums. */
K3_AVX512 static float multiply_add_amx(void)
{
    _Alignas(64) float sums[16 * 16] = {0};

    k3_block_begin();
    k3_tile_load(0, sums, 64);
    k3_tile_load(1, sums, 64);
    k3_tile_load(2, sums, 64);
    k3_tile_load(3, sums, 64);
    k3_tile_load(4, sums, 64);
    k3_tile_load(6, sums, 64);
    for (int i = 0; i < STEPS; i++) {
        for (int c = 0; c < CHAINS; c += 4) {
            k3_tile_multiply(0, 4, 6);
            k3_tile_multiply(1, 4, 6);
            k3_tile_multiply(2, 4, 6);
            k3_tile_multiply(3, 4, 6);
        }
    }
    k3_tile_store(0, sums, 64);
    k3_block_end();
    return sums[0];
}
#endif

#if defined(__aarch64__)
/* Twice the chains: four units that take four cycles have room for 16. */
static float multiply_add_neon(void)
{
    float32x4_t sum[2 * CHAINS], factor = vdupq_n_f32(0.999f), step = vdupq_n_f32(1e-3f);
    float       result = 0;

    for (int c = 0; c < 2 * CHAINS; c++) {
        sum[c] = vdupq_n_f32((float)c);
    }
    for (int i = 0; i < STEPS; i++) {
#pragma GCC unroll 24
        for (int c = 0; c < 2 * CHAINS; c++) {
            sum[c] = vfmaq_f32(step, sum[c], factor);
        }
    }
    for (int c = 0; c < 2 * CHAINS; c++) {
        result += vgetq_lane_f32(sum[c], 0);
    }
    return result;
}
#endif

static float multiply_add_scalar(void)
{
    float sum[CHAINS] = {0}, result = 0;

    for (int i = 0; i < STEPS; i++) {
        for (int c = 0; c < CHAINS; c++) {
            sum[c] = sum[c] * 0.999f + (float)c;
        }
    }
    for (int c = 0; c < CHAINS; c++) {
        result += sum[c];
    }
    return result;
}

typedef struct k3_multiply_add {
    float (*run)(void);
    int lanes;
} k3_multiply_add_t;

static k3_multiply_add_t multiply_add_of(const char *isa)
{
#if defined(__x86_64__)
    if (strcmp(isa, "amx") == 0) {
        return (k3_multiply_add_t){multiply_add_amx, 16 * 16 * 32};
    }
    if (strcmp(isa, "avx512_bf16") == 0) {
        return (k3_multiply_add_t){multiply_add_avx512_bf16, 32};
    }
    if (strcmp(isa, "avx512") == 0) {
        return (k3_multiply_add_t){multiply_add_avx512, 16};
    }
    if (strcmp(isa, "avx2") == 0) {
        return (k3_multiply_add_t){multiply_add_avx2, 8};
    }
#elif defined(__aarch64__)
    if (strcmp(isa, "neon") == 0) {
        return (k3_multiply_add_t){multiply_add_neon, 2 * 4};
    }
#endif
    (void)isa;
    return (k3_multiply_add_t){multiply_add_scalar, 1};
}

static void multiply_add_task(void *arg, size_t i)
{
    const k3_multiply_add_t *kind = arg;

    (void)i;
    sink = (uint64_t)kind->run();
}

double k3_bench_peak(const char *isa)
{
    k3_multiply_add_t kind = multiply_add_of(isa);
    double            work = 2.0 * STEPS * CHAINS * kind.lanes * k3_threads();
    double            best = 0;

    for (int round = 0; round < 9; round++) {
        double begin = k3_bench_now(), rate;

        k3_parallel((size_t)k3_threads(), multiply_add_task, &kind);
        rate = work / (k3_bench_now() - begin);
        best = rate > best ? rate : best;
    }
    return best;
}

/* --- dense ------------------------------------------------------------------------------------ */

struct k3_bench_dense {
    size_t             latent, inter;
    uint16_t          *w;       /* bf16 of one of the matrices; all three read their own */
    float             *wide[3]; /* f32 of each */
    uint16_t          *x;
    float             *x_f32, *y;
    k3_dense_matmul_t *matmul[3];
};

k3_bench_dense_t *k3_bench_dense_create(const k3_expert_shape_t *shape, size_t max_m, bool bf16)
{
    size_t            values = (size_t)shape->latent * shape->inter;
    size_t            longest = shape->latent > shape->inter ? shape->latent : shape->inter;
    k3_bench_dense_t *dense = calloc(1, sizeof *dense);

    if (dense == NULL) {
        exit(3);
    }
    dense->latent = shape->latent;
    dense->inter = shape->inter;
    dense->y = k3_bench_block(sizeof(float) * max_m * longest);
    if (bf16) {
        dense->w = k3_bench_block(sizeof(uint16_t) * values);
        dense->x = k3_bench_block(sizeof(uint16_t) * max_m * longest);
    } else {
        dense->x_f32 = k3_bench_block(sizeof(float) * max_m * longest);
        memset(dense->x_f32, 0, sizeof(float) * max_m * longest);
    }
    for (int i = 0; i < 3; i++) {
        size_t n = i < 2 ? dense->inter : dense->latent, k = i < 2 ? dense->latent : dense->inter;

        if (bf16) {
            dense->matmul[i] = k3_dense_matmul_create(dense->w, n, k, max_m, n);
            if (dense->matmul[i] == NULL) {
                k3_bench_dense_destroy(dense);
                return NULL;
            }
        } else {
            dense->wide[i] = k3_bench_block(sizeof(float) * values);
            memset(dense->wide[i], 0, sizeof(float) * values);
        }
    }
    return dense;
}

void k3_bench_dense_run(k3_bench_dense_t *dense, size_t m)
{
    k3_threads_of_library(k3_threads());
    for (int i = 0; i < 3; i++) {
        size_t n = i < 2 ? dense->inter : dense->latent, k = i < 2 ? dense->latent : dense->inter;

        if (dense->matmul[i] != NULL) {
            k3_dense_matmul_run(dense->matmul[i], dense->x, m, dense->y);
        } else {
            dnnl_sgemm('N', 'T', (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, 1.0f, dense->x_f32,
                       (dnnl_dim_t)k, dense->wide[i], (dnnl_dim_t)k, 0.0f, dense->y, (dnnl_dim_t)n);
        }
    }
    k3_threads_of_library(1);
}

void k3_bench_dense_destroy(k3_bench_dense_t *dense)
{
    if (dense == NULL) {
        return;
    }
    for (int i = 0; i < 3; i++) {
        if (dense->matmul[i] != NULL) {
            k3_dense_matmul_destroy(dense->matmul[i]);
        }
        free(dense->wide[i]);
    }
    free(dense->w);
    free(dense->x);
    free(dense->x_f32);
    free(dense->y);
    free(dense);
}
