/* The ranks engine's private parts. */
#ifndef K3_ENGINES_RANKS_ENGINE_H
#define K3_ENGINES_RANKS_ENGINE_H

#include "bench/engines/engine.h"
#include "bench/engines/holders.h"
#include "bench/plan/ranks.h"

/* One copy of an own row: who gets it, its number among this rank's rows there, the first of the K
 * selections that asks for it. */
typedef struct ranks_target {
    uint32_t rank, slot, k;
} ranks_target_t;

/* A row that arrived: its (row, expert) pairs lie one after another. */
typedef struct ranks_row {
    uint32_t source, row; /* of the source */
    uint32_t slot;        /* among the source's rows here; in a compact range its place there */
    uint32_t pairs;
    uint64_t pair;
} ranks_row_t;

typedef struct ranks_pair {
    uint32_t expert; /* local */
    uint32_t k;
    float    weight;
} ranks_pair_t;

typedef struct ranks_engine {
    k3_engine_env_t env;
    k3_ranks_t      g;
    k3_qps_t       *qps;
    uint8_t        *block; /* of rows: memory of the compute */
    uint8_t *words; /* of signals and counts, the host's: the same block where rows are too */
    uint32_t rank;
    unsigned set;             /* of the areas in use */
    uint64_t round, barriers; /* iterations, barriers so far */
    bool     packs;           /* rows of a rank leave together */
    bool     soft;            /* some rank has lanes that need their peers' progress */

    /* the origin's side */
    /* On a device metadata of records are written and read here. */
    uint8_t  *meta;      /* [own rows or cap] */
    uint8_t **meta_at;   /* likewise: where they belong */
    uint64_t *meta_from; /* [R] the first of each source */

    uint8_t *send,
        *own_send;           /* records as they leave; own_send: not in the block, of the compute */
    k3_holders_t    holders; /* ranks */
    uint32_t       *first_k; /* [R + 1] of a row's selections, the first that each rank holds */
    ranks_target_t *target;  /* [own rows][copies] */
    uint32_t       *targets; /* [own rows] */
    const void    **leaves;  /* [R][own rows] where they are packed: the rows for each rank */
    uint32_t       *next;    /* [R] rows for each rank */
    uint32_t       *expert_rows; /* [E] rows for each expert */
    uint64_t       *base;        /* [R] where this rank's rows begin at each peer */
    int64_t        *announced;   /* [R][1 + local] counts as sent */

    /* the experts' side */
    uint32_t     *counts; /* [R] rows that came from each source */
    uint64_t      announced_pairs;
    uint64_t      cap, rows_here, pairs_here; /* cap of both: what the routing brings */
    ranks_row_t  *row;                        /* [cap] */
    ranks_pair_t *pair;                       /* [cap] */
    uint64_t     *begin;                      /* [local + 1] */
    uint64_t     *fill;                       /* [local] */
    const void  **values, **scales;           /* [cap] by expert */
    uint16_t    **out;
    uint8_t      *results; /* [cap] of the experts, by pair */
    uint64_t      result_stride;
    uint8_t      *own_results;

    /* the way back */
    uint8_t *back; /* results as they leave; one record of the engine's when nothing needs more */
    uint8_t
        *own_back; /* memory of the compute, as what is pulled; on a device one for each row here */
    uint16_t *partial; /* [W] */
    uint8_t  *pulled;  /* [copies] results; on a device of all rows */
    uint16_t *part;    /* [copies][W] */
    /* Of one row; on a device of all rows, either way. */
    const uint16_t **parts;   /* [K] */
    float           *weights; /* [K] */
    uint16_t       **sums;    /* on a device: [cap] where sums go */
    /* On a device, of results that are not bf16: [rows here, or results that come back]. */
    uint16_t *plain; /* [W] each */
    uint8_t **coded; /* where they lie */

    struct packed_rows *packed; /* slots split: ranks_packed.c */

    /* waiting */
    uint64_t   *kept; /* value of each word when it was seen */
    uint8_t    *seen;
    uint32_t    wait_words, wait_div, wait_qp;
    uint64_t    missing; /* for the watchdog */
    const char *waiting_for;
} ranks_engine_t;

