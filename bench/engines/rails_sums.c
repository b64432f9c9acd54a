/* Sums: of a row over the experts of a rank, over the ranks of a node, over nodes. */
#include <string.h>

#include "bench/engines/rails_engine.h"

static void encode(const rails_engine_t *e, const uint16_t *row, uint8_t *out)
{
    e->env.kernels->encode(e->env.cell->combine_format, row, e->env.cell->model.latent, out,
                           out + e->rails.result_scales_at);
}

/* --- on a device ----------------------------------------------------------------------------- */

void k3_rails_start_sums(rails_engine_t *e)
{
    k3_compute_t *c = e->env.compute;

    c->ops->copies_done(c); /* results of the own rank */
    if (e->sums == 0) {
        return;
    }
    c->ops->combine_to(c, e->sum_part, e->sum_weight, e->sums, e->rails.topk,
                       e->env.cell->model.latent, e->sum_out);
    e->sums = 0;
}

/* weights NULL: all 1. */
static void list_sum(rails_engine_t *e, const uint16_t *const *parts, const float *weights,
                     uint32_t count, void *out)
{
    uint32_t         topk = e->rails.topk;
    const uint16_t **part = e->sum_part + (size_t)e->sums * topk;
    float           *weight = e->sum_weight + (size_t)e->sums * topk;

    for (uint32_t k = 0; k < topk; k++) {
        part[k] = k < count ? parts[k] : NULL;
        weight[k] = k < count && weights != NULL ? weights[k] : 1.0f;
    }
    e->sum_out[e->sums++] = out;
    if (e->sums == K3_RAILS_SUMS) {
        k3_rails_start_sums(e);
    }
}

k3_status_t k3_rails_summed(rails_engine_t *e, k3_error_t *err)
{
    k3_rails_start_sums(e);
    return e->env.compute->ops->finish(e->env.compute, err);
}

/* --- over the own experts -------------------------------------------------------------------- */

/* The results of record i with their weights. */
static uint32_t list_results(const rails_engine_t *e, uint64_t i, const uint16_t **parts,
                             float *weights)
{
    const rails_row_t *row = &e->row[i];

    for (uint32_t j = 0; j < row->pairs; j++) {
        parts[j] = e->pair_out[row->pair + j];
        weights[j] = e->pair[row->pair + j].weight;
    }
    return row->pairs;
}

k3_status_t k3_rails_partials(rails_engine_t *e, k3_error_t *err)
{
    for (uint64_t i = 0; i < e->got_count[0] && k3_rails_on_device(e); i++) {
        const uint16_t *parts[K3_TOPK_MAX];
        float           weights[K3_TOPK_MAX];
        uint32_t        count = list_results(e, i, parts, weights);

        list_sum(e, parts, weights, count, e->partial + i * e->rails.result);
    }
    return k3_rails_summed(e, err);
}

const void *k3_rails_partial(rails_engine_t *e, uint64_t i)
{
    uint8_t *out = e->partial + i * e->rails.result;

    if (!k3_rails_on_device(e)) {
        const uint16_t *parts[K3_TOPK_MAX];
        float           weights[K3_TOPK_MAX];
        uint32_t        count = list_results(e, i, parts, weights);

        e->env.kernels->combine(parts, weights, count, e->env.cell->model.latent, e->sum_row);
        encode(e, e->sum_row, out);
    }
    return out;
}

/* --- of results ------------------------------------------------------------------------------ */

/* Results in bf16 are added where they lie, others are decoded and rounded to bf16 first. */
static const uint16_t *bf16_row(rails_engine_t *e, const uint8_t *result, uint32_t i)
{
    uint32_t  width = e->env.cell->model.latent;
    uint16_t *row = e->decoded + (size_t)i * width;

    if (e->env.cell->combine_format == K3_FORMAT_BF16) {
        return (const uint16_t *)(const void *)result;
    }
    e->env.kernels->decode(e->env.cell->combine_format, result, result + e->rails.result_scales_at,
                           width, e->decode_row);
    for (uint32_t j = 0; j < width; j++) {
        row[j] = k3_f32_to_bf16(e->decode_row[j]);
    }
    return row;
}

void k3_rails_sum(rails_engine_t *e, const uint8_t *const *results, uint32_t count, uint16_t *out)
{
    const uint16_t *parts[K3_TOPK_MAX];

    for (uint32_t i = 0; i < count; i++) {
        parts[i] = bf16_row(e, results[i], i);
    }
    if (k3_rails_on_device(e)) {
        list_sum(e, parts, NULL, count, out);
    } else {
        e->env.kernels->combine(parts, NULL, count, e->env.cell->model.latent, out);
    }
}

void k3_rails_sum_to_send(rails_engine_t *e, const uint8_t *const *results, uint32_t count,
                          uint8_t *out)
{
    if (k3_rails_on_device(e)) {
        k3_rails_sum(e, results, count, (uint16_t *)(void *)out);
    } else {
        k3_rails_sum(e, results, count, e->sum_row);
        encode(e, e->sum_row, out);
    }
}
