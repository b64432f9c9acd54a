#include "harness/device/device.h"

#include <string.h>

const char *const k3_memory_type_names[] = {"host", "cuda", "rocm"};

/* --- faults -------------------------------------------------------------------------------------- */

bool k3_device_check(k3_device_t *device, k3_device_result_t result)
{
    if (__builtin_expect(result.code == 0, 1)) {
        return true;
    }
    k3_fail(&device->fault, K3_ERR_ENV, "%s: %s (code %d) on %s device %d (%s %s) of rank %d",
            result.call,
            result.code > 0 ? device->kind->describe(result.code) : "status of the library",
            result.code > 0 ? result.code : -result.code, device->kind->name, device->index,
            device->info.name, device->info.bus, device->rank);
    return false;
}

static bool is_faulty(const k3_device_t *device)
{
    return __builtin_expect(device->fault.status != K3_OK, 0);
}

static k3_status_t outcome(const k3_device_t *device, k3_error_t *err)
{
    return is_faulty(device) ? k3_fail(err, device->fault.status, "%s", device->fault.text) : K3_OK;
}

/* --- open and close -------------------------------------------------------------------------------- */

k3_status_t k3_device_open(const k3_device_kind_t *kind, int index, int rank, bool staged,
                           k3_device_t *device, k3_error_t *err)
{
    *device = (k3_device_t){.kind = kind, .index = index, .rank = rank, .staged = staged};
    if (k3_device_check(device, kind->info(index, &device->info)) &&
        k3_device_check(device, kind->use(index))) {
        for (int s = 0; s < K3_STREAM_COUNT && !is_faulty(device); s++) {
            k3_device_check(device, kind->stream_create(&device->stream[s]));
        }
        if (!is_faulty(device)) {
            k3_device_check(device, kind->event_create(&device->joined));
        }
    }
    if (is_faulty(device)) {
        outcome(device, err);
        k3_device_close(device);
    }
    return err->status;
}

void k3_device_close(k3_device_t *device)
{
    if (device->joined != NULL) {
        k3_device_check(device, device->kind->event_destroy(device->joined));
    }
    for (int s = 0; s < K3_STREAM_COUNT; s++) {
        if (device->stream[s] != NULL) {
            k3_device_check(device, device->kind->stream_destroy(device->stream[s]));
        }
    }
    memset(device, 0, sizeof(*device));
}

/* --- memory -------------------------------------------------------------------------------------- */

static k3_device_held_t *find_held(k3_device_t *device, const void *memory)
{
    for (int i = 0; i < K3_DEVICE_HELD; i++) {
        if (device->held[i].memory == memory) {
            return &device->held[i];
        }
    }
    return NULL;
}

static k3_status_t take(k3_device_t *device, const char *what, uint64_t bytes, bool host,
                        void **memory, k3_error_t *err)
{
    k3_device_held_t *held = find_held(device, NULL);

    *memory = NULL;
    if (held == NULL) {
        return k3_fail(err, K3_ERR_ENV, "%s: more than %d allocations of a device at a time", what,
                       K3_DEVICE_HELD);
    }
    if (is_faulty(device) ||
        !k3_device_check(device, (host ? device->kind->alloc_host
                                       : device->kind->alloc)(bytes > 0 ? bytes : 1, memory))) {
        *memory = NULL;
        return k3_fail(err, device->fault.status, "%llu bytes for %s: %s",
                       (unsigned long long)bytes, what, device->fault.text);
    }
    *held = (k3_device_held_t){*memory, bytes, host};
    device->bytes += host ? 0 : bytes;
    return K3_OK;
}

k3_status_t k3_device_alloc_host(k3_device_t *device, const char *what, uint64_t bytes,
                                 void **memory, k3_error_t *err)
{
    if (take(device, what, bytes, true, memory, err) == K3_OK) {
        memset(*memory, 0, bytes);
    }
    return err->status;
}

