/* The fused engine's private parts: what its two protocols share. */
#ifndef K3_ENGINES_FUSED_ENGINE_H
#define K3_ENGINES_FUSED_ENGINE_H

#include <pthread.h>

#include "bench/engines/engine.h"
#include "bench/plan/fused.h"

/* A second thread of the rank that brings rows in while the first one computes. Parked on a condition
 * between calls. It never calls MPI or UCX. */
typedef struct fused_helper {
    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  wake;
    void (*work)(void *arg);
    void *arg;
    bool  exists, asked, quit;
    bool  done; /* atomic: the last job is finished */
} fused_helper_t;

k3_status_t k3_helper_create(fused_helper_t *helper, void (*work)(void *arg), void *arg,
                             k3_error_t *err);
void        k3_helper_destroy(fused_helper_t *helper);
void        k3_helper_run(fused_helper_t *helper);

struct fused_protocol;

typedef struct fused_engine {
    k3_engine_env_t              env;
    const struct fused_protocol *protocol;
    void                        *state; /* of the protocol */
    k3_fused_rows_t              row;
    k3_qps_t                    *qps;
    uint8_t                     *block;
    uint32_t                     rank;
    /* the rows of the present block of an expert */
    const void **values, **scales; /* [K3_FUSED_BLOCK] */
    float       *weights;
    uint16_t   **out;
    uint16_t    *staging; /* [K3_FUSED_BLOCK][W] results */
    /* shared with the helper; the first three are atomic */
    uint64_t       in;     /* rows (experts) that are ready */
    uint64_t       out_of; /* rows that are no longer needed */
    bool           failed;
    k3_error_t     fault;
    uint64_t       last_in; /* ticks: when the last row was in */
    uint64_t       waited;  /* ticks that the helper waited for room */
    fused_helper_t helper;
    /* the present call */
    uint64_t    begin, pushed; /* ticks: its begin, what pushing took */
    bool        pushing;       /* a result was pushed */
    uint64_t    missing;       /* for the watchdog */
    const char *waiting_for;
    /* flags of the present wait, one for each rank or expert; NULL: none are told apart */
    const uint8_t *seen;
    uint32_t       seen_count;
} fused_engine_t;

typedef struct fused_protocol {
    k3_status_t (*create)(fused_engine_t *engine, uint64_t *block_bytes, k3_error_t *err);
    void (*destroy)(fused_engine_t *engine);
    void (*help)(void *engine);
    k3_status_t (*run)(fused_engine_t *engine, const k3_rows_t *rows, k3_expert_fn_t expert,
                       void *arg, uint16_t *combined, k3_error_t *err);
} fused_protocol_t;

extern const fused_protocol_t k3_fused_pull, k3_fused_window;

/* What both protocols do in a call. */
void k3_fused_begin(fused_engine_t *engine);
/* The helper starts; from here on posts belong to the combine, what is read to the dispatch. */
void k3_fused_start_helper(fused_engine_t *engine);
/* Until `in` reaches `want` (of `what`); K3_ERR_CHECK with the helper's fault. */
k3_status_t k3_fused_wait_in(fused_engine_t *engine, uint64_t want, const char *what,
                             k3_error_t *err);
void        k3_fused_push_begin(fused_engine_t *engine);
void        k3_fused_push_end(fused_engine_t *engine);
/* All experts are done and the helper is idle: closes the total `dispatch`. */
k3_status_t k3_fused_all_in(fused_engine_t *engine, k3_error_t *err);
/* The combined rows are complete: closes `combine` and writes down what overlapped. */
void k3_fused_complete(fused_engine_t *engine, uint64_t experts_end);
/* A fault that the helper found. */
void k3_fused_fail(fused_engine_t *engine, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A wait of the main thread for `missing` of something. */
void k3_fused_describe(fused_engine_t *engine, const char *waiting_for, uint64_t missing);

#endif
