/* Sums: of a row over the experts of a rank, over the ranks of a node, over nodes. */
#include <string.h>

#include "bench/engines/rails_engine.h"
#include "bench/plan/device.h"
#include "harness/base/memory.h"

/* --- set-up ---------------------------------------------------------------------------------- */

static bool is_coded(const rails_engine_t *e)
{
    return e->env.cell->combine_format != K3_FORMAT_BF16;
}

static uint32_t sums_at_once(const rails_engine_t *e)
{
    return is_coded(e) ? K3_CODED_SUMS : K3_RAILS_SUMS;
}

static k3_status_t alloc_coded(rails_engine_t *e, k3_error_t *err)
{
    uint64_t row = 2 * (uint64_t)e->env.cell->model.latent, sums = sums_at_once(e);

    if (k3_alloc("results of sums", sums * e->rails.topk, sizeof(void *), &e->coded, err) !=
            K3_OK ||
        k3_alloc("sums that leave", sums, sizeof(void *), &e->leaves, err) != K3_OK ||
        k3_compute_alloc(e->env.compute, "results as bf16", sums * e->rails.topk, row, false,
                         &e->plain, err) != K3_OK) {
        return err->status;
    }
    return k3_compute_alloc(e->env.compute, "sums as bf16", sums, row, false, &e->plain_sum, err);
}

k3_status_t k3_rails_sums_create(rails_engine_t *e, k3_error_t *err)
{
    uint64_t sums = sums_at_once(e), topk = e->rails.topk;

    if (k3_alloc("parts of sums", sums * topk, sizeof(void *), &e->sum_part, err) != K3_OK ||
        k3_alloc("weights of parts", sums * topk, sizeof(float), &e->sum_weight, err) != K3_OK ||
        k3_alloc("places of sums", sums, sizeof(void *), &e->sum_out, err) != K3_OK) {
        return err->status;
    }
    return is_coded(e) ? alloc_coded(e, err) : K3_OK;
}

void k3_rails_sums_destroy(rails_engine_t *e)
{
    k3_compute_free(e->env.compute, e->plain_sum);
    k3_compute_free(e->env.compute, e->plain);
    k3_free(e->leaves);
    k3_free(e->coded);
    k3_free(e->sum_out);
    k3_free(e->sum_weight);
    k3_free(e->sum_part);
}

/* By the processor. */
static void encode(const rails_engine_t *e, const uint16_t *row, uint8_t *out)
{
    e->env.compute->ops->encode_to(e->env.compute, e->env.cell->combine_format, row, 1,
                                   e->env.cell->model.latent, &out);
}

/* --- on a device ----------------------------------------------------------------------------- */

void k3_rails_start_sums(rails_engine_t *e)
{
    k3_compute_t *c = e->env.compute;
    k3_format_t   format = e->env.cell->combine_format;
    uint32_t      width = e->env.cell->model.latent;

    c->ops->copies_done(c); /* results of the own rank */
    if (e->sums == 0) {
        return;
    }
    if (e->coded_count > 0) {
        c->ops->decode_from(c, format, (const uint8_t *const *)e->coded, e->coded_count, width,
                            e->plain);
        e->coded_count = 0;
    }
    c->ops->combine_to(c, e->sum_part, e->sum_weight, e->sums, e->rails.topk, width, e->sum_out);
    if (e->sums_leave) {
        c->ops->encode_to(c, format, e->plain_sum, e->sums, width, e->leaves);
    }
    e->sums = 0;
}

/* In front of the parts of a sum: those that leave in another format than bf16 are not started with others. */
static void open_sum(rails_engine_t *e, bool leaves)
{
    leaves = leaves && is_coded(e);
    if (e->sums_leave != leaves) {
        k3_rails_start_sums(e);
        e->sums_leave = leaves;
    }
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
    if (e->sums_leave) {
        e->leaves[e->sums] = out;
        out = e->plain_sum + (size_t)e->sums * e->env.cell->model.latent;
    }
    e->sum_out[e->sums++] = out;
    if (e->sums == sums_at_once(e)) {
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
    open_sum(e, true);
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

    if (!is_coded(e)) {
        return (const uint16_t *)(const void *)result;
    }
    if (k3_rails_on_device(e)) { /* together with others */
        e->coded[e->coded_count] = (uint8_t *)(uintptr_t)result;
        return e->plain + e->coded_count++ * width;
    }
    e->env.compute->ops->decode_from(e->env.compute, e->env.cell->combine_format, &result, 1, width,
                                     row);
    return row;
}

static void add_up(rails_engine_t *e, const uint8_t *const *results, uint32_t count, uint16_t *out)
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

void k3_rails_sum(rails_engine_t *e, const uint8_t *const *results, uint32_t count, uint16_t *out)
{
    open_sum(e, false);
    add_up(e, results, count, out);
}

void k3_rails_sum_to_send(rails_engine_t *e, const uint8_t *const *results, uint32_t count,
                          uint8_t *out)
{
    if (k3_rails_on_device(e)) {
        open_sum(e, true);
        add_up(e, results, count, (uint16_t *)(void *)out);
    } else {
        add_up(e, results, count, e->sum_row);
        encode(e, e->sum_row, out);
    }
}
