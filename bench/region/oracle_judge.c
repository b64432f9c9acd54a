/* One row of one stage: the wanted values against the measured ones, and what is said of a wrong row. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/region/oracle_codec.h"
#include "bench/region/oracle_internal.h"

static double capped(double error)
{
    return error < K3_ORACLE_ERROR_MAX ? error : K3_ORACLE_ERROR_MAX; /* NaN too */
}

static double element_error(double want, double got, double rms)
{
    return got == want ? 0.0 : capped(fabs(got - want) / fmax(fabs(want), rms));
}

double k3_oracle_rms(const float *row, size_t n)
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
    double       rms = k3_oracle_rms(want, n), sum = 0.0;
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
void k3_oracle_judge(k3_oracle_t *o, size_t i, k3_stage_t stage, size_t n)
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
