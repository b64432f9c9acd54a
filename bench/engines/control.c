#include "bench/engines/control.h"

#include <string.h>

#include "bench/plan/cell_rows.h"
#include "bench/plan/traffic.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"

typedef enum stage {
    STAGE_FRONT, /* barrier in front */
    STAGE_COUNTS,
    STAGE_COUNTS_INSIDE,
    STAGE_FIRST_HOP,
    STAGE_ROWS,
    STAGE_BEHIND, /* barrier behind */
    STAGES
} stage_t;

typedef struct lane {
    int      peer;
    unsigned qp;
    uint64_t messages, signals, bytes; /* of one message */
    bool     tells; /* in order: one add more, as no signal of the stage goes there */
    bool     words; /* counts, which the host posts and reads */
} lane_t;

struct k3_control {
    const k3_world_t *world;
    const k3_cell_t  *cell;
    k3_compute_t     *compute;
    k3_qps_t         *qps;
    lane_t           *lanes; /* by stage */
    uint64_t          first[STAGES + 1], count, capacity;
    uint32_t         *due;      /* [STAGES][R] signals from each rank */
    uint32_t         *silent;   /* [STAGES][R] messages from each rank to this one */
    uint8_t          *told;     /* [R] this rank's signals of the present stage, at set-up */
    uint32_t         *expected; /* [R] so far */
    uint64_t         *arrives;  /* [R] bytes of rows that each source brings at last */
    /* What the protocol's own copies read and write: memory of the compute. */
    uint8_t  *formatted, *packed, *copies;
    uint64_t  area;  /* bytes that one rank sends to one other, at most */
    uint64_t *sent;  /* [R] bytes to each peer so far */
    unsigned  width; /* of a signal */
    bool      soft;
};

/* --- stages ---------------------------------------------------------------------------------- */

static bool leaves_node(const k3_cell_t *cell, const k3_flow_t *flow)
{
    return cell->place_of[flow->src] / cell->node_most !=
           cell->place_of[flow->dst] / cell->node_most;
}

/* When the messages of a flow may go. Rows that have a place of their own need no counts. */
static stage_t stage_of_messages(const k3_cell_t *cell, const k3_flow_t *flow)
{
    bool hops = cell->profile->engine == K3_ENGINE_RAILS;

    if (flow->phase == K3_TRAFFIC_NOTIFY) {
        return !hops ? STAGE_ROWS : leaves_node(cell, flow) ? STAGE_COUNTS : STAGE_COUNTS_INSIDE;
    }
    return hops && leaves_node(cell, flow) ? STAGE_FIRST_HOP : STAGE_ROWS;
}

/* Of two barriers one is in front and one behind; a buffer that serves both ways is freed behind. */
static void split_signals(const k3_cell_t *cell, const k3_flow_t *flow, uint64_t *signals)
{
    const k3_profile_t *p = cell->profile;
    bool barrier = flow->phase == K3_TRAFFIC_DISPATCH && flow->messages == 0 && flow->qp == 0;

    memset(signals, 0, STAGES * sizeof(*signals));
    if (barrier && p->completion == K3_DONE_BARRIER) {
        signals[STAGE_FRONT] = flow->signals / 2;
        signals[STAGE_BEHIND] = flow->signals - flow->signals / 2;
    } else if (barrier && p->slots == K3_SLOTS_SPLIT) {
        signals[STAGE_BEHIND] = flow->signals;
    } else {
        signals[stage_of_messages(cell, flow)] = flow->signals;
    }
}

/* --- set-up ---------------------------------------------------------------------------------- */

typedef struct listing {
    k3_control_t *c;
    stage_t       stage;
} listing_t;

static bool is_posted(const k3_flow_t *flow)
{
    return !flow->pulled && flow->phase != K3_TRAFFIC_COMBINE && flow->messages + flow->signals > 0;
}

