/* Geometry of two hops over rings: slots are used again when their reader gives them back. Rows of a rank
 * are cut into one contiguous part for each channel; a stream is what one channel carries from one rank
 * to another.
 *
 *   nvl    [C][n] rings of nvl_recv slots, by channel and rank of the node, each with 2 N + 3 words: the
 *          start and end of each source node's rows, tail, head
 *   rdma   [N][C] rings of rdma_recv slots to read from, and as many to send from, each with a meta
 *          message of 2 n + 2 words
 *
 * Sizes: DeepEP csrc/legacy/config.hpp, for 128 selections and scales. Upstream uses the same rings for
 * the way back, behind a barrier of all ranks; here the way back has rings of its own and no barrier:
 *
 *   back_nvl   [C][n][N] rings of nvl_recv / N slots, by channel, rank of the node and node of the origin
 *   back_rdma  [N][C], as rdma
 *
 * A chunk never goes round the end of a ring: the slots used are the largest multiple of a chunk. */
#ifndef K3_PLAN_RINGS_H
#define K3_PLAN_RINGS_H

#include <stdint.h>

#include "bench/plan/cell.h"
#include "bench/plan/rails.h"

typedef struct k3_rings {
    uint32_t        channels, nodes, per_node, qps;
    k3_ring_sizes_t size[2];                /* dispatch, combine */
    uint32_t        rdma_slots[2];          /* used */
    uint32_t        nvl_slots[2];           /* of a stream inside the node */
    uint32_t        nvl_words;              /* 2 N + 3 */
    uint32_t        meta_words;             /* 2 n + 2 */
    uint32_t        rail_words, node_words; /* of the counts ahead of the rows */
    uint64_t        nvl_ring, rdma_ring;    /* bytes of a ring, dispatch */
    uint64_t        back_nvl_ring, back_rdma_ring;

    /* offsets in the block */
    uint64_t nvl_word, nvl;
    uint64_t meta_in, meta_out, rdma_in, rdma_out;
    uint64_t back_nvl, back_in, back_out;
    uint64_t tails[2];             /* [N][C] 4-byte words of the reader of rdma rings */
    uint64_t credits[2];           /* [N][C] of the writer */
    uint64_t back_tail, back_head; /* [C][n][N] */
    uint64_t rail_counts;          /* [N][rail_words] */
    uint64_t node_counts;          /* [n][node_words] */
    uint64_t buffer;               /* bytes by upstream's formula */
    uint64_t bytes;                /* of the block; K3_TOO_BIG when it does not fit in 64 bits */
} k3_rings_t;

void k3_rings_plan(const k3_cell_t *cell, k3_rings_t *rings);

/* Moves words and metadata messages into a block of their own, which the host polls while rows lie on a
 * device; its bytes. */
uint64_t k3_rings_part_words(k3_rings_t *rings);

/* Bytes beside the block that depend on the rows bound: own records, returned sums, records on their way
 * through lanes that are not mapped. */
uint64_t k3_rings_memory(const k3_rings_t *rings, const k3_rails_t *rails, bool unmapped);

/* Data, meta and tails of a channel; its credits; what moves inside the node. */
static inline uint32_t k3_rings_qp(const k3_rings_t *r, uint32_t channel)
{
    return channel % r->qps;
}

static inline uint32_t k3_rings_credit_qp(const k3_rings_t *r, uint32_t channel)
{
    return (channel + r->channels) % r->qps;
}

static inline uint32_t k3_rings_local_qp(const k3_rings_t *r, uint32_t channel)
{
    return r->nodes > 1 ? 0 : channel;
}

/* Rows [begin, end) of `count` that a channel carries. */
static inline void k3_rings_channel(const k3_rings_t *r, uint64_t count, uint32_t channel,
                                    uint64_t *begin, uint64_t *end)
{
    uint64_t each = (count + r->channels - 1) / r->channels;

    *begin = channel * each < count ? channel * each : count;
    *end = *begin + each < count ? *begin + each : count;
}

#endif
