/* How a backend talks: one record per backend:mode, from which everything else follows (path, plan,
 * buffers, refusals, `list`, the README table). No other file may ask for a backend by name.
 *
 * Symbols in comments: R ranks, E experts, L = E / R local experts, n rows on a lane or in a chunk,
 * M agreed bound of rows per rank, W latent width, I intermediate width, K top-k. */
#ifndef K3_PROFILES_PROFILE_H
#define K3_PROFILES_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/base/status.h"
#include "kernels/kernels.h"

typedef enum k3_engine_id {
    K3_ENGINE_GATHER, /* no all-to-all: every rank sees every row, masks, reduces */
    K3_ENGINE_SLAB,   /* a slot for each (expert, source, row); no count exchange before the data */
    K3_ENGINE_RANKS,  /* one copy for each (row, rank) */
    K3_ENGINE_RAILS,  /* two hops: (row, node) to the same local index, then (row, rank) */
    K3_ENGINE_FUSED,  /* dispatch, GEMMs and combine overlap */
    K3_ENGINE_MPI,    /* pack and MPI_Alltoallv */
    K3_ENGINE_NULL,   /* moves nothing */
    K3_ENGINE_ID_COUNT
} k3_engine_id_t;

typedef enum k3_dispatch_layout { /* what an expert runner is handed, as sglang names it */
                                  K3_DISPATCH_STANDARD,
                                  K3_DISPATCH_DEEPEP_NORMAL,
                                  K3_DISPATCH_DEEPEP_LL,
                                  K3_DISPATCH_DEEPEP_V2,
                                  K3_DISPATCH_PPLX,
                                  K3_DISPATCH_FLASHINFER,
                                  K3_DISPATCH_LAYOUT_COUNT
} k3_dispatch_layout_t;

typedef enum k3_copy_rule {
    K3_COPY_NONE,
    K3_COPY_PER_EXPERT, /* (row, expert) */
    K3_COPY_PER_RANK,   /* (row, rank) */
    K3_COPY_PER_NODE,   /* (row, node), then (row, rank) */
    K3_COPY_CHUNK,      /* whole chunks of rows to every node, then (row, rank) */
    K3_COPY_PULL,       /* the owner reads (row, expert) */
    K3_COPY_REPLICATE   /* every row to every rank */
} k3_copy_rule_t;

typedef enum k3_slot_rule {                      /* where a dispatched row lies at its receiver */
                            K3_SLOTS_PER_EXPERT, /* (expert, source, running index) */
                            K3_SLOTS_PER_SOURCE, /* (source, running index) */
                            K3_SLOTS_COMPACT, /* one range; a source reserves its part by an atomic */
                            K3_SLOTS_SPLIT /* a private range for each source, what exceeds it packed
                                              behind once all counts are known */
} k3_slot_rule_t;

typedef enum k3_signal_op { K3_SIGNAL_NONE, K3_SIGNAL_ADD, K3_SIGNAL_WRITE } k3_signal_op_t;

typedef enum k3_signal_value {
    K3_VALUE_NONE,
    K3_VALUE_MINUS_COUNT, /* -(n + 1): non-zero also for no row */
    K3_VALUE_PLUS_COUNT,  /* n + 1 */
    K3_VALUE_ROUND,       /* the number of the call */
    K3_VALUE_ONE,
    K3_VALUE_TAIL /* rows added to a ring */
} k3_signal_value_t;

typedef enum k3_signal_when {
    K3_WHEN_NEVER,
    K3_WHEN_PER_EXPERT, /* one for each (expert, source), also for no row */
    K3_WHEN_PER_PEER,
    K3_WHEN_PER_CHUNK,
    K3_WHEN_PER_MESSAGE,
    K3_WHEN_PER_QP
} k3_signal_when_t;

typedef enum k3_qp_count {
    K3_QPS_ZERO,             /* lives on mapped memory or on MPI */
    K3_QPS_PER_LOCAL_EXPERT, /* L */
    K3_QPS_SHARE,            /* floor(qp_param / R) */
    K3_QPS_FIXED,            /* qp_param */
    K3_QPS_CHANNELS          /* qp_param, by --qps `channels` or at least `sms` */
} k3_qp_count_t;