static void count_flow(const k3_flow_t *flow, void *arg)
{
    k3_control_t *c = arg;
    uint32_t      ranks = (uint32_t)c->world->size;
    uint64_t      signals[STAGES];

    if (!is_posted(flow)) {
        return;
    }
    if (flow->src == (uint32_t)c->world->rank) {
        c->capacity += 3; /* messages and two parts of the signals at most */
    }
    if (flow->dst == (uint32_t)c->world->rank) {
        split_signals(c->cell, flow, signals);
        for (uint32_t s = 0; s < STAGES; s++) {
            c->due[s * ranks + flow->src] += (uint32_t)signals[s];
        }
        c->silent[stage_of_messages(c->cell, flow) * ranks + flow->src] += (uint32_t)flow->messages;
        c->arrives[flow->src] += stage_of_messages(c->cell, flow) == STAGE_ROWS ? flow->payload : 0;
    }
}

static void add_lane(const k3_flow_t *flow, void *arg)
{
    const listing_t *listing = arg;
    k3_control_t    *c = listing->c;
    bool             counts = flow->phase == K3_TRAFFIC_NOTIFY;
    lane_t           lane = {.peer = (int)flow->dst, .qp = flow->qp, .words = counts};
    uint64_t         signals[STAGES], words = k3_mul(flow->signals, c->width);

    if (!is_posted(flow) || flow->src != (uint32_t)c->world->rank) {
        return;
    }
    split_signals(c->cell, flow, signals);
    lane.signals = signals[listing->stage];
    if (flow->messages > 0 && stage_of_messages(c->cell, flow) == listing->stage) {
        lane.messages = flow->messages;
        lane.bytes = (flow->wire > words ? flow->wire - words : 0) / flow->messages;
    }
    if (lane.messages + lane.signals == 0) {
        return;
    }
    c->told[flow->dst] |= lane.signals > 0;
    c->lanes[c->count++] = lane;
    c->sent[flow->dst] += lane.bytes * lane.messages;
    c->area = c->sent[flow->dst] > c->area ? c->sent[flow->dst] : c->area;
}

static void visit_all(const k3_cell_t *cell, k3_traffic_t *traffic, k3_flow_visit_t visit,
                      void *arg)
{
    for (uint32_t origin = 0; origin < cell->layout.tp; origin++) {
        k3_traffic_origin(traffic, origin, visit, arg);
    }
}

/* The last lane to a rank that no signal of the stage tells that its messages are there. */
static void mark_telling(k3_control_t *c, stage_t stage)
{
    for (uint64_t i = c->count; i > c->first[stage]; i--) {
        lane_t *lane = &c->lanes[i - 1];

        lane->tells = !c->told[lane->peer];
        c->told[lane->peer] = 1;
    }
    memset(c->told, 0, (uint64_t)c->world->size);
}

static void list_stages(k3_control_t *c, k3_traffic_t *traffic)
{
    uint64_t ranks = (uint64_t)c->world->size;

    for (listing_t listing = {c, 0}; listing.stage < STAGES; listing.stage++) {
        c->first[listing.stage] = c->count;
        visit_all(c->cell, traffic, add_lane, &listing);
        mark_telling(c, listing.stage);
    }
    c->first[STAGES] = c->count;
    for (uint64_t i = 0; i < STAGES * ranks; i++) {
        c->due[i] += c->due[i] == 0 && c->silent[i] > 0;
    }
}

static k3_status_t list_lanes(k3_control_t *c, k3_error_t *err)
{
    k3_traffic_t traffic;

    if (k3_traffic_open(c->cell, &traffic, err) != K3_OK) {
        return err->status;
    }
    visit_all(c->cell, &traffic, count_flow, c);
    if (k3_alloc("control lanes", c->capacity + 1, sizeof(lane_t), &c->lanes, err) == K3_OK) {
        list_stages(c, &traffic);
    }
    k3_traffic_close(&traffic);
    return err->status;
}

/* The block: an area for each source, one to send from, and the words of all sources, for both loops. That for
 * rows on a device has the same areas: counts go from and to those of the host. */
static uint64_t areas(const k3_control_t *c)
{
    return k3_mul(c->area, (uint64_t)c->world->size + 1);
}

