/* Buffers of the region on a device, and their mirrors in the host. */
#include "bench/region/region_internal.h"

void *k3_region_host_of(k3_region_t *r, k3_buffer_t buffer)
{
    return r->mirror[buffer] != NULL ? r->mirror[buffer] : r->buffer[buffer];
}

void k3_region_written(k3_region_t *r, k3_buffer_t buffer)
{
    if (r->mirror[buffer] != NULL) {
        k3_compute_send(&r->compute, r->buffer[buffer], r->mirror[buffer], r->buffer_bytes[buffer]);
    }
}

/* The mirror of an address within some buffer. */
static const void *mirrored(const k3_region_t *r, const void *at)
{
    for (int b = 0; b < K3_BUF_COUNT; b++) {
        uintptr_t offset = (uintptr_t)at - (uintptr_t)r->buffer[b];

        if (r->mirror[b] != NULL && offset < r->buffer_bytes[b]) {
            return (const char *)r->mirror[b] + offset;
        }
    }
    return at;
}

void k3_region_look(k3_region_t *r, k3_region_view_t *view)
{
    for (int b = 0; b < K3_BUF_COUNT; b++) {
        if (r->mirror[b] != NULL) {
            k3_compute_bring(&r->compute, r->mirror[b], r->buffer[b], r->buffer_bytes[b]);
        }
    }
    *view = (k3_region_view_t){
        .x = mirrored(r, r->x),
        .latent = mirrored(r, r->latent),
        .combined = mirrored(r, r->combined),
        .y = mirrored(r, r->y),
        .restored = mirrored(r, r->restored),
        .logits = mirrored(r, r->logits),
        .gates = mirrored(r, r->gates),
        .ids = r->ids,
    };
}
