/* The arithmetic of a rank by the kernels of its processor. */
#include <string.h>

#include "bench/engines/compute.h"

static void encode(k3_compute_t *c, const k3_encode_rows_t *a)
{
    for (uint64_t i = 0; i < a->rows; i++) {
        uint8_t *record = a->records + i * a->stride;

        if (a->numbered) {
            int32_t header[4] = {(int32_t)(a->number + i), 0, 0, 0};

            memcpy(record + a->header_at, header, sizeof(header));
        }
        c->kernels->encode(a->format, a->in + i * a->width, a->width, record + a->values_at,
                           record + a->scales_at);
    }
}

static void combine(k3_compute_t *c, const uint16_t *const *parts, const float *weights,
                    uint64_t rows, uint32_t k, uint32_t width, uint16_t *out)
{
    for (uint64_t i = 0; i < rows; i++) {
        c->kernels->combine(parts + i * k, weights != NULL ? weights + i * k : NULL, k, width,
                            out + i * width);
    }
}

static void combine_to(k3_compute_t *c, const uint16_t *const *parts, const float *weights,
                       uint64_t rows, uint32_t k, uint32_t width, uint16_t *const *out)
{
    for (uint64_t i = 0; i < rows; i++) {
        c->kernels->combine(parts + i * k, weights != NULL ? weights + i * k : NULL, k, width,
                            out[i]);
    }
}

static void zero(k3_compute_t *c, void *to, uint64_t bytes)
{
    (void)c;
    memset(to, 0, bytes);
}

static void encode_to(k3_compute_t *c, k3_format_t format, const uint16_t *rows, uint64_t n,
                      uint32_t width, uint8_t *const *results)
{
    for (uint64_t i = 0; i < n; i++) {
        c->kernels->encode(format, rows + i * width, width, results[i],
                           results[i] + k3_format_value_bytes(format, width));
    }
}

static void decode_from(k3_compute_t *c, k3_format_t format, const uint8_t *const *results,
                        uint64_t n, uint32_t width, uint16_t *rows)
{
    float *row = c->work; /* of the experts, which are over: one row at least */

    for (uint64_t i = 0; i < n; i++) {
        c->kernels->decode(format, results[i], results[i] + k3_format_value_bytes(format, width),
                           width, row);
        for (uint32_t j = 0; j < width; j++) {
            rows[i * width + j] = k3_f32_to_bf16(row[j]);
        }
    }
}

static void log_encode(k3_compute_t *c, const uint16_t *const *rows, uint64_t n, uint32_t width,
                       uint8_t *const *messages, uint32_t *bytes)
{
    for (uint64_t i = 0; i < n; i++) {
        bytes[i] = (uint32_t)c->kernels->log_encode(rows[i], width, messages[i]);
    }
}

static void log_combine(k3_compute_t *c, const uint8_t *const *messages, const float *weights,
                        uint64_t rows, uint32_t k, uint32_t width, uint16_t *room, uint16_t *out)
{
    const uint16_t *parts[K3_TOPK_MAX];

    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < k; j++) {
            const uint8_t *message = messages[i * k + j];

            parts[j] = message != NULL ? room + (uint64_t)j * width : NULL;
            if (message != NULL) {
                c->kernels->log_decode(message, width, room + (uint64_t)j * width);
            }
        }
        c->kernels->combine(parts, weights + i * k, k, width, out + i * width);
    }
}

static void copy(k3_compute_t *c, void *to, const void *from, uint64_t bytes)
{
    (void)c;
    memmove(to, from, bytes); /* rows may be cut in place */
}

static void nothing(k3_compute_t *c)
{
    (void)c;
}

static void place(k3_compute_t *c, uint8_t *const *to, const void *parts, uint64_t n,
                  uint64_t bytes)
{
    (void)c;
    for (uint64_t i = 0; i < n; i++) {
        memcpy(to[i], (const uint8_t *)parts + i * bytes, bytes);
    }
}

static void fetch(k3_compute_t *c, void *parts, const uint8_t *const *from, uint64_t n,
                  uint64_t bytes)
{
    (void)c;
    for (uint64_t i = 0; i < n; i++) {
        memcpy((uint8_t *)parts + i * bytes, from[i], bytes);
    }
}