static uint64_t word_at(const k3_control_t *c, int source, bool ordered)
{
    return areas(c) +
           ((uint64_t)source + (ordered ? (uint64_t)c->world->size : 0)) * sizeof(uint64_t);
}

static k3_status_t alloc(k3_control_t *c, k3_error_t *err)
{
    uint64_t ranks = (uint64_t)c->world->size;

    if (k3_alloc("control", ranks, sizeof(uint64_t), &c->sent, err) == K3_OK &&
        k3_alloc("control", ranks, 1, &c->told, err) == K3_OK &&
        k3_alloc("control", ranks, sizeof(uint32_t), &c->expected, err) == K3_OK &&
        k3_alloc("control", ranks * STAGES, sizeof(uint32_t), &c->due, err) == K3_OK &&
        k3_alloc("control", ranks * STAGES, sizeof(uint32_t), &c->silent, err) == K3_OK &&
        k3_alloc("control", ranks, sizeof(uint64_t), &c->arrives, err) == K3_OK) {
        list_lanes(c, err);
    }
    return err->status;
}

/* --- copies that the protocol asks for ------------------------------------------------------- */

/* Rows that share a message are packed behind each other where a queue pair reads them, and into the own
 * side of a ring in front of the hop to another node. */
static bool packs(const k3_control_t *c, const lane_t *lane, stage_t stage)
{
    const k3_profile_t *p = c->cell->profile;

    if (p->rings != NULL) {
        return stage == STAGE_FIRST_HOP;
    }
    return (p->qp_map == K3_QP_SPLIT || p->slots == K3_SLOTS_SPLIT) && stage == STAGE_ROWS &&
           k3_qps_mapped(c->qps, lane->peer) == NULL;
}

/* What arrives must leave a ring, and a buffer that serves both ways. */
static bool copies_out(const k3_control_t *c)
{
    return c->cell->profile->rings != NULL || c->cell->profile->slots == K3_SLOTS_SPLIT;
}

/* Own rows without their metadata, values and scales where kernels of a device can write them. */
static k3_encode_rows_t formatted_rows(const k3_control_t *c, uint64_t rows, const uint16_t *latent)
{
    enum { UNIT = 16 };
    k3_format_t format = c->cell->dispatch_format;
    uint32_t    width = c->cell->model.latent;
    uint64_t    values = k3_round_up(k3_format_value_bytes(format, width), UNIT);

    return (k3_encode_rows_t){.format = format,
                              .rows = rows,
                              .width = width,
                              .in = latent,
                              .records = c->formatted,
                              .stride =
                                  values + k3_round_up(k3_format_scale_bytes(format, width), UNIT),
                              .scales_at = values};
}

static k3_status_t alloc_copies(k3_control_t *c, k3_error_t *err)
{
    uint64_t first, rows, arrive = 0;
    uint64_t row = formatted_rows(c, 0, NULL).stride;

    k3_cell_dispatched(c->cell, (uint32_t)c->world->rank, &first, &rows);
    for (int source = 0; copies_out(c) && source < c->world->size; source++) {
        arrive = k3_add(arrive, c->arrives[source]);
    }
    if (k3_compute_alloc(c->compute, "control", rows, row, false, &c->formatted, err) == K3_OK &&
        k3_compute_alloc(c->compute, "control", c->area, 1, false, &c->packed, err) == K3_OK) {
        k3_compute_alloc(c->compute, "control", arrive, 1, false, &c->copies, err);
    }
    return err->status;
}

static k3_status_t format_rows(k3_control_t *c, const k3_rows_t *rows, k3_error_t *err)
{
    const k3_encode_rows_t to = formatted_rows(c, rows->count, rows->latent);

    c->compute->ops->encode(c->compute, &to);
    return c->compute->ops->finish(c->compute, err);
}

static k3_status_t copied(k3_control_t *c, k3_error_t *err)
{
    c->compute->ops->copies_done(c->compute);
    return c->compute->ops->finish(c->compute, err);
}

