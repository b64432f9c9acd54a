/* One cell of a launch: created, checked against the machine, measured, judged. */
#include <string.h>

#include "bench/commands/fault.h"
#include "bench/commands/partial.h"
#include "bench/commands/run.h"
#include "bench/region/dump.h"
#include "bench/region/measure.h"
#include "bench/report/limits.h"
#include "bench/report/record.h"
#include "bench/report/table.h"
#include "harness/base/arith.h"
#include "harness/mpi/watchdog.h"

static void keep(k3_run_t *run, json_t *cell)
{
    if (run->world.rank == 0) {
        k3_partial_done(cell);
    } else {
        json_decref(cell);
    }
}

/* What the ranks of this node will take together, against what the node has. Weights that stay from
 * the last cell are counted on both sides. */
static k3_status_t check_memory(const k3_run_t *run, const k3_cell_t *cell, k3_error_t *err)
{
    uint32_t    ranks;
    uint64_t    need = k3_memory_of_node(cell, run->world.node_of, run->world.node, &ranks);
    uint64_t    available = k3_add(k3_node_memory_available(), k3_mul(run->weights.bytes, ranks));
    k3_memory_t own;

    k3_memory_plan(cell, (uint32_t)run->world.rank, &own);
    if (need > available) {
        char each[32], block[32], all[32], left[32];

        k3_fail(err, K3_ERR_ENV,
                "%s: needs %s a rank (%s of slots and signals), %s for the %u ranks of host %s, "
                "which has %s available",
                cell->profile->name, k3_table_bytes((double)own.host, each, sizeof(each)),
                k3_table_bytes(cell->on_device ? 0 : (double)own.block, block, sizeof(block)),
                k3_table_bytes((double)need, all, sizeof(all)), ranks, run->world.host,
                k3_table_bytes((double)available, left, sizeof(left)));
    }
    return k3_world_agree(&run->world, err);
}

static void judge(k3_run_t *run, json_t *object, const k3_measurement_t *m)
{
    char reason[K3_ERROR_TEXT + 64] = "";

    if (m->check.wrong) {
        snprintf(
            reason, sizeof(reason),
            "check: stage %s of row %llu in iteration %llu, element %u: wanted %.6g, got %.6g%s%s",
            k3_stage_names[m->check.first_stage], (unsigned long long)m->check.first_row,
            (unsigned long long)m->check.first_payload, m->check.first_element, m->check.first_want,
            m->check.first_got, m->check.diagnosis[0] != '\0' ? "; " : "", m->check.diagnosis);
    } else if (m->has_lanes && run->region.accounting && !m->matches_plan) {
        snprintf(reason, sizeof(reason), "measured != plan: %s", m->mismatch.text);
    } else if (m->struck < k3_fault_ranks(&run->region.fault)) {
        k3_fault_missed(&run->region.fault, reason, sizeof(reason));
    } else if (m->timed_allocations > 0) {
        snprintf(reason, sizeof(reason), "%llu allocations inside timed iterations",
                 (unsigned long long)m->timed_allocations);
    }
    run->wrong |= reason[0] != '\0';
    if (reason[0] == '\0' && (m->mask_count > 0 || run->region.fault.dead_count > 0)) {
        k3_record_degraded(object, m, run->world.size);
        return;
    }
    k3_record_status(object, reason[0] != '\0' ? "failed" : "ok",
                     reason[0] != '\0' ? reason : NULL);
}

/* A run that expects RDMA and gets TCP measures something else. */
static k3_status_t check_transport(const k3_run_t *run, const k3_region_t *region, k3_error_t *err)
{
    const k3_cell_t *cell = region->cell;
    k3_qps_t        *qps = region->ops->qps(region->engine);
    int              rank = run->world.rank;

    for (int peer = 0; peer < run->world.size && qps != NULL && run->rdma; peer++) {
        if (cell->node_of[peer] != cell->node_of[rank] && !k3_qps_is_rdma(qps, peer)) {
            k3_fail(err, K3_ERR_ENV,
                    "%s: the queue pairs to rank %d on another node are carried by %s, RDMA was "
                    "expected "
                    "(--transport any allows it)",
                    cell->profile->name, peer, k3_qps_transport(qps, peer));
        }
    }
    return k3_world_agree(&run->world, err);
}

/* Beside each measured phase what the machine allows; a plan that is too large for it is no failure. */
static void record_limits(const k3_run_t *run, const k3_cell_t *cell, json_t *object)
{
    k3_error_t      none = K3_ERROR_INIT;
    k3_loads_t      loads;
    k3_prediction_t prediction;

    if (run->has_machine && k3_loads_plan(cell, &loads, &none) == K3_OK) {
        k3_predict(cell, &loads, &run->machine, &prediction);
        k3_loads_free(&loads);
        k3_record_limits(object, &run->machine, &prediction);
    }
}

static void record_cell(k3_run_t *run, const k3_cell_t *cell, const k3_work_t *work,
                        k3_measurement_t *m)
{
    k3_memory_t memory;
    json_t     *object;

    k3_memory_plan(cell, (uint32_t)run->world.rank, &memory);
    m->accounted = run->region.accounting;
    object = k3_record_plan(cell, work, &memory);
    if (m->trapped.status != K3_OK) {
        k3_record_status(object, "failed", m->trapped.text);
        run->wrong = true;
    } else {
        if (run->world.rank == 0) {
            k3_record_measured(object, cell, work, m, &run->measuring.options);
            record_limits(run, cell, object);
        }
        judge(run, object, m);
    }
    if (run->world.rank == 0) {
        k3_record_faults(object, cell, m, k3_options_get(run->options, "fault"));
    }
    keep(run, object);
}

