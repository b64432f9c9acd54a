/* The Kimi-K3 MoE region of one rank: partial attention output in, restored rows out. */
#ifndef K3_REGION_REGION_H
#define K3_REGION_REGION_H

#include "bench/engines/compute.h"
#include "bench/engines/control.h"
#include "bench/engines/engine.h"
#include "bench/plan/buffers.h"
#include "bench/region/collectives.h"
#include "bench/region/weights.h"
#include "harness/mpi/sync.h"

enum { K3_DEAD_MAX = 16 };

typedef struct k3_fault {
    int      stall_rank, stall_phase; /* -1: none */
    double   stall_ms;
    uint64_t stall_call;  /* in this iteration alone, from 1, warm-up counted; 0: see stall_every */
    uint64_t stall_every; /* in each so many iterations; 0: in each */
    int      dead_rank[K3_DEAD_MAX]; /* in rising order */
    int      dead_count, dead_phase;
    uint64_t dead_call;    /* from this iteration on; 0: from the second timed one */
    int      skip_rank;    /* -1: none; makes no dispatch and no combine */
    uint64_t skip_call;    /* in this iteration */
    int      corrupt_rank; /* -1: none; swaps combined row `corrupt_row` with the next one */
    uint64_t corrupt_row;
    int      slow_src, slow_dst;
    unsigned slow_qp;
    int      slow_node; /* -1: none; all lanes that leave this node */
    double   slow_factor;
} k3_fault_t;

#define K3_FAULT_NONE                                                                              \
    {                                                                                              \
        .stall_rank = -1, .stall_phase = -1, .dead_phase = -1, .skip_rank = -1,                    \
        .corrupt_rank = -1, .slow_src = -1, .slow_node = -1                                        \
    }

enum { K3_CHAIN_PAIRS = 8 }; /* of one iteration of the component chain */

/* The values of an iteration where the host can read them. */
typedef struct k3_region_view {
    const uint16_t *x, *latent, *combined, *y, *restored;
    const float    *logits, *gates;
    const int32_t  *ids;
} k3_region_view_t;

typedef struct k3_region {
    const k3_cell_t       *cell;
    const k3_world_t      *world;
    const k3_kernels_t    *kernels;
    const k3_engine_ops_t *ops;
    void                  *engine;
    k3_control_t          *control;   /* component control of engines without one of their own */
    k3_group_t             attn, all; /* the attention group, and all ranks */
    k3_group_t             cp;        /* same place in the attention groups of one DP group */
    k3_group_t             same_cp;   /* all ranks with the same cp index */
    uint64_t              *attn_share, *row_share; /* units of each rank: of the group, of all */
    uint64_t     *cp_share, *sum_share; /* [cp] units: rows gathered, sums scattered back */
    k3_weights_t *weights;              /* of the caller */
    k3_compute_t  compute;
    void         *buffer[K3_BUF_COUNT]; /* memory of the compute, but for ids and work space */
    uint64_t      buffer_bytes[K3_BUF_COUNT];
    void         *mirror[K3_BUF_COUNT];     /* of a device's buffers in the host; else NULL */
    struct k3_region_events *events;        /* of a device; NULL: none */
    bool                     times_kernels; /* by them */
    uint16_t                *spare_rows;    /* [2][L], the host's */
    int32_t                 *routed_ids;    /* [front rows][K] of the routing's step in force */
    uint64_t                *booked;        /* [steps] timed iterations of each step */
    uint64_t                 rows;          /* front rows that are real */
    uint64_t   group_rows, group_slots;     /* of the attention group, without / with padding */
    uint64_t   kept;     /* rows from the sums on: all front rows, or those of the cp index */
    uint64_t   group_at; /* where the group's rows begin among the kept ones, on the fallback */
    k3_spans_t spans;
    k3_wait_t *waits[K3_TRAFFIC_COUNT];      /* [R] */
    k3_wait_t *kept_waits[K3_TRAFFIC_COUNT]; /* as they were in front of what is not booked */
    uint64_t   unbooked;                     /* iterations without accounts so far */
    k3_fault_t fault;
    bool       skips;      /* this iteration's exchange: fault injection */
    double     limit_s;    /* of a call, in force; 0: none */
    uint64_t   timed_from; /* the first timed iteration, from 1; 0: warm-up */
    double     setup_queue_pairs_us;
    uint64_t   allocated_bytes; /* by this process when the region was ready, the block included;
                                 without the work space of the dense library */
    uint64_t   device_bytes;    /* of the device's memory, by then */
    bool       stand_in;        /* the component's experts are y = x * factor */
    float     *factors;         /* [local experts] */
    unsigned   pairs;           /* dispatches of an iteration that are booked */
    struct k3_capture *capture; /* what the experts get is kept (region/dump.h); NULL: not */
    k3_sync_t         *sync;    /* iterations begin at a common start; NULL: behind a barrier */
    double             late_us; /* how much later this rank began the last one */

    /* Where the values of the last iteration lie, in memory of the compute (ids: the host's); NULL: the
     * component does not make them. */
    uint16_t *x, *latent, *combined, *y, *restored;
    float    *logits, *gates;
    int32_t  *ids;
} k3_region_t;

