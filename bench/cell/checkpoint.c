#include "bench/cell/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/cell/checkpoint_files.h"
#include "harness/base/digest.h"
#include "harness/base/keyed.h"
#include "harness/base/memory.h"
#include "harness/base/text.h"

const char k3_checkpoint_prefix[] = K3_CHECKPOINT_LAYERS "%u." K3_CHECKPOINT_BLOCK;

/* The tensors that a model needs, in this order: dense ones, then those of each expert. */
enum { BIAS = 1, DENSE = 8, EXPERT_PARTS = K3_CHECKPOINT_NEEDS - DENSE };

static const int dense_of[K3_TENSOR_COUNT] = {
    [K3_TENSOR_GATE] = 0,        [K3_TENSOR_LATENT_DOWN] = 2, [K3_TENSOR_LATENT_NORM] = 3,
    [K3_TENSOR_LATENT_UP] = 4,   [K3_TENSOR_SHARED_GATE] = 5, [K3_TENSOR_SHARED_UP] = 6,
    [K3_TENSOR_SHARED_DOWN] = 7,
};

/* Values of a matrix; its scales are the next part. */
static const int part_of[] = {[K3_MATRIX_W1] = 0, [K3_MATRIX_W3] = 2, [K3_MATRIX_W2] = 4};

typedef const k3_safetensor_t *expert_t[EXPERT_PARTS];

struct k3_checkpoint {
    k3_checkpoint_files_t  files;
    const k3_safetensor_t *dense[DENSE];
    expert_t              *expert; /* [experts] */
    uint32_t               experts;
    uint64_t               identity;
};

bool k3_checkpoint_need(const k3_model_t *m, unsigned i, k3_checkpoint_need_t *need)
{
    const uint64_t h = m->hidden, l = m->latent, e = m->experts, s = m->shared, n = m->intermediate;
    const k3_checkpoint_need_t needs[K3_CHECKPOINT_NEEDS] = {
        {"gate.weight", "BF16", 2, {e, h}, false, "router"},
        {"gate.e_score_correction_bias", "F32", 1, {e}, false, "added to the score for selection"},
        {"routed_expert_down_proj.weight", "BF16", 2, {l, h}, false, "latent down"},
        {"routed_expert_norm.weight", "BF16", 1, {l}, false, "gain of the latent norm"},
        {"routed_expert_up_proj.weight", "BF16", 2, {h, l}, false, "latent up"},
        {"shared_experts.gate_proj.weight", "BF16", 2, {s, h}, false, "shared expert, gate"},
        {"shared_experts.up_proj.weight", "BF16", 2, {s, h}, false, "shared expert, up"},
        {"shared_experts.down_proj.weight", "BF16", 2, {h, s}, false, "shared expert, down"},
        {"w1.weight_packed", "U8", 2, {n, l / 2}, true, "gate, two E2M1 codes a byte"},
        {"w1.weight_scale", "U8", 2, {n, l / 32}, true, "gate, E8M0 for 32 columns"},
        {"w3.weight_packed", "U8", 2, {n, l / 2}, true, "up, two E2M1 codes a byte"},
        {"w3.weight_scale", "U8", 2, {n, l / 32}, true, "up, E8M0 for 32 columns"},
        {"w2.weight_packed", "U8", 2, {l, n / 2}, true, "down, two E2M1 codes a byte"},
        {"w2.weight_scale", "U8", 2, {l, n / 32}, true, "down, E8M0 for 32 columns"},
    };

    *need = needs[i];
    return s > 0 || i <= 4 || i >= DENSE;
}

/* --- finding the tensors --------------------------------------------------------------------- */

static int need_of(const char *suffix, bool of_expert)
{
    k3_checkpoint_need_t need;

    for (unsigned i = of_expert ? DENSE : 0; i < (of_expert ? K3_CHECKPOINT_NEEDS : DENSE); i++) {
        k3_checkpoint_need(k3_model_at(0), i, &need);
        if (strcmp(suffix, need.suffix) == 0) {
            return (int)(of_expert ? i - DENSE : i);
        }
    }
    return -1;
}

