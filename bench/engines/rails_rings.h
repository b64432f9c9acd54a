/* Two hops over rings: the private parts of rails_rings*.c, which extend the two-hop engine.
 *
 *   rails_rings.c           set-up, posting, the loop
 *   rails_rings_notify.c    rows of each channel, counts ahead of the rows
 *   rails_rings_dispatch.c  rows: sender and forwarder of all channels, the loop
 *   rails_rings_receive.c   rows: receiver
 *   rails_rings_combine.c   results and sums, likewise
 *
 * A rank plays all its roles in one loop that never waits for one of them: a full ring stops only its own
 * stream, and what has arrived is taken out of its ring whatever else is stuck. So rings cannot block
 * each other. Words that hand slots back are cleared behind the counts ahead of the rows, when every rank
 * that could still add to them has ended the iteration before. */
#ifndef K3_ENGINES_RAILS_RINGS_H
#define K3_ENGINES_RAILS_RINGS_H

#include "bench/engines/rails_engine.h"
#include "bench/plan/rings.h"

/* One end of a ring: rows put in or taken out so far, of how many. */
typedef struct ring_end {
    uint32_t done, total;
    uint32_t loose; /* done, but not told to the other end yet */
    uint32_t chunk; /* rows of the chunk that is being filled; 0: none */
    bool     known; /* total is */
    bool     over;
} ring_end_t;

/* Rows that one channel brought from one source node by one forwarder, in order. */
typedef struct ring_stream {
    uint32_t first, last, count; /* records, + 1; linked by `next` */
    uint32_t sent, loose;        /* on the way back */
} ring_stream_t;

typedef struct rings {
    k3_rings_t plan;

    uint32_t *list_first;  /* [N][C + 1] the channel's rows in the list of a node */
    uint32_t *part_rows;   /* [N][C][n] own rows for each rank of a node */
    uint32_t *rail_counts; /* [N][rail_words] own counts, as sent: the complement */
    uint32_t *node_counts; /* [n][node_words] counts of the rail, likewise */
    uint8_t  *through;     /* [N][slots] records on their way through unmapped lanes */

    ring_end_t    *send;    /* [N][C] dispatch: own rows to a node; combine: sums to a node */
    ring_end_t    *take;    /* [N][C] dispatch: rows from a node; combine: sums from a node */
    ring_end_t    *inside;  /* [C][n] dispatch: rows to a rank of the node */
    ring_end_t    *arrive;  /* [C][n] dispatch: rows from a rank of the node */
    ring_end_t    *results; /* [C][n][N] combine: results taken from a rank of the node */
    uint32_t      *parts;   /* [C][N] combine: rows summed of a stream */
    uint32_t      *open;    /* [C] dispatch: nodes whose rows are not all passed on */
    ring_stream_t *stream;  /* [C][n][N] */
    uint32_t      *next;    /* [rows_cap] */

    uint32_t *left_nodes; /* [N] streams of a node that are not over */
    uint32_t *left_local; /* [n] of a rank of the node */
    uint32_t  left;       /* of all roles */
    uint64_t  begin;      /* of the present wait */
    bool      moved;
    bool      combines; /* the present loop */
} rings_t;

static inline uint8_t *k3_rings_at(const rails_engine_t *e, uint64_t offset, uint64_t word)
{
    return e->words + offset + word * 4;
}

/* Rings inside the node by channel and rank; their words: start and end for each source node, tail, head. */
static inline uint32_t k3_rings_nvl_index(const rings_t *g, uint32_t channel, uint32_t index)
{
    return channel * g->plan.per_node + index;
}

static inline uint64_t k3_rings_nvl_word(const rings_t *g, uint32_t channel, uint32_t index,
                                         uint32_t word)
{
    return g->plan.nvl_word +
           ((uint64_t)k3_rings_nvl_index(g, channel, index) * g->plan.nvl_words + word) * 4;
}

static inline rails_passed_t *k3_rings_passed(const rails_engine_t *e, uint32_t node,
                                              uint32_t channel)
{
    return e->passed + node * e->rails.slots + channel * e->rails.channel_slots;
}

static inline uint32_t k3_rings_tail_word(const rings_t *g)
{
    return 2 * g->plan.nodes;
}

k3_status_t k3_rings_create(rails_engine_t *e, k3_error_t *err);
void        k3_rings_destroy(rails_engine_t *e);
k3_status_t k3_rings_dispatch(rails_engine_t *e, const k3_rows_t *rows, k3_error_t *err);
void        k3_rings_receive(rails_engine_t *e, k3_error_t *err);
k3_status_t k3_rings_combine(rails_engine_t *e, const k3_rows_t *rows, uint16_t *combined,
                             k3_error_t *err);

void        k3_rings_list_rows(rails_engine_t *e, const k3_rows_t *rows);
k3_status_t k3_rings_notify(rails_engine_t *e, const k3_rows_t *rows, k3_error_t *err);

/* The copies listed so far are done: who gave or gets their slots may go on. */
void k3_rings_copied(rails_engine_t *e);

/* Runs `pass` until no stream is left. */
k3_status_t k3_rings_loop(rails_engine_t *e, const char                                *what,
                          void (*pass)(rails_engine_t *e, k3_error_t *err), k3_error_t *err);

/* A 4-byte add or write with its doorbell. */
void k3_rings_add(rails_engine_t *e, uint32_t peer, uint32_t qp, uint64_t offset, uint32_t value);
void k3_rings_write(rails_engine_t *e, uint32_t peer, uint32_t qp, uint64_t offset, uint32_t value);

/* A slot inside the node is free again: mapped peers are told at once by a store, others by a signal for
 * each `chunk`. `rows` were taken since the last call. */
void k3_rings_give_back(rails_engine_t *e, uint32_t index, uint32_t qp, uint64_t offset,
                        uint32_t rows, uint32_t chunk, uint32_t *loose);

/* For the watchdog: the lane of a stream that does not move. */
typedef struct rings_stuck {
    uint32_t rank, channel, qp;
} rings_stuck_t;

/* In a combine: a rank of the node whose results are missing for a sum. */
bool k3_rings_stuck_sum(const rails_engine_t *e, rings_stuck_t *stuck);

/* One stream of the node or of the rank is over. */
void k3_rings_over(rails_engine_t *e, k3_traffic_phase_t traffic, uint32_t rank, uint32_t *left);

#endif
