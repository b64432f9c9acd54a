#include "bench/cell/gate.h"

#include <math.h>
#include <string.h>

#include "harness/base/memory.h"

/* Rows that one row of the gate is read for. */
enum { BATCH = 64, LANES = 8 };

typedef double lanes_t __attribute__((vector_size(LANES * sizeof(double))));

typedef struct work {
    uint16_t *bits;  /* [H] */
    double   *gate;  /* [H] one row of the gate */
    double   *x;     /* [BATCH][H] */
    double   *score; /* [BATCH][E] with the bias */
} work_t;

static void widen(const uint16_t *bits, uint32_t n, double *out)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t wide = (uint32_t)bits[i] << 16;
        float    value;

        memcpy(&value, &wide, sizeof(value));
        out[i] = (double)value;
    }
}

/* H is a multiple of 16. */
static double dot(const double *a, const double *b, uint32_t n)
{
    lanes_t sum = {0.0}, x, y;

    for (uint32_t i = 0; i < n; i += LANES) {
        memcpy(&x, a + i, sizeof(x));
        memcpy(&y, b + i, sizeof(y));
        sum += x * y;
    }
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

/* A NaN, from weights that hold one, is never chosen before a number. */
static bool is_above(double a, double b)
{
    return a > b || (isnan(b) && !isnan(a));
}

static void choose(const double *score, uint32_t experts, uint32_t topk, int32_t *ids)
{
    uint32_t kept = 0;

    for (uint32_t e = 0; e < experts; e++) {
        uint32_t at = kept;

        while (at > 0 && is_above(score[e], score[ids[at - 1]])) {
            at--;
        }
        if (at == topk) {
            continue;
        }
        kept += kept < topk;
        memmove(ids + at + 1, ids + at, (kept - 1 - at) * sizeof(*ids));
        ids[at] = (int32_t)e;
    }
}

static void score_batch(const k3_source_t *s, uint64_t first, uint32_t n, const work_t *w)
{
    uint32_t h = s->model->hidden, experts = s->model->experts;

    for (uint32_t i = 0; i < n; i++) {
        widen(k3_hidden_row(s->hidden, first + i), h, w->x + (size_t)i * h);
    }
    for (uint32_t e = 0; e < experts; e++) {
        double bias = (double)k3_source_bias(s, e);

        k3_source_tensor_row(s, K3_TENSOR_GATE, e, 0, h, w->bits);
        widen(w->bits, h, w->gate);
        for (uint32_t i = 0; i < n; i++) {
            double logit = dot(w->x + (size_t)i * h, w->gate, h);

            w->score[(size_t)i * experts + e] = 1.0 / (1.0 + exp(-logit)) + bias;
        }
    }
}

k3_status_t k3_gate_choose(const k3_source_t *s, uint64_t rows, int32_t *ids, k3_error_t *err)
{
    uint64_t h = s->model->hidden, experts = s->model->experts;
    uint32_t topk = s->model->topk;
    work_t   w = {0};

    if (k3_alloc("gate: row", h, sizeof(*w.bits), &w.bits, err) == K3_OK &&
        k3_alloc("gate: row", h, sizeof(*w.gate), &w.gate, err) == K3_OK &&
        k3_alloc("gate: rows", BATCH * h, sizeof(*w.x), &w.x, err) == K3_OK &&
        k3_alloc("gate: scores", BATCH * experts, sizeof(*w.score), &w.score, err) == K3_OK) {
        for (uint64_t at = 0; at < rows; at += BATCH) {
            uint32_t n = rows - at < BATCH ? (uint32_t)(rows - at) : BATCH;

            score_batch(s, at, n, &w);
            for (uint32_t i = 0; i < n; i++) {
                choose(w.score + i * experts, s->model->experts, topk, ids + (at + i) * topk);
            }
        }
    }
    k3_free(w.score);
    k3_free(w.x);
    k3_free(w.gate);
    k3_free(w.bits);
    return err->status;
}
