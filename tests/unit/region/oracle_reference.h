/* A region by plain loops, in place of measured values: sums in f32 from left to right, weights
 * multiplied out first. It can be told to make the mistakes that the oracle must find. */
#ifndef K3_TESTS_ORACLE_REFERENCE_H
#define K3_TESTS_ORACLE_REFERENCE_H

#include <math.h>
#include <string.h>

#include "bench/cell/inputs.h"
#include "bench/region/oracle.h"
#include "bench/region/oracle_codec.h"

enum { WIDTH_MAX = 512 };

typedef struct mistakes {
    bool     skip_input_rounding, toggle_round_gate_up, skip_middle_rounding;
    int      skip_selection, double_selection; /* 1 + k; 0: none */
    bool     weights_twice, weights_outside;
    float    combined_factor; /* 0: none */
    unsigned shared_times;    /* 1 + times; 0: once */
} mistakes_t;

typedef struct region_row {
    uint16_t          x[WIDTH_MAX], latent[WIDTH_MAX], combined[WIDTH_MAX], output[WIDTH_MAX];
    float             logits[WIDTH_MAX], weights[K3_TOPK_MAX];
    int32_t           ids[K3_TOPK_MAX];
    k3_measured_row_t measured;
} region_row_t;

static inline float ref_dot(const float *a, const float *b, size_t n)
{
    float sum = 0.0f;

    for (size_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static inline float ref_bf16(float value)
{
    return k3_oracle_bf16_value(k3_oracle_bf16_bits((double)value));
}

static inline float ref_activate(const k3_model_t *model, float g, float u)
{
    float sigmoid = 1.0f / (1.0f + expf(-g));

    return model->activation == K3_ACT_SWIGLU
               ? g * sigmoid * u
               : 4.0f * tanhf(g / 4.0f) * sigmoid * 25.0f * tanhf(u / 25.0f);
}

/* y[r] = x . row r of the tensor, f32. */
static inline void ref_dense(const k3_cell_t *cell, k3_tensor_t tensor, uint32_t row_begin,
                             uint32_t row_end, uint32_t begin, uint32_t end, const float *x,
                             float *y)
{
    for (uint32_t r = row_begin; r < row_end; r++) {
        uint16_t bits[WIDTH_MAX];
        float    row[WIDTH_MAX];

        k3_tensor_row(&cell->model, cell->seed, tensor, r, begin, end, bits);
        k3_oracle_bf16_row(bits, end - begin, row);
        y[r - row_begin] = ref_dot(x, row, end - begin);
    }
}

/* Values of all codes of a format, by its own function. */
typedef float (*ref_decode_t)(uint8_t code);

static inline const float *ref_values(ref_decode_t decode, float *values, bool *known)
{
    for (int code = 0; code < 256 && !*known; code++) {
        values[code] = decode((uint8_t)code);
    }
    *known = true;
    return values;
}

static inline void ref_weight_row(const k3_cell_t *cell, uint32_t expert, k3_expert_matrix_t matrix,
                                  uint32_t row, uint32_t begin, uint32_t end, float *out)
{
    static float e2m1[256], e4m3[256];
    static bool  knows_e2m1, knows_e4m3;
    const float *four = ref_values(k3_oracle_e2m1_value, e2m1, &knows_e2m1);
    const float *eight = ref_values(k3_oracle_e4m3_value, e4m3, &knows_e4m3);
    uint8_t      values[WIDTH_MAX], scales[WIDTH_MAX];
    float        scale = 0.0f;

    k3_expert_row(&cell->model, cell->seed, expert, matrix, row, begin, end, values, scales);
    for (uint32_t i = 0; i < end - begin; i++) {
        if (cell->model.weights == K3_WEIGHT_MXFP4) {
            scale = i % 32 == 0 ? k3_oracle_e8m0_value(scales[i / 32]) : scale;
            out[i] = four[values[i / 2] >> (i % 2 * 4) & 15] * scale;
        } else {
            memcpy(&scale, scales + i / 128 * sizeof(scale), sizeof(scale));
            out[i] = eight[values[i]] * scale;
        }
    }
}

static inline void ref_expert(const k3_cell_t *cell, const mistakes_t *m, uint32_t expert,
                              uint32_t begin, uint32_t end, const float *x, float weight, float *y)
{
    const k3_recipe_t *recipe = &cell->runner->recipe;
    uint32_t           latent = cell->model.latent, inter = end - begin;
    float              middle[WIDTH_MAX], row[WIDTH_MAX];

    for (uint32_t j = 0; j < inter; j++) {
        float gate, up;

        ref_weight_row(cell, expert, K3_MATRIX_W1, begin + j, 0, latent, row);
        gate = ref_dot(x, row, latent);
        ref_weight_row(cell, expert, K3_MATRIX_W3, begin + j, 0, latent, row);
        up = ref_dot(x, row, latent);
        if (recipe->round_gate_up != m->toggle_round_gate_up) {
            gate = ref_bf16(gate);
            up = ref_bf16(up);
        }
        middle[j] = ref_bf16(ref_activate(&cell->model, gate, up) * weight);
    }
    if (!m->skip_middle_rounding) {
        k3_oracle_quantise(recipe->middle, inter, middle);
    }
    for (uint32_t r = 0; r < latent; r++) {
        ref_weight_row(cell, expert, K3_MATRIX_W2, r, begin, end, row);
        y[r] = ref_bf16(ref_dot(middle, row, inter));
    }
}

static inline void ref_input(const k3_cell_t *cell, const mistakes_t *m, const uint16_t *latent,
                             bool stand_in, float *x)
{
    size_t      n = cell->model.latent;
    k3_format_t input = cell->runner->recipe.input, arrives = cell->dispatch_format;

    k3_oracle_bf16_row(latent, n, x);
    if (m->skip_input_rounding) {
        return;
    }
    k3_oracle_quantise(arrives, n, x);
    if (stand_in || arrives == input) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        x[i] = ref_bf16(x[i]);
    }
    k3_oracle_quantise(input, n, x);
}

/* Adds weight * y of the experts that `rank` holds (all of them: -1) to sum. */
static inline void ref_add_experts(const k3_cell_t *cell, const mistakes_t *m, bool stand_in,
                                   const region_row_t *row, int rank, float *sum)
{
    uint32_t latent = cell->model.latent, begin = 0, end = cell->model.intermediate;
    float    x[WIDTH_MAX], y[WIDTH_MAX];
    bool     inside = cell->profile->weights_at == K3_WEIGHTS_IN_ACTIVATION && !m->weights_outside;

    ref_input(cell, m, row->latent, stand_in, x);
    if (rank >= 0) {
        k3_layout_expert_slice(&cell->layout, &cell->model, (uint32_t)rank, &begin, &end);
    }
    for (uint32_t k = 0; k < cell->model.topk; k++) {
        int32_t id = row->ids[k];
        float   weight = row->weights[k] * (m->weights_twice ? row->weights[k] : 1.0f);

        if (id < 0 || m->skip_selection == (int)k + 1 ||
            (rank >= 0 && (uint32_t)id / k3_layout_local_experts(&cell->layout, &cell->model) !=
                              (uint32_t)rank / cell->layout.moe_tp)) {
            continue;
        }
        if (stand_in) {
            for (uint32_t i = 0; i < latent; i++) {
                y[i] = ref_bf16(x[i] * k3_stand_in_factor((uint32_t)id) * (inside ? weight : 1.0f));
            }
        } else {
            ref_expert(cell, m, (uint32_t)id, begin, end, x, inside ? weight : 1.0f, y);
        }
        for (uint32_t i = 0; i < latent; i++) {
            sum[i] +=
                (inside ? 1.0f : weight) * y[i] * (m->double_selection == (int)k + 1 ? 2.0f : 1.0f);
        }
    }
}

static inline void ref_combined(const k3_cell_t *cell, const mistakes_t *m, bool stand_in,
                                region_row_t *row)
{
    uint32_t latent = cell->model.latent;
    float    sum[WIDTH_MAX] = {0}, part[WIDTH_MAX];

    if (cell->profile->combine_complete) {
        ref_add_experts(cell, m, stand_in, row, -1, sum);
    } else if (cell->profile->engine != K3_ENGINE_NULL) {
        const k3_layout_t *l = &cell->layout;
        float              inner[WIDTH_MAX];

        /* The ranks of a cp group first; with cp 1 a group is one rank. */
        for (uint32_t group = 0; group < l->tp / l->cp; group++) {
            memset(inner, 0, sizeof(inner));
            for (uint32_t c = 0; c < l->cp; c++) {
                uint32_t rank = (group / l->attn_tp * l->cp + c) * l->attn_tp + group % l->attn_tp;

                memset(part, 0, sizeof(part));
                ref_add_experts(cell, m, stand_in, row, (int)rank, part);
                for (uint32_t i = 0; i < latent; i++) {
                    inner[i] += ref_bf16(part[i]);
                }
            }
            for (uint32_t i = 0; i < latent; i++) {
                sum[i] += ref_bf16(inner[i]);
            }
        }
    }
    for (uint32_t i = 0; i < latent; i++) {
        float factor = m->combined_factor == 0.0f ? 1.0f : m->combined_factor;

        row->combined[i] = k3_oracle_bf16_bits((double)(ref_bf16(sum[i]) * factor));
    }
}

/* Slices of the shared expert that are summed, in the order of the ranks that hold them. */
static inline uint32_t ref_shared_parts(const k3_cell_t *cell)
{
    switch (cell->shared) {
    case K3_SHARED_TP:
        return cell->layout.tp;
    case K3_SHARED_SHARDED:
        return cell->layout.attn_tp;
    default:
        return 1;
    }
}

static inline void ref_shared(const k3_cell_t *cell, const float *x, float *out)
{
    const k3_layout_t *l = &cell->layout;
    uint32_t           hidden = cell->model.hidden, parts = ref_shared_parts(cell);
    uint32_t           cp = cell->shared == K3_SHARED_TP ? l->cp : 1;
    float              gate[WIDTH_MAX], up[WIDTH_MAX], down[WIDTH_MAX], inner[WIDTH_MAX] = {0};

    memset(out, 0, hidden * sizeof(float));
    for (uint32_t at = 0; at < parts && cell->model.shared > 0; at++) {
        uint32_t group = at / cp;
        uint32_t p =
            cp == 1 ? at : (group / l->attn_tp * cp + at % cp) * l->attn_tp + group % l->attn_tp;
        uint32_t begin, end;

        k3_layout_slice(cell->model.shared, 16, parts, p, &begin, &end);
        ref_dense(cell, K3_TENSOR_SHARED_GATE, begin, end, 0, hidden, x, gate);
        ref_dense(cell, K3_TENSOR_SHARED_UP, begin, end, 0, hidden, x, up);
        for (uint32_t j = 0; j < end - begin; j++) {
            gate[j] = ref_bf16(ref_activate(&cell->model, ref_bf16(gate[j]), ref_bf16(up[j])));
        }
        ref_dense(cell, K3_TENSOR_SHARED_DOWN, 0, hidden, begin, end, gate, down);
        for (uint32_t i = 0; i < hidden; i++) {
            inner[i] += ref_bf16(down[i]);
            if (at % cp == cp - 1) {
                out[i] += ref_bf16(inner[i]);
                inner[i] = 0.0f;
            }
        }
    }
    for (uint32_t i = 0; i < hidden; i++) {
        out[i] = ref_bf16(out[i]);
    }
}

static inline void ref_output(const k3_cell_t *cell, const mistakes_t *m, region_row_t *row)
{
    uint32_t hidden = cell->model.hidden, latent = cell->model.latent;
    float    x[WIDTH_MAX], combined[WIDTH_MAX], routed[WIDTH_MAX], shared[WIDTH_MAX];
    float    times = m->shared_times == 0 ? 1.0f : (float)(m->shared_times - 1);

    k3_oracle_bf16_row(row->x, hidden, x);
    k3_oracle_bf16_row(row->combined, latent, combined);
    memcpy(routed, combined, sizeof(routed));
    if (cell->model.latent_step) {
        uint16_t gain[WIDTH_MAX];
        float    scale = 1.0f / sqrtf(ref_dot(combined, combined, latent) / (float)latent + 1e-5f);

        k3_tensor_row(&cell->model, cell->seed, K3_TENSOR_LATENT_NORM, 0, 0, latent, gain);
        for (uint32_t i = 0; i < latent; i++) {
            combined[i] = ref_bf16(combined[i] * scale * k3_oracle_bf16_value(gain[i]));
        }
        ref_dense(cell, K3_TENSOR_LATENT_UP, 0, hidden, 0, latent, combined, routed);
    }
    ref_shared(cell, x, shared);
    for (uint32_t i = 0; i < hidden; i++) {
        row->output[i] = k3_oracle_bf16_bits((double)(ref_bf16(routed[i]) + times * shared[i]));
    }
}

static inline void ref_front(const k3_cell_t *cell, uint64_t row_index, uint64_t payload,
                             region_row_t *row)
{
    const k3_model_t *model = &cell->model;
    float             x[WIDTH_MAX] = {0}, latent[WIDTH_MAX], sum = 1e-20f;
    uint16_t          part[WIDTH_MAX];

    for (uint32_t a = 0; a < cell->layout.attn_tp; a++) {
        k3_input_partial(model, cell->seed, payload, row_index, a, cell->layout.attn_tp, part);
        for (uint32_t i = 0; i < model->hidden; i++) {
            x[i] += k3_oracle_bf16_value(part[i]);
        }
    }
    for (uint32_t i = 0; i < model->hidden; i++) {
        x[i] = ref_bf16(x[i]);
        row->x[i] = k3_oracle_bf16_bits((double)x[i]);
    }
    ref_dense(cell, K3_TENSOR_GATE, 0, model->experts, 0, model->hidden, x, row->logits);
    for (uint32_t k = 0; k < model->topk; k++) {
        if (row->ids[k] >= 0) {
            row->weights[k] = 1.0f / (1.0f + expf(-row->logits[row->ids[k]]));
            sum += row->weights[k];
        }
    }
    for (uint32_t k = 0; k < model->topk; k++) {
        row->weights[k] = row->ids[k] >= 0 ? row->weights[k] / sum : 0.0f;
    }
    memcpy(latent, x, sizeof(latent));
    if (model->latent_step) {
        ref_dense(cell, K3_TENSOR_LATENT_DOWN, 0, model->latent, 0, model->hidden, x, latent);
    }
    for (uint32_t i = 0; i < model->latent; i++) {
        row->latent[i] = k3_oracle_bf16_bits((double)latent[i]);
    }
}

/* row->ids are given. */
static inline void ref_row(const k3_cell_t *cell, const mistakes_t *mistakes, bool stand_in,
                           uint64_t row_index, uint64_t payload, region_row_t *row)
{
    ref_front(cell, row_index, payload, row);
    ref_combined(cell, mistakes, stand_in, row);
    ref_output(cell, mistakes, row);
    row->measured = (k3_measured_row_t){.row = row_index,
                                        .payload = payload,
                                        .x = row->x,
                                        .logits = row->logits,
                                        .ids = row->ids,
                                        .weights = row->weights,
                                        .latent = row->latent,
                                        .combined = row->combined,
                                        .output = row->output};
}

#endif