/* "experts.M.SUFFIX"; false: no tensor of an expert. */
static bool split_expert(const char *suffix, uint32_t *expert, const char **part)
{
    static const char head[] = "experts.";

    if (strncmp(suffix, head, sizeof(head) - 1) != 0) {
        return false;
    }
    *part = k3_checkpoint_number(suffix + sizeof(head) - 1, expert);
    return *part != NULL && *(*part)++ == '.';
}

static void place_tensor(k3_checkpoint_t *c, const k3_safetensor_t *t, size_t skip)
{
    const char *suffix = t->name + skip, *part;
    uint32_t    expert;
    int         need;

    if (!split_expert(suffix, &expert, &part)) {
        need = need_of(suffix, false);
        if (need >= 0) {
            c->dense[need] = t;
        }
        return;
    }
    need = need_of(part, true);
    if (need >= 0) {
        c->expert[expert][need] = t;
    }
}

static k3_status_t place_tensors(k3_checkpoint_t *c, k3_error_t *err)
{
    const k3_checkpoint_files_t *f = &c->files;
    char                         prefix[128];
    size_t      skip = (size_t)snprintf(prefix, sizeof(prefix), k3_checkpoint_prefix, f->layer);
    uint32_t    expert;
    const char *part;

    for (size_t i = 0; i < f->count; i++) {
        if (split_expert(f->tensor[i]->name + skip, &expert, &part) && expert >= c->experts) {
            c->experts = expert + 1;
        }
    }
    if (k3_alloc("experts of a checkpoint", c->experts, sizeof(expert_t), &c->expert, err) !=
        K3_OK) {
        return err->status;
    }
    for (size_t i = 0; i < f->count; i++) {
        place_tensor(c, f->tensor[i], skip);
    }
    return K3_OK;
}

k3_status_t k3_checkpoint_open(const char *text, k3_checkpoint_t **checkpoint_p, k3_error_t *err)
{
    k3_checkpoint_t *c;

    *checkpoint_p = NULL;
    if (k3_alloc("checkpoint", 1, sizeof(*c), &c, err) != K3_OK) {
        return err->status;
    }
    if (k3_checkpoint_files_open(text, &c->files, err) != K3_OK || place_tensors(c, err) != K3_OK) {
        k3_checkpoint_close(c);
        return err->status;
    }
    *checkpoint_p = c;
    return K3_OK;
}

void k3_checkpoint_close(k3_checkpoint_t *c)
{
    if (c == NULL) {
        return;
    }
    k3_free(c->expert);
    k3_checkpoint_files_close(&c->files);
    k3_free(c);
}

/* --- holding it against a model -------------------------------------------------------------- */

static k3_status_t check_need(const k3_checkpoint_t *c, const k3_model_t *model,
                              const k3_checkpoint_need_t *need, const k3_safetensor_t *t,
                              uint32_t expert, k3_error_t *err)
{
    char   name[160], want[K3_SAFETENSORS_SHAPE], got[K3_SAFETENSORS_SHAPE];
    size_t used = k3_append(name, sizeof(name), 0, k3_checkpoint_prefix, c->files.layer);
    bool   same = t != NULL && strcmp(t->type, need->type) == 0 && t->dims == need->dims;

    if (need->of_each_expert) {
        used = k3_append(name, sizeof(name), used, "experts.%u.", expert);
    }
    k3_append(name, sizeof(name), used, "%s", need->suffix);
    for (unsigned d = 0; same && d < need->dims; d++) {
        same = t->shape[d] == need->shape[d];
    }
    if (same) {
        return K3_OK;
    }
    k3_safetensors_shape(need->type, need->dims, need->shape, want);
    return k3_fail(err, K3_ERR_USAGE, "weights %s: tensor %s is %s, model %s needs %s",
                   c->files.path, name,
                   t == NULL ? "missing" : k3_safetensors_shape(t->type, t->dims, t->shape, got),
                   model->name, want);
}

