#include "bench/region/oracle.h"

#include <math.h>
#include <string.h>

#include "bench/region/oracle_codec.h"
#include "bench/region/oracle_internal.h"
#include "harness/base/memory.h"

enum { RESULT_BYTES_MAX = 32 << 20 };

/* --- life ------------------------------------------------------------------------------------ */

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t batch_size(const k3_cell_t *cell)
{
    uint64_t row = (uint64_t)cell->model.topk * k3_oracle_slices(cell) * cell->model.latent * 2;
    uint64_t fit = RESULT_BYTES_MAX / row;

    return fit < 1 ? 1 : (fit > K3_ORACLE_BATCH ? K3_ORACLE_BATCH : (uint32_t)fit);
}

static k3_status_t allocate(k3_oracle_t *o, k3_error_t *err)
{
    uint64_t one = o->width, all = (uint64_t)o->batch * o->width;

    if (k3_alloc("oracle: row", one, 2, &o->bits, err) != K3_OK ||
        k3_alloc("oracle: row", one, 2, &o->dense.bits, err) != K3_OK ||
        k3_alloc("oracle: row", one, sizeof(float), &o->dense.row, err) != K3_OK ||
        k3_alloc("oracle: row", one, sizeof(float), &o->want, err) != K3_OK ||
        k3_alloc("oracle: row", one, sizeof(float), &o->got, err) != K3_OK ||
        k3_alloc("oracle: row", one, sizeof(float), &o->term, err) != K3_OK ||
        k3_alloc("oracle: rows", all, sizeof(float), &o->in, err) != K3_OK ||
        k3_alloc("oracle: rows", all, sizeof(float), &o->hidden, err) != K3_OK ||
        k3_alloc("oracle: rows", all, sizeof(double), &o->out, err) != K3_OK ||
        k3_alloc("oracle: rows", all, sizeof(double), &o->out2, err) != K3_OK ||
        k3_alloc("oracle: rows", all, sizeof(float), &o->routed, err) != K3_OK ||
        k3_alloc("oracle: rows", all, sizeof(float), &o->sum, err) != K3_OK ||
        k3_alloc("oracle: rows", all, sizeof(float), &o->total, err) != K3_OK ||
        k3_alloc("oracle: rows", all, 2, &o->combined, err) != K3_OK) {
        return err->status;
    }
    return K3_OK;
}

k3_status_t k3_oracle_create(const k3_cell_t *cell, bool stand_in, k3_oracle_t **oracle_p,
                             k3_error_t *err)
{
    const k3_model_t *m = &cell->model;
    k3_oracle_t      *o;

    *oracle_p = NULL;
    if (k3_alloc("oracle", 1, sizeof(*o), &o, err) != K3_OK) {
        return err->status;
    }
    o->cell = cell;
    o->model = m;
    o->stand_in = stand_in;
    o->batch = batch_size(cell);
    o->width = max_u32(max_u32(m->hidden, m->latent), max_u32(m->shared, m->experts));
    o->dense.source = k3_cell_source(cell);
    k3_oracle_limits(cell, stand_in, &o->limits);
    if (allocate(o, err) != K3_OK ||
        k3_oracle_combine_create(cell, stand_in, o->batch, &o->combine, err) != K3_OK) {
        k3_oracle_destroy(o);
        return err->status;
    }
    *oracle_p = o;
    return K3_OK;
}

void k3_oracle_destroy(k3_oracle_t *o)
{
    if (o == NULL) {
        return;
    }
    k3_oracle_combine_destroy(o->combine);
    k3_free(o->combined);
    k3_free(o->total);
    k3_free(o->sum);
    k3_free(o->routed);
    k3_free(o->out2);
    k3_free(o->out);
    k3_free(o->hidden);
    k3_free(o->in);
    k3_free(o->term);
    k3_free(o->got);
    k3_free(o->want);
    k3_free(o->dense.row);
    k3_free(o->dense.bits);
    k3_free(o->bits);
    k3_free(o);
}

static void wanted_bf16(k3_oracle_t *o, const double *row, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        o->want[i] = (float)k3_oracle_round_bf16(row[i]);
    }
}

/* --- the stages: each over the rows of the batch that have what it needs --------------------- */

static void check_x(k3_oracle_t *o)
{
    const k3_cell_t *cell = o->cell;
    size_t           n = o->model->hidden;

    for (size_t i = 0; i < o->count; i++) {
        if (o->rows[i]->x == NULL) {
            continue;
        }
        memset(o->want, 0, n * sizeof(float));
        for (uint32_t a = 0; a < cell->layout.attn_tp; a++) {
            k3_source_partial(&o->dense.source, o->rows[i]->payload, o->rows[i]->row, a,
                              cell->layout.attn_tp, o->bits);
            for (size_t j = 0; j < n; j++) {
                o->want[j] += k3_oracle_bf16_value(o->bits[j]);
            }
        }
        for (size_t j = 0; j < n; j++) {
            o->want[j] = (float)k3_oracle_round_bf16((double)o->want[j]);
        }
        k3_oracle_bf16_row(o->rows[i]->x, n, o->got);
        k3_oracle_judge(o, i, K3_STAGE_X, n);
    }
}

