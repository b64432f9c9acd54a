/* The symmetric block: allocated and registered by UCX, zero. */
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "harness/base/arith.h"
#include "harness/base/memory.h"
#include "harness/mpi/memory_type.h"
#include "harness/mpi/qp_internal.h"

enum { PAGE = 4096 };

unsigned long long k3_shm_free(void)
{
    struct statvfs shm;

    return statvfs("/dev/shm", &shm) == 0 ? (unsigned long long)shm.f_bavail * shm.f_frsize : 0;
}

static k3_status_t map_block(k3_qps_t *qps, uint64_t bytes, k3_error_t *err)
{
    ucp_mem_map_params_t params;
    ucs_status_t         status;

    memset(&params, 0, sizeof(params));
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                        UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    params.address = NULL;
    params.length = bytes;
    params.flags = UCP_MEM_MAP_ALLOCATE;
    status = ucp_mem_map(qps->fabric->context, &params, &qps->memory_handle);
    if (status == UCS_OK) {
        return K3_OK;
    }
    qps->memory_handle = NULL;
    return k3_fail(err, K3_ERR_ENV,
                   "%llu bytes of symmetric memory cannot be allocated and registered: %s "
                   "(node memory available: %llu bytes, free in /dev/shm: %llu bytes)",
                   (unsigned long long)bytes, ucs_status_string(status), k3_node_memory_available(),
                   k3_shm_free());
}

/* Memory that comes fresh from the kernel is zero and must not be touched: that would cost a page
 * fault for each page. Anything else is cleared. */
static void clear_block(k3_qps_t *qps, uint64_t bytes)
{
    bool dirty = !qps->fabric->fresh_memory;

    for (uint64_t i = 0; i < PAGE && !dirty; i++) {
        dirty = qps->memory[i] != 0;
    }
    if (dirty) {
        memset(qps->memory, 0, bytes);
    }
}

/* Changes nothing, whoever stores there at the same time. */
static void touch(char *memory, uint64_t bytes)
{
    for (uint64_t at = 0; memory != NULL && at < bytes; at += PAGE) {
        (void)__atomic_fetch_or(memory + at, 0, __ATOMIC_RELAXED);
    }
}

void k3_qps_touch(k3_qps_t *qps)
{
    uint64_t total = k3_block_bytes(qps->bytes);

    touch(qps->memory, total);
    for (int peer = 0; peer < qps->world->size; peer++) {
        touch(peer != qps->world->rank ? k3_lane_of(qps, peer, 0)->mapped : NULL, total);
    }
}

uint64_t k3_block_bytes(uint64_t bytes)
{
    return k3_add(k3_round_up(bytes, PAGE), K3_TAIL_BYTES);
}

k3_status_t k3_block_check(const k3_world_t *world, uint64_t bytes, k3_error_t *err)
{
    uint64_t needed = k3_mul(k3_block_bytes(bytes), (unsigned)world->local_size);
    uint64_t available = k3_node_memory_available();

    if (needed <= available) {
        return K3_OK;
    }
    return k3_fail(err, K3_ERR_ENV,
                   "%llu bytes of symmetric memory for each of %d ranks on %s do not fit: %llu "
                   "bytes are available there",
                   (unsigned long long)bytes, world->local_size, world->host,
                   (unsigned long long)available);
}

k3_status_t k3_block_create(k3_qps_t *qps, k3_error_t *err)
{
    uint64_t       total = k3_block_bytes(qps->bytes);
    ucp_mem_attr_t attr;

    qps->tail = total - K3_TAIL_BYTES;
    if (map_block(qps, total, err) != K3_OK) {
        return K3_ERR_ENV;
    }
    attr.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
    if (ucp_mem_query(qps->memory_handle, &attr) != UCS_OK || attr.length < total) {
        return k3_fail(err, K3_ERR_ENV, "UCX gives no address for the symmetric memory");
    }
    qps->memory = attr.address;
    k3_memory_huge(qps->memory, total);
    clear_block(qps, total);
    return K3_OK;
}

/* Registered where transports reach it, as the kind of memory that it is. */
static k3_status_t map_rows(k3_qps_t *qps, uint64_t total, k3_error_t *err)
{
    k3_rows_block_t     *rows = &qps->rows;
    k3_memory_type_t     type = rows->device->staged ? K3_MEMORY_HOST : rows->device->kind->memory;
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address = rows->memory + rows->shift,
        .length = total,
        .memory_type = k3_ucs_memory_type(type),
    };
    ucs_status_t status = ucp_mem_map(qps->fabric->context, &params, &rows->handle);

    if (status != UCS_OK) {
        rows->handle = NULL;
        return k3_fail(err, K3_ERR_ENV,
                       "%llu bytes of %s memory cannot be registered by UCX: %s (--staged on keeps "
                       "rows for transports in the host)",
                       (unsigned long long)total, k3_memory_type_names[type],
                       ucs_status_string(status));
    }
    return K3_OK;
}

k3_status_t k3_rows_create(k3_qps_t *qps, const k3_qps_config_t *config, k3_error_t *err)
{
    k3_rows_block_t *rows = &qps->rows;
    void            *memory;
    uint64_t         total;

    *rows = (k3_rows_block_t){
        .memory = qps->memory, .bytes = qps->bytes, .tail = qps->tail, .handle = NULL};
    if (config->device == NULL) {
        return K3_OK;
    }
    rows->device = config->device;
    rows->bytes = config->rows_bytes;
    rows->tail = k3_round_up(config->rows_bytes, PAGE);
    rows->copy = config->copy;
    rows->copy_arg = config->copy_arg;
    total = k3_add(rows->tail, K3_TAIL_ROWS_BYTES);
    if (k3_device_alloc(config->device, "rows of the queue pairs", total, true, &memory, err) !=
        K3_OK) {
        return err->status;
    }
    rows->memory = memory;
    rows->shift = k3_device_reach(config->device, memory);
    return map_rows(qps, total, err);
}

void k3_block_destroy(k3_qps_t *qps)
{
    if (qps->rows.handle != NULL) {
        ucp_mem_unmap(qps->fabric->context, qps->rows.handle);
    }
    if (qps->rows.device != NULL) {
        k3_device_free(qps->rows.device, qps->rows.memory);
    }
    if (qps->memory_handle != NULL) {
        ucp_mem_unmap(qps->fabric->context, qps->memory_handle);
    }
}
