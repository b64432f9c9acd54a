#include "bench/region/oracle.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/plan/buffers.h"
#include "bench/plan/shared.h"
#include "bench/region/oracle_codec.h"
#include "bench/region/oracle_internal.h"
#include "harness/base/memory.h"

/* Rows are worked on in batches, so that a row of a weight is generated once for all of them. */
enum { BATCH_MAX = 32, RESULT_BYTES_MAX = 32 << 20 };

static const double norm_eps = 1e-5;

const char *const k3_stage_names[] = {"x",        "logits", "weights", "latent",
                                      "combined", "output", NULL};

struct k3_oracle {
    bool                 stand_in; /* no codes that could flip */
    const k3_cell_t     *cell;
    const k3_model_t    *model;
    k3_oracle_limits_t   limits;
    k3_oracle_dense_t    dense;
    k3_oracle_combine_t *combine;
    uint32_t             batch;
    uint32_t             width; /* widest row of any stage */
    /* one batch */
    const k3_measured_row_t *rows[BATCH_MAX];
    bool                     wrong[BATCH_MAX];
    size_t                   count;
    k3_check_t              *check;
    /* work space, [batch][width] unless stated */
    uint16_t *bits;           /* [width] one row */
    float    *want, *got;     /* [width] one row */
    float    *term;           /* [width] one row */
    float    *in, *hidden;    /* what a dense layer reads */
    double   *out, *out2;     /* what it gives */
    float    *routed, *total; /* parts of the output */
    float    *sum;            /* of a part of the shared expert */
    uint16_t *combined;       /* wanted combined rows */
};

/* --- life ------------------------------------------------------------------------------------ */

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t batch_size(const k3_cell_t *cell)
{
    uint64_t row = (uint64_t)cell->model.topk * k3_oracle_slices(cell) * cell->model.latent * 2;
    uint64_t fit = RESULT_BYTES_MAX / row;

    return fit < 1 ? 1 : (fit > BATCH_MAX ? BATCH_MAX : (uint32_t)fit);
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

/* --- comparing one row of one stage: want and got hold it ------------------------------------ */

static double capped(double error)
{
    return error < K3_ORACLE_ERROR_MAX ? error : K3_ORACLE_ERROR_MAX; /* NaN too */
}

static double element_error(double want, double got, double rms)
{
    return got == want ? 0.0 : capped(fabs(got - want) / fmax(fabs(want), rms));
}

static double rms_of(const float *row, size_t n)
{
    double sum = 0.0;

    for (size_t i = 0; i < n; i++) {
        sum += (double)row[i] * (double)row[i];
    }
    return sqrt(sum / (double)n);
}

typedef struct comparison {
    double element, row; /* errors */
    size_t at;           /* first element above the tolerance, else the one of the largest error */
} comparison_t;

static comparison_t compare(const float *want, const float *got, size_t n, double tolerance)
{
    comparison_t c = {0};
    double       rms = rms_of(want, n), sum = 0.0;
    bool         found = false;

    for (size_t i = 0; i < n; i++) {
        double error = element_error((double)want[i], (double)got[i], rms);

        sum += got[i] == want[i] ? 0.0 : pow((double)got[i] - (double)want[i], 2.0);
        if (!found && (error > tolerance || error > c.element)) {
            c.at = i;
            found = error > tolerance;
        }
        c.element = fmax(c.element, error);
    }
    c.row = sum == 0.0 ? 0.0 : capped(sqrt(sum / (double)n) / rms);
    return c;
}

static bool is_first(const k3_check_t *check, const k3_measured_row_t *row, k3_stage_t stage)
{
    if (!check->wrong || row->payload != check->first_payload) {
        return !check->wrong || row->payload < check->first_payload;
    }
    return row->row < check->first_row ||
           (row->row == check->first_row && stage < check->first_stage);
}

static bool is_combined_of_another(k3_oracle_t *o, size_t i, char *text)
{
    size_t n = o->model->latent;

    for (size_t other = 0; other < o->count; other++) {
        if (other != i && o->rows[other]->combined != NULL && o->rows[other]->latent != NULL) {
            k3_oracle_bf16_row(o->combined + other * n, n, o->term);
            if (compare(o->term, o->got, n, 0.0).row <= o->limits.row[K3_STAGE_COMBINED]) {
                snprintf(text, K3_DIAGNOSIS_TEXT, "row holds the combined latent row of row %llu",
                         (unsigned long long)o->rows[other]->row);
                return true;
            }
        }
    }
    return false;
}

static void diagnose_combined(k3_oracle_t *o, size_t i, char *text)
{
    size_t                   n = o->model->latent;
    const k3_measured_row_t *row = o->rows[i];

    if (is_combined_of_another(o, i, text)) {
        return;
    }
    for (uint32_t k = 0; k < o->model->topk; k++) {
        if (k3_oracle_combine_term(o->combine, row, i, k, o->term) &&
            k3_oracle_diagnose_term(k, row->ids[k], n, o->want, o->term, o->got, text)) {
            return;
        }
    }
}

static void diagnose(k3_oracle_t *o, size_t i, k3_stage_t stage, size_t n, comparison_t c,
                     char *text)
{
    text[0] = '\0';
    if (k3_oracle_diagnose_row(stage, o->cell->layout.tp, n, o->want, o->got, text)) {
        return;
    }
    if (stage == K3_STAGE_COMBINED) {
        diagnose_combined(o, i, text);
    } else if (stage == K3_STAGE_OUTPUT && o->model->shared > 0) {
        k3_oracle_diagnose_shared(n, o->routed + i * n, o->total + i * n, o->got, text);
    }
    if (text[0] == '\0' && c.element <= o->limits.element[stage]) {
        snprintf(text, K3_DIAGNOSIS_TEXT,
                 "the row as a whole is off by %.2g (limit %.2g): a rounding is missing or added",
                 c.row, o->limits.row[stage]);
    }
}

/* A code of the middle that flips at a value in the tail of its distribution: a little above the limits,
 * and rare. One row and one in a thousand may be so; a rounding that is missing is in most rows. */
static bool is_rare_flip(k3_oracle_t *o, k3_stage_t stage, const comparison_t *c)
{
    const double tail = 1.3;

    if (o->stand_in || stage != K3_STAGE_COMBINED || c->element > tail * o->limits.element[stage] ||
        c->row > tail * o->limits.row[stage]) {
        return false;
    }
    o->check->rows_near++;
    return o->check->rows_near <= 1 + (o->check->rows_checked + o->count) / 1000;
}

/* Judges want against got of row i of the batch. */
static void judge(k3_oracle_t *o, size_t i, k3_stage_t stage, size_t n)
{
    k3_check_t  *check = o->check;
    comparison_t c = compare(o->want, o->got, n, o->limits.element[stage]);

    check->max_error[stage] = fmax(check->max_error[stage], c.element);
    check->max_row_error[stage] = fmax(check->max_row_error[stage], c.row);
    if (stage == K3_STAGE_COMBINED || stage == K3_STAGE_OUTPUT) {
        check->max_rel_err = fmax(check->max_rel_err, c.element);
    }
    if ((c.element <= o->limits.element[stage] && c.row <= o->limits.row[stage]) ||
        is_rare_flip(o, stage, &c)) {
        return;
    }
    o->wrong[i] = true;
    if (!is_first(check, o->rows[i], stage)) {
        return;
    }
    check->wrong = true;
    check->first_row = o->rows[i]->row;
    check->first_payload = o->rows[i]->payload;
    check->first_stage = stage;
    check->first_element = (uint32_t)c.at;
    check->first_want = (double)o->want[c.at];
    check->first_got = (double)o->got[c.at];
    diagnose(o, i, stage, n, c, check->diagnosis);
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
        judge(o, i, K3_STAGE_X, n);
    }
}