typedef struct k3_region_options {
    k3_fabric_t         *fabric;
    bool                 accounting;
    unsigned             order_rounds;
    k3_fault_t           fault;
    double               call_timeout; /* 0: the profile's, where a rank is to die */
    const char          *isa;
    k3_weights_t        *weights; /* filled, or reused when they fit; must outlive the region */
    k3_device_t         *device;  /* NULL: the processor */
    const k3_gpu_t      *gpu;     /* its kernels */
    k3_blas_t           *blas;    /* dense layers by a library; NULL: by plain kernels */
    const k3_blas_ops_t *blas_ops;
    bool                 events; /* phases of the device by its events */
    k3_sync_t           *sync; /* NULL: a barrier before each iteration; must outlive the region */
} k3_region_options_t;

/* How long a call of this cell waits for a rank before it masks it or is trapped, in seconds; 0: for
 * ever. Upstream's limits are for GPUs that are alone on their machine: they are in force only where
 * a rank is to die or a limit is asked for. */
double k3_region_limit(const k3_cell_t *cell, const k3_region_options_t *options);

/* What a call does there: the profile's action where the engine has it, else it waits. */
k3_fault_action_t k3_region_action(const k3_cell_t *cell);

/* K3_ERR_UNSUPPORTED when a limit is asked for and calls of this cell have none. */
k3_status_t k3_region_check_limit(const k3_cell_t *cell, const k3_region_options_t *options,
                                  k3_error_t *err);

/* K3_ERR_UNSUPPORTED with the reason when the rows of this cell cannot lie on the device; NULL: the
 * processor. */
k3_status_t k3_region_check_device(const k3_cell_t *cell, const k3_device_t *device,
                                   k3_error_t *err);

/* Collective; all ranks leave with the same status. */
k3_status_t k3_region_create(const k3_cell_t *cell, const k3_world_t *world,
                             const k3_region_options_t *options, k3_region_t *region,
                             k3_error_t *err);
void        k3_region_destroy(k3_region_t *region);

/* Writes the inputs of an iteration, and puts its step of the routing in force; not timed. */
void k3_region_fill(k3_region_t *region, uint64_t payload);

/* The step of the routing that an iteration has. */
uint64_t k3_region_step(const k3_region_t *region, uint64_t payload);

/* Around what is not booked: the waits are afterwards what they were before. */
void k3_region_keep_waits(k3_region_t *region);
void k3_region_restore_waits(k3_region_t *region);

/* The values of the last iteration for the host; from a device they are copied. */
void k3_region_look(k3_region_t *region, k3_region_view_t *view);

/* Whether events of a device time its kernels, and switching that for the iterations to come. */
bool k3_region_times_kernels(const k3_region_t *region);
void k3_region_time_kernels(k3_region_t *region, bool on);

/* One iteration, begun by all ranks together; afterwards region->spans holds its times. */
k3_status_t k3_region_run(k3_region_t *region, uint64_t payload, k3_error_t *err);

#endif
