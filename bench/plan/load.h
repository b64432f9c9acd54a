/* What each rank sends and receives in one iteration, by the kind of lane: the part of a traffic plan that
 * times follow from. */
#ifndef K3_PLAN_LOAD_H
#define K3_PLAN_LOAD_H

#include "bench/plan/traffic.h"

typedef enum k3_lane_class {
    K3_CLASS_SELF,    /* stays on the rank */
    K3_CLASS_STORE,   /* stores to, or reads from, a peer of the node */
    K3_CLASS_NODE,    /* a queue pair inside the node */
    K3_CLASS_NETWORK, /* leaves the node */
    K3_CLASS_COUNT
} k3_lane_class_t;

typedef struct k3_load {
    double messages[K3_CLASS_COUNT], signals[K3_CLASS_COUNT];
    double payload[K3_CLASS_COUNT], wire[K3_CLASS_COUNT];
    double lanes[K3_CLASS_COUNT]; /* with a message or a signal */
    double doorbells;  /* where the profile documents none: one for each message and signal */
    double lane_posts; /* messages and signals of the busiest queue pair */
    double pair_wire;  /* the most that goes to one peer of the node by stores */
} k3_load_t;

/* out[phase][i], in[phase][i] with i < count: all ranks, or where counts are expected what some ranks
 * send, which stands for what they receive too. */
typedef struct k3_loads {
    uint32_t   count;
    bool       expected;
    k3_load_t *out[K3_TRAFFIC_COUNT], *in[K3_TRAFFIC_COUNT]; /* owned */
    double    *expert_rows; /* [count] rows that a rank's experts get */
    double    *experts_hit; /* [count] of them, with a row at least */
} k3_loads_t;

k3_status_t k3_loads_plan(const k3_cell_t *cell, k3_loads_t *loads, k3_error_t *err);
/* k3_work_plan and k3_loads_plan in one walk over the flows where every one is counted. */
k3_status_t k3_loads_and_work(const k3_cell_t *cell, k3_loads_t *loads, k3_work_t *work,
                              k3_error_t *err);
void        k3_loads_free(k3_loads_t *loads);

#endif
