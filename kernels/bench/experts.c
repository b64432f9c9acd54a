/* The expert MLP at rising counts of rows, beside reading the same packed bytes and the dense GEMMs
 * of the same shape. Blocks are taken in turn, so that none is found in a cache. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/bench/bench.h"

enum { BLOCKS_BYTES = 150 << 20, ROWS_MAX = 4096 };

typedef struct k3_bench_model {
    const char       *name;
    k3_expert_shape_t shape;
    const char       *recipe; /* the usual one */
} k3_bench_model_t;

static const k3_bench_model_t models[] = {
    {"kimi-k3", {3584, 3072, K3_WEIGHT_MXFP4, K3_ACT_SITU}, "w4a16"},
    {"deepseek-v3", {7168, 2048, K3_WEIGHT_FP8_B128, K3_ACT_SWIGLU}, "fp8"},
    {"deepseek-v4-flash", {4096, 2048, K3_WEIGHT_MXFP4, K3_ACT_SWIGLU}, "fp8"},
};

static const k3_recipe_t recipes[] = {
    {"w4a16", K3_FORMAT_BF16, true, K3_FORMAT_BF16},
    {"fp8", K3_FORMAT_FP8, true, K3_FORMAT_FP8},
    {"mxfp8", K3_FORMAT_MXFP8, false, K3_FORMAT_MXFP8},
    {"a4w4", K3_FORMAT_MXFP4, false, K3_FORMAT_MXFP4},
    {"int8", K3_FORMAT_INT8, false, K3_FORMAT_INT8},
};

/* Experts, and rows in the recipe's format. */
typedef struct k3_bench_case {
    const k3_bench_t       *bench;
    const k3_bench_model_t *model;
    const k3_recipe_t      *recipe;
    uint8_t                *block;
    uint64_t                bytes, count, turn;
    const void             *rows[ROWS_MAX], *scales[ROWS_MAX];
    uint16_t               *out[ROWS_MAX];
    void                   *row_memory, *out_memory, *work;
    k3_bench_dense_t       *dense;
    double                  peak;
} k3_bench_case_t;

/* Scales that keep the results in range. */
static void set_scales(k3_bench_case_t *c)
{
    const k3_expert_shape_t *shape = &c->model->shape;

    for (uint64_t e = 0; e < c->count; e++) {
        uint64_t values = k3_expert_value_bytes(shape);
        uint8_t *from = c->block + e * c->bytes + values; /* parts are whole lines */

        if (shape->weights == K3_WEIGHT_MXFP4) {
            memset(from, 120, c->bytes - values);
        } else {
            for (uint64_t i = 0; i + 4 <= c->bytes - values; i += 4) {
                memcpy(from + i, &(const float){1e-4f}, 4);
            }
        }
    }
}

static void make_rows(k3_bench_case_t *c, size_t most)
{
    size_t    latent = c->model->shape.latent, size = k3_format_row_bytes(c->recipe->input, latent);
    size_t    values = k3_format_value_bytes(c->recipe->input, latent);
    uint16_t *row = k3_bench_block(2 * latent);
    char     *at = k3_bench_block(most * (size + 4));

    for (size_t k = 0; k < latent; k++) {
        row[k] = k3_f32_to_bf16((float)((int)k % 31 - 15) / 8.0f);
    }
    c->row_memory = at;
    c->out_memory = k3_bench_block(most * latent * 2);
    for (size_t i = 0; i < most; i++, at += size + size % 4) {
        c->rows[i] = at;
        c->scales[i] = at + values;
        c->out[i] = (uint16_t *)c->out_memory + i * latent;
        c->bench->kernels->encode(c->recipe->input, row, latent, at, at + values);
    }
    free(row);
}

static void run_expert(k3_bench_case_t *c, size_t m)
{
    k3_expert_weights_t weights;

    k3_expert_layout(&c->model->shape, c->block + c->turn % c->count * c->bytes, &weights);
    c->bench->kernels->expert_mlp(&c->model->shape, c->recipe, &weights, m, c->recipe->input,
                                  c->rows, c->recipe->input == K3_FORMAT_BF16 ? NULL : c->scales,
                                  NULL, c->out, c->work);
    c->turn++;
}