static k3_status_t copy_out(k3_control_t *c, k3_error_t *err)
{
    const uint8_t *block = k3_qps_rows(c->qps);
    uint64_t       at = 0;

    for (int source = 0; source < c->world->size; source++) {
        c->compute->ops->copy(c->compute, c->copies + at, block + (uint64_t)source * c->area,
                              c->arrives[source]);
        at += c->arrives[source];
    }
    return copied(c, err);
}

k3_status_t k3_control_create(const k3_engine_env_t *env, k3_control_t **control_p, k3_error_t *err)
{
    k3_control_t   *c = NULL;
    k3_engine_env_t plain = *env;

    plain.accounting = false;
    plain.order_rounds = 0;
    if (k3_alloc("control", 1, sizeof(*c), &c, err) == K3_OK) {
        c->world = env->world;
        c->cell = env->cell;
        c->compute = env->compute;
        c->width = env->cell->profile->signal_bytes == 8 ? 8 : 4;
        alloc(c, err);
    }
    if (k3_world_agree(env->world, err) == K3_OK) {
        MPI_Allreduce(MPI_IN_PLACE, &c->area, 1, MPI_UINT64_T, MPI_MAX, env->world->comm);
        c->area = k3_round_up(c->area + 1, 64);
        alloc_copies(c, err);
    }
    if (k3_world_agree(env->world, err) == K3_OK) {
        k3_engine_queue_pairs(&plain, word_at(c, env->world->size, true),
                              c->compute->device != NULL ? areas(c) : 0, &c->qps, err);
    }
    if (err->status != K3_OK) {
        k3_control_destroy(c);
        return err->status;
    }
    c->soft = k3_engine_soft_lanes(env->world, c->qps);
    *control_p = c;
    return K3_OK;
}

void k3_control_destroy(k3_control_t *c)
{
    if (c == NULL) {
        return;
    }
    if (c->qps != NULL) {
        k3_qps_destroy(c->qps);
    }
    k3_compute_free(c->compute, c->copies);
    k3_compute_free(c->compute, c->packed);
    k3_compute_free(c->compute, c->formatted);
    k3_free(c->arrives);
    k3_free(c->silent);
    k3_free(c->due);
    k3_free(c->expected);
    k3_free(c->told);
    k3_free(c->sent);
    k3_free(c->lanes);
    k3_free(c);
}

/* --- the loops ------------------------------------------------------------------------------- */

static void post_messages(k3_control_t *c, const lane_t *lane, bool pack)
{
    uint64_t out = c->area * (uint64_t)c->world->size, to = c->area * (uint64_t)c->world->rank;
    char    *rows = (char *)k3_qps_rows(c->qps) + out, *words = (char *)k3_qps_memory(c->qps) + out;
    uint64_t *at = &c->sent[lane->peer];

    for (uint64_t i = 0; i < lane->messages; i++) {
        if (pack) {
            memcpy(rows + *at, c->packed + *at, lane->bytes);
        }
        if (lane->words) {
            k3_qps_put_words(c->qps, lane->peer, lane->qp, words + *at, to + *at, lane->bytes);
        } else {
            k3_qps_put(c->qps, lane->peer, lane->qp, rows + *at, to + *at, lane->bytes, 0);
        }
        *at += lane->bytes;
    }
}

static void post_signals(k3_control_t *c, const lane_t *lane, uint64_t count, uint64_t word)
{
    for (uint64_t i = 0; i < count; i++) {
        if (c->width == 8) {
            k3_qps_signal_add64(c->qps, lane->peer, lane->qp, word, 1);
        } else {
            k3_qps_signal_add32(c->qps, lane->peer, lane->qp, word, 1);
        }
    }
}

k3_status_t k3_control_bare(k3_control_t *c, k3_error_t *err)
{
    uint64_t word = word_at(c, c->world->rank, false);

    memset(c->sent, 0, (uint64_t)c->world->size * sizeof(*c->sent));
    for (uint64_t i = 0; i < c->count; i++) {
        post_messages(c, &c->lanes[i], false);
        post_signals(c, &c->lanes[i], c->lanes[i].signals, word);
    }
    c->compute->ops->copies_done(c->compute); /* to the own rank */
    if (k3_qps_flush(c->qps, err) == K3_OK && k3_qps_barrier(c->qps, err) == K3_OK) {
        c->compute->ops->finish(c->compute, err);
    }
    return err->status;
}

