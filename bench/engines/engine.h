/* How messages move: the interface of an engine, a family of profiles executed by one piece of
 * code.
 *
 * An engine gets a resolved cell and moves the rows of one iteration: dispatch brings latent rows
 * to the ranks that hold their experts, expert shows what arrived, combine brings the results back
 * and sums them at the origin. Everything that differs between backends of the family is read from
 * the cell's profile.
 *
 * Rules: create allocates and registers everything; dispatch, expert and combine do not allocate,
 * are called by every rank in every iteration (also with no rows), mark their phases in env->spans
 * and yield while they wait. An engine includes this header and nothing of another engine;
 * engines/skeleton.c is a template with comments. */
#ifndef K3_ENGINES_ENGINE_H
#define K3_ENGINES_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/engines/compute.h"
#include "bench/engines/spans.h"
#include "bench/plan/cell.h"
#include "harness/mpi/qp.h"
#include "harness/mpi/world.h"
#include "kernels/kernels.h"

enum { K3_ENGINE_VERSION = 1 };

/* How long this rank waited for each source, summed over the counters of a source: from the begin
 * of the wait until the source's signal was seen. */
typedef struct k3_wait {
    double   sum_us, max_us;
    uint64_t count;
} k3_wait_t;

/* A rank that stayed silent beyond the limit of a call: from then on its rows are missing. */
typedef struct k3_mask {
    uint64_t call;  /* iteration of the cell, from 1, in which the limit passed; 0: not masked */
    int32_t  phase; /* k3_phase_t of the wait */
} k3_mask_t;

void k3_wait_note(k3_wait_t *wait, uint64_t ticks);

typedef struct k3_engine_env {
    const k3_cell_t    *cell;
    const k3_world_t   *world;
    k3_fabric_t        *fabric;
    const k3_kernels_t *kernels;
    k3_compute_t       *compute; /* what engines that can run on a device use instead of kernels */
    k3_spans_t         *spans;
    k3_wait_t          *waits[K3_TRAFFIC_COUNT]; /* [R] each; the dispatch and combine waits */
    bool                accounting;
    unsigned            order_rounds; /* of the queue pairs' self-test */
    int                 slow_peer;    /* fault injection, see k3_qps_config_t; -1: off */
    unsigned            slow_qp;
    bool                slow_network;
    double              slow_factor;
    /* Called once in each dispatch after this rank's sends are posted and before it waits, by the
     * engines that can; NULL: nothing to overlap. */
    void (*after_send)(void *arg);
    void  *after_send_arg;
    double limit_s; /* how long a call waits for a source; 0: for ever */
} k3_engine_env_t;

/* Between the last send of a dispatch and its wait. */
static inline void k3_engine_sent(const k3_engine_env_t *env)
{
    if (env->after_send != NULL) {
        env->after_send(env->after_send_arg);
    }
}

/* The rows that this rank dispatches. Latent rows and weights are memory of the compute, ids the host's. */
typedef struct k3_rows {
    uint64_t        count;
    const uint16_t *latent;  /* [count][L] bf16 */
    const int32_t  *ids;     /* [count][K], -1: not sent */
    const float    *weights; /* [count][K] */
} k3_rows_t;

/* Computes rows of one local expert, and marks the phase expert_mlp. */
typedef void (*k3_expert_fn_t)(void *arg, uint32_t local_expert, const k3_expert_rows_t *work);