k3_status_t k3_device_alloc(k3_device_t *device, const char *what, uint64_t bytes, bool transported,
                            void **memory, k3_error_t *err)
{
    if (transported && device->staged) {
        return k3_device_alloc_host(device, what, bytes, memory, err);
    }
    if (take(device, what, bytes, false, memory, err) == K3_OK) {
        k3_device_fill(device, K3_STREAM_MAIN, *memory, 0, bytes);
        k3_device_finish(device, K3_STREAM_MAIN, err);
    }
    return err->status;
}

void k3_device_free(k3_device_t *device, void *memory)
{
    k3_device_held_t *held = memory != NULL ? find_held(device, memory) : NULL;

    if (held == NULL) {
        return;
    }
    k3_device_check(device,
                    (held->host ? device->kind->free_host : device->kind->free)(held->memory));
    device->bytes -= held->host ? 0 : held->bytes;
    *held = (k3_device_held_t){0};
}

intptr_t k3_device_reach(const k3_device_t *device, const void *memory)
{
    return device->kind->reach(memory);
}

/* --- streams and events ------------------------------------------------------------------------------ */

void k3_device_copy(k3_device_t *device, k3_stream_t stream, void *to, const void *from,
                    uint64_t bytes)
{
    if (!is_faulty(device) && bytes > 0) {
        k3_device_check(device, device->kind->copy(device->stream[stream], to, from, bytes));
    }
}

void k3_device_fill(k3_device_t *device, k3_stream_t stream, void *to, int byte, uint64_t bytes)
{
    if (!is_faulty(device) && bytes > 0) {
        k3_device_check(device, device->kind->fill(device->stream[stream], to, byte, bytes));
    }
}

k3_status_t k3_device_finish(k3_device_t *device, k3_stream_t stream, k3_error_t *err)
{
    if (!is_faulty(device)) {
        k3_device_check(device, device->kind->stream_finish(device->stream[stream]));
    }
    return outcome(device, err);
}

static void order(k3_device_t *device, k3_stream_t first, k3_stream_t then)
{
    if (!is_faulty(device) && k3_device_check(device, device->kind->event_record(
                                                          device->joined, device->stream[first]))) {
        k3_device_check(device, device->kind->event_wait(device->stream[then], device->joined));
    }
}

void k3_device_fork(k3_device_t *device)
{
    order(device, K3_STREAM_MAIN, K3_STREAM_BESIDE);
}

void k3_device_join(k3_device_t *device)
{
    order(device, K3_STREAM_BESIDE, K3_STREAM_MAIN);
}

k3_status_t k3_device_event_create(k3_device_t *device, void **event, k3_error_t *err)
{
    *event = NULL;
    if (!is_faulty(device)) {
        k3_device_check(device, device->kind->event_create(event));
    }
    return outcome(device, err);
}

void k3_device_event_destroy(k3_device_t *device, void *event)
{
    if (event != NULL) {
        k3_device_check(device, device->kind->event_destroy(event));
    }
}

void k3_device_event_record(k3_device_t *device, void *event, k3_stream_t stream)
{
    if (!is_faulty(device)) {
        k3_device_check(device, device->kind->event_record(event, device->stream[stream]));
    }
}

double k3_device_event_us(k3_device_t *device, void *from, void *to)
{
    double us = 0.0;

    if (!is_faulty(device)) {
        k3_device_check(device, device->kind->event_elapsed(from, to, &us));
    }
    return us;
}

/* --- which device a rank takes ------------------------------------------------------------------------ */

void k3_device_assign(int ranks, int devices, const int *near, int *chosen)
{
    for (int rank = 0; rank < ranks; rank++) {
        int best = -1, best_taken = 0;

        for (int d = 0; d < devices; d++) {
            int taken = 0;

            if (near[rank * devices + d] < 0) {
                continue;
            }
            for (int before = 0; before < rank; before++) {
                taken += chosen[before] == d;
            }
            if (best < 0 || taken < best_taken ||
                (taken == best_taken && near[rank * devices + d] > near[rank * devices + best])) {
                best = d;
                best_taken = taken;
            }
        }
        chosen[rank] = best;
    }
}
