/* The private parts of the two-hop engine.
 *
 *   rails.c          set-up, dispatch, the engine's table
 *   rails_wait.c     puts and signals with the profile's doorbells, waiting, who of a node holds a row's experts
 *   rails_notify.c   counts ahead of the rows
 *   rails_hop1.c     the origin: records, who gets which row, sends to the other nodes
 *   rails_forward.c  the forwarder: rows of its rail to the ranks of its node
 *   rails_expert.c   the receiver: rows by expert, weighted sums of the own experts
 *   rails_combine.c  the way back: sums of a node, sums over nodes
 *   rails_meta.c     metadata of records, where the host can read and write them
 *   rails_sums.c     sums of results: one at a time, on a device many together
 *   rails_rings*.c   the same two hops over rings whose slots are used again */
#ifndef K3_ENGINES_RAILS_ENGINE_H
#define K3_ENGINES_RAILS_ENGINE_H

#include <string.h>

#include "bench/engines/blocks.h"
#include "bench/engines/holders.h"
#include "bench/plan/rails.h"

/* A row on the list for a node. */
typedef struct rails_send {
    uint32_t row, slot; /* rings: position of the node instead of the slot */
} rails_send_t;

/* A row that this rank forwarded. */
typedef struct rails_passed {
    uint32_t row;      /* of its origin */
    uint16_t parts;    /* ranks of this node that got it */
    uint16_t position; /* of this node among those of the row */
    uint32_t mask;     /* rings: which ranks, by index */
} rails_passed_t;

/* What the experts of a row say about this node. */
typedef struct rails_here {
    uint32_t count;    /* its ranks that hold some of them, ascending */
    uint32_t position; /* of this node among those of the row */
    uint32_t index[K3_TOPK_MAX];
} rails_here_t;

/* A row that arrived, as its record's metadata says; read once, the record's values stay where they are. */
typedef struct rails_row {
    uint32_t source, row; /* origin and its row */
    uint32_t pairs;       /* with experts of this rank */
    uint32_t part;        /* ranks of this node in front of this one that got it */
    uint64_t pair;        /* the first of them */
} rails_row_t;

typedef struct rails_pair {
    uint32_t expert; /* local */
    float    weight;
} rails_pair_t;

typedef struct rails_engine {
    k3_engine_env_t env;
    k3_rails_t      rails;
    k3_qps_t       *qps;
    uint8_t        *block; /* of rows: memory of the compute */
    uint8_t *words; /* of signals and counts, the host's: the same block where rows are too */
    uint32_t rank, node, index; /* index among the ranks of the node */
    bool     soft; /* some rank has lanes that need their peers' progress: k3_engine_finish_span */

    /* as origin */
    k3_holders_t  places, nodes;
    uint32_t     *channel_qp;   /* [channels] of its rows */
    uint32_t     *count_at;     /* [E] word of an expert's rows among the counts that are sent */
    rails_send_t *list;         /* [N][M] */
    uint32_t     *listed;       /* [N] */
    uint32_t     *sent;         /* [N] rows of the list that have left */
    uint32_t     *slot_chunk;   /* [N] last chunk of own rows that the node gets, + 1 */
    uint32_t     *slot_next;    /* [N][1 or channels] next slot; by chunks in the present chunk */
    uint32_t     *flag_next;    /* [N] chunks begun */
    uint32_t     *route_count;  /* [M] nodes that a row's results come back from */
    uint64_t     *route_back;   /* [M][min(N, K)] their places in `returned` */
    uint8_t      *returned;     /* of the block, but for rings */
    uint8_t      *records;      /* [M] own records, of the block but for rings */
    struct rings *rings;        /* NULL: a slot for every row */
    uint32_t     *notify_rows;  /* [R places][1 + L] own counts, as sent: the complement */
    uint64_t     *notify_sums;  /* [n][1 + L] counts of the rail for the ranks of this node */
    uint64_t     *notify_wants; /* [1 + L] what will arrive here */

    /* as forwarder */
    k3_holders_t    here;      /* ranks of this node, by index */
    k3_holders_t    in_front;  /* nodes in front of this one */
    rails_passed_t *passed;    /* [N][slots] */
    uint32_t       *got;       /* [N][chunks or channels] rows seen */
    uint32_t       *got_next;  /* [N] chunks seen, or channels that are complete */
    uint64_t       *forwarded; /* [n] rows to each rank of the node */

    /* as receiver */
    k3_holders_t    before; /* ranks of this node in front of this one, by index */
    uint64_t        rows_cap, pairs_cap;
    uint64_t       *from;             /* [n + 1] records of each forwarder */
    uint64_t        got_count[2];     /* rows and pairs of the present iteration */
    const uint8_t **record;           /* [rows_cap] */
    uint8_t        *copied;           /* [rows_cap] records, where the block is used again */
    uint64_t       *expert_begin;     /* [L + 1] of the pairs of an expert */
    uint64_t       *expert_fill;      /* [L] */
    const void    **values, **scales; /* [pairs_cap] by expert */
    uint16_t      **out;              /* [pairs_cap] by expert */
    uint16_t      **pair_out;         /* [pairs_cap] by record, in the order of its selections */
    rails_row_t    *row;              /* [rows_cap] */
    rails_pair_t   *pair;             /* [pairs_cap] by record, in the order of its selections */
    uint16_t       *results;          /* [pairs_cap][W] */
    uint8_t        *partial;          /* [rows_cap] sums over the own experts, as sent */

    /* on a device: metadata of own rows and of those that are looked at, and sums to be started */
    uint64_t         meta_bytes, meta_cap;
    uint8_t         *own_meta; /* [M] */
    uint8_t         *meta;     /* [meta_cap] */
    uint8_t        **meta_at;  /* [meta_cap] */
    const uint16_t **sum_part; /* [K3_RAILS_SUMS][K] */
    float           *sum_weight;
    uint16_t       **sum_out; /* [K3_RAILS_SUMS] */
    uint32_t         sums;
    /* ... with results that are not bf16: [K3_CODED_SUMS] */
    uint8_t **coded;     /* [K] results that are added, in the order of `plain` */
    uint16_t *plain;     /* [K][W] */
    uint16_t *plain_sum; /* [W] in front of what is sent */
    uint8_t **leaves;    /* where that is sent from */
    uint64_t  coded_count;
    bool      sums_leave; /* those that are listed, in the format of results */

    /* sums in a format other than bf16 */
    uint16_t *decoded; /* [min(K, max(n, N))][W] */
    uint16_t *sum_row;

    /* waiting */
    uint8_t    *seen;    /* [max(n, N)] */
    uint32_t   *wait_qp; /* [max(n, N)] queue pair that brings what is missing */
    uint32_t    wait_count, missing;
    bool        wait_nodes, moved;
    const char *waiting_for;
} rails_engine_t;