typedef enum k3_qp_map { /* index modulo the active QPs */
                         K3_QP_BY_LOCAL_EXPERT,
                         K3_QP_BY_CHANNEL,
                         K3_QP_BY_CHUNK,
                         K3_QP_BY_SLOT,
                         K3_QP_SPLIT, /* the range is cut into one part for each QP */
                         K3_QP_BY_PROXY /* local expert modulo the channels, these over the proxy threads */
} k3_qp_map_t;

typedef enum k3_completion {
    K3_DONE_NONE,
    K3_DONE_SAME_QP_ORDER, /* the signal follows its data on one QP */
    K3_DONE_COUNTING,      /* arrivals are counted against an announced number */
    K3_DONE_DRAIN_FLAG,    /* drain the QP, then write flags */
    K3_DONE_BARRIER        /* flush, then a closing barrier */
} k3_completion_t;

typedef enum k3_weights_at {
    K3_WEIGHTS_AT_ORIGIN, /* the combine multiplies */
    K3_WEIGHTS_AT_EXPERT, /* the expert side multiplies, the combine only adds */
    K3_WEIGHTS_IN_ACTIVATION
} k3_weights_at_t;

typedef enum k3_fault_action {
    K3_FAULT_WAIT, /* for ever: the watchdog speaks */
    K3_FAULT_MASK, /* the source counts as dead, its rows are missing */
    K3_FAULT_TRAP,
    K3_FAULT_ERROR /* reported to the caller */
} k3_fault_action_t;

typedef enum k3_buffer_formula {
    K3_BUFFER_NONE,
    K3_BUFFER_DEEPEP_LL, /* DeepEP LowLatencyLayout */
    K3_BUFFER_MOONCAKE,  /* Mooncake mooncake_ep_buffer.h */
    K3_BUFFER_PPLX,      /* pplx-kernels all_to_all/internode.cpp */
    K3_BUFFER_PACKED,    /* counts and packed rows, both ways */
    K3_BUFFER_MEGAMOE,   /* DeepGEMM layout/mega_moe.cuh */
    K3_BUFFER_WINDOW,    /* two windows, sgl-kernel-npu deep_ep */
    K3_BUFFER_MORI_V1,   /* dispatch input, staging and rows as MoRI V1 */
    K3_BUFFER_HYBRID,    /* DeepEP V2 elastic buffer, hybrid */
    K3_BUFFER_RINGS,     /* DeepEP V1 normal: NVL and RDMA rings */
    K3_BUFFER_DEEPEP_V2, /* DeepEP buffer.hpp: the larger of dispatch and combine, in units of 2 MiB */
    K3_BUFFER_MORI,      /* MoRI: buffers of R * M records */
    K3_BUFFER_NCCL_EP, /* decided: send, receive and result areas, those that peers write twice */
    K3_BUFFER_FLASHINFER, /* TensorRT-LLM: two windows of R * M rows */
    K3_BUFFER_PPLX_GARDEN /* send and receive rows: private ranges and the bound of all others */
} k3_buffer_formula_t;

#define K3_BIT(x) (1u << (x))

enum { K3_WIDTHS_MAX = 10, K3_COUNTS_MAX = 12 };

/* What the k3 generation drops. */
enum {
    K3_LIFT_TOPK = 1u << 0,       /* up to K3_LIFTED_TOPK */
    K3_LIFT_WIDTHS = 1u << 1,     /* any width of 16-byte rows and whole scale groups; any I */
    K3_LIFT_NODE_SHAPE = 1u << 2, /* ranks_unit, ranks_per_node, ranks_one_node */
    K3_LIFT_EXPERTS = 1u << 3,
    K3_LIFT_WEIGHTS = 1u << 4,
    K3_LIFT_WINDOW = 1u << 5 /* as large as is needed */
};

enum { K3_LIFTED_TOPK = 32 };

