/* A machine as a prediction sees it: rates and costs by name, each with its source. Files are
 * results/machines/NAME.ini, or results/local/machine.ini for `local`.
 *
 * A line of a file is
 *
 *     NAME = VALUE | KIND: WHERE FROM
 *
 * with VALUE a number in the unit that the name ends in, or `unknown`, and KIND one of datasheet,
 * published, secondary, measured, decided. A figure that a file does not know is predicted from the
 * model's own constants (bench/plan/predict.h) where there is one, else the terms that need it are
 * left out and named. */
#ifndef K3_PLAN_MACHINE_H
#define K3_PLAN_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "harness/base/status.h"

/* Work of a core on rows while all cores work. */
typedef enum k3_row_work {
    K3_WORK_ENCODE,    /* bf16 rows to the dispatch format; bytes of bf16 */
    K3_WORK_STORE,     /* rows that lie in the core's caches, to a peer's memory */
    K3_WORK_FORWARD,   /* rows that lie anywhere, to a peer's memory */
    K3_WORK_REDUCE,    /* weighted sums of rows that a peer has stored; bytes of them */
    K3_WORK_OWN_STORE, /* the same three within the core's own memory */
    K3_WORK_OWN_FORWARD,
    K3_WORK_OWN_REDUCE,
    K3_WORK_COUNT
} k3_row_work_t;

/* Memory that a core touches until it comes round to the same again, MB: caches serve what is small. Bytes
 * between one row's place and the next, KB: each finds another page where slots are mostly empty. */
enum { K3_WORK_SIZES = 3, K3_WORK_SPREADS = 2, K3_WORK_FIGURES = K3_WORK_SIZES + K3_WORK_SPREADS };
extern const double k3_work_mb[K3_WORK_SIZES], k3_work_kb[K3_WORK_SPREADS];

typedef enum k3_figure {
    /* what a rank has; a rank is a GPU, or a process on a CPU */
    K3_FIG_RANKS_PER_NODE, /* that reach each other by stores (the scale-up domain) */
    K3_FIG_CORES_PER_NODE, /* that the ranks of a node share; 0: each rank has a device of its own */
    K3_FIG_MEMORY_GB,      /* device memory */
    K3_FIG_MEMORY_GBPS,    /* its rate */
    K3_FIG_BF16_TFLOPS,    /* dense */
    K3_FIG_FP8_TFLOPS,
    K3_FIG_FP4_TFLOPS,
    K3_FIG_SCALEUP_GBPS,  /* per rank and direction */
    K3_FIG_SCALEUP_LINKS, /* 0: switched; else the peers that the rate is divided over */
    K3_FIG_NIC_GBPS,      /* per rank and direction */
    K3_FIG_SMS,
    K3_FIG_GEMM_TILE, /* rows and columns of results that operands are brought on chip for together */
    /* costs; measured ones take the place of the model's constants */
    K3_FIG_SCALEUP_LATENCY_US, /* one signal, one way */
    K3_FIG_NETWORK_LATENCY_US,
    K3_FIG_MESSAGE_US, /* posting one message on a queue pair */
    K3_FIG_SIGNAL_US,
    K3_FIG_DOORBELL_US,
    K3_FIG_STORE_MESSAGE_US, /* storing one message to mapped memory, beside its bytes */
    K3_FIG_STORE_SIGNAL_US,
    K3_FIG_STORE_PEAK_GBPS,    /* the fastest that one rank can store at all, in its caches */
    K3_FIG_COPY_GBPS,          /* bytes copied by one rank, read and written counted once */
    K3_FIG_WEIGHTS_GBPS,       /* packed weights that one rank's experts stream */
    K3_FIG_GEMM_GFLOPS,        /* of one rank's experts on many rows */
    K3_FIG_BARRIER_US,         /* of all ranks of the launch that calibrated */
    K3_FIG_SWITCH_US,          /* from a rank that yields to another on the same core */
    K3_FIG_NETWORK_MESSAGE_US, /* where software carries puts to another node: posting one */
    K3_FIG_NETWORK_SIGNAL_US,
    K3_FIG_FINISH_US,      /* ... flush and barrier behind a phase */
    K3_FIG_FINISH_LANE_US, /* ... and what each lane adds to it */
    K3_FIG_LAUNCH_US,      /* fixed cost of a call */
    K3_FIG_EXPERT_US,      /* fixed cost of the experts' calls */
    K3_FIG_FEED_GBPS,      /* operands of a GEMM that reach one SM */
    K3_FIG_UNPACK_GPS, /* 10^9 FP4 weights a second that one SM turns into what its GEMM multiplies, where
                             no FP4 arithmetic does */
    K3_FIG_CALIBRATION_LOAD, /* of the host before it was calibrated, over its cores */
    K3_FIG_QP_MESSAGE_US,    /* one message of a queue pair behind another on the same */
    /* what a core does with rows: for each of k3_row_work_t the cost of a row by k3_work_kb, and the rate
     * of its bytes by k3_work_mb */
    K3_FIG_WORK,
    K3_FIG_WORK_LAST = K3_FIG_WORK + K3_WORK_FIGURES * K3_WORK_COUNT - 1,
    /* shares of the rates above that are reached */
    K3_FIG_SCALEUP_SHARE,
    K3_FIG_NIC_SHARE,
    K3_FIG_MEMORY_SHARE,
    K3_FIG_WEIGHTS_SHARE,
    K3_FIG_GEMM_SHARE,
    K3_FIG_COUNT
} k3_figure_t;

