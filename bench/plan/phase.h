/* The named spans of the region, in the order of their first use. */
#ifndef K3_PLAN_PHASE_H
#define K3_PLAN_PHASE_H

typedef enum k3_phase {
    K3_PHASE_ATTN_REDUCE_SCATTER,
    K3_PHASE_ATTN_ALL_REDUCE,
    K3_PHASE_CP_GATHER,
    K3_PHASE_DP_GATHER,
    K3_PHASE_ROUTER,
    K3_PHASE_LATENT_DOWN,
    K3_PHASE_SHARED_GATHER,
    K3_PHASE_SHARED_EXPERT,
    K3_PHASE_SHARED_REDUCE_SCATTER,
    K3_PHASE_QUANTIZE,
    K3_PHASE_NOTIFY,
    K3_PHASE_DISPATCH_SEND,
    K3_PHASE_DISPATCH_WAIT,
    K3_PHASE_EXPERT_MLP,
    K3_PHASE_COMBINE_SEND,
    K3_PHASE_COMBINE_WAIT,
    K3_PHASE_COMBINE_REDUCE,
    K3_PHASE_CP_REDUCE_SCATTER,
    K3_PHASE_TP_ALL_REDUCE,
    K3_PHASE_LATENT_UP,
    K3_PHASE_DP_SCATTER,
    K3_PHASE_ALL_GATHER,
    /* totals, measured on their own */
    K3_PHASE_DISPATCH,
    K3_PHASE_COMBINE,
    K3_PHASE_PAIR,     /* dispatch + combine back to back, the experts left out; component pair */
    K3_PHASE_CHAIN,    /* a pair of many back to back, by their period; component chain */
    K3_PHASE_CONTROL,  /* the messages of a dispatch by a bare loop; component control */
    K3_PHASE_ORDERED,  /* the same in the order of the protocol; component control */
    K3_PHASE_FLOOR,    /* the same with the copies of the protocol; component control */
    K3_PHASE_UNBOOKED, /* dispatch without the accounts of the queue pairs; component control */
    K3_PHASE_REGION,
    K3_PHASE_COUNT
} k3_phase_t;

extern const char *const k3_phase_names[]; /* [K3_PHASE_COUNT + 1], NULL at the end */

/* What a queue pair's counters are booked under. */
typedef enum k3_traffic_phase {
    K3_TRAFFIC_NOTIFY,
    K3_TRAFFIC_DISPATCH,
    K3_TRAFFIC_COMBINE,
    K3_TRAFFIC_COUNT
} k3_traffic_phase_t;

extern const char *const k3_traffic_names[];

#endif
