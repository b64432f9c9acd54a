/* The weights that one rank holds: its experts (or slices of them) and the dense parts. Synthetic ones are
 * filled at set-up; those of a checkpoint are read where they lie in its file, or copied where the layout of
 * the rank asks for it (plan/in_place.h). Never inside a timed span. */
#ifndef K3_REGION_WEIGHTS_H
#define K3_REGION_WEIGHTS_H

#include "bench/engines/compute.h"
#include "bench/plan/cell.h"
#include "kernels/kernels.h"

enum { K3_WEIGHTS_KEY_MAX = 192 };

typedef struct k3_weights {
    char                   key[K3_WEIGHTS_KEY_MAX]; /* what they were made for; "": empty */
    uint64_t               bytes;      /* of the host as planned, without mapped pages */
    k3_expert_shape_t      shape;      /* of the slice held */
    uint32_t               experts;    /* held by this rank */
    const k3_checkpoint_t *checkpoint; /* whose experts are read in place; NULL: block */
    uint32_t               first;      /* expert of all, the local one 0 */
    uint8_t               *block; /* all experts, one layout after the other; with a device one */
    uint64_t               pitch; /* bytes of one */
    const uint16_t        *tensor[K3_TENSOR_COUNT]; /* NULL: not needed by this cell */
    uint16_t              *copy[K3_TENSOR_COUNT];   /* owned; NULL: in place */
    uint64_t               tensor_bytes[K3_TENSOR_COUNT];
    float                 *bias;            /* [E] */
    uint32_t               experts_of_gate; /* E; 0: no gate */
    k3_layer_t             gate, down, up, shared_gate, shared_up, shared_down;
    const float           *route_bias; /* these two: memory of what computes */
    const uint16_t        *norm_gain;
    k3_device_t           *device; /* set by the caller; NULL: the processor computes */
    uint8_t               *device_block;
    uint16_t              *device_tensor[K3_TENSOR_COUNT];
    float                 *device_bias;
    double                 fill_us; /* time of the filling */
} k3_weights_t;

/* Weights outlive a cell: the next one with the same model, seed and placement finds them ready.
 * `ensure` makes *weights those of the cell, `release` frees them unless they already are (so that
 * the memory of a new cell is judged without the old one's). An empty object is all zero but for the
 * device. On failure it is empty. For a device they are copied there, and the host keeps none. */
k3_status_t k3_weights_ensure(const k3_cell_t *cell, uint32_t rank, k3_weights_t *weights,
                              k3_error_t *err);
void        k3_weights_release(const k3_cell_t *cell, uint32_t rank, k3_weights_t *weights);
void        k3_weights_destroy(k3_weights_t *weights);

/* weights_device.c: room for all experts; one of them goes there; and what else `ensure` filled, which leaves
 * the host; and back to nothing. */
k3_status_t k3_weights_open(k3_weights_t *weights, k3_error_t *err);
k3_status_t k3_weights_send(k3_weights_t *weights, uint32_t local, const k3_expert_weights_t *from,
                            k3_error_t *err);
k3_status_t k3_weights_upload(k3_weights_t *weights, k3_error_t *err);
void        k3_weights_drop(k3_weights_t *weights);

void k3_weights_expert(const k3_weights_t *weights, uint32_t local_expert,
                       k3_expert_weights_t *expert);

#endif
