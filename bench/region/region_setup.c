/* Set-up and tear-down of the region of one rank, and the inputs of an iteration. */
#include <string.h>

#include "bench/cell/inputs.h"
#include "bench/plan/cell_rows.h"
#include "bench/region/region_internal.h"
#include "harness/base/memory.h"

/* --- tables ---------------------------------------------------------------------------------- */

/* What the collectives read and write. */
static bool is_transported(int buffer)
{
    return buffer == K3_BUF_PARTIAL || buffer == K3_BUF_EXCHANGE || buffer == K3_BUF_X ||
           buffer == K3_BUF_COMBINED || buffer == K3_BUF_PACKED || buffer == K3_BUF_ROUTED ||
           buffer == K3_BUF_OUTPUT;
}

static k3_status_t alloc_buffer(k3_region_t *r, int b, uint64_t bytes, k3_error_t *err)
{
    const char *name = k3_buffer_names[b];

    r->buffer_bytes[b] = bytes;
    if (k3_buffer_of_host((k3_buffer_t)b)) {
        return k3_alloc(name, bytes, 1, &r->buffer[b], err);
    }
    if (k3_compute_alloc(&r->compute, name, bytes, 1, is_transported(b), &r->buffer[b], err) ==
            K3_OK &&
        r->compute.device != NULL && k3_buffer_mirrored((k3_buffer_t)b)) {
        k3_alloc(name, bytes, 1, &r->mirror[b], err);
    }
    return err->status;
}

static k3_status_t alloc_buffers(k3_region_t *r, k3_error_t *err)
{
    k3_memory_t memory;
    uint32_t    ranks = r->cell->layout.tp;

    k3_memory_plan(r->cell, (uint32_t)r->world->rank, &memory);
    for (int b = 0; b < K3_BUF_COUNT; b++) {
        /* Dense layers bring their own work space. */
        if (b != K3_BUF_DENSE_WORK && alloc_buffer(r, b, memory.buffer[b], err) != K3_OK) {
            return err->status;
        }
    }
    for (int t = 0; t < K3_TRAFFIC_COUNT; t++) {
        if (k3_alloc("wait table", ranks, sizeof(k3_wait_t), &r->waits[t], err) != K3_OK ||
            k3_alloc("wait table", ranks, sizeof(k3_wait_t), &r->kept_waits[t], err) != K3_OK) {
            return err->status;
        }
    }
    if (k3_alloc("shares", r->cell->layout.attn_tp, sizeof(uint64_t), &r->attn_share, err) !=
            K3_OK ||
        k3_alloc("shares", ranks, sizeof(uint64_t), &r->row_share, err) != K3_OK ||
        k3_alloc("shares", r->cell->layout.cp, sizeof(uint64_t), &r->cp_share, err) != K3_OK ||
        k3_alloc("shares", r->cell->layout.cp, sizeof(uint64_t), &r->sum_share, err) != K3_OK) {
        return err->status;
    }
    r->logits = r->buffer[K3_BUF_LOGITS];
    r->ids = r->buffer[K3_BUF_IDS];
    r->gates = r->buffer[K3_BUF_GATES];
    r->combined = r->buffer[K3_BUF_COMBINED];
    return k3_alloc("spare rows", 2, r->cell->model.latent * sizeof(uint16_t), &r->spare_rows, err);
}

static void fill_shares(k3_region_t *r)
{
    const k3_layout_t *l = &r->cell->layout;
    uint64_t           units = r->cell->model.hidden / K3_UNIT;
    uint32_t           first = k3_layout_group_first(l, (uint32_t)r->world->rank);

    r->group_rows = k3_layout_group_rows(l, (uint32_t)r->world->rank);
    for (uint32_t a = 0; a < l->attn_tp; a++) {
        uint64_t slots = l->rows[first + a] + l->padding[first + a];

        r->attn_share[a] = slots * units;
        r->group_slots += slots;
    }
    for (uint32_t i = 0; i < l->tp; i++) {
        r->row_share[i] = l->rows[i] * units;
    }
}

