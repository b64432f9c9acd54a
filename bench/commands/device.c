#include "bench/commands/device.h"

#include <string.h>

#include "bench/plan/buffers.h"
#include "bench/plan/cell.h"
#include "bench/report/table.h"
#include "harness/base/arith.h"
#include "harness/record/json_values.h"

/* --- what is asked for --------------------------------------------------------------------------- */

/* Kinds that some build has, and what it takes. */
static const struct {
    const char *name, *how;
} known[] = {{"cuda", "-DK3BENCH_CUDA=on, with nvcc of CUDA 13"},
             {"hip", "-DK3BENCH_HIP=on, with hipcc: apt-get install hipcc"}};

enum { KNOWN = sizeof(known) / sizeof(known[0]), NAMES = KNOWN + 8 };

static const k3_accelerator_t *find(const char *name)
{
    for (const k3_accelerator_t *a = k3_accelerators; a->kind != NULL; a++) {
        if (strcmp(a->kind->name, name) == 0) {
            return a;
        }
    }
    return NULL;
}

/* Its place among the names: 0 the processor, then the known kinds, then others of this build. */
static k3_status_t parse_kind(const k3_options_t *options, const char **name, size_t *index,
                              k3_error_t *err)
{
    const char *names[NAMES + 2] = {K3_DEVICE_CPU};
    size_t      count = 1;

    for (size_t i = 0; i < KNOWN; i++) {
        names[count++] = known[i].name;
    }
    for (const k3_accelerator_t *a = k3_accelerators; a->kind != NULL && count <= NAMES; a++) {
        names[count++] = a->kind->name;
    }
    if (k3_parse_name("device", k3_options_get(options, "device"), names, index, err) == K3_OK) {
        *name = names[*index];
    }
    return err->status;
}

k3_status_t k3_device_known(const k3_options_t *options, k3_error_t *err)
{
    const char *name;
    size_t      index;

    return parse_kind(options, &name, &index, err);
}

static k3_status_t choose(const k3_options_t *options, k3_device_plan_t *plan, k3_error_t *err)
{
    const char *name;
    size_t      index;

    if (parse_kind(options, &name, &index, err) != K3_OK || index == 0) {
        return err->status;
    }
    plan->accelerator = find(name);
    if (plan->accelerator == NULL) {
        return k3_fail(err, K3_ERR_ENV, "device %s: this build has none (CMake option %s)", name,
                       known[index - 1].how);
    }
    plan->wish.kind = plan->accelerator->kind;
    return K3_OK;
}

k3_status_t k3_device_plan(const k3_options_t *options, k3_device_plan_t *plan, k3_error_t *err)
{
    *plan = (k3_device_plan_t){0};
    if (choose(options, plan, err) == K3_OK &&
        k3_parse_switch("share-device", k3_options_get(options, "share-device"), &plan->wish.share,
                        err) == K3_OK &&
        k3_parse_switch("staged", k3_options_get(options, "staged"), &plan->staged, err) == K3_OK) {
        k3_parse_switch("events", k3_options_get(options, "events"), &plan->events, err);
    }
    return err->status;
}

/* --- taking it ------------------------------------------------------------------------------------- */

/* Without the library, or when it does not start, dense layers run on plain kernels; the record says so. */
static k3_status_t open_blas(k3_device_plan_t *plan, k3_error_t *err)
{
    const k3_blas_ops_t *ops = plan->accelerator->blas;

    if (ops == NULL || ops->open == NULL ||
        k3_device_alloc(&plan->device, "work space of the dense layers",
                        (uint64_t)K3_BLAS_STREAMS * K3_BLAS_WORK, false, &plan->blas_work,
                        err) != K3_OK) {
        return err->status;
    }
    plan->blas = ops->open(plan->blas_work);
    return K3_OK;
}