static void dense(k3_compute_t *c, const k3_layer_t *layer, const uint16_t *x, uint64_t m,
                  float *y_f32, uint16_t *y_bf16)
{
    (void)c;
    k3_dense_run(layer->host, x, m, y_f32, y_bf16);
}

/* The gate runs in full, then the ids asked for replace its own. */
static void route(k3_compute_t *c, const k3_route_rows_t *a)
{
    for (uint64_t i = 0; i < a->rows; i++) {
        const float *logits = a->logits + i * a->experts;
        int32_t     *ids = a->ids + i * a->k;
        float       *weights = a->weights + i * a->k;

        c->kernels->route(logits, a->bias, a->experts, a->k, ids, weights);
        memcpy(ids, a->wanted + i * a->k, a->k * sizeof(int32_t));
        c->kernels->route_weights(logits, a->k, ids, weights);
    }
}

static void norm(k3_compute_t *c, const uint16_t *x, const uint16_t *gain, uint64_t rows,
                 uint32_t width, uint16_t *out)
{
    for (uint64_t i = 0; i < rows; i++) {
        c->kernels->rms_norm(x + i * width, gain, width, K3_NORM_EPS, out + i * width);
    }
}

static void activate(k3_compute_t *c, k3_activation_t activation, const uint16_t *gate,
                     const uint16_t *up, uint64_t n, uint16_t *out)
{
    c->kernels->activate(activation, gate, up, n, out);
}

static void add(k3_compute_t *c, const uint16_t *a, const uint16_t *b, uint64_t n, uint16_t *out)
{
    c->kernels->add(a, b, n, out);
}

static void sum(k3_compute_t *c, const uint16_t *const *parts, uint32_t count, uint64_t n,
                uint16_t *out)
{
    c->kernels->sum(parts, count, n, out);
}

/* --- experts --------------------------------------------------------------------------------- */

/* Nearest, ties to even; the stand-in's values are finite. Inline, so that the loop is vectorised. */
static inline uint16_t round_bf16(float value)
{
    union {
        float    f;
        uint32_t u;
    } v = {value};

    return (uint16_t)((v.u + 0x7fffu + (v.u >> 16 & 1)) >> 16);
}

/* Every expert has its own factor, so that no identity and no mix-up passes. */
static void stand_in(k3_compute_t *c, uint32_t local, const k3_expert_rows_t *work)
{
    float   *row = c->work;
    float    factor = c->experts.factors[local];
    uint32_t width = c->experts.shape.latent;

    for (size_t i = 0; i < work->count; i++) {
        uint16_t *out = work->out[i];
        float     weight = work->weights != NULL ? work->weights[i] : 1.0f;

        c->kernels->decode(work->format, work->values[i],
                           work->scales != NULL ? work->scales[i] : NULL, width, row);
        for (uint32_t j = 0; j < width; j++) {
            out[j] = round_bf16(row[j] * factor * weight);
        }
    }
}

static void expert(k3_compute_t *c, uint32_t local, const k3_expert_rows_t *work)
{
    const k3_expert_model_t *m = &c->experts;
    k3_expert_weights_t      weights;

    if (m->stand_in) {
        stand_in(c, local, work);
    } else {
        m->weights(m->arg, local, &weights);
        c->kernels->expert_mlp(&m->shape, m->recipe, &weights, work->count, work->format,
                               work->values, work->scales, work->weights, work->out, c->work);
    }
}

static k3_status_t finish(k3_compute_t *c, k3_error_t *err)
{
    (void)c;
    return err->status;
}

const k3_compute_ops_t k3_compute_cpu = {
    .encode = encode,
    .combine = combine,
    .combine_to = combine_to,
    .encode_to = encode_to,
    .decode_from = decode_from,
    .log_encode = log_encode,
    .log_combine = log_combine,
    .zero = zero,
    .copy = copy,
    .copies_done = nothing,
    .place = place,
    .fetch = fetch,
    .dense = dense,
    .route = route,
    .norm = norm,
    .activate = activate,
    .add = add,
    .sum = sum,
    .fork = nothing,
    .leave = nothing,
    .join = nothing,
    .expert = expert,
    .experts_done = nothing,
    .finish = finish,
};
