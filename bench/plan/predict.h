/* Times that a plan leads to expect on a machine, from a mechanistic model: each phase is a fixed cost, the
 * latency of its hops, and the largest of what goes on at the same time on a GPU (issuing messages, the
 * busiest queue pair, scale-up link, NIC, memory); on a CPU, where one core does all of it, their sum, and
 * the ranks of a node share its cores. BENCHMARKS.md has the formulas.
 *
 * Costs that a machine file does not know come from one table of constants, which have a physical meaning and
 * are the same for all backends and machines; they were calibrated on published numbers
 * (scripts/bench-predict.sh). */
#ifndef K3_PLAN_PREDICT_H
#define K3_PLAN_PREDICT_H

#include "bench/plan/load.h"
#include "bench/plan/machine.h"

typedef enum k3_term {
    K3_TERM_FIXED,   /* starting a call and its barrier over the device */
    K3_TERM_LATENCY, /* hops that follow each other, signal included */
    K3_TERM_ISSUE,   /* posting messages, signals and doorbells */
    K3_TERM_QP,      /* the busiest queue pair works off its messages one by one */
    K3_TERM_SCALEUP,
    K3_TERM_NIC,
    K3_TERM_MEMORY,  /* packing, quantising, reducing: bytes read and written */
    K3_TERM_WEIGHTS, /* streaming the experts that have a row */
    K3_TERM_DENSE,   /* streaming the weights of router, projections and shared expert */
    K3_TERM_GEMM,
    K3_TERM_UNPACK, /* turning packed weights into what the GEMM multiplies, where the arithmetic cannot */
    K3_TERM_COUNT
} k3_term_t;

extern const char *const k3_term_names[]; /* "fixed cost", "latency", ..., "NIC wire", ... */

typedef enum k3_predicted_phase {
    K3_PREDICT_DISPATCH,
    K3_PREDICT_EXPERTS,
    K3_PREDICT_COMBINE,
    K3_PREDICT_DENSE,    /* router, latent down and up, shared expert */
    K3_PREDICT_EXCHANGE, /* collectives around the region */
    K3_PREDICT_PAIR,     /* dispatch + combine */
    K3_PREDICT_MOE,    /* dispatch, experts and combine, overlapped where the backend fuses them */
    K3_PREDICT_REGION, /* that, dense layers and exchange */
    K3_PREDICT_COUNT
} k3_predicted_phase_t;

extern const char *const k3_predicted_names[];

typedef struct k3_prediction_phase {
    bool   known; /* false: the phase does not exist, or a figure is missing */
    double us, low, high;
    double limit_us; /* the busiest link or memory at its full rate alone: no time can be below */
    k3_term_t bound; /* the largest term */
    k3_term_t limit_by;
    double    term[K3_TERM_COUNT]; /* us, of the slowest rank */
} k3_prediction_phase_t;

typedef struct k3_prediction {
    k3_prediction_phase_t phase[K3_PREDICT_COUNT];
    char missing[160]; /* figures that the machine file does not know and that matter */
} k3_prediction_t;

/* The value of a figure: the machine's, else the model's constant, else 0. */
double k3_predict_figure(const k3_machine_file_t *machine, k3_figure_t figure);

/* Pure arithmetic on the cell's loads. */
void k3_predict(const k3_cell_t *cell, const k3_loads_t *loads, const k3_machine_file_t *machine,
                k3_prediction_t *prediction);

#endif