k3_status_t k3_device_take(const k3_world_t *world, const k3_place_t *place, k3_device_plan_t *plan,
                           k3_region_options_t *region, k3_error_t *err)
{
    if (plan->accelerator == NULL) {
        return K3_OK;
    }
    if (k3_device_open(plan->wish.kind, place->device.index, world->rank, plan->staged,
                       &plan->device, err) == K3_OK &&
        open_blas(plan, err) == K3_OK) {
        plan->device.mpi_reaches = plan->staged || k3_mpi_reaches(plan->wish.kind->memory);
        plan->sharers = place->device.ranks;
        region->device = &plan->device;
        region->gpu = plan->accelerator->gpu;
        region->events = plan->events;
        region->blas = plan->blas;
        region->blas_ops = plan->accelerator->blas;
    }
    return k3_world_agree(world, err);
}

k3_status_t k3_device_check_transports(const k3_world_t *world, const k3_fabric_t *fabric,
                                       k3_device_plan_t *plan, k3_error_t *err)
{
    if (plan->accelerator != NULL && !plan->staged &&
        !k3_fabric_reaches(fabric, plan->wish.kind->memory)) {
        k3_fail(err, K3_ERR_ENV,
                "UCX %s does not take addresses of %s memory on host %s (--staged on keeps what it "
                "reads and writes in the host's memory)",
                k3_fabric_version_loaded(), k3_memory_type_names[plan->wish.kind->memory],
                world->host);
    }
    return k3_world_agree(world, err);
}

k3_status_t k3_device_check_memory(const k3_world_t *world, const k3_device_plan_t *plan,
                                   const k3_cell_t *cell, k3_error_t *err)
{
    const k3_device_info_t *info = &plan->device.info;
    k3_memory_t             own;
    uint64_t                need;

    if (plan->accelerator == NULL) {
        return K3_OK;
    }
    k3_memory_plan(cell, (uint32_t)world->rank, &own);
    need = k3_mul(own.device, (uint64_t)plan->sharers);
    if (need > info->memory_bytes) {
        char each[32], host[32], all[32], has[32];

        k3_fail(err, K3_ERR_ENV,
                "%s: needs %s of the device's memory a rank (and %s of the host's), %s for the %d "
                "ranks on %s, which has %s",
                cell->profile->name, k3_table_bytes((double)own.device, each, sizeof(each)),
                k3_table_bytes((double)own.host, host, sizeof(host)),
                k3_table_bytes((double)need, all, sizeof(all)), plan->sharers, info->bus,
                k3_table_bytes((double)info->memory_bytes, has, sizeof(has)));
    }
    return k3_world_agree(world, err);
}

void k3_device_leave(k3_device_plan_t *plan)
{
    if (plan->blas != NULL) {
        plan->accelerator->blas->close(plan->blas);
    }
    if (plan->device.kind != NULL) {
        k3_device_free(&plan->device, plan->blas_work);
        k3_device_close(&plan->device);
    }
}

/* --- the record ------------------------------------------------------------------------------------ */

json_t *k3_device_record(const k3_device_plan_t *plan)
{
    const k3_device_kind_t *kind = plan->wish.kind;
    char                    runtime[K3_DEVICE_VERSION], driver[K3_DEVICE_VERSION];

    if (plan->accelerator == NULL) {
        return json_null();
    }
    kind->versions(runtime, driver);
    return json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:b, s:s}", "kind", kind->name, "runtime",
                     runtime, "driver", driver, "memory",
                     k3_memory_type_names[plan->staged ? K3_MEMORY_HOST : kind->memory], "staged",
                     plan->staged, "events", plan->events, "shared", plan->wish.share,
                     "mpi_reaches", plan->device.mpi_reaches, "dense",
                     plan->blas != NULL ? plan->accelerator->blas->library : "plain kernel");
}

json_t *k3_device_record_choice(const k3_device_choice_t *choice)
{
    const k3_device_info_t *i = &choice->info;

    if (choice->index < 0) {
        return json_null();
    }
    return json_pack("{s:i, s:o, s:o, s:o, s:I, s:i, s:i, s:i}", "index", choice->index, "name",
                     k3_json_string(i->name), "bus", k3_json_string(i->bus), "architecture",
                     k3_json_string(i->architecture), "memory_bytes", (json_int_t)i->memory_bytes,
                     "processors", (int)i->processors, "clock_mhz", (int)i->clock_mhz, "ranks",
                     choice->ranks);
}
