/* Model shapes. A name from the table, or NAME:KEY=VALUE,... to vary one. */
#ifndef K3_CELL_MODEL_H
#define K3_CELL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/base/status.h"
#include "kernels/kernels.h"

enum { K3_MODEL_NAME_MAX = 96, K3_TOPK_MAX = 64 };

typedef struct k3_model {
    char               name[K3_MODEL_NAME_MAX]; /* as asked for, part of the cell key */
    const char        *family;                  /* name in the table: "kimi-k3" */
    uint32_t           hidden;       /* H: router, shared experts, reduce-scatter, all-gather */
    uint32_t           latent;       /* L: the width that is dispatched */
    uint32_t           experts;      /* E */
    uint32_t           topk;         /* K */
    uint32_t           intermediate; /* I */
    uint32_t           shared;       /* S: shared intermediate; 0: no shared expert */
    uint32_t           moe_layers;   /* MoE layers of the whole model, for memory per GPU */
    k3_activation_t    activation;
    k3_weight_format_t weights;
    bool               latent_step; /* down and up projection (and norm) around the experts */
    bool               wide_limits; /* generation k3 by default */
} k3_model_t;

/* Parses "kimi-k3" or "tiny:E=32,K=4". Keys: E, K, H, L, I, S. K3_ERR_USAGE with value and rule;
 * shapes that no kernel could run (K > E, widths that are no multiple of 16, ...) are refused here.
 */
k3_status_t k3_model_parse(const char *text, k3_model_t *model, k3_error_t *err);

/* The table, for `list models`. */
unsigned          k3_model_count(void);
const k3_model_t *k3_model_at(unsigned i);

bool k3_model_has_latent(
    const k3_model_t *model); /* a down and an up projection around the experts */

/* Bytes of one routed expert, of all weights of the shared experts (bf16), and of the dense parts
 * that every rank holds (gate, bias, latent down and up, norm). */
uint64_t k3_model_expert_bytes(const k3_model_t *model);
uint64_t k3_model_shared_bytes(const k3_model_t *model);
uint64_t k3_model_dense_bytes(const k3_model_t *model);

#endif
