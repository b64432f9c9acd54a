/* What the files of the prediction share. */
#ifndef K3_PLAN_PREDICT_INTERNAL_H
#define K3_PLAN_PREDICT_INTERNAL_H

#include "bench/plan/cell_rows.h"
#include "bench/plan/predict.h"

typedef struct k3_predict_model {
    const k3_cell_t  *cell;
    const k3_loads_t *loads;
    k3_prediction_t  *out;
    double            f[K3_FIG_COUNT];
    bool              shares_cores;
    double            crowd; /* ranks for each core, at least 1 */
} k3_predict_model_t;

/* What a rank sends and receives in a dispatch, its counts included, or in a combine. */
typedef struct k3_predict_sides {
    k3_load_t out, in;
} k3_predict_sides_t;

/* What a prediction of the cell starts from; `out` gets its times. */
void k3_predict_open(const k3_cell_t *cell, const k3_loads_t *loads,
                     const k3_machine_file_t *machine, k3_prediction_t *out, k3_predict_model_t *m);

/* predict_sides.c */
k3_predict_sides_t k3_predict_sides(const k3_predict_model_t *m, bool combine, uint32_t i);

/* Signals that answer each other. */
double k3_predict_latency(const k3_predict_model_t *m, bool combine, const k3_predict_sides_t *s);

static inline double k3_predict_nic_wire(const k3_load_t *l)
{
    return l->wire[K3_CLASS_NODE] + l->wire[K3_CLASS_NETWORK];
}

/* us of `bytes` at GB/s (or of operations at GFLOPS); nothing where the rate is not known. */
static inline double k3_at_rate(double bytes, double gbps)
{
    return gbps > 0 ? bytes / gbps * 1e-3 : 0.0;
}

/* Dense arithmetic on operands of `bits` each, whose peak is `tflops`: GFLOPS that are reached. */
double k3_predict_gemm_gflops(const k3_predict_model_t *m, double tflops, double bits);

/* ... over the peak, of the cell's experts and of dense layers. */
double k3_predict_expert_share(const k3_predict_model_t *m);
double k3_predict_dense_share(const k3_predict_model_t *m);

/* The rank that load `i` is of. */
static inline uint32_t k3_predict_rank(const k3_predict_model_t *m, uint32_t i)
{
    return m->loads->expected ? k3_expected_origin(m->cell, i) : i;
}

/* Dispatch or combine of one rank where ranks share cores, the least time of the phase's stores, and a rank's
 * terms together. */
void   k3_predict_cpu_phase(const k3_predict_model_t *m, bool combine, uint32_t i,
                            double term[K3_TERM_COUNT]);
double k3_predict_cpu_least(const k3_predict_model_t *m, k3_predicted_phase_t phase);
double k3_predict_cpu_together(const double term[K3_TERM_COUNT]);

/* Terms of one rank. */
void k3_predict_experts(const k3_predict_model_t *m, uint32_t i, double term[K3_TERM_COUNT]);
void k3_predict_dense(const k3_predict_model_t *m, uint32_t i, double term[K3_TERM_COUNT]);
void k3_predict_exchange(const k3_predict_model_t *m, uint32_t i, double term[K3_TERM_COUNT]);

#endif