/* Limits as upstream documents them (generation stock). 0: none; lists are 0-terminated, empty:
 * any. `lifted` says which of them the k3 generation drops; what protects correctness stays in
 * both. */
typedef struct k3_limits {
    unsigned lifted;
    uint32_t topk;
    uint32_t widths[K3_WIDTHS_MAX]; /* allowed values of W */
    uint32_t width_min, width_max, width_unit;
    uint32_t fp8_width_unit;                   /* W must be a multiple when fp8 is dispatched */
    uint32_t inter_min, inter_max, inter_unit; /* intermediate width, of fused kernels */
    uint32_t ranks;
    uint32_t ranks_unit;     /* R must be a multiple */
    uint32_t ranks_per_node; /* exactly, when several nodes */
    uint32_t ranks_per_node_max;
    uint32_t ranks_one_node[K3_COUNTS_MAX]; /* allowed R in one node */
    uint32_t nodes;
    uint32_t nodes_allowed[K3_COUNTS_MAX];
    bool     node_power_of_two; /* ranks a node */
    uint64_t tokens;            /* M */
    uint32_t queue_depth;       /* 2 (M + 1) posts must fit; this many by default */
    uint32_t queue_depth_max;   /* what the depth can be raised to, generation k3 */
    uint64_t window;            /* bytes of both halves */
    uint32_t experts, local_experts;
    uint32_t rm_unit;         /* R * M must be a multiple for fp8 (kept in k3) */
    bool     experts_divide;  /* E % R == 0 (kept in k3) */
    bool     one_node;        /* mapped memory only */
    bool     one_node_mapped; /* in one node mapped memory only */
    uint32_t dp_groups_min;
    uint32_t qps_total; /* QPs of all peers together (kept in k3) */
    unsigned weights;   /* bits of k3_weight_format_t that a gate lets pass; 0: any */
} k3_limits_t;

#define K3_DOORBELL_NEVER UINT32_MAX

/* Slots of the rings, and rows of a chunk, that upstream uses from so many ranks on. */
typedef struct k3_ring_sizes {
    uint32_t nvl_send, nvl_recv, rdma_send, rdma_recv;
} k3_ring_sizes_t;

typedef struct k3_ring_tuning {
    uint32_t        ranks; /* 0: end of the list */
    k3_ring_sizes_t dispatch, combine;
} k3_ring_tuning_t;

