/* What computes: the processor, or the device that this rank takes. */
#ifndef K3_COMMANDS_DEVICE_H
#define K3_COMMANDS_DEVICE_H

#include <jansson.h>

#include "bench/commands/accelerators.h"
#include "bench/region/region.h"
#include "harness/base/options.h"
#include "harness/mpi/topology.h"

typedef struct k3_device_plan {
    const k3_accelerator_t *accelerator; /* NULL: the processor */
    k3_device_wish_t        wish;
    bool                    staged, events;
    k3_device_t             device;  /* open: its kind is not NULL */
    int                     sharers; /* ranks that have it */
    k3_blas_t              *blas;    /* NULL: dense layers by plain kernels */
    void                   *blas_work;
} k3_device_plan_t;

/* What --device, --share-device, --staged and --events ask for. K3_ERR_ENV for a kind that this build
 * lacks, with what brings it. */
k3_status_t k3_device_plan(const k3_options_t *options, k3_device_plan_t *plan, k3_error_t *err);

/* For a plan, which needs none: whether there is such a kind at all. */
k3_status_t k3_device_known(const k3_options_t *options, k3_error_t *err);

/* Collective, between the choice of a place and the opening of UCX; then with it. */
k3_status_t k3_device_take(const k3_world_t *world, const k3_place_t *place, k3_device_plan_t *plan,
                           k3_region_options_t *region, k3_error_t *err);
k3_status_t k3_device_check_transports(const k3_world_t *world, const k3_fabric_t *fabric,
                                       k3_device_plan_t *plan, k3_error_t *err);
/* Before anything is allocated: the cell of all ranks that share the device against its memory. */
k3_status_t k3_device_check_memory(const k3_world_t *world, const k3_device_plan_t *plan,
                                   const k3_cell_t *cell, k3_error_t *err);
void        k3_device_leave(k3_device_plan_t *plan);

/* For the record: run.device, and topology.ranks[].accelerator. Null without a device. */
json_t *k3_device_record(const k3_device_plan_t *plan);
json_t *k3_device_record_choice(const k3_device_choice_t *choice);

#endif
