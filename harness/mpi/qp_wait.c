/* Progress and waiting. Whoever waits here progresses and yields: the peer that is waited for may
 * need this core. */
#include <sched.h>

#include "harness/mpi/qp_internal.h"

/* A send queue takes at least LANE_DEPTH operations (RC: 256); what is behind them UCX posts when it progresses. */
enum { ROUNDS_BEFORE_YIELD = 200, LANE_DEPTH = 128 };

void k3_qps_note(k3_qps_t *qps, const char *what, ucs_status_t status)
{
    k3_fail(&qps->fault, K3_ERR_ENV, "%s failed: %s", what, ucs_status_string(status));
}

k3_status_t k3_qps_outcome(const k3_qps_t *qps, k3_error_t *err)
{
    if (__builtin_expect(qps->fault.status == K3_OK, 1)) {
        return K3_OK;
    }
    return k3_fail(err, qps->fault.status, "%s", qps->fault.text);
}

void k3_qps_poll(k3_qps_t *qps)
{
    if (ucp_worker_progress(qps->worker) != 0) {
        qps->idle_rounds = 0;
        return;
    }
    if (qps->yield_at_once || ++qps->idle_rounds >= ROUNDS_BEFORE_YIELD) {
        qps->idle_rounds = 0;
        sched_yield();
    }
}

ucs_status_t k3_qps_finish(k3_qps_t *qps, ucs_status_ptr_t request)
{
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request);
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        k3_qps_poll(qps);
    }
    ucp_request_free(request);
    return status;
}

ucs_status_t k3_lane_drain(k3_qps_t *qps, k3_lane_t *lane)
{
    static const ucp_request_param_t plain;
    ucs_status_t status = k3_qps_finish(qps, ucp_ep_flush_nbx(lane->ep, &plain));

    if (status != UCS_OK) {
        k3_qps_note(qps, "flush of a queue pair", status);
        return status;
    }
    while (lane->in_flight != 0) {
        k3_qps_poll(qps);
    }
    return UCS_OK;
}

ucs_status_t k3_qps_drain(k3_qps_t *qps)
{
    static const ucp_request_param_t plain;
    ucs_status_t status = k3_qps_finish(qps, ucp_worker_flush_nbx(qps->worker, &plain));

    if (status != UCS_OK) {
        k3_qps_note(qps, "flush of all queue pairs", status);
        return status;
    }
    while (qps->in_flight + qps->reads != 0) {
        k3_qps_poll(qps);
    }
    return UCS_OK;
}

void k3_qps_reap(k3_qps_t *qps)
{
    while (qps->in_flight + qps->reads != 0 && qps->fault.status == K3_OK) {
        k3_qps_poll(qps);
    }
}

k3_status_t k3_qps_hand_over(k3_qps_t *qps, k3_error_t *err)
{
    for (uint64_t i = 0; i < qps->lane_count && qps->in_flight > LANE_DEPTH;) {
        if (qps->lanes[i].in_flight <= LANE_DEPTH || qps->fault.status != K3_OK) {
            i++;
        } else {
            k3_qps_poll(qps);
        }
    }
    return k3_qps_outcome(qps, err);
}

k3_status_t k3_qps_progress(k3_qps_t *qps, k3_error_t *err)
{
    ucp_worker_progress(qps->worker);
    return k3_qps_outcome(qps, err);
}

k3_status_t k3_qps_idle(k3_qps_t *qps, k3_error_t *err)
{
    k3_qps_poll(qps);
    return k3_qps_outcome(qps, err);
}

k3_status_t k3_qps_flush(k3_qps_t *qps, k3_error_t *err)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    k3_qps_drain(qps);
    return k3_qps_outcome(qps, err);
}

k3_status_t k3_qps_flush_lane(k3_qps_t *qps, int peer, unsigned qp, k3_error_t *err)
{
    k3_lane_t *lane = k3_lane_of(qps, peer, qp);

    if (lane->mapped != NULL) {
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    } else {
        k3_lane_drain(qps, lane);
    }
    return k3_qps_outcome(qps, err);
}

k3_status_t k3_qps_complete(k3_qps_t *qps, MPI_Request *request, k3_error_t *err)
{
    int done = 0;

    for (;;) {
        if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            return k3_fail(err, K3_ERR_ENV, "MPI_Test failed");
        }
        if (done) {
            return k3_qps_outcome(qps, err);
        }
        k3_qps_poll(qps);
    }
}

k3_status_t k3_qps_barrier(k3_qps_t *qps, k3_error_t *err)
{
    MPI_Request request;

    if (MPI_Ibarrier(qps->world->comm, &request) != MPI_SUCCESS) {
        return k3_fail(err, K3_ERR_ENV, "MPI_Ibarrier failed");
    }
    return k3_qps_complete(qps, &request, err);
}