enum { K3_RAILS_SUMS = 1024 }; /* that a device starts together */

static inline bool k3_rails_on_device(const rails_engine_t *e)
{
    return e->env.compute->device != NULL;
}

/* --- rails_wait.c --------------------------------------------------------------------------------- */

static inline uint32_t k3_rails_local_rank(const rails_engine_t *e, uint32_t index)
{
    return e->env.cell->rank_at[e->node * e->rails.per_node + index];
}

static inline uint32_t k3_rails_peer(const rails_engine_t *e, uint32_t node)
{
    return e->env.cell->rank_at[node * e->rails.per_node + e->index];
}

/* Posts with the profile's doorbells; `words`: counts and metadata, to where signals lie. */
void k3_rails_put(rails_engine_t *e, uint32_t peer, uint32_t qp, const void *local, uint64_t offset,
                  uint64_t bytes, uint64_t payload);
void k3_rails_put_words(rails_engine_t *e, uint32_t peer, uint32_t qp, const void *local,
                        uint64_t offset, uint64_t bytes);
void k3_rails_signal(rails_engine_t *e, uint32_t peer, uint32_t qp, uint64_t offset,
                     uint64_t value);

/* Reads a signal word of the own block; non-zero words are cleared. */
uint64_t k3_rails_take(rails_engine_t *e, uint64_t offset);

/* Polls until every other node (by_node) or every rank of the own node is done. `poll` says whether
 * number i is, and sets e->moved when it got something done. */
typedef bool (*rails_poll_t)(rails_engine_t *e, uint32_t i, k3_error_t *err);
k3_status_t k3_rails_wait(rails_engine_t *e, const char *what, k3_traffic_phase_t traffic,
                          bool by_node, rails_poll_t poll, k3_error_t *err);

void k3_rails_note_wait(rails_engine_t *e, k3_traffic_phase_t traffic, uint32_t source,
                        uint64_t begin);

void k3_rails_here(rails_engine_t *e, const int32_t *ids, rails_here_t *here);

/* --- rails_meta.c ---------------------------------------------------------------------------- */

k3_status_t k3_rails_meta_create(rails_engine_t *e, k3_error_t *err);
void        k3_rails_meta_destroy(rails_engine_t *e);

/* Metadata of n neighbouring records where the host can read them, `stride` apart; until the next call. */
const uint8_t *k3_rails_read(rails_engine_t *e, uint8_t *records, uint64_t n, uint64_t *stride);
/* Likewise of an own row. */
const uint8_t *k3_rails_own(const rails_engine_t *e, uint32_t row);
/* Values, scales and metadata of the own rows from `first` to `end`, on a device of all; all copies are sent from
 * there. */
