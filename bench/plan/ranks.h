/* Geometry of the ranks family: one copy of a row for each rank that holds at least one of its experts.
 * Where each row and each signal lies in the symmetric block and which QP it takes. Used by the plan, by
 * set-up and by the engine.
 *
 *   send       rows as they leave: one record for each row, or packed for each destination [R][M]
 *   recv       rows as they arrive: [source][M], or one compact range of R * M
 *   back_send  results as they leave, or as their origins read them
 *   back_recv  results as they arrive at the origin: by rank [R][M], by position among the K selections
 *              [K][M], or packed for each rank [R][M]
 *   words      signals: dispatch, combine, and for count exchanges and barriers
 *
 * Areas of a profile whose library uses one buffer for both ways lie on top of each other. */
#ifndef K3_PLAN_RANKS_H
#define K3_PLAN_RANKS_H

#include <stdint.h>

#include "bench/plan/cell.h"

typedef enum k3_back_place { /* of a returned row */
                             K3_BACK_BY_RANK,
                             K3_BACK_BY_TOPK,
                             K3_BACK_PACKED,
                             K3_BACK_PULLED /* it stays where it was made and is read from there */
} k3_back_place_t;

#define K3_NO_AREA UINT64_MAX

typedef enum k3_words_kind {
    K3_WORDS_NOTIFY,
    K3_WORDS_DISPATCH,
    K3_WORDS_COMBINE,
    K3_WORDS_BARRIER,
    K3_WORDS_COUNT
} k3_words_kind_t;

typedef struct k3_words {
    uint64_t at; /* offset in the block; K3_NO_AREA: no such signals */
    uint32_t count, bytes;
} k3_words_t;

typedef struct k3_ranks {
    uint32_t experts, local, ranks, topk, width;
    uint64_t m; /* rows bound of a source */
    uint32_t qps, channels;
    uint32_t copies; /* of a row at most: min(R, K) */

    uint64_t record, record_payload; /* a dispatched row */
    uint64_t values_at, scales_at, ids_at, weights_at,
        source_at; /* offsets in it; K3_NO_AREA: none */
    uint32_t id_bytes;
    uint64_t meta_at, meta_bytes;    /* what lies behind values and scales */
    uint64_t result, result_payload; /* a returned row */

    bool            staged; /* some lane is not mapped: rows leave from the block */
    unsigned        sets;   /* of areas that peers write; they alternate with the iterations */
    k3_back_place_t back;
    uint64_t        send, back_send; /* K3_NO_AREA: memory of the engine serves */
    uint64_t        recv[2], back_recv[2];
    k3_words_t      words[K3_WORDS_COUNT];
    uint64_t        counts;  /* count exchange; K3_NO_AREA: none */
    uint64_t        reserve; /* rows reserved in a compact range; K3_NO_AREA: none */

    /* slots `split`: rows of a source before the rest is packed behind all private ranges */
    uint64_t private_rows, shared_rows, unit; /* unit: bytes of a row in either buffer */

    uint64_t buffer; /* bytes by the library's formula */
    uint64_t bytes;  /* of the block: those and the words; K3_TOO_BIG when it does not fit */
} k3_ranks_t;

void k3_ranks_plan(const k3_cell_t *cell, k3_ranks_t *g);

/* Moves words, counts and reservations into a block of their own, which the host polls while rows lie on a
 * device; its bytes. */
uint64_t k3_ranks_part_words(const k3_cell_t *cell, k3_ranks_t *g);

/* The QP of row i of an origin, of the result at `slot` of its source, and of what goes by expert. */
uint32_t k3_ranks_row_qp(const k3_cell_t *cell, const k3_ranks_t *g, uint64_t row, uint64_t slot);
uint32_t k3_ranks_back_qp(const k3_cell_t *cell, const k3_ranks_t *g, uint64_t slot);

static inline uint32_t k3_ranks_expert_qp(const k3_ranks_t *g, uint32_t local_expert)
{
    return local_expert % g->qps;
}

/* Rows go on the last QP where messages have one of their own. */
static inline uint32_t k3_ranks_bulk_qp(const k3_ranks_t *g)
{
    return g->qps > 1 ? 1 : 0;
}

/* A range of n rows is cut into one part for each QP; the last ones may be empty. */
static inline uint64_t k3_ranks_part(const k3_ranks_t *g, uint64_t n, uint32_t qp, uint64_t *first)
{
    uint64_t size = (n + g->qps - 1) / g->qps, at = size * qp;

    *first = at;
    return at >= n ? 0 : (n - at < size ? n - at : size);
}

/* Place of a returned row at its origin, in rows of back_recv. */
static inline uint64_t k3_ranks_back_at(const k3_ranks_t *g, uint32_t rank, uint32_t k,
                                        uint64_t row, uint64_t slot)
{
    uint64_t major = g->back == K3_BACK_BY_TOPK ? k : rank;

    return major * g->m + (g->back == K3_BACK_PACKED ? slot : row);
}

#endif