/* Rows that the cp group gathers, and units of the sums that come back for them. */
static void fill_context(k3_region_t *r)
{
    const k3_layout_t *l = &r->cell->layout;
    uint32_t           rank = (uint32_t)r->world->rank;
    uint32_t           first = rank / (l->cp * l->attn_tp) * l->cp * l->attn_tp;
    uint64_t           summed = (r->cell->path.reduce_latent ? r->cell->model.latent : 0) +
                      (r->cell->shared == K3_SHARED_TP ? r->cell->model.hidden : 0);

    r->kept = r->rows;
    r->group_at = l->first_row[k3_layout_group_first(l, rank)];
    for (uint32_t c = 0; c < l->cp; c++) {
        r->cp_share[c] =
            k3_layout_group_rows(l, first + c * l->attn_tp) * (r->cell->model.hidden / K3_UNIT);
        r->sum_share[c] = k3_layout_cp_rows(l, c) * (summed / K3_UNIT);
    }
    if (k3_splits_context(r->cell)) {
        r->kept = k3_layout_cp_rows(l, k3_layout_cp_rank(l, rank));
        r->group_at = k3_layout_cp_first(l, rank);
    }
}

/* The rows that pass the router of this rank. */
static uint64_t front_rows(const k3_region_t *r, uint64_t *first)
{
    uint64_t count;

    k3_cell_dispatched(r->cell, (uint32_t)r->world->rank, first, &count);
    if (!r->cell->path.fast) {
        *first = 0;
        count = r->cell->layout.rows_global;
    }
    return count;
}

static void fill_ids(k3_region_t *r)
{
    uint64_t first;

    r->rows = front_rows(r, &first);
    for (uint64_t i = 0; i < r->rows; i++) {
        k3_routing_row(r->cell->routing, first + i, r->routed_ids + i * r->cell->model.topk);
    }
}

static k3_status_t alloc_routing(k3_region_t *r, k3_error_t *err)
{
    uint64_t first;

    if (k3_alloc("routing", front_rows(r, &first), r->cell->model.topk * sizeof(int32_t),
                 &r->routed_ids, err) != K3_OK ||
        k3_alloc("iterations of each step", k3_routing_steps(r->cell->routing), sizeof(uint64_t),
                 &r->booked, err) != K3_OK) {
        return err->status;
    }
    fill_ids(r);
    return K3_OK;
}

/* An iteration without accounts has the step of the one behind it: else with some numbers of steps the accounts
 * would never see one of them. */
uint64_t k3_region_step(const k3_region_t *r, uint64_t payload)
{
    return (payload - r->unbooked) % k3_routing_steps(r->cell->routing);
}

static void choose_step(k3_region_t *r, uint64_t payload)
{
    uint64_t steps = k3_routing_steps(r->cell->routing);

    if (steps > 1) {
        k3_routing_select(r->cell->routing, k3_region_step(r, payload));
        fill_ids(r);
        if (r->ops->rerouted != NULL) {
            r->ops->rerouted(r->engine);
        }
    }
}

static k3_status_t fill_factors(k3_region_t *r, k3_error_t *err)
{
    uint32_t local = k3_layout_local_experts(&r->cell->layout, &r->cell->model);
    uint32_t first =
        k3_layout_first_expert(&r->cell->layout, &r->cell->model, (uint32_t)r->world->rank);

    if (k3_alloc("stand-in factors", local, sizeof(float), &r->factors, err) != K3_OK) {
        return err->status;
    }
    for (uint32_t e = 0; e < local; e++) {
        r->factors[e] = k3_stand_in_factor(first + e);
    }
    return K3_OK;
}

k3_fault_action_t k3_region_action(const k3_cell_t *cell)
{
    bool acts = cell->fault == K3_FAULT_MASK || cell->fault == K3_FAULT_TRAP;

    return acts && k3_engine_find(cell->profile->engine)->masks != NULL ? cell->fault
                                                                        : K3_FAULT_WAIT;
}

k3_status_t k3_region_check_limit(const k3_cell_t *cell, const k3_region_options_t *options,
                                  k3_error_t *err)
{
    if (options->call_timeout > 0.0 && k3_region_action(cell) == K3_FAULT_WAIT) {
        return k3_fail(
            err, K3_ERR_UNSUPPORTED,
            "call-timeout %g s: calls of %s wait for ever here, only the watchdog ends them",
            options->call_timeout, cell->profile->name);
    }
    return K3_OK;
}

