#include "bench/cell/model.h"

#include <stdio.h>
#include <string.h>

#include "harness/base/arith.h"
#include "harness/base/options.h"

static const k3_model_t models[] = {
    {.name = "tiny",
     .family = "tiny",
     .hidden = 512,
     .latent = 256,
     .experts = 64,
     .topk = 4,
     .intermediate = 256,
     .shared = 256,
     .moe_layers = 1,
     .activation = K3_ACT_SITU,
     .weights = K3_WEIGHT_MXFP4,
     .latent_step = true,
     .wide_limits = true},
    {.name = "kimi-k3-mini",
     .family = "kimi-k3-mini",
     .hidden = 1024,
     .latent = 512,
     .experts = 112,
     .topk = 16,
     .intermediate = 384,
     .shared = 768,
     .moe_layers = 1,
     .activation = K3_ACT_SITU,
     .weights = K3_WEIGHT_MXFP4,
     .latent_step = true,
     .wide_limits = true},
    {.name = "kimi-k3",
     .family = "kimi-k3",
     .hidden = 7168,
     .latent = 3584,
     .experts = 896,
     .topk = 16,
     .intermediate = 3072,
     .shared = 6144,
     .moe_layers = 92,
     .activation = K3_ACT_SITU,
     .weights = K3_WEIGHT_MXFP4,
     .latent_step = true,
     .wide_limits = true},
    {.name = "deepseek-v3",
     .family = "deepseek-v3",
     .hidden = 7168,
     .latent = 7168,
     .experts = 256,
     .topk = 8,
     .intermediate = 2048,
     .shared = 2048,
     .moe_layers = 58,
     .activation = K3_ACT_SWIGLU,
     .weights = K3_WEIGHT_FP8_B128},

    /* Shapes of deepseek-ai/DeepGEMM's fused MoE (PR 316, and its test for Pro); one shared expert
     * as wide as a routed one, every layer an MoE layer, FP4 experts: NVIDIA NeMo AutoModel's pages
     * and the released configuration. 61 layers of Pro: from its size of 1.6 T parameters. The
     * router's score function is ours, the clamp of the activation is left out. */
    {.name = "deepseek-v4-flash",
     .family = "deepseek-v4-flash",
     .hidden = 4096,
     .latent = 4096,
     .experts = 256,
     .topk = 6,
     .intermediate = 2048,
     .shared = 2048,
     .moe_layers = 43,
     .activation = K3_ACT_SWIGLU,
     .weights = K3_WEIGHT_MXFP4},
    {.name = "deepseek-v4-pro",
     .family = "deepseek-v4-pro",
     .hidden = 7168,
     .latent = 7168,
     .experts = 384,
     .topk = 6,
     .intermediate = 3072,
     .shared = 3072,
     .moe_layers = 61,
     .activation = K3_ACT_SWIGLU,
     .weights = K3_WEIGHT_MXFP4},
};

enum { MODEL_COUNT = sizeof(models) / sizeof(models[0]) };

unsigned k3_model_count(void)
{
    return MODEL_COUNT;
}

const k3_model_t *k3_model_at(unsigned i)
{
    return &models[i];
}

static k3_status_t find_model(const char *name, k3_model_t *model, k3_error_t *err)
{
    const char *names[MODEL_COUNT + 1] = {NULL};
    size_t      index;

    for (unsigned i = 0; i < MODEL_COUNT; i++) {
        names[i] = models[i].name;
    }
    if (k3_parse_name("model", name, names, &index, err) != K3_OK) {
        return err->status;
    }
    *model = models[index];
    return K3_OK;
}

static k3_status_t set_key(k3_model_t *model, const char *item, unsigned *seen, k3_error_t *err)
{
    static const char *const keys[] = {"E", "K", "H", "L", "I", "S", NULL};
    uint32_t                *slots[] = {&model->experts, &model->topk,         &model->hidden,
                                        &model->latent,  &model->intermediate, &model->shared};
    const char              *equals = strchr(item, '=');
    char                     key[8] = "", what[24];
    size_t                   index;
    uint64_t                 value;

    if (equals == NULL || equals == item || (size_t)(equals - item) >= sizeof(key)) {
        return k3_fail(err, K3_ERR_USAGE,
                       "model: \"%s\" is not KEY=VALUE with a key of E, K, H, L, I, S", item);
    }
    memcpy(key, item, (size_t)(equals - item));
    snprintf(what, sizeof(what), "model key %s", key);
    if (k3_parse_name("model key", key, keys, &index, err) != K3_OK ||
        k3_parse_u64(what, equals + 1, keys[index][0] == 'S' ? 0 : 1, 1u << 20, &value, err) !=
            K3_OK) {
        return err->status;
    }
    if ((*seen & 1u << index) != 0) {
        return k3_fail(err, K3_ERR_USAGE, "model %s: the key %s is given twice", model->name, key);
    }
    *seen |= 1u << index;
    *slots[index] = (uint32_t)value;
    return K3_OK;
}