/* Measured x of the rows picked, one after another, as input of a dense layer. */
static void load_x(k3_oracle_t *o, const size_t *picked, size_t n)
{
    for (size_t p = 0; p < n; p++) {
        k3_oracle_bf16_row(o->rows[picked[p]]->x, o->model->hidden, o->in + p * o->model->hidden);
    }
}

static void check_logits(k3_oracle_t *o)
{
    size_t picked[BATCH_MAX], n = 0, experts = o->model->experts;

    for (size_t i = 0; i < o->count; i++) {
        if (o->rows[i]->x != NULL && o->rows[i]->logits != NULL) {
            picked[n++] = i;
        }
    }
    load_x(o, picked, n);
    k3_oracle_dense_run(&o->dense, K3_TENSOR_GATE, k3_oracle_whole(o->model, K3_TENSOR_GATE), n,
                        o->in, o->out, experts);
    for (size_t p = 0; p < n; p++) {
        for (size_t e = 0; e < experts; e++) {
            o->want[e] = (float)o->out[p * experts + e];
        }
        memcpy(o->got, o->rows[picked[p]]->logits, experts * sizeof(float));
        judge(o, picked[p], K3_STAGE_LOGITS, experts);
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
        judge(o, i, K3_STAGE_WEIGHTS, o->model->topk);
    }
}

static void check_latent(k3_oracle_t *o)
{
    size_t picked[BATCH_MAX], n = 0, latent = o->model->latent;

    for (size_t i = 0; i < o->count; i++) {
        if (o->rows[i]->x != NULL && o->rows[i]->latent != NULL) {
            picked[n++] = i;
        }
    }
    load_x(o, picked, n);
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
        judge(o, picked[p], K3_STAGE_LATENT, latent);
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
        judge(o, i, K3_STAGE_COMBINED, latent);
    }
    o->count = all;
}

/* --- output ---------------------------------------------------------------------------------- */

/* The measured combined row, normed, as input of the up projection. */
static void norm_row(k3_oracle_t *o, const uint16_t *combined, float *out)
{
    size_t n = o->model->latent;
    double rms;

    k3_oracle_bf16_row(combined, n, out);
    rms = rms_of(out, n);
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
    load_x(o, picked, n);
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

static void check_output(k3_oracle_t *o)
{
    size_t picked[BATCH_MAX], n = 0, hidden = o->model->hidden;
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
        judge(o, picked[p], K3_STAGE_OUTPUT, hidden);
    }
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
    check_output(o);
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

void k3_check_merge(k3_check_t *check, const k3_check_t *other)
{
    k3_measured_row_t first = {.row = other->first_row, .payload = other->first_payload};
    k3_check_t        merged =
        other->wrong && is_first(check, &first, other->first_stage) ? *other : *check;

    merged.rows_checked = check->rows_checked + other->rows_checked;
    merged.rows_near = check->rows_near + other->rows_near;
    merged.rows_wrong = check->rows_wrong + other->rows_wrong;
    merged.wrong = check->wrong || other->wrong;
    merged.max_rel_err = fmax(check->max_rel_err, other->max_rel_err);
    for (int s = 0; s < K3_STAGE_COUNT; s++) {
        merged.max_error[s] = fmax(check->max_error[s], other->max_error[s]);
        merged.max_row_error[s] = fmax(check->max_row_error[s], other->max_row_error[s]);
    }
    *check = merged;
}