k3_status_t k3_rails_quantize(rails_engine_t *e, const k3_rows_t *rows, uint64_t first,
                              uint64_t end, k3_error_t *err);

/* Reads and checks metadata: whose row it is; and `ids` of K experts. */
k3_status_t k3_rails_name(const rails_engine_t *e, const uint8_t *meta, rails_row_t *row,
                          k3_error_t *err);
k3_status_t k3_rails_meta(const rails_engine_t *e, const uint8_t *meta, rails_row_t *row,
                          int32_t *ids, k3_error_t *err);
k3_status_t k3_rails_refuse(const rails_engine_t *e, const rails_row_t *row, int32_t id,
                            k3_error_t *err);

/* The low half of an id, not checked; little endian. */
static inline int32_t k3_rails_id(const k3_rails_t *r, const uint8_t *meta, uint32_t k)
{
    int32_t id;

    memcpy(&id, meta + r->name_bytes + (size_t)k * r->id_bytes, sizeof(id));
    return id;
}

static inline float k3_rails_weight(const k3_rails_t *r, const uint8_t *meta, uint32_t k)
{
    float weight;

    memcpy(&weight, meta + r->name_bytes + (size_t)r->topk * r->id_bytes + k * sizeof(weight),
           sizeof(weight));
    return weight;
}

enum { K3_RAILS_AHEAD = 4 }; /* records whose metadata are on their way from memory */

/* Metadata from number `from` to `to` will be read: they are fetched meanwhile. */
static inline void k3_rails_expect(const rails_engine_t *e, const uint8_t *meta, uint64_t stride,
                                   uint64_t from, uint64_t to)
{
    uint64_t bytes = e->rails.record - e->rails.meta_at;

    for (uint64_t i = from; i < to; i++) {
        k3_block_expect(meta + i * stride, bytes);
    }
}

static inline uint64_t k3_rails_ahead(uint64_t rows)
{
    return rows < K3_RAILS_AHEAD ? rows : K3_RAILS_AHEAD;
}

/* A record that arrived joins those of this iteration, its pairs those of the records before. */
k3_status_t k3_rails_take_row(rails_engine_t *e, const uint8_t *record, const uint8_t *meta,
                              k3_error_t *err);

/* --- the other files ------------------------------------------------------------------------- */

void        k3_rails_list_rows(rails_engine_t *e, const k3_rows_t *rows);
k3_status_t k3_rails_notify(rails_engine_t *e, const k3_rows_t *rows, k3_error_t *err);
/* Brings the rows to their records and sends them, to the other nodes and on the own one. */
k3_status_t k3_rails_send(rails_engine_t *e, const k3_rows_t *rows, k3_error_t *err);

/* Own rows in front of `end` that are for this node and not sent yet. */
k3_status_t k3_rails_forward_own(rails_engine_t *e, uint64_t end, k3_error_t *err);
k3_status_t k3_rails_forward(rails_engine_t *e, k3_error_t *err);

/* Waits for the forwarders of the node and sorts out what they brought. */
k3_status_t k3_rails_receive(rails_engine_t *e, k3_error_t *err);
void        k3_rails_expert(void *engine, uint32_t local_expert, k3_expert_rows_t *work);
/* Rows by expert, when all have arrived. */
k3_status_t k3_rails_sort(rails_engine_t *e, k3_error_t *err);
void        k3_rails_sum_over_nodes(rails_engine_t *e, const k3_rows_t *rows, uint16_t *combined);

k3_status_t k3_rails_combine(rails_engine_t *e, const k3_rows_t *rows, uint16_t *combined,
                             k3_error_t *err);

/* --- rails_sums.c ---------------------------------------------------------------------------- */

/* On a device: their tables. */
k3_status_t k3_rails_sums_create(rails_engine_t *e, k3_error_t *err);
void        k3_rails_sums_destroy(rails_engine_t *e);

/* On a device the weighted sums of all records are made here, in front of the first that is sent. */
k3_status_t k3_rails_partials(rails_engine_t *e, k3_error_t *err);
/* The weighted sum of record i over the own experts, as it is sent. */
const void *k3_rails_partial(rails_engine_t *e, uint64_t i);

/* The sum of `count` results as they were sent, at most K3_TOPK_MAX, in order: as bf16, or as it is sent. On a
 * device it is there when k3_rails_summed returns. */
void k3_rails_sum(rails_engine_t *e, const uint8_t *const *results, uint32_t count, uint16_t *out);
void k3_rails_sum_to_send(rails_engine_t *e, const uint8_t *const *results, uint32_t count,
                          uint8_t *out);
k3_status_t k3_rails_summed(rails_engine_t *e, k3_error_t *err);
void        k3_rails_start_sums(rails_engine_t *e); /* those listed so far */

#endif