typedef struct k3_profile {
    /* identity */
    const char    *name;    /* "deepep:ll": what users type and records hold */
    const char    *backend; /* "deepep" */
    const char    *mode;    /* "ll", "" where a backend has one mode */
    k3_engine_id_t engine;
    const char    *refused; /* why no engine runs it; NULL: one does */
    const char    *source;  /* where the facts come from */
    const char    *notes;   /* one line for `list` */

    /* what the model may rely on */
    bool                 spans_ep;         /* ep is forced to tp; fast path */
    bool                 combine_complete; /* nothing is left to reduce after combine */
    k3_dispatch_layout_t layout;
    const char          *own_runner;       /* the kernel brings its GEMMs along: the runner (and its
                                        variants) that stands for them, no other; NULL: any that
                                        takes the layout */
    bool                 context_parallel; /* allowed with cp > 1 by upstream */

    /* rows on the wire */
    k3_copy_rule_t copy, combine_copy;
    k3_slot_rule_t slots;
    bool           combine_folds; /* with R > K a returned row's slot is its position among the K
                                     selections, else the rank that it comes from */
    bool           notify;        /* counts travel apart from the data signals (phase notify) */
    unsigned       dispatch_formats, combine_formats; /* bits of k3_format_t */
    k3_format_t    dispatch_auto, combine_auto;
    uint32_t       header_bytes;    /* in front of a dispatched row */
    uint32_t       meta_bytes;      /* behind it, fixed */
    uint32_t       meta_topk_bytes; /* behind it, for each of the K selections */
    uint32_t       pad;             /* each part of the record is padded to a multiple; 1: not */
    uint32_t       align;           /* the whole record is padded to a multiple; 1: not */
    uint32_t       combine_meta_bytes, combine_meta_topk_bytes;
    uint32_t       combine_slot_extra; /* bytes for 128 of W that a combine slot has beyond 2 W */
    bool zero_copy; /* experts may write straight into the combine's send area (--zero-copy on);
                       else their results are copied there for lanes that are not mapped */

    /* signals */
    k3_signal_op_t    signal_op;
    uint32_t          signal_bytes;
    uint32_t          combine_signal_bytes; /* 0: as signal_bytes */
    k3_signal_when_t  dispatch_when, combine_when;
    k3_signal_value_t dispatch_value, combine_value;

    /* two hops */
    uint32_t chunk_rows; /* rows of the source that share a flag; 0: no such chunks */
    bool     end_marker; /* one more signal per remote node on QP 0: chunks * chunk_rows + 1 */
    uint32_t tail_rows;  /* a tail after so many rows of a (channel, node), and one at the end */
    uint32_t
         local_tail_rows; /* ... of the results to a rank of the node; 0: one signal at the end */
    bool local_barrier; /* one signal to each rank of the node before results may be stored there */
    const k3_ring_tuning_t
            *rings; /* slots are used again: tails and credits by channel; NULL: not */
    uint32_t one_node_meta_bytes, one_node_meta_topk_bytes; /* of rings in one node, not padded */

    /* queue pairs */
    k3_qp_count_t qp_count;
    uint32_t      qp_param;
    uint32_t      sms, channels;  /* that drive the transfer, of a rank; 0: no such notion */
    uint32_t      qp_active_max;  /* at most this many are used; 0: all that exist */
    uint32_t      qp_active_roce; /* at most this many carry traffic on RoCE; 0: no such rule */
    k3_qp_map_t   qp_map;
    uint32_t      qp_control;          /* QPs in front that carry no rows in dispatch (notify) */
    bool          qp_fewer_is_what_if; /* --qps below the rule is allowed, but marked */

    /* posting */
    uint32_t doorbell_every;  /* a data message rings when (slot + 1) % doorbell_every == 0; 0: not
                                documented; K3_DOORBELL_NEVER: only signals ring */
    bool     doorbell_signal; /* each signal rings */
    bool     exclusive;       /* true: no lock between posters; false: a lock for each post */

    k3_completion_t completion;
    k3_weights_at_t weights_at;
    uint32_t combine_roundings; /* of sums to the combine format on the way back, the final one
                                    included, what the expert's side rounds not */
    uint32_t buffers;           /* that alternate */
    k3_buffer_formula_t buffer_formula;

    /* faults */
    k3_fault_action_t fault;
    unsigned          fault_choices; /* bits of other actions that upstream offers (--on-timeout) */
    double            timeout_s;     /* of one call; 0: none */
    bool              first_call_unlimited;
    bool              mask_at_send; /* nothing is sent to a rank that is masked */

    k3_limits_t limits;
} k3_profile_t;

/* --- the registry: one row per backend:mode -------------------------------------------------- */

unsigned            k3_registry_count(void);
const k3_profile_t *k3_registry_at(unsigned i);

/* "mooncake", "deepep:ll"; a backend with several modes and no mode given is refused with the
 * modes. "deepep" alone is such a name. */
k3_status_t k3_registry_find(const char *name, const k3_profile_t **profile_p, k3_error_t *err);

const char *k3_engine_name(k3_engine_id_t engine);
const char *k3_dispatch_layout_name(k3_dispatch_layout_t layout);
const char *k3_copy_rule_name(k3_copy_rule_t rule);
const char *k3_slot_rule_name(k3_slot_rule_t rule);
const char *k3_signal_op_name(k3_signal_op_t op);
const char *k3_signal_value_name(k3_signal_value_t value);
const char *k3_signal_when_name(k3_signal_when_t when);
const char *k3_qp_count_name(k3_qp_count_t rule);
const char *k3_qp_map_name(k3_qp_map_t map);
const char *k3_completion_name(k3_completion_t completion);
const char *k3_weights_at_name(k3_weights_at_t weights);
const char *k3_fault_action_name(k3_fault_action_t action);

