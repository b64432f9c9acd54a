/* A cell: model x layout x backend profile x routing, with every choice resolved. Pure arithmetic;
 * the same request gives the same cell on every rank. */
#ifndef K3_PLAN_CELL_H
#define K3_PLAN_CELL_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/cell/layout.h"
#include "bench/cell/model.h"
#include "bench/cell/routing.h"
#include "bench/cell/source.h"
#include "bench/profiles/path.h"
#include "bench/profiles/profile.h"
#include "bench/profiles/runner.h"

typedef enum k3_component {
    K3_COMPONENT_REGION,
    K3_COMPONENT_PAIR,     /* dispatch + combine back to back */
    K3_COMPONENT_DISPATCH, /* each behind a barrier of its own */
    K3_COMPONENT_COMBINE,
    K3_COMPONENT_EXPERTS, /* expert_mlp alone, on rows as dispatched */
    K3_COMPONENT_CONTROL, /* the same messages by a bare loop, without bookkeeping */
    K3_COMPONENT_CHAIN    /* pairs back to back, without synchronisation between them */
} k3_component_t;
extern const char *const k3_component_names[];

/* Who holds the shared expert and how its rows get there. */
typedef enum k3_shared {
    K3_SHARED_NONE,       /* the cell has none: the model, or the component */
    K3_SHARED_REPLICATED, /* whole on every rank, on the rank's own rows; no communication */
    K3_SHARED_SHARDED,    /* over the attention group: rows gathered, partial sums scattered back */
    K3_SHARED_TP          /* over tp, its partial sums reduced together with the routed ones */
} k3_shared_t;
extern const char *const k3_shared_names[]; /* "none", "replicated", "sharded", "tp", NULL */

/* As the options gave it. Texts must outlive the call only. 0 and NULL: default. */
typedef struct k3_cell_request {
    uint32_t               world;          /* ranks of the launch; 0 for `plan` */
    const int             *node_of;        /* [world] real nodes; NULL: blocks of ranks_per_node */
    uint32_t               ranks_per_node; /* used when node_of is NULL; 0: 8 */
    uint64_t               nodes_as;       /* split into so many virtual nodes; 0: as found */
    const char            *model, *backend, *generation;
    uint64_t               tp, dp, cp, ep;
    uint64_t               tokens, max_tokens;
    const char            *skew, *routing;
    uint64_t               seed;
    const char            *path, *path_rule, *runner;
    const char            *dispatch_dtype, *combine_dtype;
    const char            *shared;         /* "auto", or a name of k3_shared_names but for "none" */
    const char            *shared_overlap; /* "off", "on" */
    uint64_t               qps;            /* 0: auto */
    const char            *fabric;
    const char            *signal, *on_timeout; /* NULL, "auto": the profile's */
    const char            *zero_copy;           /* NULL: off */
    bool                   p2p;
    const char            *device; /* what computes and holds the rows; NULL: "cpu" */
    const char            *component;
    const k3_checkpoint_t *checkpoint; /* NULL: synthetic weights; both outlive the cell */
    const k3_hidden_t     *hidden;     /* NULL: synthetic rows */
    bool expected; /* rows are not drawn one by one: what follows from them is an expectation */
} k3_cell_request_t;

#define K3_DEVICE_CPU "cpu"

/* Where counts are expected, so many rows (or as many as some of the ranks have) are drawn. */
enum { K3_EXPECTED_ROWS = 16384, K3_EXPECTED_ORIGINS = 16 };

enum { K3_CELL_KEY_MAX = 640, K3_TEXT_MAX = 256, K3_SHORT_TEXT_MAX = 64 };