/* Until every rank's signals of the stage are in; the words count on. */
static k3_status_t wait_stage(k3_control_t *c, stage_t stage, k3_error_t *err)
{
    const uint8_t  *words = (const uint8_t *)k3_qps_memory(c->qps) + word_at(c, 0, true);
    const uint32_t *due = c->due + (uint64_t)stage * (uint64_t)c->world->size;

    for (int source = 0; source < c->world->size; source++) {
        c->expected[source] += due[source];
        while (due[source] > 0 && err->status == K3_OK &&
               (int32_t)(k3_signal_read32(words + (uint64_t)source * sizeof(uint64_t)) -
                         c->expected[source]) < 0) {
            k3_qps_idle(c->qps, err);
        }
    }
    return err->status;
}

/* On a device all that is packed in a stage is copied together, in front of its first post. */
static k3_status_t pack_stage(k3_control_t *c, stage_t stage, k3_error_t *err)
{
    uint8_t *rows = (uint8_t *)k3_qps_rows(c->qps) + c->area * (uint64_t)c->world->size;

    for (uint64_t i = c->first[stage]; i < c->first[stage + 1]; i++) {
        const lane_t *lane = &c->lanes[i];
        uint64_t      at = c->sent[lane->peer];

        if (packs(c, lane, stage) && !lane->words) {
            c->compute->ops->copy(c->compute, rows + at, c->packed + at,
                                  lane->messages * lane->bytes);
        }
    }
    return copied(c, err);
}

/* A barrier behind a flush, or flags behind a drain: the signals of a stage follow all its messages. */
static void post_stage(k3_control_t *c, stage_t stage, bool in_full, k3_error_t *err)
{
    bool     together = in_full && c->compute->device != NULL;
    uint64_t word = word_at(c, c->world->rank, true);
    uint64_t first = c->first[stage], end = c->first[stage + 1];
    bool     drains = c->cell->profile->completion == K3_DONE_BARRIER ||
                  c->cell->profile->completion == K3_DONE_DRAIN_FLAG;

    if (together && pack_stage(c, stage, err) != K3_OK) {
        return;
    }
    for (uint64_t i = first; i < end; i++) {
        post_messages(c, &c->lanes[i], in_full && !together && packs(c, &c->lanes[i], stage));
        if (!drains) {
            post_signals(c, &c->lanes[i], c->lanes[i].signals + c->lanes[i].tells, word);
        }
    }
    if (drains && first < end) {
        k3_qps_flush(c->qps, err);
    }
    for (uint64_t i = first; drains && i < end; i++) {
        post_signals(c, &c->lanes[i], c->lanes[i].signals + c->lanes[i].tells, word);
    }
    c->compute->ops->copies_done(c->compute); /* to the own rank */
}

static k3_status_t run_stages(k3_control_t *c, bool in_full, k3_error_t *err)
{
    memset(c->sent, 0, (uint64_t)c->world->size * sizeof(*c->sent));
    for (stage_t s = 0; s < STAGES && err->status == K3_OK; s++) {
        post_stage(c, s, in_full, err);
        wait_stage(c, s, err);
        if (in_full && s == STAGE_ROWS && copies_out(c)) {
            copy_out(c, err);
        }
    }
    if (err->status == K3_OK) {
        c->compute->ops->finish(c->compute, err);
    }
    return k3_engine_finish_span(c->qps, c->soft, err);
}

k3_status_t k3_control_ordered(k3_control_t *c, k3_error_t *err)
{
    return run_stages(c, false, err);
}

k3_status_t k3_control_floor(k3_control_t *c, const k3_rows_t *rows, k3_error_t *err)
{
    return format_rows(c, rows, err) == K3_OK ? run_stages(c, true, err) : err->status;
}