double k3_region_limit(const k3_cell_t *cell, const k3_region_options_t *options)
{
    if (k3_region_action(cell) == K3_FAULT_WAIT) {
        return 0.0;
    }
    if (options->call_timeout > 0.0) {
        return options->call_timeout;
    }
    return options->fault.dead_count > 0 ? cell->profile->timeout_s : 0.0;
}

/* --- what computes ------------------------------------------------------------------------------ */

/* Whether rows go through collectives of MPI. */
static bool collects(const k3_cell_t *cell)
{
    return cell->component == K3_COMPONENT_REGION &&
           (cell->path.sp_moe || (!cell->path.fast && cell->layout.tp > 1) ||
            cell->shared == K3_SHARED_SHARDED);
}

/* What the region itself cannot do there. */
k3_status_t k3_region_check_device(const k3_cell_t *cell, const k3_device_t *device,
                                   k3_error_t *err)
{
    if (device == NULL) {
        return K3_OK;
    }
    if (collects(cell) && !device->mpi_reaches) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s on a device: MPI here takes no addresses of its memory (--staged on, or "
                       "dp = tp)",
                       cell->profile->name);
    }
    return k3_engine_check_device(cell, err);
}

/* --- engine ---------------------------------------------------------------------------------- */

/* On a device beside what follows, until the sum waits for it. */
static void run_shared(void *region)
{
    k3_region_t *r = region;

    r->compute.ops->fork(&r->compute);
    k3_region_shared(r);
    r->compute.ops->leave(&r->compute);
}

static bool has_control(const k3_region_t *r)
{
    return r->ops->control != NULL && r->ops->has_control(r->cell);
}

static k3_status_t create_engine(k3_region_t *r, const k3_region_options_t *options,
                                 k3_error_t *err)
{
    const k3_fault_t *f = &options->fault;
    bool              slow = f->slow_src == r->world->rank;
    k3_engine_env_t   env = {
          .cell = r->cell,
          .world = r->world,
          .fabric = options->fabric,
          .kernels = r->kernels,
          .compute = &r->compute,
          .spans = &r->spans,
          .waits = {r->waits[0], r->waits[1], r->waits[2]},
          .accounting = options->accounting,
          .order_rounds = options->order_rounds,
          .slow_peer = slow ? f->slow_dst : -1,
          .slow_qp = slow ? f->slow_qp : 0,
          .slow_network = r->cell->node_of[r->world->rank] == f->slow_node,
          .slow_factor = f->slow_factor,
          .after_send = r->cell->shared_overlap ? run_shared : NULL,
          .after_send_arg = r,
          .limit_s = r->limit_s,
    };
    uint64_t begin = k3_clock_now();

    k3_watchdog_tick("set-up: queue pairs and buffers", 0);
    if (r->ops->create(&env, &r->engine, err) == K3_OK &&
        r->cell->component == K3_COMPONENT_CONTROL && !has_control(r)) {
        k3_control_create(&env, &r->control, err);
    }
    r->setup_queue_pairs_us = k3_clock_us(k3_clock_now() - begin);
    if (err->status == K3_OK) {
        k3_qps_t *qps = r->ops->qps(r->engine);

        r->allocated_bytes = k3_alloc_bytes() + (qps != NULL ? k3_qps_bytes(qps) : 0);
        r->device_bytes = r->compute.device != NULL ? r->compute.device->bytes : 0;
    }
    return err->status;
}

static k3_status_t create_compute(k3_region_t *r, const k3_region_options_t *options,
                                  k3_error_t *err)
{
    const k3_compute_config_t config = {.cell = r->cell,
                                        .rank = (uint32_t)r->world->rank,
                                        .kernels = r->kernels,
                                        .device = options->device,
                                        .gpu = options->gpu,
                                        .blas = options->blas,
                                        .blas_ops = options->blas_ops};

    r->times_kernels = options->events;
    r->weights->device = options->device;
    return k3_compute_create(&config, &r->compute, err);
}

