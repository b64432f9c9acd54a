/* What the files of the oracle share. Floats here are exact values of f32 or bf16; sums are f32
 * within 32 products and f64 beyond, so that the order of a measured sum is the only difference. */
#ifndef K3_REGION_ORACLE_INTERNAL_H
#define K3_REGION_ORACLE_INTERNAL_H

#include "bench/cell/source.h"
#include "bench/region/oracle.h"

/* --- oracle_dense.c: sums and dense layers --------------------------------------------------- */

double k3_oracle_dot32(const float *a, const float *b); /* 32 products */
double k3_oracle_dot(const float *a, const float *b, size_t n);

/* Activation of an expert in f64. */
double k3_oracle_activate(k3_activation_t activation, double gate, double up);

typedef struct k3_oracle_dense {
    k3_source_t source;
    uint16_t   *bits; /* one row of a tensor */
    float      *row;
} k3_oracle_dense_t;

typedef struct k3_oracle_part { /* of a tensor */
    uint32_t row_begin, row_end, column_begin, column_end;
} k3_oracle_part_t;

k3_oracle_part_t k3_oracle_whole(const k3_model_t *model, k3_tensor_t tensor);

/* Measured x of the n rows picked, one after another, as input of a dense layer. */
void k3_oracle_dense_load(const k3_measured_row_t *const *rows, const size_t *picked, size_t n,
                          size_t hidden, float *x);

/* out[i * stride + r] = dot(x[i], row row_begin + r) for n vectors of column_end - column_begin. */
void k3_oracle_dense_run(k3_oracle_dense_t *dense, k3_tensor_t tensor, k3_oracle_part_t part,
                         size_t n, const float *x, double *out, size_t stride);

/* --- oracle_expert.c: the routed experts ----------------------------------------------------- */

typedef struct k3_oracle_expert k3_oracle_expert_t;

k3_status_t k3_oracle_expert_create(const k3_source_t *source, const k3_recipe_t *recipe,
                                    uint32_t max_rows, k3_oracle_expert_t **expert_p,
                                    k3_error_t *err);
void        k3_oracle_expert_destroy(k3_oracle_expert_t *expert);

/* The slice [begin, end) of the intermediate dimension of one expert, applied to n rows that the
 * recipe's input rounding has already been applied to; weights[i] multiplies the activation of row i;
 * y: L bf16 values each. */
void k3_oracle_expert_run(k3_oracle_expert_t *work, uint32_t expert, uint32_t begin, uint32_t end,
                          size_t n, const float *const *x, const float *weights,
                          uint16_t *const *y);

/* --- oracle_combine.c: wanted combined rows -------------------------------------------------- */

typedef enum k3_oracle_rule {
    K3_RULE_ORIGIN, /* bf16 of the weighted sum over k in f32 */
    K3_RULE_SLOTS,  /* the experts apply the weights, bf16 of the plain sum over k in f32 */
    K3_RULE_RANKS,  /* each rank rounds its part of it, then the parts are added in rank order */
    K3_RULE_NODES, /* as ranks, but each node adds and rounds the parts of its ranks, then the nodes'
                       parts are added in node order */
    K3_RULE_NOTHING /* nothing moves: zero rows */
} k3_oracle_rule_t;

typedef struct k3_oracle_combine k3_oracle_combine_t;

k3_status_t k3_oracle_combine_create(const k3_cell_t *cell, bool stand_in, uint32_t max_rows,
                                     k3_oracle_combine_t **combine_p, k3_error_t *err);
void        k3_oracle_combine_destroy(k3_oracle_combine_t *combine);

k3_oracle_rule_t k3_oracle_combine_rule(const k3_cell_t *cell);
uint32_t         k3_oracle_slices(const k3_cell_t *cell); /* parts of an expert: moe_tp for ranks */

/* Wanted rows [n][L] for measured latent rows, ids and weights; n <= max_rows. */
void k3_oracle_combine_run(k3_oracle_combine_t *combine, const k3_measured_row_t *const *rows,
                           size_t n, uint16_t *want);

/* After a run: weight times output (what the sum adds) of selection k of row i, [L] f32, where the run computed it and
 * the rule adds it unbroken; false otherwise. */
bool k3_oracle_combine_term(const k3_oracle_combine_t *combine, const k3_measured_row_t *row,
                            size_t i, uint32_t k, float *term);

/* --- oracle_cache.c: wanted rows that are known already -------------------------------------- */

typedef struct k3_oracle_key {
    uint64_t a, b;
} k3_oracle_key_t;

void k3_oracle_key_add(k3_oracle_key_t *key, const void *data, size_t bytes);
bool k3_oracle_cache_get(k3_oracle_key_t key, size_t n, uint16_t *row);
void k3_oracle_cache_put(k3_oracle_key_t key, size_t n, const uint16_t *row);

/* --- oracle_tolerance.c ---------------------------------------------------------------------- */

typedef struct k3_oracle_limits {
    double element[K3_STAGE_COUNT], row[K3_STAGE_COUNT];
} k3_oracle_limits_t;

void k3_oracle_limits(const k3_cell_t *cell, bool stand_in, k3_oracle_limits_t *limits);

/* --- oracle_diagnosis.c: what kind of wrong a row is ----------------------------------------- */

enum { K3_DIAGNOSIS_TEXT = sizeof(((k3_check_t *)0)->diagnosis) };

/* How `got` follows from `base + factor * part`: the best factor and what it leaves over, relative
 * to got - base. `base` NULL: zero. */
double k3_oracle_fit(size_t n, const float *base, const float *part, const float *got,
                     double *rest);

/* True with a text when the row is all zero, holds no numbers or is a multiple of the wanted row.
 */
bool k3_oracle_diagnose_row(k3_stage_t stage, uint32_t tp, size_t n, const float *want,
                            const float *got, char *text);
/* True with a text when one selection is missing or was added twice. */
bool k3_oracle_diagnose_term(uint32_t k, int32_t expert, size_t n, const float *want,
                             const float *term, const float *got, char *text);
/* The same for the shared expert's part of the output. */
bool k3_oracle_diagnose_shared(size_t n, const float *routed, const float *shared, const float *got,
                               char *text);

/* --- oracle.c: the rows at hand ---------------------------------------------------------------- */

/* Rows are worked on in batches, so that a row of a weight is generated once for all of them. */
enum { K3_ORACLE_BATCH = 32 };

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
    const k3_measured_row_t *rows[K3_ORACLE_BATCH];
    bool                     wrong[K3_ORACLE_BATCH];
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

/* --- oracle_judge.c: comparing one row of one stage -------------------------------------------- */

double k3_oracle_rms(const float *row, size_t n);

/* Judges want against got, n values of a stage of row i of the batch. */
void k3_oracle_judge(k3_oracle_t *oracle, size_t i, k3_stage_t stage, size_t n);

/* --- oracle_output.c: the last stage ----------------------------------------------------------- */

void k3_oracle_check_output(k3_oracle_t *oracle);

#endif
