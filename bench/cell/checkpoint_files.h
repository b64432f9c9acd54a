/* The files of a checkpoint, and which tensors of one layer lie in them. */
#ifndef K3_CELL_CHECKPOINT_FILES_H
#define K3_CELL_CHECKPOINT_FILES_H

#include <stdint.h>

#include "bench/cell/safetensors.h"

/* Names: LAYERS, the layer's number, ".", BLOCK, what it is. */
#define K3_CHECKPOINT_LAYERS "language_model.model.layers."
#define K3_CHECKPOINT_BLOCK  "block_sparse_moe."

typedef struct k3_checkpoint_shard {
    char            *name; /* of the file in its folder, owned */
    k3_safetensors_t file;
} k3_checkpoint_shard_t;

typedef struct k3_checkpoint_files {
    char                   *path; /* as given, without the layer; owned */
    uint32_t                layer;
    k3_checkpoint_shard_t  *shard; /* those opened: they hold tensors of the layer */
    size_t                  shard_count;
    const k3_safetensor_t **tensor; /* [count] of the layer */
    size_t                  count;
} k3_checkpoint_files_t;

/* See k3_checkpoint_open. On failure `files` is to be closed too. */
k3_status_t k3_checkpoint_files_open(const char *text, k3_checkpoint_files_t *files,
                                     k3_error_t *err);
void        k3_checkpoint_files_close(k3_checkpoint_files_t *files);

/* A whole number as names write it: digits without a leading zero, below 2^20. Returns what follows;
 * NULL: no such number. */
const char *k3_checkpoint_number(const char *text, uint32_t *number);

#endif