static k3_status_t check_width(const k3_model_t *model, const char *what, uint32_t width,
                               uint32_t unit, const char *why, k3_error_t *err)
{
    if (width % unit != 0) {
        return k3_fail(err, K3_ERR_USAGE, "model %s: %s %u is not a multiple of %u (%s)",
                       model->name, what, width, unit, why);
    }
    return K3_OK;
}

static k3_status_t check_model(const k3_model_t *model, k3_error_t *err)
{
    bool        blocks = model->weights == K3_WEIGHT_FP8_B128;
    uint32_t    unit = blocks ? 128 : 32;
    const char *why =
        blocks ? "fp8 weights have one scale for 128" : "MXFP4 weights have one scale for 32";

    if (model->topk > model->experts || model->topk > K3_TOPK_MAX) {
        return k3_fail(err, K3_ERR_USAGE, "model %s: top-k K=%u is above %s %u", model->name,
                       model->topk,
                       model->topk > model->experts ? "the number of experts E =" : "the limit",
                       model->topk > model->experts ? model->experts : (uint32_t)K3_TOPK_MAX);
    }
    if (!model->latent_step && model->hidden != model->latent) {
        return k3_fail(err, K3_ERR_USAGE,
                       "model %s: H %u and L %u differ (%s has no projection between them, one "
                       "width)",
                       model->name, model->hidden, model->latent, model->family);
    }
    if (check_width(model, "H", model->hidden, 16, "rows are moved in pieces of 16 bytes", err) !=
            K3_OK ||
        check_width(model, "L", model->latent, unit, why, err) != K3_OK ||
        check_width(model, "I", model->intermediate, unit, why, err) != K3_OK ||
        check_width(model, "S", model->shared, 16, "rows are moved in pieces of 16 bytes", err) !=
            K3_OK) {
        return err->status;
    }
    return K3_OK;
}

k3_status_t k3_model_parse(const char *text, k3_model_t *model, k3_error_t *err)
{
    const char *colon = strchr(text, ':');
    char        name[K3_MODEL_NAME_MAX];
    size_t      length = colon == NULL ? strlen(text) : (size_t)(colon - text);

    if (strlen(text) >= K3_MODEL_NAME_MAX) {
        return k3_fail(err, K3_ERR_USAGE, "model: \"%.40s...\" is longer than %d characters", text,
                       K3_MODEL_NAME_MAX - 1);
    }
    memcpy(name, text, length);
    name[length] = '\0';
    if (find_model(name, model, err) != K3_OK) {
        return err->status;
    }
    snprintf(model->name, sizeof(model->name), "%s", text);
    if (colon != NULL) {
        k3_list_t items;
        unsigned  seen = 0;

        k3_list_split(colon + 1, ',', &items);
        for (size_t i = 0; i < items.count && set_key(model, items.items[i], &seen, err) == K3_OK;
             i++) {
        }
        k3_list_free(&items);
        if (err->status != K3_OK) {
            return err->status;
        }
        /* A model without a latent step has one width: naming H alone keeps it so. */
        if (!model->latent_step && strstr(colon, "L=") == NULL) {
            model->latent = model->hidden;
        } else if (!model->latent_step && strstr(colon, "H=") == NULL) {
            model->hidden = model->latent;
        }
    }
    return check_model(model, err);
}

bool k3_model_has_latent(const k3_model_t *model)
{
    return model->latent_step;
}

uint64_t k3_model_expert_bytes(const k3_model_t *model)
{
    k3_expert_shape_t shape = {model->latent, model->intermediate, model->weights,
                               model->activation};

    return k3_expert_value_bytes(&shape) + k3_expert_scale_bytes(&shape);
}

uint64_t k3_model_shared_bytes(const k3_model_t *model)
{
    return (uint64_t)3 * model->hidden * model->shared * 2;
}

uint64_t k3_model_dense_bytes(const k3_model_t *model)
{
    uint64_t gate = (uint64_t)model->experts * model->hidden * 2 + (uint64_t)model->experts * 4;
    uint64_t latent = (uint64_t)model->hidden * model->latent * 2;

    return gate + (model->latent_step ? 2 * latent + (uint64_t)model->latent * 2 : 0);
}
