/* The plain reference version of every kernel. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/functions.h"

/* --- expert MLP ------------------------------------------------------------------------------ */

static void pack(k3_weight_format_t format, float *row, size_t n)
{
    (void)format;
    memset(row + n, 0, sizeof *row * (k3_padded(n) - n));
}

enum { GROUP = 128 }; /* weights decoded at a time */

/* Weights first .. first + count of row j. */
static void decode_weights(const k3_matrix_t *w, size_t j, size_t first, size_t count, float *out)
{
    size_t columns = w->columns, blocks = (columns + 127) / 128;

    if (w->format == K3_WEIGHT_MXFP4) {
        k3_scalar_decode(K3_FORMAT_MXFP4, w->values + (j * columns + first) / 2,
                         (const uint8_t *)w->scales + (j * columns + first) / 32, count, out);
    } else {
        k3_scalar_decode(K3_FORMAT_FP8, w->values + j * columns + first,
                         (const float *)w->scales + j / 128 * blocks + first / 128, count, out);
    }
}

static void gemm(const k3_matrix_t *w, const void *x, size_t m, size_t first, size_t count,
                 float *y)
{
    const float *rows = x;

    for (size_t j = first; j < first + count; j++) {
        float sum[K3_EXPERT_CHUNK] = {0}, part[GROUP];

        for (size_t k = 0; k < w->columns; k += GROUP) {
            size_t length = w->columns - k < GROUP ? w->columns - k : GROUP;

            decode_weights(w, j, k, length, part);
            for (size_t i = 0; i < m; i++) {
                const float *row = rows + i * k3_padded(w->columns) + k;

                for (size_t d = 0; d < length; d++) {
                    sum[i] += row[d] * part[d];
                }
            }
        }
        for (size_t i = 0; i < m; i++) {
            y[i * k3_padded(w->rows) + j] = sum[i];
        }
    }
}

static void round_row(const float *row, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = k3_f32_to_bf16(row[i]);
    }
}

static void activate_f32(k3_activation_t activation, const float *gate, const float *up,
                         float weight, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i++) {
        float result = k3_act(activation, gate[i], up[i]);

        out[i] = k3_f32_to_bf16(result * weight);
    }
}

static void expert_mlp(const k3_expert_shape_t *shape, const k3_recipe_t *recipe,
                       const k3_expert_weights_t *weights, size_t n, k3_format_t format,
                       const void *const *rows, const void *const *scales, const float *row_weights,
                       uint16_t *const *out, void *work)
{
    static const k3_expert_ops_t ops = {
        .encode = k3_scalar_encode,
        .decode = k3_scalar_decode,
        .pack = pack,
        .gemm = gemm,
        .round = round_row,
        .activate = activate_f32,
    };

    k3_expert_run(&ops, shape, recipe, weights, n, format, rows, scales, row_weights, out, work);
}

/* --- routing --------------------------------------------------------------------------------- */

/* Puts a candidate into the falling list of at most k; an equal earlier one stays before it. */
static size_t insert(int32_t *ids, float *values, size_t count, size_t k, int32_t id, float value)
{
    size_t at = count < k ? count : k - 1;

    for (; at > 0 && value > values[at - 1]; at--) {
        ids[at] = ids[at - 1];
        values[at] = values[at - 1];
    }
    ids[at] = id;
    values[at] = value;
    return count < k ? count + 1 : k;
}

static void route_values(const float *logits, const float *bias, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = k3_sigmoid(logits[i]) + bias[i];
    }
}

void k3_route_by(k3_route_values_t values_of, const float *logits, const float *bias,
                 size_t experts, size_t k, int32_t *ids, float *weights)
{
    size_t count = 0;

    if (k == 0) {
        return;
    }
    for (size_t first = 0; first < experts; first += 64) {
        size_t length = experts - first < 64 ? experts - first : 64;
        float  values[64];

        values_of(logits + first, bias + first, length, values);
        for (size_t i = 0; i < length; i++) {
            float value = isnan(values[i]) ? -INFINITY : values[i];

            /* `weights` holds the values of the list until the ids are known. */
            if (count < k || value > weights[k - 1]) {
                count = insert(ids, weights, count, k, (int32_t)(first + i), value);
            }
        }
    }
    for (; count < k; count++) {
        ids[count] = -1;
    }
    k3_scalar_route_weights(logits, k, ids, weights);
}

static void route(const float *logits, const float *bias, size_t experts, size_t k, int32_t *ids,
                  float *weights)
{
    k3_route_by(route_values, logits, bias, experts, k, ids, weights);
}

void k3_scalar_route_weights(const float *logits, size_t k, const int32_t *ids, float *weights)
{
    float sum = 0.0f;

    for (size_t i = 0; i < k; i++) {
        weights[i] = ids[i] < 0 ? 0.0f : k3_sigmoid(logits[ids[i]]);
        sum += weights[i];
    }
    for (size_t i = 0; i < k; i++) {
        weights[i] /= sum + 1e-20f;
    }
}

/* --- rows ------------------------------------------------------------------------------------ */

static void combine(const uint16_t *const *rows, const float *weights, size_t k, size_t n,
                    uint16_t *out)
{
    for (size_t j = 0; j < n; j++) {
        float sum = 0.0f;

        for (size_t i = 0; i < k; i++) {
            if (rows[i] != NULL) {
                float value = k3_bf16_to_f32(rows[i][j]);

                sum += weights != NULL ? weights[i] * value : value;
            }
        }
        out[j] = k3_f32_to_bf16(sum);
    }
}

static void rms_norm(const uint16_t *x, const uint16_t *gain, size_t n, float eps, uint16_t *out)
{
    float sum = 0.0f, inverse;

    for (size_t i = 0; i < n; i++) {
        float value = k3_bf16_to_f32(x[i]);

        sum += value * value;
    }
    inverse = 1.0f / sqrtf(sum / (float)n + eps);
    for (size_t i = 0; i < n; i++) {
        out[i] = k3_f32_to_bf16(k3_bf16_to_f32(x[i]) * inverse * k3_bf16_to_f32(gain[i]));
    }
}

static void activate(k3_activation_t activation, const uint16_t *gate, const uint16_t *up, size_t n,
                     uint16_t *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = k3_f32_to_bf16(k3_act(activation, k3_bf16_to_f32(gate[i]), k3_bf16_to_f32(up[i])));
    }
}

static void add(const uint16_t *a, const uint16_t *b, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = k3_f32_to_bf16(k3_bf16_to_f32(a[i]) + k3_bf16_to_f32(b[i]));
    }
}

static void sum(const uint16_t *const *parts, size_t count, size_t n, uint16_t *out)
{
    combine(parts, NULL, count, n, out);
}

const k3_kernels_t k3_kernels_scalar = {
    .isa = "scalar",
    .encode = k3_scalar_encode,
    .decode = k3_scalar_decode,
    .log_encode = k3_scalar_log_encode,
    .log_decode = k3_scalar_log_decode,
    .expert_mlp = expert_mlp,
    .route = route,
    .route_weights = k3_scalar_route_weights,
    .combine = combine,
    .rms_norm = rms_norm,
    .activate = activate,
    .add = add,
    .sum = sum,
};

const k3_row_ops_t k3_row_ops_scalar = {.round = round_row};
