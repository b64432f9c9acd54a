/* What happens to rows outside the GEMMs, at 128 rows of Kimi-K3, beside copying the same bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/bench/bench.h"

enum { ROWS = 128, HIDDEN = 7168, LATENT = 3584, EXPERTS = 896, K = 16 };

typedef struct k3_bench_data {
    const k3_kernels_t *kernels;
    float              *logits, *bias, *gates;
    int32_t            *ids;
    uint16_t           *rows, *more; /* [ROWS * K][LATENT] */
    uint16_t           *out;
    uint8_t            *coded, *packed;
} k3_bench_data_t;

static void route(k3_bench_data_t *d, size_t i)
{
    d->kernels->route(d->logits + i * EXPERTS, d->bias, EXPERTS, K, d->ids + i * K,
                      d->gates + i * K);
}

static void encode(k3_bench_data_t *d, k3_format_t format, size_t i)
{
    uint8_t *to = d->coded + i * k3_format_row_bytes(format, LATENT);

    d->kernels->encode(format, d->rows + i * LATENT, LATENT, to,
                       to + k3_format_value_bytes(format, LATENT));
}

static void encode_fp8(k3_bench_data_t *d, size_t i)
{
    encode(d, K3_FORMAT_FP8, i);
}

static void encode_mxfp8(k3_bench_data_t *d, size_t i)
{
    encode(d, K3_FORMAT_MXFP8, i);
}

static void encode_mxfp4(k3_bench_data_t *d, size_t i)
{
    encode(d, K3_FORMAT_MXFP4, i);
}

/* A row of fp8 to its place in a message. */
static void pack(k3_bench_data_t *d, size_t i)
{
    size_t bytes = k3_format_row_bytes(K3_FORMAT_FP8, LATENT);

    memcpy(d->packed + (i * 37 % ROWS) * bytes, d->coded + i * bytes, bytes);
}

static void front(k3_bench_data_t *d, size_t i)
{
    route(d, i);
    encode_fp8(d, i);
    pack(d, i);
}

static void combine(k3_bench_data_t *d, size_t i)
{
    const uint16_t *rows[K];

    for (size_t k = 0; k < K; k++) {
        rows[k] = d->more + ((i * K + k) * 37 % (ROWS * K)) * LATENT;
    }
    d->kernels->combine(rows, d->gates + i * K, K, LATENT, d->out + i * LATENT);
}

static void norm(k3_bench_data_t *d, size_t i)
{
    d->kernels->rms_norm(d->rows + i * LATENT, d->more, LATENT, 1e-5f, d->out + i * LATENT);
}

typedef struct k3_bench_step {
    const char *name;
    void (*run)(k3_bench_data_t *d, size_t i);
    size_t bytes; /* of a row, read and written */
} k3_bench_step_t;

static const k3_bench_step_t steps[] = {
    {"top-16 of 896", route, 4 * EXPERTS + 8 * K},
    {"quantise fp8", encode_fp8, 2 * LATENT + LATENT + LATENT / 32},
    {"quantise mxfp8", encode_mxfp8, 2 * LATENT + LATENT + LATENT / 32},
    {"quantise mxfp4", encode_mxfp4, 2 * LATENT + LATENT / 2 + LATENT / 32},
    {"pack fp8", pack, 2 * (LATENT + LATENT / 32)},
    {"top-16, quantise fp8, pack", front,
     4 * EXPERTS + 8 * K + 2 * LATENT + 3 * (LATENT + LATENT / 32)},
    {"combine 16 rows", combine, 2 * LATENT *(K + 1)},
    {"RMSNorm", norm, 4 * LATENT},
};

/* A step on all rows, and a copy that reads and writes as many bytes together. */
static void line(const k3_bench_t *bench, const k3_bench_step_t *step, k3_bench_data_t *d)
{
    uint64_t          half = ROWS * step->bytes / 2;
    k3_bench_series_t own = {.count = 0}, copy = {.count = 0};
    double            begin = k3_bench_now(), t, c;

    while (own.count < K3_BENCH_ROUNDS &&
           (own.count < 5 || k3_bench_now() - begin < bench->seconds)) {
        double at = k3_bench_now();

        for (size_t i = 0; i < ROWS; i++) {
            step->run(d, i);
        }
        k3_bench_add(&own, at);
        at = k3_bench_now();
        memcpy(d->out, d->more, half); /* within both: at most ROWS * K rows */
        k3_bench_add(&copy, at);
    }
    t = k3_bench_median(&own);
    c = k3_bench_median(&copy);
    printf("%-28s %9zu %9.3f %8.2f %8.2f %8.2f\n", step->name, step->bytes, t / ROWS * 1e6,
           (double)(2 * half) / t * 1e-9, (double)(2 * half) / c * 1e-9, c / t);
}

void k3_bench_rows(const k3_bench_t *bench)
{
    size_t          all = (size_t)ROWS * K * LATENT;
    k3_bench_data_t d = {.kernels = bench->kernels};

    d.logits = k3_bench_block(sizeof(float) * ROWS * EXPERTS);
    d.bias = k3_bench_block(sizeof(float) * EXPERTS);
    d.gates = k3_bench_block(sizeof(float) * ROWS * K);
    d.ids = k3_bench_block(sizeof(int32_t) * ROWS * K);
    d.rows = k3_bench_block(sizeof(uint16_t) * ROWS * LATENT);
    d.more = k3_bench_block(sizeof(uint16_t) * all);
    d.out = k3_bench_block(sizeof(uint16_t) * all);
    d.coded = k3_bench_block((size_t)ROWS * LATENT * 2);
    d.packed = k3_bench_block((size_t)ROWS * LATENT * 2);
    for (size_t i = 0; i < ROWS * EXPERTS; i++) {
        d.logits[i] = (float)(d.rows[i] % 4096) / 512.0f - 4.0f;
    }
    for (size_t i = 0; i < EXPERTS; i++) {
        d.bias[i] = (float)(d.more[i] % 256) / 4096.0f;
    }
    for (size_t i = 0; i < all; i++) {
        d.more[i] = (uint16_t)((d.more[i] & 0x83ff) | 0x3c00);
        if (i < ROWS * LATENT) {
            d.rows[i] = (uint16_t)((d.rows[i] & 0x83ff) | 0x3c00);
        }
    }
    printf("\nrows of kimi-k3, %d of them\n%-28s %9s %9s %8s %8s %8s\n", ROWS, "step", "bytes/row",
           "us/row", "GB/s", "copy", "of copy");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        line(bench, &steps[i], &d);
    }
    free(d.logits);
    free(d.bias);
    free(d.gates);
    free(d.ids);
    free(d.rows);
    free(d.more);
    free(d.out);
    free(d.coded);
    free(d.packed);
}
