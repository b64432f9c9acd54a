/* Geometry of the two-hop family with a slot for every row (no rings): where records, results and
 * signals lie in the symmetric block, which QP carries what. Used by the plan, by set-up and by the
 * engine.
 *
 * A row goes from its origin to the rank with the same local index on each node that holds one of
 * its experts (hop 1; on the own node the origin itself), and from there to each rank of that node
 * that does (hop 2). Results take the same way back; each node's are added up where the row arrived.
 *
 *   send      [M] records of the own rows
 *   hop1      [N][slots] records by source node; by chunks the slots of a chunk are neighbours, by
 *             channels each channel has its share of the slots
 *   receive   [n][N * M] records by forwarding rank, running index
 *   arrive    [N * M][min(n, K)] results of own-node ranks by (source node, row), in rank order
 *   staging   [N][slots] sums of the own node, slots as in hop 1
 *   returned  [N][M] by slot of hop 1, or [min(N, K)][M] by (position of the node, row)
 *
 * Sizes: MoRI dispatch_combine.hpp; DeepEP V2 deep_ep buffer.hpp. There the areas of combine lie over
 * those of dispatch, but for `returned`, into which other nodes store without having heard that this
 * rank is done with what it received; received records are copied out. */
#ifndef K3_PLAN_RAILS_H
#define K3_PLAN_RAILS_H

#include <stdint.h>

#include "bench/plan/cell.h"

typedef struct k3_rails {
    uint32_t ranks, nodes, per_node, local, experts, topk, qps;
    uint64_t m;        /* rows bound of a source */
    uint32_t chunk;    /* rows of a source that share a flag; 0: by channels */
    uint32_t chunks;   /* of a source, at most */
    uint32_t channels; /* 0: by chunks */
    uint64_t channel_slots;
    uint64_t slots;                  /* of one source node in hop 1 */
    uint32_t parts, nodes_of_row;    /* min(n, K), min(N, K) */
    uint32_t name_bytes, id_bytes;   /* of the source and of an expert's number in a record */
    uint64_t record, record_payload; /* as posted, and values with scales */
    uint64_t scales_at, meta_at;     /* in a record; metadata: source, ids, weights */
    uint64_t result, result_payload;
    bool     copies_out; /* received records leave the block: their slots are used again */

    /* offsets in the block */
    uint64_t send, hop1, receive, arrive, staging, returned;
    uint64_t flags;    /* [N][chunks or channels] words of hop 1 */
    uint64_t ends;     /* [N] end markers */
    uint64_t counts;   /* [n] rows that a rank of the node has forwarded, + 1 */
    uint64_t ready;    /* [n] ranks of the node that take results */
    uint64_t results;  /* [n] results of the ranks of the node */
    uint64_t closing;  /* [N] (by chunks) or [N][channels] */
    uint64_t rail_row; /* [N][n (1 + L)] 4-byte counts; only with notify */
    uint64_t row;      /* [1 + L] sums of the counts for this rank */
    uint64_t buffer;   /* bytes by upstream's formula */
    uint64_t bytes;    /* of the block; K3_TOO_BIG when it does not fit in 64 bits */
} k3_rails_t;

void k3_rails_plan(const k3_cell_t *cell, k3_rails_t *rails);

/* Moves the signals and counts into a block of their own, which the host polls while rows lie on a device; its
 * bytes. */
uint64_t k3_rails_part_words(const k3_cell_t *cell, k3_rails_t *rails);

/* Ranks (as places, ascending) that hold experts of a row; ids of -1 are left out. Returns how many;
 * `places` holds K3_TOPK_MAX. */
uint32_t k3_rails_places(const k3_cell_t *cell, const int32_t *ids, uint32_t *places);

/* The QP of a row (by chunks) or channel. In dispatch the profile's control QPs carry no rows. */
uint32_t k3_rails_qp(const k3_profile_t *profile, const k3_rails_t *rails,
                     uint32_t chunk_or_channel, bool dispatch);

static inline uint64_t k3_rails_back_at(const k3_rails_t *r, uint32_t node, uint64_t slot,
                                        uint32_t position, uint64_t row)
{
    return r->chunk > 0 ? node * r->slots + slot : position * r->m + row;
}

#endif