typedef struct k3_engine_ops {
    unsigned    version;
    const char *name;

    /* Collective. */
    k3_status_t (*create)(const k3_engine_env_t *env, void **engine_p, k3_error_t *err);
    void (*destroy)(void *engine);

    k3_status_t (*dispatch)(void *engine, const k3_rows_t *rows, k3_error_t *err);
    void (*expert)(void *engine, uint32_t local_expert, k3_expert_rows_t *work);
    /* combined: [count][L] bf16: the complete weighted sums, or this rank's partial sums where the
     * profile's combine is not complete. */
    k3_status_t (*combine)(void *engine, const k3_rows_t *rows, uint16_t *combined,
                           k3_error_t *err);

    /* Another step of the routing is in force: for engines that keep something of the ids from set-up; outside
     * the timed spans, allocates nothing. NULL: ids come with the rows only. */
    void (*rerouted)(void *engine);

    /* Dispatch, experts and combine in one call, for engines that overlap them; the three above are
     * NULL then. Calls `expert` for each block of rows, on the calling thread, and closes the totals
     * dispatch (last row in) and combine (from the first result sent) itself. NULL: the three. */
    k3_status_t (*fused)(void *engine, const k3_rows_t *rows, k3_expert_fn_t expert, void *arg,
                         uint16_t *combined, k3_error_t *err);

    /* Closes the iteration's accounting; after the timed span. May be NULL. */
    k3_status_t (*settle)(void *engine, k3_error_t *err);

    /* The messages and signals of one dispatch by a bare loop without bookkeeping, until this
     * rank's own arrived: the control that dispatch is held against. in_full: rows are brought to their
     * format too, as far ahead of their copies as the engine does. Where it is NULL the loops of
     * control.h serve, and in cells of which has_control, which stands beside it, is false. */
    k3_status_t (*control)(void *engine, const k3_rows_t *rows, bool in_full, k3_error_t *err);
    bool (*has_control)(const k3_cell_t *cell);

    /* Who this rank has masked, [R]; a rank that is dead by fault injection (env->spans->dead) then
     * takes no part in dispatch and combine, but for what all ranks do together. NULL: the engine
     * knows no limits, and a dead rank stands still. */
    const k3_mask_t *(*masks)(void *engine);
    /* The error of a rank that the limit of a call has stopped; NULL: not stopped. */
    const k3_error_t *(*trapped)(void *engine);

    /* The queue pairs, NULL where the engine has none. */
    k3_qps_t *(*qps)(void *engine);

    /* Why the engine cannot run this cell with rows in the memory of a device, NULL: it can, since it
     * touches them through env->compute alone. A NULL function: it cannot. */
    const char *(*refuses_device)(const k3_cell_t *cell);
} k3_engine_ops_t;

/* K3_ERR_UNSUPPORTED with the engine's reason when the cell's rows cannot lie on a device. */
k3_status_t k3_engine_check_device(const k3_cell_t *cell, k3_error_t *err);

/* `refuses_device` of an engine that runs all of its cells there. */
const char *k3_engine_refuses_nothing(const k3_cell_t *cell);

/* The queue pairs of a cell as its options ask for them: `bytes` of symmetric block, beside it `rows_bytes`
 * for rows in the memory of the device (0: they lie in the block), the profile's active QPs to each peer.
 * Collective. */
k3_status_t k3_engine_queue_pairs(const k3_engine_env_t *env, uint64_t bytes, uint64_t rows_bytes,
                                  k3_qps_t **qps_p, k3_error_t *err);

/* Whether some rank has lanes whose puts UCX emulates in software. Collective. */
bool k3_engine_soft_lanes(const k3_world_t *world, k3_qps_t *qps);

/* The end of a wait. With soft lanes a rank that computes or sits in MPI would keep its peers' data back:
 * all finish together, and what that takes belongs to the wait. With hardware no post stays behind in UCX when
 * its send queue was full; with mapped memory nothing is done here. */
k3_status_t k3_engine_finish_span(k3_qps_t *qps, bool soft, k3_error_t *err);

/* NULL: not built yet. */
const k3_engine_ops_t *k3_engine_find(k3_engine_id_t engine);

extern const k3_engine_ops_t k3_engine_gather, k3_engine_slab, k3_engine_ranks, k3_engine_rails,
    k3_engine_fused, k3_engine_mpi, k3_engine_null, k3_engine_skeleton;

#endif
