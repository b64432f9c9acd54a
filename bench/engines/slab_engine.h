/* The slab engine's private parts: slab.c and its control. */
#ifndef K3_ENGINES_SLAB_ENGINE_H
#define K3_ENGINES_SLAB_ENGINE_H

#include "bench/engines/engine.h"
#include "bench/plan/slab.h"

/* Where the rows for an expert go; computed once. */
typedef struct slab_target {
    uint64_t offset; /* of this rank's records in either receive area */
    int      peer;
    unsigned qp;
} slab_target_t;

typedef struct slab_engine {
    k3_engine_env_t  env;
    k3_slab_t        slab;
    k3_qps_t        *qps;
    uint8_t         *block;
    unsigned         half; /* of the next call */
    uint32_t         rank;
    slab_target_t   *target;   /* [E] */
    uint32_t        *next;     /* [E] slots used at each expert */
    uint32_t        *arrived;  /* [local][R] rows of the present dispatch */
    uint8_t         *seen;     /* [max(local * R, E)] signals seen in the present wait */
    uint64_t         rows_cap; /* entries of the next three */
    const void     **values, **scales;
    uint16_t       **out;
    bool             soft;    /* some rank has lanes that need their peers' progress: finish_span */
    struct slab_raw *raw;     /* the control's posts; NULL: another component */
    uint64_t         missing; /* signals not seen yet, for the watchdog */
    const char      *waiting_for;
} slab_engine_t;

/* Polls the E words of the half in use until each is non-zero, and keeps the counts. */
k3_status_t k3_slab_wait(slab_engine_t *engine, const uint8_t *words, bool dispatch,
                         k3_error_t *err);

/* The control: the posts of a dispatch as a flat list, made at set-up. */
k3_status_t k3_slab_control_create(slab_engine_t *engine, k3_error_t *err);
void        k3_slab_control_destroy(slab_engine_t *engine);
k3_status_t k3_slab_control(void *engine, const k3_rows_t *rows, k3_error_t *err);

#endif
