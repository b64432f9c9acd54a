/* One MoE layer of a released Kimi-K3 checkpoint: where its tensors lie in safetensors files, and that
 * they are what a model needs. Nothing is read here but headers: values are mapped, and a page comes
 * from the file when somebody reads it. */
#ifndef K3_CELL_CHECKPOINT_H
#define K3_CELL_CHECKPOINT_H

#include <stdint.h>

#include "bench/cell/inputs.h"
#include "bench/cell/model.h"
#include "bench/cell/safetensors.h"
#include "harness/base/status.h"

typedef struct k3_checkpoint k3_checkpoint_t;

/* `text`: FILE or DIR, then ":LAYER" (without it: the lowest layer that has a gate). A DIR holds
 * model.safetensors.index.json and the shards that it names, or model.safetensors alone; only the shards
 * that hold tensors of the layer are opened. K3_ERR_IO when a file cannot be opened, K3_ERR_USAGE when
 * one is not what it should be; the text names file, tensor, value and rule. */
k3_status_t k3_checkpoint_open(const char *text, k3_checkpoint_t **checkpoint_p, k3_error_t *err);
void        k3_checkpoint_close(k3_checkpoint_t *checkpoint); /* NULL is fine */

/* --- what a model needs ---------------------------------------------------------------------- */

/* A tensor's name is this with the layer's number, then the need's suffix; of each expert: "experts.M."
 * before the suffix. */
extern const char k3_checkpoint_prefix[]; /* "language_model.model.layers.%u.block_sparse_moe." */

typedef struct k3_checkpoint_need {
    const char *suffix, *type;
    unsigned    dims;
    uint64_t    shape[2];
    bool        of_each_expert;
    const char *what; /* in the words of the region */
} k3_checkpoint_need_t;

enum { K3_CHECKPOINT_NEEDS = 14 };

/* False: the model does without (shared experts of a model that has none). */
bool k3_checkpoint_need(const k3_model_t *model, unsigned i, k3_checkpoint_need_t *need);

/* K3_ERR_UNSUPPORTED for a model of another layout, K3_ERR_USAGE with the tensor's name, its type and
 * shape, and those that the model needs. */
k3_status_t k3_checkpoint_match(const k3_checkpoint_t *checkpoint, const k3_model_t *model,
                                k3_error_t *err);

/* --- values, of a checkpoint that matches ---------------------------------------------------- */

/* Little endian, row major, at any alignment. */
const uint8_t *k3_checkpoint_tensor(const k3_checkpoint_t *checkpoint, k3_tensor_t tensor);
const uint8_t *k3_checkpoint_bias(const k3_checkpoint_t *checkpoint);
const uint8_t *k3_checkpoint_expert(const k3_checkpoint_t *checkpoint, uint32_t expert,
                                    k3_expert_matrix_t matrix, const uint8_t **scales);

/* --- identity -------------------------------------------------------------------------------- */

/* Digest of names, types, shapes and all bytes of the layer: of the dense tensors, and the sum (modulo
 * 2^64) over experts [begin, end), so that ranks can share the reading and add up. */
uint32_t
k3_checkpoint_experts(const k3_checkpoint_t *checkpoint); /* experts that the layer names */
uint64_t k3_checkpoint_digest_dense(const k3_checkpoint_t *checkpoint);
uint64_t k3_checkpoint_digest_experts(const k3_checkpoint_t *checkpoint, uint32_t begin,
                                      uint32_t end);

/* What tells these weights from others: set once, from the digests of all parts. */
void     k3_checkpoint_identify(k3_checkpoint_t *checkpoint, uint64_t dense, uint64_t experts);
uint64_t k3_checkpoint_identity(const k3_checkpoint_t *checkpoint);

uint32_t    k3_checkpoint_layer(const k3_checkpoint_t *checkpoint);
size_t      k3_checkpoint_files(const k3_checkpoint_t *checkpoint);
const char *k3_checkpoint_file(const k3_checkpoint_t *checkpoint, size_t i, uint64_t *bytes);

#endif
