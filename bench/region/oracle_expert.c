#include <string.h>

#include "bench/region/oracle_codec.h"
#include "bench/region/oracle_internal.h"
#include "harness/base/memory.h"
#include "harness/mpi/watchdog.h"

/* One row of a matrix at a time: its codes as values without their scales, and one scale for each
 * 32 of them. The scale goes on the sum of 32 products, which the codes' few bits keep nearly
 * exact. */
struct k3_oracle_expert {
    k3_source_t        source;
    const k3_model_t  *model;
    const k3_recipe_t *recipe;
    float              pair[256][2]; /* values of the two E2M1 codes in a byte, low nibble first */
    float              e4m3[256];
    double             e8m0[256];
    uint8_t           *packed, *packed_scale;
    float             *codes;
    double            *scale;
    float             *gate, *up; /* [max_rows][I] of the slice */
};

static void fill_tables(k3_oracle_expert_t *work)
{
    for (unsigned code = 0; code < 256; code++) {
        work->pair[code][0] = k3_oracle_e2m1_value(code & 15);
        work->pair[code][1] = k3_oracle_e2m1_value((uint8_t)(code >> 4));
        work->e4m3[code] = k3_oracle_e4m3_value((uint8_t)code);
        work->e8m0[code] = (double)k3_oracle_e8m0_value((uint8_t)code);
    }
}

k3_status_t k3_oracle_expert_create(const k3_source_t *source, const k3_recipe_t *recipe,
                                    uint32_t max_rows, k3_oracle_expert_t **expert_p,
                                    k3_error_t *err)
{
    const k3_model_t *model = source->model;
    uint64_t width = model->latent > model->intermediate ? model->latent : model->intermediate;
    uint64_t inter = (uint64_t)max_rows * model->intermediate;
    k3_oracle_expert_t *work;

    if (k3_alloc("oracle: expert", 1, sizeof(*work), expert_p, err) != K3_OK) {
        return err->status;
    }
    work = *expert_p;
    work->source = *source;
    work->model = model;
    work->recipe = recipe;
    fill_tables(work);
    if (k3_alloc("oracle: packed row", width, 1, &work->packed, err) != K3_OK ||
        k3_alloc("oracle: packed scales", width / 32, sizeof(float), &work->packed_scale, err) !=
            K3_OK ||
        k3_alloc("oracle: weight row", width, sizeof(float), &work->codes, err) != K3_OK ||
        k3_alloc("oracle: scales", width / 32, sizeof(double), &work->scale, err) != K3_OK ||
        k3_alloc("oracle: gate", inter, sizeof(float), &work->gate, err) != K3_OK ||
        k3_alloc("oracle: up", inter, sizeof(float), &work->up, err) != K3_OK) {
        k3_oracle_expert_destroy(work);
        *expert_p = NULL;
        return err->status;
    }
    return K3_OK;
}

void k3_oracle_expert_destroy(k3_oracle_expert_t *work)
{
    if (work == NULL) {
        return;
    }
    k3_free(work->up);
    k3_free(work->gate);
    k3_free(work->scale);
    k3_free(work->codes);
    k3_free(work->packed_scale);
    k3_free(work->packed);
    k3_free(work);
}

/* Columns [begin, end) of a row of a matrix into codes and scale. */
static void load_row(k3_oracle_expert_t *work, uint32_t expert, k3_expert_matrix_t matrix,
                     uint32_t row, uint32_t begin, uint32_t end)
{
    uint32_t n = end - begin;

    k3_source_expert_row(&work->source, expert, matrix, row, begin, end, work->packed,
                         work->packed_scale);
    if (work->model->weights == K3_WEIGHT_MXFP4) {
        for (uint32_t i = 0; i < n / 2; i++) {
            memcpy(work->codes + 2 * (size_t)i, work->pair[work->packed[i]], sizeof(work->pair[0]));
        }
        for (uint32_t b = 0; b < n / 32; b++) {
            work->scale[b] = work->e8m0[work->packed_scale[b]];
        }
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        work->codes[i] = work->e4m3[work->packed[i]];
    }
    for (uint32_t b = 0; b < n / 32; b++) {
        float scale;

        memcpy(&scale, work->packed_scale + (size_t)(b / 4) * sizeof(scale), sizeof(scale));
        work->scale[b] = (double)scale;
    }
}

static double dot_row(const k3_oracle_expert_t *work, const float *x, uint32_t n)
{
    double sum = 0.0;

    for (uint32_t b = 0; b < n / 32; b++) {
        sum += work->scale[b] * k3_oracle_dot32(work->codes + (size_t)32 * b, x + (size_t)32 * b);
    }
    return sum;
}

static float round_hidden(const k3_recipe_t *recipe, double value)
{
    return (float)(recipe->round_gate_up ? k3_oracle_round_bf16(value) : value);
}

/* Activation times the row's weight, its rounding to bf16, and what the recipe's middle format leaves of it; into gate. */
static void make_middle(k3_oracle_expert_t *work, size_t n, const float *weights, uint32_t inter)
{
    for (size_t i = 0; i < n; i++) {
        float *gate = work->gate + i * inter;
        float *up = work->up + i * inter;

        for (uint32_t j = 0; j < inter; j++) {
            double value = k3_oracle_activate(work->model->activation, gate[j], up[j]);

            gate[j] = (float)k3_oracle_round_bf16(value * (double)weights[i]);
        }
        k3_oracle_quantise(work->recipe->middle, inter, gate);
    }
}

void k3_oracle_expert_run(k3_oracle_expert_t *work, uint32_t expert, uint32_t begin, uint32_t end,
                          size_t n, const float *const *x, const float *weights, uint16_t *const *y)
{
    uint32_t latent = work->model->latent, inter = end - begin;

    for (uint32_t j = 0; j < inter; j++) {
        k3_watchdog_alive();
        load_row(work, expert, K3_MATRIX_W1, begin + j, 0, latent);
        for (size_t i = 0; i < n; i++) {
            work->gate[i * inter + j] = round_hidden(work->recipe, dot_row(work, x[i], latent));
        }
        load_row(work, expert, K3_MATRIX_W3, begin + j, 0, latent);
        for (size_t i = 0; i < n; i++) {
            work->up[i * inter + j] = round_hidden(work->recipe, dot_row(work, x[i], latent));
        }
    }
    make_middle(work, n, weights, inter);
    for (uint32_t r = 0; r < latent; r++) {
        k3_watchdog_alive();
        load_row(work, expert, K3_MATRIX_W2, r, begin, end);
        for (size_t i = 0; i < n; i++) {
            y[i][r] = k3_oracle_bf16_bits(dot_row(work, work->gate + i * inter, inter));
        }
    }
}
