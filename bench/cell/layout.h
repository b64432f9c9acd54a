/* Who holds which rows and which experts.
 *
 * World = tp (one pipeline stage). Attention view: tp = dp * cp * attn_tp with attn_tp fastest, so
 * the ranks of an attention group are neighbours; a group is one (dp, cp) pair. MoE view: tp = ep *
 * moe_tp with moe_tp fastest; an expert's intermediate dimension is cut over the moe_tp ranks in
 * whole scale groups. Source: sglang parallel_state.
 *
 * Rows: rank r owns rows[r] rows, numbered globally in rank order. The rows of the ranks of a group
 * together are the batch of the group; every rank of the group holds a partial attention output of
 * all of them. */
#ifndef K3_CELL_LAYOUT_H
#define K3_CELL_LAYOUT_H

#include <stdint.h>

#include "bench/cell/model.h"
#include "harness/base/status.h"

typedef struct k3_layout {
    uint32_t  tp, dp, cp, ep;
    uint32_t  attn_tp;      /* tp / (dp * cp) */
    uint32_t  moe_tp;       /* tp / ep */
    uint32_t  groups;       /* dp * cp */
    uint64_t  tokens;       /* as asked for: rows per rank */
    uint64_t  rows_max;     /* the largest rows + padding of a rank, fast path */
    uint64_t  rows_global;  /* B: sum of rows */
    uint64_t  rows_padding; /* rows added so that attn_tp divides; never dispatched */
    uint64_t *rows;         /* [tp] real rows of each rank, owned */
    uint64_t *padding;      /* [tp] padding rows of each rank, owned */
    uint64_t *first_row;    /* [tp + 1] global index of a rank's first row, owned */
} k3_layout_t;

typedef struct k3_layout_request {
    uint32_t    world;      /* ranks; 0: `plan`, tp says how many */
    uint64_t    tp, dp, cp; /* 0: default (tp = world, else 1) */
    uint64_t    ep;         /* 0: default, decided by the profile through `spans` */
    int         spans;      /* the backend spans the EP group: ep must be tp */
    uint64_t    tokens;
    const char *skew; /* equal, ragged, one-empty, all-but-one-empty, or numbers */
} k3_layout_request_t;

/* Skews: ragged: rank r has tokens - r % (tokens/2 + 1); one-empty: rank 0 has none;
 * all-but-one-empty: only the last rank has rows; a list of tp numbers: rows per rank; a list of
 * dp * cp numbers (fewer than tp): rows of each group, spread over its ranks, padded to a multiple
 * of attn_tp. A list is separated by commas or colons. */
/* K3_ERR_UNSUPPORTED: the sizes do not go together (one layout of a list). K3_ERR_USAGE: a text or number
 * that means nothing. */
k3_status_t k3_layout_create(const k3_layout_request_t *request, const k3_model_t *model,
                             k3_layout_t *layout, k3_error_t *err);
void        k3_layout_destroy(k3_layout_t *layout);

/* Attention view of a rank. */
static inline uint32_t k3_layout_group(const k3_layout_t *layout, uint32_t rank)
{
    return rank / layout->attn_tp;
}

static inline uint32_t k3_layout_group_first(const k3_layout_t *layout, uint32_t rank)
{
    return rank - rank % layout->attn_tp;
}

/* The two coordinates of a rank's group. */
static inline uint32_t k3_layout_dp_rank(const k3_layout_t *layout, uint32_t rank)
{
    return rank / (layout->attn_tp * layout->cp);
}

static inline uint32_t k3_layout_cp_rank(const k3_layout_t *layout, uint32_t rank)
{
    return rank / layout->attn_tp % layout->cp;
}

/* Rows of the groups with this cp index, of all DP groups: what a reduce-scatter over cp leaves
 * its ranks with, in the order of the DP groups. */
uint64_t k3_layout_cp_rows(const k3_layout_t *layout, uint32_t cp_rank);

/* Where the rows of the rank's own group begin among them. */
uint64_t k3_layout_cp_first(const k3_layout_t *layout, uint32_t rank);

/* Real rows of the group that `rank` belongs to, without padding. */
uint64_t k3_layout_group_rows(const k3_layout_t *layout, uint32_t rank);

/* Experts a rank holds, in consecutive blocks: local expert i of rank r is expert
 * (r / moe_tp) * experts_per_rank + i. */
static inline uint32_t k3_layout_local_experts(const k3_layout_t *layout, const k3_model_t *model)
{
    return model->experts / layout->ep;
}

static inline uint32_t k3_layout_first_expert(const k3_layout_t *layout, const k3_model_t *model,
                                              uint32_t rank)
{
    return rank / layout->moe_tp * k3_layout_local_experts(layout, model);
}

/* The rank's slice [begin, end) of a dimension cut over `parts` in whole `unit`s; the first slices
 * are one unit longer when it does not divide, the last ones may be empty. */
void k3_layout_slice(uint32_t size, uint32_t unit, uint32_t parts, uint32_t part, uint32_t *begin,
                     uint32_t *end);

/* Slice of an expert's intermediate dimension on `rank` (whole when moe_tp is 1). */
void k3_layout_expert_slice(const k3_layout_t *layout, const k3_model_t *model, uint32_t rank,
                            uint32_t *begin, uint32_t *end);

#endif
