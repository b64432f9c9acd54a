/* Sizes and places of one expert's packed weights. */
#include "kernels/kernels.h"

const char *const k3_weight_format_names[] = {
    [K3_WEIGHT_MXFP4] = "mxfp4", [K3_WEIGHT_FP8_B128] = "fp8_b128", NULL};

static uint64_t value_bytes(const k3_expert_shape_t *shape, uint64_t rows, uint64_t columns)
{
    return shape->weights == K3_WEIGHT_MXFP4 ? rows * (columns / 2) : rows * columns;
}

static uint64_t scale_bytes(const k3_expert_shape_t *shape, uint64_t rows, uint64_t columns)
{
    if (shape->weights == K3_WEIGHT_MXFP4) {
        return rows * (columns / 32);
    }
    return sizeof(float) * ((rows + 127) / 128) * ((columns + 127) / 128);
}

uint64_t k3_expert_value_bytes(const k3_expert_shape_t *shape)
{
    return 2 * value_bytes(shape, shape->inter, shape->latent) +
           value_bytes(shape, shape->latent, shape->inter);
}

uint64_t k3_expert_scale_bytes(const k3_expert_shape_t *shape)
{
    return 2 * scale_bytes(shape, shape->inter, shape->latent) +
           scale_bytes(shape, shape->latent, shape->inter);
}

static const uint8_t *take(const uint8_t *block, uint64_t *used, uint64_t bytes)
{
    const uint8_t *part = block == NULL ? NULL : block + *used;

    *used += (bytes + 63) / 64 * 64;
    return part;
}

uint64_t k3_expert_layout(const k3_expert_shape_t *shape, const uint8_t *block,
                          k3_expert_weights_t *weights)
{
    uint64_t            up = value_bytes(shape, shape->inter, shape->latent);
    uint64_t            down = value_bytes(shape, shape->latent, shape->inter);
    uint64_t            up_scale = scale_bytes(shape, shape->inter, shape->latent);
    uint64_t            down_scale = scale_bytes(shape, shape->latent, shape->inter);
    uint64_t            used = 0;
    k3_expert_weights_t parts;

    parts.w1 = take(block, &used, up);
    parts.w3 = take(block, &used, up);
    parts.w2 = take(block, &used, down);
    parts.w1_scale = take(block, &used, up_scale);
    parts.w3_scale = take(block, &used, up_scale);
    parts.w2_scale = take(block, &used, down_scale);
    if (weights != NULL) {
        *weights = parts;
    }
    return used;
}
