#include "bench/engines/compute.h"

#include <string.h>

#include "harness/base/arith.h"
#include "harness/base/memory.h"

k3_status_t k3_compute_create(const k3_compute_config_t *config, k3_compute_t *compute,
                              k3_error_t *err)
{
    *compute = (k3_compute_t){.ops = &k3_compute_cpu, .kernels = config->kernels};
    if (config->device == NULL) {
        return K3_OK;
    }
    compute->ops = &k3_compute_device;
    compute->device = config->device;
    return k3_on_device_create(config, compute, err);
}

void k3_compute_destroy(k3_compute_t *compute)
{
    if (compute->on != NULL) {
        k3_on_device_destroy(compute);
    }
    memset(compute, 0, sizeof(*compute));
}

k3_status_t k3_compute_alloc(k3_compute_t *c, const char *what, uint64_t count, uint64_t size,
                             bool transported, void *pointer_p, k3_error_t *err)
{
    if (c->device == NULL) {
        return k3_alloc(what, count, size, pointer_p, err);
    }
    return k3_device_alloc(c->device, what, k3_mul(count, size), transported, pointer_p, err);
}

void k3_compute_free(k3_compute_t *c, void *memory)
{
    if (c->device == NULL) {
        k3_free(memory);
    } else {
        k3_device_free(c->device, memory);
    }
}

static void move(k3_compute_t *c, void *to, const void *from, uint64_t bytes)
{
    k3_error_t kept = K3_ERROR_INIT; /* the device keeps it */

    if (c->device == NULL) {
        memmove(to, from, bytes);
    } else {
        k3_device_copy(c->device, K3_STREAM_MAIN, to, from, bytes);
        k3_device_finish(c->device, K3_STREAM_MAIN, &kept);
    }
}

void k3_compute_bring(k3_compute_t *c, void *host, const void *from, uint64_t bytes)
{
    move(c, host, from, bytes);
}

void k3_compute_send(k3_compute_t *c, void *to, const void *host, uint64_t bytes)
{
    move(c, to, host, bytes);
}
