#include "bench/engines/control.h"

#include <string.h>

#include "bench/plan/traffic.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"

typedef struct lane {
    int      peer;
    unsigned qp;
    uint64_t messages, signals, bytes; /* of one message */
} lane_t;

struct k3_control {
    const k3_world_t *world;
    k3_qps_t         *qps;
    lane_t           *lanes;
    uint64_t          count, capacity;
    uint64_t          area;  /* bytes that one rank sends to one other, at most */
    uint64_t         *sent;  /* [R] bytes to each peer so far */
    unsigned          width; /* of a signal */
};

/* --- set-up ---------------------------------------------------------------------------------- */

static bool is_mine(const k3_control_t *c, const k3_flow_t *flow)
{
    return flow->src == (uint32_t)c->world->rank && !flow->pulled &&
           flow->phase != K3_TRAFFIC_COMBINE && flow->messages + flow->signals > 0;
}

static void count_lane(const k3_flow_t *flow, void *arg)
{
    k3_control_t *c = arg;

    c->capacity += is_mine(c, flow);
}

static void add_lane(const k3_flow_t *flow, void *arg)
{
    k3_control_t *c = arg;
    uint64_t      signals = k3_mul(flow->signals, c->width), bytes = 0;

    if (!is_mine(c, flow)) {
        return;
    }
    if (flow->messages > 0) {
        bytes = (flow->wire > signals ? flow->wire - signals : 0) / flow->messages;
    }
    c->lanes[c->count++] = (lane_t){
        .peer = (int)flow->dst,
        .qp = flow->qp,
        .messages = flow->messages,
        .signals = flow->signals,
        .bytes = bytes,
    };
    c->sent[flow->dst] += bytes * flow->messages;
    c->area = c->sent[flow->dst] > c->area ? c->sent[flow->dst] : c->area;
}

static void visit_all(const k3_cell_t *cell, k3_traffic_t *traffic, k3_flow_visit_t visit,
                      k3_control_t *c)
{
    for (uint32_t origin = 0; origin < cell->layout.tp; origin++) {
        k3_traffic_origin(traffic, origin, visit, c);
    }
}

static k3_status_t list_lanes(k3_control_t *c, const k3_cell_t *cell, k3_error_t *err)
{
    k3_traffic_t traffic;

    if (k3_traffic_open(cell, &traffic, err) != K3_OK) {
        return err->status;
    }
    visit_all(cell, &traffic, count_lane, c);
    if (k3_alloc("control lanes", c->capacity + 1, sizeof(lane_t), &c->lanes, err) == K3_OK) {
        visit_all(cell, &traffic, add_lane, c);
    }
    k3_traffic_close(&traffic);
    return err->status;
}

/* The block: an area for each source, one to send from, and the words of all sources. */
static uint64_t word_at(const k3_control_t *c, int source)
{
    return k3_mul(c->area, (uint64_t)c->world->size + 1) + (uint64_t)source * sizeof(uint64_t);
}

k3_status_t k3_control_create(const k3_engine_env_t *env, k3_control_t **control_p, k3_error_t *err)
{
    k3_control_t   *c = NULL;
    k3_engine_env_t plain = *env;

    plain.accounting = false;
    plain.order_rounds = 0;
    if (k3_alloc("control", 1, sizeof(*c), &c, err) == K3_OK) {
        c->world = env->world;
        c->width = env->cell->profile->signal_bytes == 8 ? 8 : 4;
        if (k3_alloc("control", (uint64_t)c->world->size, sizeof(uint64_t), &c->sent, err) ==
            K3_OK) {
            list_lanes(c, env->cell, err);
        }
    }
    if (k3_world_agree(env->world, err) == K3_OK) {
        MPI_Allreduce(MPI_IN_PLACE, &c->area, 1, MPI_UINT64_T, MPI_MAX, env->world->comm);
        c->area = k3_round_up(c->area + 1, 64);
        k3_engine_queue_pairs(&plain, word_at(c, env->world->size), &c->qps, err);
    }
    if (err->status != K3_OK) {
        k3_control_destroy(c);
        return err->status;
    }
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
    k3_free(c->sent);
    k3_free(c->lanes);
    k3_free(c);
}

/* --- the loop -------------------------------------------------------------------------------- */

static void post_lane(k3_control_t *c, const lane_t *lane)
{
    const char *from = (const char *)k3_qps_memory(c->qps) + c->area * (uint64_t)c->world->size;
    uint64_t    to = c->area * (uint64_t)c->world->rank, word = word_at(c, c->world->rank);
    uint64_t   *at = &c->sent[lane->peer];

    for (uint64_t i = 0; i < lane->messages; i++) {
        k3_qps_put(c->qps, lane->peer, lane->qp, from + *at, to + *at, lane->bytes, 0);
        *at += lane->bytes;
    }
    for (uint64_t i = 0; i < lane->signals; i++) {
        if (c->width == 8) {
            k3_qps_signal_add64(c->qps, lane->peer, lane->qp, word, 1);
        } else {
            k3_qps_signal_add32(c->qps, lane->peer, lane->qp, word, 1);
        }
    }
}

k3_status_t k3_control_run(k3_control_t *c, k3_error_t *err)
{
    memset(c->sent, 0, (uint64_t)c->world->size * sizeof(*c->sent));
    for (uint64_t i = 0; i < c->count; i++) {
        post_lane(c, &c->lanes[i]);
    }
    if (k3_qps_flush(c->qps, err) == K3_OK) {
        k3_qps_barrier(c->qps, err);
    }
    return err->status;
}