#define K3_FIG_WORK_US(work, spread)                                                               \
    ((k3_figure_t)(K3_FIG_WORK + K3_WORK_FIGURES * (work) + (spread)))
#define K3_FIG_WORK_GBPS(work, size) (K3_FIG_WORK_US(work, K3_WORK_SPREADS + (size)))

typedef enum k3_source_kind {
    K3_FROM_DATASHEET,
    K3_FROM_PUBLISHED,
    K3_FROM_SECONDARY,
    K3_FROM_MEASURED,
    K3_FROM_DECIDED
} k3_source_kind_t;

extern const char *const k3_source_kind_names[];

enum { K3_MACHINE_NAME = 64, K3_MACHINE_TEXT = 160 };

typedef struct k3_machine_figure {
    bool             known;
    double           value;
    k3_source_kind_t kind;
    char             source[K3_MACHINE_TEXT];
} k3_machine_figure_t;

typedef struct k3_machine_file {
    char                name[K3_MACHINE_NAME];
    char                what[K3_MACHINE_TEXT]; /* one line for people */
    k3_machine_figure_t figure[K3_FIG_COUNT];
} k3_machine_file_t;

const char *k3_figure_name(k3_figure_t figure); /* "memory_gbps" */

/* The value, or `otherwise` where the file does not know it. */
double k3_figure(const k3_machine_file_t *machine, k3_figure_t figure, double otherwise);

/* `name`: a name (h200, local, ...), or a path that holds a '/'. K3_ERR_USAGE names the known machines, or
 * file, line and rule. */
k3_status_t k3_machine_read(const char *name, k3_machine_file_t *machine, k3_error_t *err);

/* Calibrated while other programs took time: its rates are theirs too. False: it was not, or the file does not say. */
bool k3_machine_busy(const k3_machine_file_t *machine, char *text, size_t size);

/* Whether `local` has been calibrated here. */
bool k3_machine_has_local(void);

#define K3_MACHINE_LOCAL_FOLDER "results/local"
#define K3_MACHINE_LOCAL        K3_MACHINE_LOCAL_FOLDER "/machine.ini"
/* Cores share the memory as in a run, and each host has a pair whose stores are timed. */
#define K3_MACHINE_MAKE_LOCAL                                                                      \
    "mpirun -np N k3bench doctor --calibrate (N: a rank for each core, at least two on each host)"

void k3_machine_set(k3_machine_file_t *machine, k3_figure_t figure, double value,
                    k3_source_kind_t kind, const char *source);

/* The text of a file that k3_machine_read reads back. */
void k3_machine_print(const k3_machine_file_t *machine, FILE *out);

#endif
