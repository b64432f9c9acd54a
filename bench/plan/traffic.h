/* The traffic plan: what moves on which lane in one iteration. Streaming over origins: a dispatch
 * lane leaves the origin, the combine lane that answers it comes back to the origin, so both follow
 * from the origin's rows alone and nothing of the size R x R x E is ever held. */
#ifndef K3_PLAN_TRAFFIC_H
#define K3_PLAN_TRAFFIC_H

#include <stdint.h>

#include "bench/plan/cell.h"
#include "bench/plan/phase.h"

/* Doorbells of a lane whose posting rule is not documented. */
#define K3_DOORBELLS_UNKNOWN UINT64_MAX

typedef struct k3_flow {
    k3_traffic_phase_t phase;
    uint32_t           src, dst, qp;
    bool               pulled; /* the destination reads: it is the one that counts */
    uint64_t           messages, signals, doorbells;
    uint64_t           payload, wire; /* bytes */
    /* Where the number of signals depends on timing (credits): so many of them, and so many bytes on
     * the wire, may be missing. */
    uint64_t signals_spare, wire_spare;
    uint64_t payload_spare; /* the same for payload, where rows have no fixed length */
} k3_flow_t;

typedef void (*k3_flow_visit_t)(const k3_flow_t *flow, void *arg);

/* Scratch of the visits: one per caller, reusable. */
typedef struct k3_traffic {
    const k3_cell_t *cell;
    uint32_t        *rows_to;       /* [E]: rows of the origin for each expert */
    bool             counted;       /* where every origin has the same rows they are counted once */
    struct k3_rails_scratch *rails; /* two hops only, owned */
    /* One copy for each (row, rank) only, owned: [R][lane_qps] rows of the origin on each lane. */
    uint32_t *lane_rows, lane_qps;
    /* Counted arrivals only, owned: [tp + 1] rows of a DP group for each rank, and which group + 1. */
    uint64_t *group_to;
} k3_traffic_t;

k3_status_t k3_traffic_open(const k3_cell_t *cell, k3_traffic_t *traffic, k3_error_t *err);
void        k3_traffic_close(k3_traffic_t *traffic);

/* Visits every lane that has traffic because of the rows of `origin`, or that leaves or reaches
 * `origin` as the rank that forwards rows of others: over all origins each (phase, src, dst, qp,
 * pulled) once. Engines without queue pairs (gather, null) have none; `mpi` has one lane (index 0)
 * for each peer that gets rows. */
void k3_traffic_origin(k3_traffic_t *traffic, uint32_t origin, k3_flow_visit_t visit, void *arg);

/* --- sums over all ranks --------------------------------------------------------------------- */

typedef struct k3_traffic_sum {
    uint64_t messages, signals, doorbells; /* doorbells: K3_DOORBELLS_UNKNOWN when any lane's is */
    uint64_t payload, wire;
    uint64_t payload_remote, wire_remote;   /* lanes that leave the rank */
    uint64_t payload_network, wire_network; /* lanes that leave the node */
    uint64_t lanes;
} k3_traffic_sum_t;

typedef struct k3_work {
    uint64_t         rows_global, rows_padding;
    bool             dispatches;      /* false for `none`: the next two mean nothing */
    uint64_t         rows_dispatched; /* by all ranks in one iteration */
    uint64_t         assignments;     /* valid (row, expert) pairs that all ranks dispatched */
    bool             expected;        /* counts are what some ranks' rows lead to expect */
    double           dispatch_ratio;  /* rows_dispatched / rows_global; 0 when there are no rows */
    bool             has_imbalance_expert, has_imbalance_rank; /* false: nothing was counted */
    double           imbalance_expert, imbalance_rank;
    bool             has_imbalance_qp;
    double           imbalance_qp; /* lanes that leave the node */
    uint64_t         dedup_rows;   /* distinct (row, rank) pairs: the basis `deduplicated` */
    uint64_t         node_rows;    /* distinct (row, node) pairs */
    k3_traffic_sum_t sum[K3_TRAFFIC_COUNT];
} k3_work_t;

/* Streams over all origins. Of a routing with several steps: the means over them, counts rounded. */
k3_status_t k3_work_plan(const k3_cell_t *cell, k3_work_t *work, k3_error_t *err);

/* The same; `visit` sees every flow too, in the order of k3_traffic_origin over all origins, once for each step
 * of the routing. */
k3_status_t k3_work_plan_seen(const k3_cell_t *cell, k3_work_t *work, k3_flow_visit_t visit,
                              void *arg, k3_error_t *err);

#endif
