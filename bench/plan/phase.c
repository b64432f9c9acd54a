#include "bench/plan/phase.h"

#include <stddef.h>

const char *const k3_phase_names[K3_PHASE_COUNT + 1] = {
    [K3_PHASE_ATTN_REDUCE_SCATTER] = "attn_reduce_scatter",
    [K3_PHASE_ATTN_ALL_REDUCE] = "attn_all_reduce",
    [K3_PHASE_CP_GATHER] = "cp_gather",
    [K3_PHASE_DP_GATHER] = "dp_gather",
    [K3_PHASE_ROUTER] = "router",
    [K3_PHASE_LATENT_DOWN] = "latent_down",
    [K3_PHASE_SHARED_GATHER] = "shared_gather",
    [K3_PHASE_SHARED_EXPERT] = "shared_expert",
    [K3_PHASE_SHARED_REDUCE_SCATTER] = "shared_reduce_scatter",
    [K3_PHASE_QUANTIZE] = "quantize",
    [K3_PHASE_NOTIFY] = "notify",
    [K3_PHASE_DISPATCH_SEND] = "dispatch_send",
    [K3_PHASE_DISPATCH_WAIT] = "dispatch_wait",
    [K3_PHASE_EXPERT_MLP] = "expert_mlp",
    [K3_PHASE_COMBINE_SEND] = "combine_send",
    [K3_PHASE_COMBINE_WAIT] = "combine_wait",
    [K3_PHASE_COMBINE_REDUCE] = "combine_reduce",
    [K3_PHASE_CP_REDUCE_SCATTER] = "cp_reduce_scatter",
    [K3_PHASE_TP_ALL_REDUCE] = "tp_all_reduce",
    [K3_PHASE_LATENT_UP] = "latent_up",
    [K3_PHASE_DP_SCATTER] = "dp_scatter",
    [K3_PHASE_ALL_GATHER] = "all_gather",
    [K3_PHASE_DISPATCH] = "dispatch",
    [K3_PHASE_COMBINE] = "combine",
    [K3_PHASE_PAIR] = "pair",
    [K3_PHASE_CHAIN] = "chain",
    [K3_PHASE_CONTROL] = "control",
    [K3_PHASE_ORDERED] = "control_ordered",
    [K3_PHASE_FLOOR] = "control_floor",
    [K3_PHASE_UNBOOKED] = "dispatch_unbooked",
    [K3_PHASE_REGION] = "region",
};

const char *const k3_traffic_names[] = {"notify", "dispatch", "combine", NULL};
