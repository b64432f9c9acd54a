/* The Kimi-K3 MoE region of one rank: partial attention output in, restored rows out. */
#ifndef K3_REGION_REGION_H
#define K3_REGION_REGION_H

#include "bench/engines/engine.h"
#include "bench/plan/buffers.h"
#include "bench/region/collectives.h"
#include "bench/region/weights.h"
#include "harness/mpi/sync.h"

typedef struct k3_fault {
    int      stall_rank, stall_phase; /* -1: none */
    double   stall_ms;
    int      corrupt_rank; /* -1: none; swaps combined row `corrupt_row` with the next one */
    uint64_t corrupt_row;
    int      slow_src, slow_dst;
    unsigned slow_qp;
    double   slow_factor;
} k3_fault_t;

#define K3_FAULT_NONE                                                                              \
    {                                                                                              \
        .stall_rank = -1, .stall_phase = -1, .corrupt_rank = -1, .slow_src = -1                    \
    }

enum { K3_CHAIN_PAIRS = 8 }; /* of one iteration of the component chain */

typedef struct k3_region {
    const k3_cell_t       *cell;
    const k3_world_t      *world;
    const k3_kernels_t    *kernels;
    const k3_engine_ops_t *ops;
    void                  *engine;
    k3_group_t             attn, all;              /* the attention group, and all ranks */
    uint64_t              *attn_share, *row_share; /* units of each rank: of the group, of all */
    k3_weights_t          *weights;                /* of the caller */
    void                  *buffer[K3_BUF_COUNT];
    int32_t               *routed_ids;  /* [front rows][K] of the routing, computed at set-up */
    uint64_t               rows;        /* front rows that are real */
    uint64_t   group_rows, group_slots; /* of the attention group, without / with padding */
    k3_spans_t spans;
    k3_wait_t *waits[K3_TRAFFIC_COUNT]; /* [R] */
    k3_fault_t fault;
    double     setup_queue_pairs_us;
    uint64_t   allocated_bytes; /* by this process when the region was ready, the block included;
                                 without the work space of the dense library */
    bool       stand_in;        /* the component's experts are y = x * factor */
    float     *factors;         /* [local experts] */
    unsigned   pairs;           /* dispatches of an iteration that are booked */
    k3_sync_t *sync;            /* iterations begin at a common start; NULL: behind a barrier */
    double     late_us;         /* how much later this rank began the last one */

    /* Where the values of the last iteration lie; NULL: the component does not make them. */
    uint16_t *x, *latent, *combined, *y, *restored;
    float    *logits, *gates;
    int32_t  *ids;
} k3_region_t;

typedef struct k3_region_options {
    k3_fabric_t  *fabric;
    bool          accounting;
    unsigned      order_rounds;
    k3_fault_t    fault;
    const char   *isa;
    k3_weights_t *weights; /* filled, or reused when they fit; must outlive the region */
    k3_sync_t    *sync;    /* NULL: a barrier before each iteration; must outlive the region */
} k3_region_options_t;

/* Collective; all ranks leave with the same status. */
k3_status_t k3_region_create(const k3_cell_t *cell, const k3_world_t *world,
                             const k3_region_options_t *options, k3_region_t *region,
                             k3_error_t *err);
void        k3_region_destroy(k3_region_t *region);

/* Writes the inputs of an iteration; not timed. */
void k3_region_fill(k3_region_t *region, uint64_t payload);

/* One iteration, begun by all ranks together; afterwards region->spans holds its times. */
k3_status_t k3_region_run(k3_region_t *region, uint64_t payload, k3_error_t *err);

#endif
