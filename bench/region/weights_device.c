/* Weights in the memory of a device. Experts lie there in one block, whatever they were read from. */
#include "bench/region/weights.h"
#include "harness/base/memory.h"

static k3_status_t upload(k3_device_t *device, const char *what, const void *from, uint64_t bytes,
                          void *to_p, k3_error_t *err)
{
    void *memory;

    if (k3_device_alloc(device, what, bytes, false, &memory, err) == K3_OK) {
        *(void **)to_p = memory;
        k3_device_copy(device, K3_STREAM_MAIN, memory, from, bytes);
        k3_device_finish(device, K3_STREAM_MAIN, err);
    }
    return err->status;
}

k3_status_t k3_weights_open(k3_weights_t *w, k3_error_t *err)
{
    void *memory;

    if (k3_device_alloc(w->device, "expert weights", (uint64_t)w->experts * w->pitch, false,
                        &memory, err) == K3_OK) {
        w->device_block = memory;
    }
    return err->status;
}

/* The six parts of one expert to their places in its layout. */
k3_status_t k3_weights_send(k3_weights_t *w, uint32_t local, const k3_expert_weights_t *from,
                            k3_error_t *err)
{
    uint8_t            *block = w->device_block + local * w->pitch;
    k3_expert_weights_t to;
    uint64_t            values = k3_expert_value_bytes(&w->shape) / 3;
    uint64_t            scales = k3_expert_scale_bytes(&w->shape) / 3;

    k3_expert_layout(&w->shape, block, &to);
    const struct {
        const void *from, *to;
        uint64_t    bytes;
    } parts[] = {{from->w1, to.w1, values},
                 {from->w3, to.w3, values},
                 {from->w2, to.w2, values},
                 {from->w1_scale, to.w1_scale, scales},
                 {from->w3_scale, to.w3_scale, scales},
                 {from->w2_scale, to.w2_scale, scales}};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        k3_device_copy(w->device, K3_STREAM_MAIN, block + ((const uint8_t *)parts[i].to - block),
                       parts[i].from, parts[i].bytes);
    }
    return k3_device_finish(w->device, K3_STREAM_MAIN, err);
}

/* Those that are read in a mapped file; others went as they were made. */
static k3_status_t upload_experts(k3_weights_t *w, k3_error_t *err)
{
    if (w->checkpoint == NULL || k3_weights_open(w, err) != K3_OK) {
        return err->status;
    }
    for (uint32_t x = 0; x < w->experts && err->status == K3_OK; x++) {
        k3_expert_weights_t from;

        k3_weights_expert(w, x, &from);
        k3_weights_send(w, x, &from, err);
    }
    return err->status;
}

static void leave_host(k3_weights_t *w)
{
    k3_free(w->block);
    k3_free(w->bias);
    w->block = NULL;
    w->bias = NULL;
    for (int t = 0; t < K3_TENSOR_COUNT; t++) {
        k3_free(w->copy[t]);
        w->copy[t] = NULL;
        w->tensor[t] = NULL;
    }
}

k3_status_t k3_weights_upload(k3_weights_t *w, k3_error_t *err)
{
    k3_layer_t *layers[K3_TENSOR_COUNT] = {
        [K3_TENSOR_GATE] = &w->gate,           [K3_TENSOR_LATENT_DOWN] = &w->down,
        [K3_TENSOR_LATENT_UP] = &w->up,        [K3_TENSOR_SHARED_GATE] = &w->shared_gate,
        [K3_TENSOR_SHARED_UP] = &w->shared_up, [K3_TENSOR_SHARED_DOWN] = &w->shared_down,
    };

    if (w->experts > 0 && upload_experts(w, err) != K3_OK) {
        return err->status;
    }
    for (int t = 0; t < K3_TENSOR_COUNT; t++) {
        if (w->tensor[t] != NULL &&
            upload(w->device, "dense weights", w->tensor[t], w->tensor_bytes[t],
                   &w->device_tensor[t], err) != K3_OK) {
            return err->status;
        }
        if (layers[t] != NULL) {
            layers[t]->w = w->device_tensor[t];
        }
    }
    if (w->experts_of_gate > 0 &&
        upload(w->device, "router bias", w->bias, w->experts_of_gate * sizeof(float),
               &w->device_bias, err) != K3_OK) {
        return err->status;
    }
    w->route_bias = w->device_bias;
    w->norm_gain = w->device_tensor[K3_TENSOR_LATENT_NORM];
    leave_host(w);
    return K3_OK;
}

void k3_weights_drop(k3_weights_t *w)
{
    if (w->device == NULL) {
        return;
    }
    for (int t = 0; t < K3_TENSOR_COUNT; t++) {
        k3_device_free(w->device, w->device_tensor[t]);
    }
    k3_device_free(w->device, w->device_bias);
    k3_device_free(w->device, w->device_block);
}
