/* What the GEMM of every vector ISA and unit has to do: every code of every format, tails, and what a
 * bad value does. */
#ifndef K3_TESTS_KERNELS_GEMM_CHECKS_H
#define K3_TESTS_KERNELS_GEMM_CHECKS_H

#include "bf16_sums.h"

#include "kernels/cpu/cpu.h"

typedef struct k3_gemm_ops {
    const char *isa;
    void (*gemm)(const k3_matrix_t *w, const void *x, size_t m, size_t first, size_t count,
                 float *y);
    void (*pack)(k3_weight_format_t format, float *row, size_t n);                 /* or NULL */
    void (*spread)(const float *x, size_t m, size_t n, size_t tile, void *spread); /* or NULL */
    bool flushes; /* subnormal values are taken for zero */
} k3_gemm_ops_t;

/* Few rows and many. */
static const size_t counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 64};

#define COUNTS (sizeof counts / sizeof *counts)

static float *rows_of(size_t m, size_t n)
{
    float *rows = aligned_alloc(64, sizeof *rows * m * k3_padded(n));

    assert_non_null(rows);
    memset(rows, 0, sizeof *rows * m * k3_padded(n));
    return rows;
}

/* y = x W^T, of rows as they come; x is changed. */
static void multiply(const k3_gemm_ops_t *ops, const k3_matrix_t *w, float *x, size_t m, float *y)
{
    void *spread = ops->spread == NULL ? NULL : rows_of(K3_EXPERT_CHUNK, w->columns);

    for (size_t i = 0; ops->pack != NULL && i < m; i++) {
        ops->pack(w->format, x + i * k3_padded(w->columns), w->columns);
    }
    for (size_t t = 0; ops->spread != NULL && t * K3_SPREAD < m; t++) {
        ops->spread(x, m, w->columns, t, spread);
    }
    for (size_t first = 0; first < w->rows; first += K3_GEMM_COLUMNS) {
        size_t left = w->rows - first;

        ops->gemm(w, spread != NULL ? spread : x, m, first,
                  left < K3_GEMM_COLUMNS ? left : K3_GEMM_COLUMNS, y);
    }
    free(spread);
}

/* Row i picks weight k of each row of w: y[i][j] is that weight. */
static void pick(const k3_gemm_ops_t *ops, const k3_matrix_t *w, size_t m, size_t k, float *y)
{
    float *x = rows_of(m, w->columns);

    for (size_t i = 0; i < m; i++) {
        x[i * k3_padded(w->columns) + k] = 1.0f;
    }
    multiply(ops, w, x, m, y);
    free(x);
}

static void check_value(float have, float want)
{
    assert_true(have == want || (isnan(have) && isnan(want)));
}

/* Row s of w has scale s in all groups and the codes 0 to 15 over and over. A NaN or infinite
 * scale makes all of a row NaN, as each product with 0 is. */
static void check_mxfp4(const k3_gemm_ops_t *ops)
{
    enum { N = 160 };
    uint8_t     values[256 * N / 2], scales[256 * N / 32];
    k3_matrix_t w = {K3_WEIGHT_MXFP4, values, scales, 256, N};

    for (size_t i = 0; i < sizeof values; i++) {
        values[i] = (uint8_t)(2 * i % 16 | (2 * i + 1) % 16 << 4);
    }
    for (size_t i = 0; i < sizeof scales; i++) {
        scales[i] = (uint8_t)(i / (N / 32));
    }
    /* The bf16 units take a row as it is: fewer places, of all codes, and counts that they are for. */
    for (size_t c = ops->flushes ? COUNTS - 2 : 0; c < COUNTS; c++) {
        float *y = rows_of(counts[c], 256);

        for (size_t k = 0; k < N; k += ops->flushes ? 7 : PLACES_STEP) {
            pick(ops, &w, counts[c], k, y);
            for (size_t s = 0; s < 256; s++) {
                float scale = k3_e8m0_to_f32((uint8_t)s);
                float want = k3_e2m1_to_f32((uint8_t)(k % 16)) * scale;

                want = ops->flushes ? unit_flush(want) : want;
                if (s == 255 || isinf(6 * scale)) {
                    want = NAN;
                }
                check_value(y[(counts[c] - 1) * k3_padded(256) + s], want);
            }
        }
        free(y);
    }
}

/* Row j has code j in one place; the two NaN codes reach every result of their row. */
static void check_fp8(const k3_gemm_ops_t *ops)
{
    enum { N = 160 };
    static uint8_t values[256 * N];
    float          scales[2 * 2] = {0.5f, 3.0f, 0.25f, 7.0f};
    k3_matrix_t    w = {K3_WEIGHT_FP8_B128, values, scales, 256, N};

    for (size_t c = 0; c < COUNTS; c++) {
        for (size_t k = 5; k < N; k += 77) {
            float *y = rows_of(counts[c], 256);

            memset(values, 0, sizeof values);
            for (size_t j = 0; j < 256; j++) {
                values[j * N + k] = (uint8_t)j;
            }
            pick(ops, &w, counts[c], k, y);
            for (size_t j = 0; j < 256; j++) {
                check_value(y[(counts[c] - 1) * k3_padded(256) + j],
                            k3_e4m3_to_f32((uint8_t)j) * scales[j / 128 * 2 + k / 128]);
            }
            free(y);
        }
    }
}