static void weights_of(const void *weights, uint32_t local, k3_expert_weights_t *expert)
{
    k3_weights_expert(weights, local, expert);
}

static void fill_experts(k3_region_t *r)
{
    r->compute.work = r->buffer[K3_BUF_EXPERT_WORK];
    r->compute.experts = (k3_expert_model_t){
        .shape = r->weights->shape,
        .recipe = &r->cell->runner->recipe,
        .stand_in = r->stand_in,
        .factors = r->factors,
        .weights = weights_of,
        .arg = r->weights,
        .block = r->weights->device_block,
        .pitch = r->weights->pitch,
    };
    r->compute.experts.shape.latent = r->cell->model.latent;
}

static k3_status_t setup_local(k3_region_t *r, const k3_region_options_t *options, k3_error_t *err)
{
    r->kernels = k3_kernels_cpu(options->isa);
    if (r->kernels == NULL) {
        return k3_fail(err, K3_ERR_USAGE, "isa %s is not usable on this processor", options->isa);
    }
    if (create_compute(r, options, err) != K3_OK || alloc_buffers(r, err) != K3_OK ||
        alloc_routing(r, err) != K3_OK || fill_factors(r, err) != K3_OK ||
        k3_weights_ensure(r->cell, (uint32_t)r->world->rank, r->weights, err) != K3_OK) {
        return err->status;
    }
    fill_experts(r);
    fill_shares(r);
    fill_context(r);
    return k3_region_events_create(r, err);
}

static k3_status_t create_groups(k3_region_t *r, k3_error_t *err)
{
    const k3_layout_t *l = &r->cell->layout;
    int                rank = r->world->rank;
    uint32_t place = (uint32_t)rank % l->attn_tp, dp = k3_layout_dp_rank(l, (uint32_t)rank);

    k3_group_create(r->world->comm, (int)k3_layout_group(l, (uint32_t)rank), rank, &r->attn, err);
    k3_group_create(r->world->comm, 0, rank, &r->all, err);
    if (k3_splits_context(r->cell)) {
        k3_group_create(r->world->comm, (int)(dp * l->attn_tp + place), rank, &r->cp, err);
        k3_group_create(r->world->comm, (int)k3_layout_cp_rank(l, (uint32_t)rank), rank,
                        &r->same_cp, err);
    }
    return k3_world_agree(r->world, err);
}

/* Steps of a trace send other rows to other places, and there are more of them than iterations of a warm-up: the first
 * store to a page, for which the kernel clears it, would fall into a timed iteration. So all pages are there before the
 * first one. One routing stores where it did in the warm-up, and what it leaves out costs no memory. */
static bool stores_anew(const k3_cell_t *cell)
{
    return k3_routing_steps(cell->routing) > 1;
}

static void create_all(k3_region_t *r, const k3_region_options_t *options, k3_error_t *err)
{
    setup_local(r, options, err);
    if (k3_world_agree(r->world, err) != K3_OK || create_groups(r, err) != K3_OK) {
        return;
    }
    create_engine(r, options, err);
    if (k3_world_agree(r->world, err) == K3_OK && stores_anew(r->cell) &&
        r->ops->qps(r->engine) != NULL) {
        k3_qps_touch(r->ops->qps(r->engine));
    }
}

k3_status_t k3_region_create(const k3_cell_t *cell, const k3_world_t *world,
                             const k3_region_options_t *options, k3_region_t *region,
                             k3_error_t *err)
{
    memset(region, 0, sizeof(*region));
    region->attn.comm = region->all.comm = MPI_COMM_NULL;
    region->cp.comm = region->same_cp.comm = MPI_COMM_NULL;
    region->cell = cell;
    region->weights = options->weights;
    region->world = world;
    region->ops = k3_engine_find(cell->profile->engine);
    region->fault = options->fault;
    region->sync = options->sync;
    region->pairs = cell->component == K3_COMPONENT_CHAIN ? K3_CHAIN_PAIRS : 1;
    region->stand_in =
        cell->component != K3_COMPONENT_REGION && cell->component != K3_COMPONENT_EXPERTS;
    region->limit_s = k3_region_limit(cell, options);
    region->spans.fault_phase = -1;
    region->spans.stands_still = region->limit_s == 0.0;
    region->spans.stall_ms = options->fault.stall_ms;
    k3_alloc_touched(stores_anew(cell));
    create_all(region, options, err);
    k3_alloc_touched(false);
    if (err->status != K3_OK) {
        k3_region_destroy(region);
    }
    return err->status;
}

