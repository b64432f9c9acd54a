/* Every buffer of a rank, by name and size. The region allocates from this list, so that what
 * `plan` prints is what a run takes. */
#ifndef K3_PLAN_BUFFERS_H
#define K3_PLAN_BUFFERS_H

#include <stdint.h>

#include "bench/plan/cell.h"

typedef enum k3_buffer {
    K3_BUF_PARTIAL,    /* [group rows + padding][H] partial attention output, input of the region */
    K3_BUF_EXCHANGE,   /* receive side of the collectives' exchanges */
    K3_BUF_X,          /* [front rows][H] rows that enter the router */
    K3_BUF_LOGITS,     /* [front rows][E] f32 */
    K3_BUF_IDS,        /* [front rows][K] int32 */
    K3_BUF_GATES,      /* [front rows][K] f32 combine weights */
    K3_BUF_LATENT,     /* [front rows][L] dispatched rows */
    K3_BUF_COMBINED,   /* [front rows][L] + [front rows][H] when reduced together with the shared */
    K3_BUF_NORMED,     /* [front rows][L] */
    K3_BUF_SHARED_MID, /* [shared rows][3 S'] gate, up, activated */
    K3_BUF_SHARED,     /* [front rows][H] */
    K3_BUF_PACKED,     /* [front rows][L + H] what a reduce-scatter over cp sends */
    K3_BUF_ROUTED,     /* [front rows][H] */
    K3_BUF_OUTPUT,     /* [group rows + padding][H] restored rows */
    K3_BUF_EXPERT_WORK,
    K3_BUF_DENSE_WORK,
    K3_BUF_COUNT
} k3_buffer_t;

typedef struct k3_memory {
    uint64_t buffer[K3_BUF_COUNT]; /* bytes */
    uint64_t block;                /* symmetric block of the queue pairs */
    uint64_t beside; /* ... beyond upstream's formula: signal words, areas that upstream guards by a
                        barrier */
    uint64_t engine; /* other memory of the engine */
    uint64_t expert_weights, shared_expert, dense_weights;
    uint64_t hidden; /* given rows, as bf16: all of the file */
    /* Of the weights: read where they lie in a mapped file. These pages are not allocated; those of dense
     * tensors are the same for all ranks of a node. */
    uint64_t mapped_experts, mapped_dense;
    uint64_t total;        /* mapped pages too; K3_TOO_BIG when it does not fit in 64 bits */
    uint64_t host, device; /* of the total; nothing on a device where rows lie in the host */
} k3_memory_t;

/* Of the host whatever computes: who posts reads the ids, and work space belongs to the processor. */
static inline bool k3_buffer_of_host(k3_buffer_t buffer)
{
    return buffer == K3_BUF_IDS || buffer == K3_BUF_EXPERT_WORK;
}

/* What the host writes in front of an iteration or reads behind it: it has a mirror of what a device holds. */
static inline bool k3_buffer_mirrored(k3_buffer_t buffer)
{
    return !k3_buffer_of_host(buffer) && buffer != K3_BUF_EXCHANGE && buffer != K3_BUF_NORMED &&
           buffer != K3_BUF_SHARED_MID && buffer != K3_BUF_SHARED && buffer != K3_BUF_PACKED &&
           buffer != K3_BUF_DENSE_WORK;
}

extern const char *const k3_buffer_names[];

void k3_memory_plan(const k3_cell_t *cell, uint32_t rank, k3_memory_t *memory);

/* Of the rank that needs most. */
void k3_memory_largest(const k3_cell_t *cell, k3_memory_t *memory);

/* Bytes of the hosts of all ranks on a real node together, pages that they share counted once; real_node_of NULL: all
 * ranks. *ranks is how many they are. */
uint64_t k3_memory_of_node(const k3_cell_t *cell, const int *real_node_of, int node,
                           uint32_t *ranks);

#endif