/* Twice the weight, of E2M1 with a scale of 1, or 32 times, of e4m3 codes 0x28 to 0x4f. */
static int32_t whole_weight(const k3_matrix_t *w, size_t j, size_t k)
{
    size_t at = j * w->columns + k;

    if (w->format == K3_WEIGHT_MXFP4) {
        return (int32_t)(2 * k3_e2m1_to_f32((uint8_t)(w->values[at / 2] >> (at % 2 * 4))));
    }
    return (int32_t)(32 * k3_e4m3_to_f32(w->values[at]));
}

/* Small whole numbers and weights whose sums are exact in any order. */
static void check_exact_of(const k3_gemm_ops_t *ops, const k3_matrix_t *w, size_t m)
{
    enum { WHOLE_MAX = 7 };
    size_t   n = w->columns, stride = k3_padded(n);
    float   *x = rows_of(m, n), *y = rows_of(m, w->rows);
    int32_t *row = block(sizeof *row * n), *whole = block(sizeof *whole * m * n);
    float    unit = w->format == K3_WEIGHT_MXFP4 ? 0.5f : 1.0f / 32;
    uint64_t seed = n + m;

    for (size_t i = 0; i < m * n; i++) {
        whole[i] = (int32_t)(next_random(&seed) % (2 * WHOLE_MAX + 1)) - WHOLE_MAX;
        x[i / n * stride + i % n] = (float)whole[i];
    }
    multiply(ops, w, x, m, y);
    for (size_t j = 0; j < w->rows; j++) {
        for (size_t k = 0; k < n; k++) {
            row[k] = whole_weight(w, j, k);
        }
        for (size_t i = 0; i < m; i++) {
            int32_t sum = 0;

            for (size_t k = 0; k < n; k++) {
                sum += row[k] * whole[i * n + k];
            }
            assert_true(y[i * k3_padded(w->rows) + j] == (float)sum * unit);
        }
    }
    free(x);
    free(y);
    free(row);
    free(whole);
}

/* Sums that end within a block, a panel or a piece, of few rows and many, and columns that fill no
 * tile. */
static void check_exact(const k3_gemm_ops_t *ops, k3_weight_format_t format)
{
    enum { ROWS_OF_W = 101 };
    static const size_t lengths[] = {32, 160, 448, 544, 608, 928, 1120};
    uint64_t            seed = 13;

    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        size_t      n = lengths[l];
        uint8_t    *values = block(ROWS_OF_W * n), *scales = block(ROWS_OF_W * n);
        float       ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
        k3_matrix_t w = {format, values, ones, ROWS_OF_W, n};

        memset(scales, 127, ROWS_OF_W * n);
        w.scales = format == K3_WEIGHT_MXFP4 ? (const void *)scales : ones;
        for (size_t i = 0; i < ROWS_OF_W * n; i++) {
            values[i] = (uint8_t)next_random(&seed);
            if (format == K3_WEIGHT_FP8_B128) {
                values[i] = (uint8_t)((values[i] & 0x80) | (0x28 + next_random(&seed) % 40));
            }
        }
        for (size_t m = ops->flushes ? 9 : 1; m <= 14; m += m < 8 ? 3 : 5) {
            check_exact_of(ops, &w, m);
        }
        free(values);
        free(scales);
    }
}

/* A NaN and an infinity stay in their rows, whatever lies beside them. */
static void check_bad_rows(const k3_gemm_ops_t *ops)
{
    enum { N = 96 };
    uint8_t     values[33 * N / 2], scales[33 * N / 32];
    k3_matrix_t w = {K3_WEIGHT_MXFP4, values, scales, 33, N};

    memset(values, 0x22, sizeof values); /* ones */
    memset(scales, 127, sizeof scales);
    for (size_t c = 2; c < COUNTS; c++) {
        float *x = rows_of(counts[c], N), *y = rows_of(counts[c], 33);

        for (size_t i = 0; i < counts[c]; i++) {
            for (size_t k = 0; k < N; k++) {
                x[i * k3_padded(N) + k] = 1.0f;
            }
        }
        x[7] = NAN;
        x[k3_padded(N) + 90] = INFINITY;
        multiply(ops, &w, x, counts[c], y);
        for (size_t j = 0; j < 33; j++) {
            assert_true(isnan(y[j]));
            assert_true(y[k3_padded(33) + j] == INFINITY);
            for (size_t i = 2; i < counts[c]; i++) {
                assert_true(y[i * k3_padded(33) + j] == (float)N);
            }
        }
        free(x);
        free(y);
    }
}

#endif