void k3_region_destroy(k3_region_t *r)
{
    k3_control_destroy(r->control);
    if (r->engine != NULL) {
        r->ops->destroy(r->engine);
    }
    k3_group_destroy(&r->same_cp);
    k3_group_destroy(&r->cp);
    k3_group_destroy(&r->all);
    k3_group_destroy(&r->attn);
    k3_free(r->factors);
    k3_free(r->booked);
    k3_free(r->routed_ids);
    k3_free(r->sum_share);
    k3_free(r->cp_share);
    k3_free(r->row_share);
    k3_free(r->attn_share);
    for (int t = 0; t < K3_TRAFFIC_COUNT; t++) {
        k3_free(r->waits[t]);
        k3_free(r->kept_waits[t]);
    }
    for (int b = 0; b < K3_BUF_COUNT; b++) {
        k3_free(r->mirror[b]);
        if (k3_buffer_of_host((k3_buffer_t)b)) {
            k3_free(r->buffer[b]);
        } else {
            k3_compute_free(&r->compute, r->buffer[b]);
        }
    }
    k3_free(r->spare_rows);
    k3_region_events_destroy(r);
    k3_compute_destroy(&r->compute);
    memset(r, 0, sizeof(*r));
    r->attn.comm = r->all.comm = r->cp.comm = r->same_cp.comm = MPI_COMM_NULL;
}

/* --- inputs ---------------------------------------------------------------------------------- */

static void fill_partial(k3_region_t *r, uint64_t payload)
{
    const k3_layout_t *l = &r->cell->layout;
    uint32_t           rank = (uint32_t)r->world->rank;
    uint64_t           h = r->cell->model.hidden;
    uint64_t           first = l->first_row[k3_layout_group_first(l, rank)];
    uint16_t          *partial = k3_region_host_of(r, K3_BUF_PARTIAL);
    k3_source_t        source = k3_cell_source(r->cell);

    for (uint64_t i = 0; i < r->group_rows; i++) {
        k3_source_partial(&source, payload, first + i, rank % l->attn_tp, l->attn_tp,
                          partial + i * h);
    }
    memset(partial + r->group_rows * h, 0, (r->group_slots - r->group_rows) * h * sizeof(uint16_t));
    k3_region_written(r, K3_BUF_PARTIAL);
}

/* Without the front the latent rows come straight from the generator, as rows of width L, and the
 * weights fall with k and sum to one. */
static void fill_latent(k3_region_t *r, uint64_t payload)
{
    k3_model_t  latent = r->cell->model;
    uint32_t    topk = latent.topk, width = latent.latent;
    k3_buffer_t buffer = latent.latent_step ? K3_BUF_LATENT : K3_BUF_X;
    uint16_t   *values = k3_region_host_of(r, buffer);
    float      *gates = k3_region_host_of(r, K3_BUF_GATES);
    uint64_t    first, count;

    latent.hidden = width;
    r->latent = r->buffer[buffer];
    k3_cell_dispatched(r->cell, (uint32_t)r->world->rank, &first, &count);
    for (uint64_t i = 0; i < r->rows; i++) {
        k3_input_partial(&latent, r->cell->seed, payload, first + i, 0, 1, values + i * width);
        for (uint32_t k = 0; k < topk; k++) {
            gates[i * topk + k] = (float)(2.0 * (topk - k) / ((double)topk * (topk + 1)));
        }
    }
    memcpy(r->ids, r->routed_ids, r->rows * topk * sizeof(int32_t));
    k3_region_written(r, buffer);
    k3_region_written(r, K3_BUF_GATES);
}

void k3_region_fill(k3_region_t *r, uint64_t payload)
{
    choose_step(r, payload);
    if (r->cell->component == K3_COMPONENT_REGION) {
        fill_partial(r, payload);
    } else {
        fill_latent(r, payload);
    }
}