/* --- ranks_wait.c ---------------------------------------------------------------------------- */

/* A wait for all words of one kind: word i belongs to source i / div, or i % R where div is 0. */
typedef struct ranks_wait {
    const k3_words_t  *words;
    uint32_t           div;
    uint32_t           qp;    /* that brings the words, where a source has one of them */
    unsigned           shift; /* a word is seen when (value >> shift) >= want */
    uint64_t           want;
    const uint32_t    *wants; /* instead, for each word */
    bool               clear; /* zero when seen */
    k3_traffic_phase_t phase; /* whose waits */
    const char        *what;
} ranks_wait_t;

k3_status_t k3_ranks_wait(ranks_engine_t *e, const ranks_wait_t *wait, k3_error_t *err);

/* All posts of all ranks before it are complete where they go. `flush`: this rank's first. */
k3_status_t k3_ranks_barrier(ranks_engine_t *e, k3_traffic_phase_t phase, bool flush,
                             k3_error_t *err);

/* One signal of the profile's kind and width. */
void k3_ranks_signal(ranks_engine_t *e, uint32_t peer, uint32_t qp, const k3_words_t *words,
                     uint32_t word, uint64_t value, bool add);

/* --- ranks_records.c ------------------------------------------------------------------------- */

/* Notes where each row goes and counts. */
void k3_ranks_list_rows(ranks_engine_t *e, const k3_rows_t *rows);
/* Brings the rows from `first` to `end` to their records; on a device all rows. */
k3_status_t k3_ranks_encode(ranks_engine_t *e, const k3_rows_t *rows, uint64_t first, uint64_t end,
                            k3_error_t *err);

/* Reads what arrived and sorts it by expert. */
k3_status_t k3_ranks_index(ranks_engine_t *e, k3_error_t *err);

/* An own row's record. Where rows are packed for each rank, that of the own rank is not needed for it. */
static inline uint8_t *k3_ranks_record(const ranks_engine_t *e, uint64_t row)
{
    return e->send + ((e->packs ? e->rank * e->g.m : 0) + row) * e->g.record;
}

static inline bool k3_ranks_on_device(const ranks_engine_t *e)
{
    return e->env.compute->device != NULL;
}

/* --- ranks_compact.c ------------------------------------------------------------------------- */

/* Places for the rows of this rank in the ranges of all ranks. */
k3_status_t k3_ranks_reserve(ranks_engine_t *e, k3_error_t *err);
/* Rows that were announced to this rank, and the place of the i-th of them. */
uint64_t k3_ranks_compact_rows(const ranks_engine_t *e);
uint64_t k3_ranks_compact_place(const ranks_engine_t *e, uint64_t i);

/* --- ranks_dispatch.c, ranks_combine.c ------------------------------------------------------- */

k3_status_t k3_ranks_dispatch(void *engine, const k3_rows_t *rows, k3_error_t *err);
k3_status_t k3_ranks_combine(void *engine, const k3_rows_t *rows, uint16_t *combined,
                             k3_error_t *err);
/* Drains each QP of each peer and writes its flag, one more than the rows that went to the peer. */
void k3_ranks_flag_parts(ranks_engine_t *e, const k3_words_t *words, const uint32_t *rows,
                         k3_error_t *err);

/* --- ranks_packed.c -------------------------------------------------------------------------- */

k3_status_t k3_packed_create(ranks_engine_t *e, k3_error_t *err);
void        k3_packed_destroy(ranks_engine_t *e);
k3_status_t k3_packed_dispatch(ranks_engine_t *e, const k3_rows_t *rows, k3_error_t *err);
void        k3_packed_expert(ranks_engine_t *e, uint32_t local_expert, k3_expert_rows_t *work);
k3_status_t k3_packed_combine(ranks_engine_t *e, const k3_rows_t *rows, uint16_t *combined,
                              k3_error_t *err);

#endif