typedef struct k3_cell {
    char                   key[K3_CELL_KEY_MAX]; /* equal keys: the same work */
    k3_model_t             model;
    k3_layout_t            layout;
    const k3_profile_t    *profile;
    k3_generation_t        generation;
    k3_path_t              path;
    const k3_runner_t     *runner;
    k3_format_t            dispatch_format, combine_format;
    k3_shared_t            shared;
    bool                   shared_overlap; /* between the sends of the dispatch and its wait */
    k3_routing_t          *routing;        /* owned */
    char                   routing_text[K3_TEXT_MAX];
    char                   skew_text[K3_SHORT_TEXT_MAX]; /* by k3_short_text */
    uint64_t              *arriving; /* [ep], owned: (row, expert) pairs of each block of experts */
    uint64_t               seed;
    const k3_checkpoint_t *checkpoint; /* of the request */
    const k3_hidden_t     *hidden;
    uint64_t       max_tokens; /* M: bound of rows that one rank dispatches, as buffers are sized */
    k3_qp_choice_t qps;
    k3_fabric_type_t fabric;
    k3_signal_op_t   signal_op;
    bool signal_waits;       /* for the completion of its QP's messages, before it is posted */
    bool zero_copy;          /* results are written where the combine sends from */
    k3_fault_action_t fault; /* what follows when a call's limit has passed */
    bool              p2p;   /* never with rows on a device: its memory is not mapped */
    char              device[16];
    bool              on_device;
    k3_component_t    component;
    int              *node_of; /* [tp], owned: real or virtual */
    uint32_t          nodes;
    uint32_t          node_most, node_least; /* ranks of the largest and of the smallest node */
    /* Places: node * node_most + index of the rank among those of its node, in rank order. */
    uint32_t *place_of; /* [tp], owned */
    uint32_t *rank_at;  /* [nodes * node_most], owned; tp where a node has no such rank */
    bool      virtual_nodes;
    bool
        expected; /* `arriving`, and all that is counted, is what the distribution leads to expect */
} k3_cell_t;

/* K3_ERR_USAGE: can never work (unknown name, sizes that do not divide). K3_ERR_UNSUPPORTED: this
 * backend cannot. On failure nothing is left to free. */
k3_status_t k3_cell_create(const k3_cell_request_t *request, k3_cell_t *cell, k3_error_t *err);
void        k3_cell_destroy(k3_cell_t *cell);

/* Lists of rows can be long: a text of K3_SHORT_TEXT_MAX bytes or more is told by its beginning and
 * its hash, in `space` of that size. */
const char *k3_short_text(const char *text, char *space);

static inline k3_source_t k3_cell_source(const k3_cell_t *cell)
{
    return (k3_source_t){&cell->model, cell->seed, cell->checkpoint, cell->hidden};
}

/* Rank and local index of the owner of an expert (for moe_tp == 1). */
static inline uint32_t k3_cell_owner(const k3_cell_t *cell, uint32_t expert)
{
    return expert / k3_layout_local_experts(&cell->layout, &cell->model);
}

/* The rank with the local index of `rank` on another node (for two hops: it exists). */
static inline uint32_t k3_cell_rail_peer(const k3_cell_t *cell, uint32_t rank, uint32_t node)
{
    return cell->rank_at[node * cell->node_most + cell->place_of[rank] % cell->node_most];
}

/* What the component needs: the stand-in experts of pair, dispatch and combine need no weights, `null`
 * gives its experts no rows. */
static inline bool k3_needs_dense(const k3_cell_t *cell)
{
    return cell->component == K3_COMPONENT_REGION;
}

static inline bool k3_needs_experts(const k3_cell_t *cell)
{
    return (cell->component == K3_COMPONENT_REGION || cell->component == K3_COMPONENT_EXPERTS) &&
           cell->profile->copy != K3_COPY_NONE;
}

/* Whether the lane from src to dst is stores to mapped memory. */
static inline bool k3_cell_mapped(const k3_cell_t *cell, uint32_t src, uint32_t dst)
{
    return src == dst || (cell->p2p && cell->node_of[src] == cell->node_of[dst]);
}

#endif
