#include "bench/engines/engine.h"

const char *k3_engine_refuses_nothing(const k3_cell_t *cell)
{
    (void)cell;
    return NULL;
}

static void copy_rows(void *compute, void *to, const void *from, uint64_t bytes)
{
    k3_compute_t *c = compute;

    c->ops->copy(c, to, from, bytes);
}

k3_status_t k3_engine_queue_pairs(const k3_engine_env_t *env, uint64_t bytes, uint64_t rows_bytes,
                                  k3_qps_t **qps_p, k3_error_t *err)
{
    uint32_t        active = env->cell->qps.active;
    k3_qps_config_t config = {
        .bytes = bytes,
        .qps_per_peer = active > 0 ? active : 1, /* mapped memory alone: counted on index 0 */
        .banks = K3_TRAFFIC_COUNT,
        .p2p = env->cell->p2p,
        .node_of = env->cell->node_of,
        .accounting = env->accounting,
        .pulls = k3_profile_pulls(env->cell->profile),
        .order_rounds = env->order_rounds,
        .slow_peer = env->slow_peer,
        .slow_qp = env->slow_qp,
        .slow_network = env->slow_network,
        .slow_factor = env->slow_factor,
        .device = rows_bytes > 0 ? env->compute->device : NULL,
        .rows_bytes = rows_bytes,
        .copy = copy_rows,
        .copy_arg = env->compute,
    };

    return k3_qps_create(env->fabric, &config, qps_p, err);
}

bool k3_engine_soft_lanes(const k3_world_t *world, k3_qps_t *qps)
{
    int soft = 0;

    for (int peer = 0; peer < world->size; peer++) {
        soft |= k3_qps_needs_progress(qps, peer);
    }
    MPI_Allreduce(MPI_IN_PLACE, &soft, 1, MPI_INT, MPI_LOR, world->comm);
    return soft != 0;
}

k3_status_t k3_engine_finish_span(k3_qps_t *qps, bool soft, k3_error_t *err)
{
    if (err->status != K3_OK) {
        return err->status;
    }
    if (!soft) {
        return k3_qps_hand_over(qps, err);
    }
    if (k3_qps_bank_end(qps, err) == K3_OK) {
        k3_qps_barrier(qps, err);
    }
    return err->status;
}

void k3_wait_note(k3_wait_t *wait, uint64_t ticks)
{
    double us = k3_clock_us(ticks);

    wait->sum_us += us;
    wait->max_us = us > wait->max_us ? us : wait->max_us;
    wait->count++;
}
