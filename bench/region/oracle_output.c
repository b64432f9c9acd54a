/* The wanted output: the combined row normed and projected up, and the shared expert, added once. */
#include <math.h>
#include <string.h>

#include "bench/plan/cell_rows.h"
#include "bench/plan/shared.h"
#include "bench/region/oracle_codec.h"
#include "bench/region/oracle_internal.h"

static const double norm_eps = 1e-5;

/* The measured combined row, normed, as input of the up projection. */
static void norm_row(k3_oracle_t *o, const uint16_t *combined, float *out)
{
    size_t n = o->model->latent;
    double rms;

    k3_oracle_bf16_row(combined, n, out);
    rms = k3_oracle_rms(out, n);
    k3_source_tensor_row(&o->dense.source, K3_TENSOR_LATENT_NORM, 0, 0, (uint32_t)n, o->bits);
    for (size_t i = 0; i < n; i++) {
        out[i] = (float)k3_oracle_round_bf16((double)out[i] / sqrt(rms * rms + norm_eps) *
                                             (double)k3_oracle_bf16_value(o->bits[i]));
    }
}

/* routed[i] for the n rows picked. */
static void make_routed(k3_oracle_t *o, const size_t *picked, size_t n)
{
    size_t latent = o->model->latent, hidden = o->model->hidden;

    if (!o->model->latent_step) {
        for (size_t p = 0; p < n; p++) {
            k3_oracle_bf16_row(o->rows[picked[p]]->combined, hidden,
                               o->routed + picked[p] * hidden);
        }
        return;
    }
    for (size_t p = 0; p < n; p++) {
        norm_row(o, o->rows[picked[p]]->combined, o->in + p * latent);
    }
    k3_oracle_dense_run(&o->dense, K3_TENSOR_LATENT_UP,
                        k3_oracle_whole(o->model, K3_TENSOR_LATENT_UP), n, o->in, o->out, hidden);
    for (size_t p = 0; p < n; p++) {
        for (size_t j = 0; j < hidden; j++) {
            o->routed[picked[p] * hidden + j] = (float)k3_oracle_round_bf16(o->out[p * hidden + j]);
        }
    }
}

/* Adds the part of the shared expert's output that [begin, end) of its intermediate dimension
 * gives, rounded to bf16, to sum. in: x of the rows. */
static void add_shared_part(k3_oracle_t *o, const size_t *picked, size_t n, uint32_t begin,
                            uint32_t end)
{
    uint32_t         hidden = o->model->hidden, width = end - begin;
    k3_oracle_part_t rows = {begin, end, 0, hidden}, columns = {0, hidden, begin, end};

    if (width == 0) {
        return;
    }
    k3_oracle_dense_run(&o->dense, K3_TENSOR_SHARED_GATE, rows, n, o->in, o->out, width);
    k3_oracle_dense_run(&o->dense, K3_TENSOR_SHARED_UP, rows, n, o->in, o->out2, width);
    for (size_t i = 0; i < n * width; i++) {
        o->hidden[i] = (float)k3_oracle_round_bf16(
            k3_oracle_activate(o->model->activation, k3_oracle_round_bf16(o->out[i]),
                               k3_oracle_round_bf16(o->out2[i])));
    }
    k3_oracle_dense_run(&o->dense, K3_TENSOR_SHARED_DOWN, columns, n, o->hidden, o->out, hidden);
    for (size_t p = 0; p < n; p++) {
        for (size_t j = 0; j < hidden; j++) {
            o->sum[picked[p] * hidden + j] += (float)k3_oracle_round_bf16(o->out[p * hidden + j]);
        }
    }
}

static void round_sums(k3_oracle_t *o, const size_t *picked, size_t n, float *sum)
{
    size_t hidden = o->model->hidden;

    for (size_t p = 0; p < n; p++) {
        for (size_t j = 0; j < hidden; j++) {
            float *value = &sum[picked[p] * hidden + j];

            *value = (float)k3_oracle_round_bf16((double)*value);
        }
    }
}

static void clear_sums(k3_oracle_t *o, const size_t *picked, size_t n, float *sum)
{
    for (size_t p = 0; p < n; p++) {
        memset(sum + picked[p] * o->model->hidden, 0, o->model->hidden * sizeof(float));
    }
}

/* sum[i]: the shared expert's output of the rows picked: whole where each rank keeps all of it,
 * else added up over the slices of the ranks in their order. With a reduce-scatter over cp those of
 * the ranks of a cp group are added and rounded first. */
static void make_shared(k3_oracle_t *o, const size_t *picked, size_t n)
{
    const k3_layout_t *l = &o->cell->layout;
    uint32_t           parts = k3_shared_parts(o->cell);
    uint32_t           inner = k3_splits_context(o->cell) ? l->cp : 1;
    size_t             hidden = o->model->hidden;

    clear_sums(o, picked, n, o->total);
    k3_oracle_dense_load(o->rows, picked, n, o->model->hidden, o->in);
    for (uint32_t outer = 0; outer < parts / inner; outer++) {
        uint32_t first =
            inner == 1 ? outer : outer / l->attn_tp * l->cp * l->attn_tp + outer % l->attn_tp;

        clear_sums(o, picked, n, o->sum);
        for (uint32_t c = 0; c < inner; c++) {
            uint32_t begin, end;

            k3_layout_slice(o->model->shared, 16, parts, first + c * l->attn_tp, &begin, &end);
            add_shared_part(o, picked, n, begin, end);
        }
        round_sums(o, picked, n, o->sum);
        for (size_t p = 0; p < n; p++) {
            for (size_t j = 0; j < hidden; j++) {
                o->total[picked[p] * hidden + j] += o->sum[picked[p] * hidden + j];
            }
        }
    }
    round_sums(o, picked, n, o->total);
}

void k3_oracle_check_output(k3_oracle_t *o)
{
    size_t picked[K3_ORACLE_BATCH], n = 0, hidden = o->model->hidden;
    bool   shared = o->model->shared > 0;

    for (size_t i = 0; i < o->count; i++) {
        const k3_measured_row_t *row = o->rows[i];

        if (row->combined != NULL && row->output != NULL && (row->x != NULL || !shared)) {
            picked[n++] = i;
        }
    }
    if (n == 0) {
        return;
    }
    make_routed(o, picked, n);
    if (shared) {
        make_shared(o, picked, n);
    }
    for (size_t p = 0; p < n; p++) {
        size_t at = picked[p] * hidden;

        for (size_t j = 0; j < hidden; j++) {
            float both = shared ? o->routed[at + j] + o->total[at + j] : o->routed[at + j];

            o->want[j] = (float)k3_oracle_round_bf16((double)both);
        }
        k3_oracle_bf16_row(o->rows[picked[p]]->output, hidden, o->got);
        k3_oracle_judge(o, picked[p], K3_STAGE_OUTPUT, hidden);
    }
}
