/* A device with memory and streams of its own, behind one small interface. What implements it (the CUDA and
 * HIP runtimes, the emulated device of the tests) is a k3_device_kind_t; everything else calls the functions
 * below it.
 *
 * Errors. The first fault of a device is kept, with the name of the call, the device and the rank; what
 * is started after it does nothing. It comes back from k3_device_finish and from whatever returns a
 * status, so that code that starts kernels has no branch for it.
 *
 * Addresses of device memory are not to be read or written by the host. Transports (UCX, MPI) reach it at
 * k3_device_reach of the address. Memory of k3_device_alloc_host is the host's, and kernels and copies reach
 * it too. */
#ifndef K3_DEVICE_DEVICE_H
#define K3_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- what an implementation is --------------------------------------------------------------------- */

/* What transports are told about the memory. */
typedef enum k3_memory_type { K3_MEMORY_HOST, K3_MEMORY_CUDA, K3_MEMORY_ROCM } k3_memory_type_t;
extern const char *const k3_memory_type_names[]; /* "host", "cuda", "rocm" */

enum { K3_DEVICE_NAME = 96, K3_DEVICE_BUS = 24, K3_DEVICE_VERSION = 32 };

typedef struct k3_device_info {
    char     name[K3_DEVICE_NAME];
    char     bus[K3_DEVICE_BUS]; /* "0000:17:00.0"; the identity of a device within its host */
    char     architecture[K3_DEVICE_NAME]; /* "sm_90", "gfx942" */
    uint64_t memory_bytes;
    unsigned processors; /* multiprocessors, compute units */
    unsigned clock_mhz;
} k3_device_info_t;

/* Of a call of the runtime: its code (0: done) and its name. Libraries above the runtime count in their
 * own way: their status is given below zero. */
typedef struct k3_device_result {
    int         code;
    const char *call;
} k3_device_result_t;

typedef struct k3_device_kind {
    const char      *name; /* what --device calls it */
    k3_memory_type_t memory;

    k3_device_result_t (*count)(int *count);
    k3_device_result_t (*info)(int index, k3_device_info_t *info);
    void (*versions)(char runtime[K3_DEVICE_VERSION], char driver[K3_DEVICE_VERSION]);
    k3_device_result_t (*use)(int index); /* by this thread, from now on */
    k3_device_result_t (*peer)(int from, int to, int *reachable);
    const char *(*describe)(int code);

    k3_device_result_t (*alloc)(uint64_t bytes, void **memory);
    k3_device_result_t (*free)(void *memory);
    k3_device_result_t (*alloc_host)(uint64_t bytes, void **memory);
    k3_device_result_t (*free_host)(void *memory);
    intptr_t (*reach)(const void *memory); /* how far behind its address transports find it */

    k3_device_result_t (*stream_create)(void **stream);
    k3_device_result_t (*stream_destroy)(void *stream);
    k3_device_result_t (*stream_finish)(void *stream);
    k3_device_result_t (*copy)(void *stream, void *to, const void *from, uint64_t bytes);
    k3_device_result_t (*fill)(void *stream, void *to, int byte, uint64_t bytes);

    k3_device_result_t (*event_create)(void **event);
    k3_device_result_t (*event_destroy)(void *event);
    k3_device_result_t (*event_record)(void *event, void *stream);
    k3_device_result_t (*event_wait)(void *stream, void *event); /* the stream waits */
    k3_device_result_t (*event_elapsed)(void *from, void *to, double *us);
} k3_device_kind_t;

/* --- a device in use --------------------------------------------------------------------------------- */

/* Work of a device is in order within a stream. */
typedef enum k3_stream {
    K3_STREAM_MAIN,
    K3_STREAM_BESIDE, /* what may overlap with the main one */
    K3_STREAM_COUNT
} k3_stream_t;

enum { K3_DEVICE_HELD = 256 }; /* allocations at a time */

typedef struct k3_device_held {
    void    *memory; /* NULL: free */
    uint64_t bytes;
    bool     host;
} k3_device_held_t;

typedef struct k3_device {
    const k3_device_kind_t *kind;
    int                     index, rank;
    k3_device_info_t        info;
    bool                    staged;      /* memory for transports lies in the host */
    bool                    mpi_reaches; /* MPI takes its addresses; whoever knows MPI sets it */
    void                   *stream[K3_STREAM_COUNT];
    void                   *joined; /* event: what the main stream waits for */
    k3_error_t              fault;
    k3_device_held_t        held[K3_DEVICE_HELD];
    uint64_t                bytes; /* of the device's memory, allocated now */
} k3_device_t;

/* Opens device `index` of a kind for this rank; on failure nothing is left to close. */
k3_status_t k3_device_open(const k3_device_kind_t *kind, int index, int rank, bool staged,
                           k3_device_t *device, k3_error_t *err);
void        k3_device_close(k3_device_t *device);

/* True when the call was done; else its fault is kept, if it is the first. */
bool k3_device_check(k3_device_t *device, k3_device_result_t result);

/* Zeroed. `transported`: UCX or MPI will read or write it, so that staging puts it into the host. */
k3_status_t k3_device_alloc(k3_device_t *device, const char *what, uint64_t bytes, bool transported,
                            void **memory, k3_error_t *err);
/* Zeroed memory of the host that kernels and copies reach. */
k3_status_t k3_device_alloc_host(k3_device_t *device, const char *what, uint64_t bytes,
                                 void **memory, k3_error_t *err);
void        k3_device_free(k3_device_t *device, void *memory); /* of either; NULL is fine */

/* How far behind its address transports find memory of that allocation: 0 but for emulated memory. */
intptr_t k3_device_reach(const k3_device_t *device, const void *memory);

/* Started on a stream, in order with what else is started there. Host memory must stay as it is until the
 * stream has finished. */
void k3_device_copy(k3_device_t *device, k3_stream_t stream, void *to, const void *from,
                    uint64_t bytes);
void k3_device_fill(k3_device_t *device, k3_stream_t stream, void *to, int byte, uint64_t bytes);

/* Everything started on a stream is done; the fault of the device, if any. */
k3_status_t k3_device_finish(k3_device_t *device, k3_stream_t stream, k3_error_t *err);

/* What is started on the stream beside comes after what is on the main one now; what is started on the main
 * one after join comes after what is on the one beside. */
void k3_device_fork(k3_device_t *device);
void k3_device_join(k3_device_t *device);

k3_status_t k3_device_event_create(k3_device_t *device, void **event, k3_error_t *err);
void        k3_device_event_destroy(k3_device_t *device, void *event);
void        k3_device_event_record(k3_device_t *device, void *event, k3_stream_t stream);
/* Both events are over. */
double k3_device_event_us(k3_device_t *device, void *from, void *to);

/* --- which device a rank takes ----------------------------------------------------------------------- */

/* Ranks of one host in order, each the nearest device of those that fewest others have taken before it:
 * near[rank * devices + device], more is nearer, equal ones in device order; below 0: the rank does not see
 * it. chosen: -1 where it sees none. */
void k3_device_assign(int ranks, int devices, const int *near, int *chosen);

#ifdef __cplusplus
}
#endif

#endif