/* What the record says about the cell when the launch ends in its middle. */
static void announce(const k3_run_t *run, const k3_cell_t *cell, const k3_work_t *work)
{
    k3_memory_t memory;

    if (run->world.rank == 0) {
        k3_memory_plan(cell, 0, &memory);
        k3_partial_running(k3_record_plan(cell, work, &memory));
    }
}

static k3_status_t execute_cell(k3_run_t *run, const k3_cell_t *cell, const k3_work_t *work,
                                k3_error_t *err)
{
    k3_region_t      region;
    k3_measurement_t m;

    announce(run, cell, work);
    if (k3_region_create(cell, &run->world, &run->region, &region, err) != K3_OK) {
        return err->status;
    }
    if (check_transport(run, &region, err) == K3_OK &&
        k3_measure(&region, &run->measuring.options, &m, err) == K3_OK) {
        record_cell(run, cell, work, &m);
        k3_measurement_free(&m);
    }
    k3_region_destroy(&region);
    return err->status;
}

/* *refused: the cell does not fit this machine; every other fault is a failure. Everything is agreed:
 * each rank gets here with the same cell or not at all. */
static k3_status_t measure_cell(k3_run_t *run, const k3_cell_t *cell, bool *refused,
                                k3_error_t *err)
{
    k3_work_t work;

    k3_watchdog_tick("set-up of a cell", 0);
    k3_weights_release(cell, (uint32_t)run->world.rank, &run->weights);
    MPI_Barrier(run->world.comm); /* what the other ranks free counts too */
    *refused = k3_fault_check(&run->region.fault, cell, err) == K3_ERR_UNSUPPORTED;
    if (err->status != K3_OK ||
        (run->measuring.options.dump != NULL &&
         k3_dump_check(cell, &run->world, run->measuring.options.dump, err) != K3_OK)) {
        return err->status;
    }
    *refused = k3_region_check_limit(cell, &run->region, err) != K3_OK ||
               k3_region_check_device(cell, run->region.device, err) != K3_OK ||
               check_memory(run, cell, err) != K3_OK ||
               k3_device_check_memory(&run->world, &run->device, cell, err) != K3_OK;
    if (!*refused) {
        k3_watchdog_hold(true); /* planning can take long and waits for nobody */
        k3_work_plan(cell, &work, err);
        k3_watchdog_hold(false);
        k3_world_agree(&run->world, err);
    }
    if (err->status == K3_OK) {
        /* A call may lawfully take its own limit, in dispatch and in combine. */
        k3_watchdog_limit(run->measuring.timeout + 2.0 * k3_region_limit(cell, &run->region));
        execute_cell(run, cell, &work, err);
        k3_watchdog_limit(run->measuring.timeout);
    }
    return err->status;
}

/* Every rank resolves the cell by itself, some of it from files that hosts may hold differently. */
static k3_status_t create_cell(const k3_run_t *run, const k3_cell_request_t *request,
                               k3_cell_t *cell, k3_error_t *err)
{
    bool created;

    k3_watchdog_hold(
        true); /* can take long and waits for nobody; the agreement behind it does, and is not held */
    created = k3_cell_create(request, cell, err) == K3_OK;
    k3_watchdog_hold(false);

    if (k3_world_agree(&run->world, err) == K3_OK) {
        char hash[17];

        k3_routing_hash(cell->routing, hash);
        if (k3_world_same(&run->world, "cell", cell->key, err) == K3_OK) {
            k3_world_same(&run->world, "routing", hash, err);
        }
    }
    if (created && err->status != K3_OK) {
        k3_cell_destroy(cell);
    }
    return err->status;
}

static void count_refusal(k3_run_t *run, const k3_error_t *why)
{
    run->refused_as = run->refused == 0 ? why->status : run->refused_as;
    run->refused++;
}

/* A cell that cannot be done is a row with a reason; a name that does not exist, or the only cell,
 * ends the command. */
k3_status_t k3_run_cell(k3_run_t *run, const k3_cell_request_t *request, k3_error_t *err)
{
    k3_error_t  fault = K3_ERROR_INIT;
    bool        refused = false;
    k3_cell_t   cell;
    json_t     *object;
    k3_work_t   work;
    k3_memory_t memory;

    create_cell(run, request, &cell, &fault);
    if (fault.status != K3_OK) {
        if (run->alone || fault.status == K3_ERR_USAGE || fault.status == K3_ERR_IO) {
            *err = fault;
            return err->status;
        }
        count_refusal(run, &fault);
        keep(run, k3_record_refused(request, &fault));
        return K3_OK;
    }
    if (measure_cell(run, &cell, &refused, &fault) != K3_OK &&
        (run->alone || fault.status == K3_ERR_USAGE)) {
        *err = fault;
    } else if (fault.status != K3_OK) {
        k3_error_t none = K3_ERROR_INIT;

        k3_memory_plan(&cell, 0, &memory);
        k3_work_plan(&cell, &work, &none);
        object = k3_record_plan(&cell, &work, &memory);
        k3_record_status(object, refused ? "unsupported" : "failed", fault.text);
        run->wrong |= !refused;
        if (refused) {
            count_refusal(run, &fault);
        }
        keep(run, object);
    }
    k3_cell_destroy(&cell);
    return err->status;
}