/* --- what follows from a record -------------------------------------------------------------- */

static inline bool k3_profile_available(const k3_profile_t *p)
{
    return p->refused == NULL;
}

/* What `list` calls it. */
static inline const char *k3_profile_state(const k3_profile_t *p)
{
    return p->refused != NULL ? "unsupported" : "available";
}

/* Its engine posts on queue pairs. */
static inline bool k3_profile_has_lanes(const k3_profile_t *p)
{
    return p->engine == K3_ENGINE_SLAB || p->engine == K3_ENGINE_RANKS ||
           p->engine == K3_ENGINE_RAILS || p->engine == K3_ENGINE_FUSED;
}

/* Rows are read by who needs them, in at least one direction. */
static inline bool k3_profile_pulls(const k3_profile_t *p)
{
    return p->copy == K3_COPY_PULL || p->combine_copy == K3_COPY_PULL;
}

/* Offsets of the scales and of the metadata in a dispatched record. */
uint64_t k3_profile_scales_at(const k3_profile_t *p, k3_format_t format, uint32_t width);
uint64_t k3_profile_meta_at(const k3_profile_t *p, k3_format_t format, uint32_t width);

/* Bytes of values and scales, and of the whole record as posted, of one dispatched / returned row.
 */
uint64_t k3_profile_dispatch_payload(const k3_profile_t *p, k3_format_t format, uint32_t width);
uint64_t k3_profile_dispatch_record(const k3_profile_t *p, k3_format_t format, uint32_t width,
                                    uint32_t topk);
uint64_t k3_profile_combine_payload(const k3_profile_t *p, k3_format_t format, uint32_t width);
uint64_t k3_profile_combine_record(const k3_profile_t *p, k3_format_t format, uint32_t width,
                                   uint32_t topk);
uint64_t k3_profile_combine_stride(const k3_profile_t *p, k3_format_t format, uint32_t width,
                                   uint32_t topk);

typedef enum k3_generation { K3_GENERATION_K3, K3_GENERATION_STOCK } k3_generation_t;
typedef enum k3_fabric_type { K3_FABRIC_IB, K3_FABRIC_ROCE } k3_fabric_type_t;

typedef struct k3_qp_choice {
    uint32_t existing; /* created per peer by the profile's rule */
    uint32_t active;   /* that carry traffic */
    bool     what_if;  /* below upstream's minimum, by --qps */
} k3_qp_choice_t;

/* --qps may ask for this many per peer where the profile has no lower limit of its own. */
enum { K3_QPS_ASKED_MAX = 1024 };

/* QPs per peer; `asked` is --qps, 0 for auto (a 0 that a user typed is refused by the option).
 * K3_ERR_UNSUPPORTED with limit and value. */
k3_status_t k3_profile_qps(const k3_profile_t *p, uint32_t ranks, uint32_t experts,
                           k3_fabric_type_t fabric, uint64_t asked, k3_qp_choice_t *choice,
                           k3_error_t *err);

/* One that moves none measures what is left without it, and is no rival. */
static inline bool k3_profile_moves_rows(const k3_profile_t *p)
{
    return p->copy != K3_COPY_NONE;
}

/* The facts that the limits are held against. */
typedef struct k3_limit_facts {
    const char        *model;
    uint32_t           topk, width, experts, ranks, ranks_per_node, nodes, dp;
    uint32_t           intermediate; /* 0: not looked at */
    uint64_t           max_tokens;
    k3_format_t        dispatch_format, combine_format;
    k3_weight_format_t weights; /* of the experts */
    bool               p2p;
    bool on_device; /* what lives on mapped memory is reached through queue pairs there */
    k3_generation_t generation;
} k3_limit_facts_t;

/* K3_ERR_UNSUPPORTED naming backend, rule, limit and value when the profile cannot carry this. */
k3_status_t k3_profile_check(const k3_profile_t *p, const k3_limit_facts_t *facts, k3_error_t *err);

#endif
