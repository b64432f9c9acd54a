/* How the files of the arithmetic on a device start kernels. */
#ifndef K3_ENGINES_COMPUTE_START_H
#define K3_ENGINES_COMPUTE_START_H

#include "bench/engines/compute_tables.h"

/* A kernel whose start fails is a fault of the device; after the first one nothing is started. */
#define K3_START(c, kernel, arguments)                                                             \
    do {                                                                                           \
        if ((c)->device->fault.status == K3_OK) {                                                  \
            k3_device_check((c)->device, (k3_device_result_t){                                     \
                                             (c)->on->gpu->kernel(&(arguments), k3_stream_of(c)),  \
                                             "start of the kernel " #kernel});                     \
        }                                                                                          \
    } while (0)

static inline void *k3_stream_of(const k3_compute_t *c)
{
    return c->device->stream[c->on->stream];
}

/* Kernels read and write rows there. */
static inline bool k3_is_aligned(const void *at)
{
    return (uintptr_t)at % 16 == 0;
}

/* compute_experts.c */
void k3_device_expert(k3_compute_t *c, uint32_t local, const k3_expert_rows_t *work);
void k3_device_experts_done(k3_compute_t *c);

/* compute_results.c */
void k3_device_encode_to(k3_compute_t *c, k3_format_t format, const uint16_t *rows, uint64_t n,
                         uint32_t width, uint8_t *const *results);
void k3_device_decode_from(k3_compute_t *c, k3_format_t format, const uint8_t *const *results,
                           uint64_t n, uint32_t width, uint16_t *rows);
void k3_device_log_encode(k3_compute_t *c, const uint16_t *const *rows, uint64_t n, uint32_t width,
                          uint8_t *const *messages, uint32_t *bytes);
void k3_device_log_combine(k3_compute_t *c, const uint8_t *const *messages, const float *weights,
                           uint64_t rows, uint32_t k, uint32_t width, uint16_t *room,
                           uint16_t *out);

#endif