/* One line: the three things in turn, until the time is used up. */
static void line(k3_bench_case_t *c, size_t m)
{
    const k3_expert_shape_t *shape = &c->model->shape;
    double                   flops = 6.0 * (double)shape->latent * shape->inter * (double)m;
    double packed = (double)(k3_expert_value_bytes(shape) + k3_expert_scale_bytes(shape));
    k3_bench_series_t expert = {.count = 0}, reading = {.count = 0}, dense = {.count = 0};
    double            begin = k3_bench_now(), t, r, d, floor;

    while (expert.count < K3_BENCH_ROUNDS &&
           (expert.count < 3 || k3_bench_now() - begin < c->bench->seconds)) {
        double at = k3_bench_now();

        run_expert(c, m);
        k3_bench_add(&expert, at);
        at = k3_bench_now();
        k3_bench_read(c->block + c->turn % c->count * c->bytes, c->bytes);
        k3_bench_add(&reading, at);
        c->turn++;
        at = k3_bench_now();
        k3_bench_dense_run(c->dense, m);
        k3_bench_add(&dense, at);
    }
    t = k3_bench_median(&expert);
    r = packed / ((double)c->bytes / k3_bench_median(&reading));
    d = k3_bench_median(&dense);
    floor = r > flops / c->peak ? r : flops / c->peak;
    printf("%6zu %4d %10.3f %9.1f %8.2f | %8.2f %9.1f | %7.2f %8.2f %8.2f\n", m, expert.count,
           t * 1e3, flops / t * 1e-9, packed / t * 1e-9, packed / r * 1e-9, flops / d * 1e-9, r / t,
           d / t, floor / t);
    fflush(stdout);
}

static double dense_seconds(k3_bench_dense_t *dense, size_t m)
{
    double at;

    k3_bench_dense_run(dense, m);
    at = k3_bench_now();
    k3_bench_dense_run(dense, m);
    return k3_bench_now() - at;
}

/* The faster of oneDNN's two ways at 4 rows. */
static void choose_dense(k3_bench_case_t *c, size_t most)
{
    k3_bench_dense_t *f32 = k3_bench_dense_create(&c->model->shape, most, false);
    k3_bench_dense_t *bf16 = k3_bench_dense_create(&c->model->shape, most, true);
    double            wide = dense_seconds(f32, 4), narrow = INFINITY;

    printf("%s, 4 rows: f32 %.1f ms, ", k3_dense_library(), wide * 1e3);
    if (bf16 == NULL) {
        printf("no bf16 GEMM for this processor; held against f32\n");
    } else {
        narrow = dense_seconds(bf16, 4);
        printf("bf16 %.1f ms; held against %s\n", narrow * 1e3, narrow < wide ? "bf16" : "f32");
    }
    c->dense = narrow < wide ? bf16 : f32;
    k3_bench_dense_destroy(narrow < wide ? f32 : bf16);
}

static void run_case(k3_bench_case_t *c, const size_t *counts, size_t n)
{
    size_t most = 4;

    for (size_t i = 0; i < n; i++) {
        most = counts[i] > most ? counts[i] : most;
    }
    c->bytes = k3_expert_layout(&c->model->shape, NULL, NULL);
    c->count = BLOCKS_BYTES / c->bytes + 1;
    c->block = k3_bench_block(c->count * c->bytes);
    c->work = k3_bench_block(k3_expert_work_bytes(&c->model->shape));
    c->peak = k3_bench_peak(c->bench->kernels->isa);
    set_scales(c);
    make_rows(c, most);
    printf("\n%s, recipe %s: %.2f MB packed an expert, %llu in turn; multiply-adds in registers "
           "%.1f GFLOP/s\n",
           c->model->name, c->recipe->name, (double)c->bytes * 1e-6, (unsigned long long)c->count,
           c->peak * 1e-9);
    choose_dense(c, most);
    printf("  rows    n         ms   GFLOP/s     GB/s | read GB/s dense GFLOP/s | of read of dense "
           "of floor\n");
    for (size_t i = 0; i < n; i++) {
        line(c, counts[i]);
    }
    k3_bench_dense_destroy(c->dense);
    free(c->block);
    free(c->work);
    free(c->row_memory);
    free(c->out_memory);
}

/* "1,2,4": at most `most` counts of 1 to ROWS_MAX; 0 if it is none. */
static size_t parse_counts(const char *text, size_t *counts, size_t most)
{
    size_t n = 0;

    while (n < most) {
        char *end;
        long  value = strtol(text, &end, 10);

        if (end == text || value < 1 || value > ROWS_MAX || (*end != '\0' && *end != ',')) {
            return 0;
        }
        counts[n++] = (size_t)value;
        if (*end == '\0') {
            return n;
        }
        text = end + 1;
    }
    return 0;
}

bool k3_bench_experts(const k3_bench_t *bench, const char *model, const char *recipe,
                      const char *rows)
{
    static k3_bench_case_t c;
    size_t                 counts[32], n = parse_counts(rows, counts, 32);

    c = (k3_bench_case_t){.bench = bench};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        c.model = strcmp(model, models[i].name) == 0 ? &models[i] : c.model;
    }
    for (size_t i = 0; c.model != NULL && i < sizeof recipes / sizeof *recipes; i++) {
        bool same = strcmp(recipe != NULL ? recipe : c.model->recipe, recipes[i].name) == 0;

        c.recipe = same ? &recipes[i] : c.recipe;
    }
    if (c.model == NULL || c.recipe == NULL || n == 0) {
        return false;
    }
    run_case(&c, counts, n);
    return true;
}