k3_status_t k3_checkpoint_match(const k3_checkpoint_t *c, const k3_model_t *model, k3_error_t *err)
{
    k3_checkpoint_need_t need;

    if (!model->latent_step) {
        return k3_fail(
            err, K3_ERR_UNSUPPORTED,
            "weights %s: model %s has another layout of tensors, only Kimi-K3 checkpoints "
            "are read (--weights synthetic)",
            c->files.path, model->name);
    }
    for (unsigned i = 0; i < DENSE; i++) {
        if (k3_checkpoint_need(model, i, &need) &&
            check_need(c, model, &need, c->dense[i], 0, err) != K3_OK) {
            return err->status;
        }
    }
    for (uint32_t e = 0; e < model->experts; e++) {
        for (unsigned i = 0; i < EXPERT_PARTS; i++) {
            const k3_safetensor_t *t = e < c->experts ? c->expert[e][i] : NULL;

            k3_checkpoint_need(model, DENSE + i, &need);
            if (check_need(c, model, &need, t, e, err) != K3_OK) {
                return err->status;
            }
        }
    }
    return K3_OK;
}

/* --- values ---------------------------------------------------------------------------------- */

const uint8_t *k3_checkpoint_tensor(const k3_checkpoint_t *c, k3_tensor_t tensor)
{
    return c->dense[dense_of[tensor]]->data;
}

const uint8_t *k3_checkpoint_bias(const k3_checkpoint_t *c)
{
    return c->dense[BIAS]->data;
}

const uint8_t *k3_checkpoint_expert(const k3_checkpoint_t *c, uint32_t expert,
                                    k3_expert_matrix_t matrix, const uint8_t **scales)
{
    int part = part_of[matrix];

    *scales = c->expert[expert][part + 1]->data;
    return c->expert[expert][part]->data;
}

/* --- identity -------------------------------------------------------------------------------- */

static uint64_t digest_tensor(const k3_safetensor_t *t)
{
    uint64_t key = k3_digest(t->dims, t->name, strlen(t->name));

    key = k3_digest(key, t->type, strlen(t->type));
    for (unsigned d = 0; d < t->dims; d++) {
        key = k3_key(key, t->shape[d]);
    }
    return k3_digest(key, t->data, t->end - t->begin);
}

uint64_t k3_checkpoint_digest_dense(const k3_checkpoint_t *c)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < DENSE; i++) {
        sum += c->dense[i] != NULL ? digest_tensor(c->dense[i]) : 0;
    }
    return sum;
}

uint64_t k3_checkpoint_digest_experts(const k3_checkpoint_t *c, uint32_t begin, uint32_t end)
{
    uint64_t sum = 0;

    for (uint32_t e = begin; e < end; e++) {
        for (unsigned i = 0; i < EXPERT_PARTS; i++) {
            sum += c->expert[e][i] != NULL ? digest_tensor(c->expert[e][i]) : 0;
        }
    }
    return sum;
}

void k3_checkpoint_identify(k3_checkpoint_t *c, uint64_t dense, uint64_t experts)
{
    c->identity = k3_key(dense, experts);
}

uint64_t k3_checkpoint_identity(const k3_checkpoint_t *c)
{
    return c->identity;
}

uint32_t k3_checkpoint_experts(const k3_checkpoint_t *c)
{
    return c->experts;
}

uint32_t k3_checkpoint_layer(const k3_checkpoint_t *c)
{
    return c->files.layer;
}

size_t k3_checkpoint_files(const k3_checkpoint_t *c)
{
    return c->files.shard_count;
}

const char *k3_checkpoint_file(const k3_checkpoint_t *c, size_t i, uint64_t *bytes)
{
    *bytes = c->files.shard[i].file.map.size;
    return c->files.shard[i].name;
}
