/* Devices by the CUDA runtime or, compiled with K3_RUNTIME_HIP, by HIP: the two differ in names alone. */
#include "harness/device/gpu/runtime.h"

#include <stdio.h>

#ifdef K3_RUNTIME_HIP
#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__
#endif
#include <hip/hip_runtime_api.h>
#define RT(name)    hip##name
#define KIND        k3_device_kind_hip
#define KIND_NAME   "hip"
#define MEMORY      K3_MEMORY_ROCM
#define HOST_ALLOC  hipHostMalloc
#define HOST_FREE   hipHostFree
#define PROCESSORS  hipDeviceAttributeMultiprocessorCount
#define CLOCK       hipDeviceAttributeClockRate
#define NONBLOCKING hipStreamNonBlocking
typedef hipDeviceProp_t properties_t;
#else
#include <cuda_runtime_api.h>
#define RT(name)    cuda##name
#define KIND        k3_device_kind_cuda
#define KIND_NAME   "cuda"
#define MEMORY      K3_MEMORY_CUDA
#define HOST_ALLOC  cudaHostAlloc
#define HOST_FREE   cudaFreeHost
#define PROCESSORS  cudaDevAttrMultiProcessorCount
#define CLOCK       cudaDevAttrClockRate
#define NONBLOCKING cudaStreamNonBlocking
typedef struct cudaDeviceProp properties_t;
#endif

#define TEXT_(x)        #x
#define TEXT(x)         TEXT_(x)
#define CALL(name, ...) ((k3_device_result_t){(int)name(__VA_ARGS__), TEXT(name)})

static k3_device_result_t count_devices(int *count)
{
    return CALL(RT(GetDeviceCount), count);
}

static k3_device_result_t find_info(int index, k3_device_info_t *info)
{
    properties_t       p;
    int                processors = 0, khz = 0;
    k3_device_result_t result = CALL(RT(GetDeviceProperties), &p, index);

    if (result.code != 0) {
        return result;
    }
    snprintf(info->name, sizeof(info->name), "%.*s", K3_DEVICE_NAME - 1, p.name);
#ifdef K3_RUNTIME_HIP
    snprintf(info->architecture, sizeof(info->architecture), "%.*s", K3_DEVICE_NAME - 1,
             p.gcnArchName);
#else
    snprintf(info->architecture, sizeof(info->architecture), "sm_%d%d", p.major, p.minor);
#endif
    info->memory_bytes = p.totalGlobalMem;
    result = CALL(RT(DeviceGetPCIBusId), info->bus, (int)sizeof(info->bus), index);
    if (result.code == 0) {
        result = CALL(RT(DeviceGetAttribute), &processors, PROCESSORS, index);
    }
    if (result.code == 0) {
        result = CALL(RT(DeviceGetAttribute), &khz, CLOCK, index);
    }
    info->processors = (unsigned)processors;
    info->clock_mhz = (unsigned)khz / 1000;
    return result;
}

/* "13.0" of 13000 (CUDA); HIP counts in its own way and is shown as it counts. */
static void write_version(int version, char text[K3_DEVICE_VERSION])
{
#ifdef K3_RUNTIME_HIP
    snprintf(text, K3_DEVICE_VERSION, "%d.%d.%d", version / 10000000, version / 100000 % 100,
             version % 100000);
#else
    snprintf(text, K3_DEVICE_VERSION, "%d.%d", version / 1000, version % 1000 / 10);
#endif
}

static void find_versions(char runtime[K3_DEVICE_VERSION], char driver[K3_DEVICE_VERSION])
{
    int version = 0;

    snprintf(runtime, K3_DEVICE_VERSION, "unknown");
    snprintf(driver, K3_DEVICE_VERSION, "unknown");
    if (RT(RuntimeGetVersion)(&version) == 0) {
        write_version(version, runtime);
    }
    if (RT(DriverGetVersion)(&version) == 0 && version > 0) {
        write_version(version, driver);
    }
}

static k3_device_result_t use(int index)
{
    return CALL(RT(SetDevice), index);
}

static k3_device_result_t find_peer(int from, int to, int *reachable)
{
    return CALL(RT(DeviceCanAccessPeer), reachable, from, to);
}

static const char *describe(int code)
{
    return RT(GetErrorString)((RT(Error_t))code);
}

/* --- memory -------------------------------------------------------------------------------------- */

static k3_device_result_t alloc(uint64_t bytes, void **memory)
{
    return CALL(RT(Malloc), memory, bytes);
}

static k3_device_result_t release(void *memory)
{
    return CALL(RT(Free), memory);
}

static k3_device_result_t alloc_host(uint64_t bytes, void **memory)
{
    return CALL(HOST_ALLOC, memory, bytes, 0);
}

static k3_device_result_t free_host(void *memory)
{
    return CALL(HOST_FREE, memory);
}

static intptr_t reach(const void *memory)
{
    (void)memory;
    return 0; /* one address space */
}

/* --- streams and events ------------------------------------------------------------------------------ */

static k3_device_result_t stream_create(void **stream)
{
    return CALL(RT(StreamCreateWithFlags), (RT(Stream_t) *)stream, NONBLOCKING);
}

static k3_device_result_t stream_destroy(void *stream)
{
    return CALL(RT(StreamDestroy), stream);
}

static k3_device_result_t stream_finish(void *stream)
{
    return CALL(RT(StreamSynchronize), stream);
}

static k3_device_result_t copy(void *stream, void *to, const void *from, uint64_t bytes)
{
    return CALL(RT(MemcpyAsync), to, from, bytes, RT(MemcpyDefault), stream);
}

static k3_device_result_t fill(void *stream, void *to, int byte, uint64_t bytes)
{
    return CALL(RT(MemsetAsync), to, byte, bytes, stream);
}

static k3_device_result_t event_create(void **event)
{
    return CALL(RT(EventCreate), (RT(Event_t) *)event);
}

static k3_device_result_t event_destroy(void *event)
{
    return CALL(RT(EventDestroy), event);
}

static k3_device_result_t event_record(void *event, void *stream)
{
    return CALL(RT(EventRecord), event, stream);
}

static k3_device_result_t event_wait(void *stream, void *event)
{
    return CALL(RT(StreamWaitEvent), stream, event, 0);
}

static k3_device_result_t event_elapsed(void *from, void *to, double *us)
{
    float              ms = 0.0f;
    k3_device_result_t result = CALL(RT(EventElapsedTime), &ms, from, to);

    *us = 1e3 * (double)ms;
    return result;
}

const k3_device_kind_t KIND = {
    .name = KIND_NAME,
    .memory = MEMORY,
    .count = count_devices,
    .info = find_info,
    .versions = find_versions,
    .use = use,
    .peer = find_peer,
    .describe = describe,
    .alloc = alloc,
    .free = release,
    .alloc_host = alloc_host,
    .free_host = free_host,
    .reach = reach,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_finish = stream_finish,
    .copy = copy,
    .fill = fill,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_elapsed = event_elapsed,
};