static void check_logits(k3_oracle_t *o)
{
    size_t picked[K3_ORACLE_BATCH], n = 0, experts = o->model->experts;

    for (size_t i = 0; i < o->count; i++) {
        if (o->rows[i]->x != NULL && o->rows[i]->logits != NULL) {
            picked[n++] = i;
        }
    }
    k3_oracle_dense_load(o->rows, picked, n, o->model->hidden, o->in);
    k3_oracle_dense_run(&o->dense, K3_TENSOR_GATE, k3_oracle_whole(o->model, K3_TENSOR_GATE), n,
                        o->in, o->out, experts);
    for (size_t p = 0; p < n; p++) {
        for (size_t e = 0; e < experts; e++) {
            o->want[e] = (float)o->out[p * experts + e];
        }
        memcpy(o->got, o->rows[picked[p]]->logits, experts * sizeof(float));
        k3_oracle_judge(o, picked[p], K3_STAGE_LOGITS, experts);
    }
}

static double sigmoid_of(const k3_oracle_t *o, const float *logits, int32_t id)
{
    return id < 0 || (uint32_t)id >= o->model->experts ? 0.0
                                                       : 1.0 / (1.0 + exp(-(double)logits[id]));
}

static void check_weights(k3_oracle_t *o)
{
    for (size_t i = 0; i < o->count; i++) {
        const k3_measured_row_t *row = o->rows[i];
        double                   sum = 1e-20;

        if (row->logits == NULL || row->ids == NULL || row->weights == NULL) {
            continue;
        }
        for (uint32_t k = 0; k < o->model->topk; k++) {
            sum += sigmoid_of(o, row->logits, row->ids[k]);
        }
        for (uint32_t k = 0; k < o->model->topk; k++) {
            o->want[k] = (float)(sigmoid_of(o, row->logits, row->ids[k]) / sum);
        }
        memcpy(o->got, row->weights, o->model->topk * sizeof(float));
        k3_oracle_judge(o, i, K3_STAGE_WEIGHTS, o->model->topk);
    }
}

static void check_latent(k3_oracle_t *o)
{
    size_t picked[K3_ORACLE_BATCH], n = 0, latent = o->model->latent;

    for (size_t i = 0; i < o->count; i++) {
        if (o->rows[i]->x != NULL && o->rows[i]->latent != NULL) {
            picked[n++] = i;
        }
    }
    k3_oracle_dense_load(o->rows, picked, n, o->model->hidden, o->in);
    if (o->model->latent_step) {
        k3_oracle_dense_run(&o->dense, K3_TENSOR_LATENT_DOWN,
                            k3_oracle_whole(o->model, K3_TENSOR_LATENT_DOWN), n, o->in, o->out,
                            latent);
    }
    for (size_t p = 0; p < n; p++) {
        if (o->model->latent_step) {
            wanted_bf16(o, o->out + p * latent, latent);
        } else {
            memcpy(o->want, o->in + p * latent, latent * sizeof(float));
        }
        k3_oracle_bf16_row(o->rows[picked[p]]->latent, latent, o->got);
        k3_oracle_judge(o, picked[p], K3_STAGE_LATENT, latent);
    }
}

static bool has_combined(const k3_measured_row_t *row)
{
    return row->latent != NULL && row->ids != NULL && row->weights != NULL && row->combined != NULL;
}

/* Rows without the values are left out by moving them behind the others. */
static void check_combined(k3_oracle_t *o)
{
    size_t all = o->count, n = 0, latent = o->model->latent;

    for (size_t i = 0; i < all; i++) {
        if (has_combined(o->rows[i])) {
            const k3_measured_row_t *row = o->rows[i];
            bool                     wrong = o->wrong[i];

            o->rows[i] = o->rows[n];
            o->wrong[i] = o->wrong[n];
            o->rows[n] = row;
            o->wrong[n++] = wrong;
        }
    }
    k3_oracle_combine_run(o->combine, o->rows, n, o->combined);
    o->count = n;
    for (size_t i = 0; i < n; i++) {
        k3_oracle_bf16_row(o->combined + i * latent, latent, o->want);
        k3_oracle_bf16_row(o->rows[i]->combined, latent, o->got);
        k3_oracle_judge(o, i, K3_STAGE_COMBINED, latent);
    }
    o->count = all;
}

/* --- batches --------------------------------------------------------------------------------- */

static void check_batch(k3_oracle_t *o, const k3_measured_row_t *rows, size_t n, k3_check_t *check)
{
    for (size_t i = 0; i < n; i++) {
        o->rows[i] = &rows[i];
        o->wrong[i] = false;
    }
    o->count = n;
    o->check = check;
    check_x(o);
    check_logits(o);
    check_weights(o);
    check_latent(o);
    check_combined(o);
    k3_oracle_check_output(o);
    check->rows_checked += n;
    for (size_t i = 0; i < n; i++) {
        check->rows_wrong += o->wrong[i];
    }
}

void k3_oracle_check_rows(k3_oracle_t *o, const k3_measured_row_t *rows, size_t n,
                          k3_check_t *check)
{
    for (size_t at = 0; at < n; at += o->batch) {
        check_batch(o, rows + at, n - at < o->batch ? n - at : o->batch, check);
    }
}

void k3_oracle_check(k3_oracle_t *o, const k3_measured_row_t *row, k3_check_t *check)
{
    k3_oracle_check_rows(o, row, 1, check);
}
