/* Where an expert's weights lie: in the block that was filled, or mapped from a checkpoint. */
#include "bench/region/weights.h"

void k3_weights_expert(const k3_weights_t *w, uint32_t local_expert, k3_expert_weights_t *expert)
{
    uint32_t       e = w->first + local_expert;
    const uint8_t *scales;

    if (w->checkpoint == NULL) {
        k3_expert_layout(&w->shape, w->block + local_expert * w->pitch, expert);
        return;
    }
    expert->w1 = k3_checkpoint_expert(w->checkpoint, e, K3_MATRIX_W1, &scales);
    expert->w1_scale = scales;
    expert->w3 = k3_checkpoint_expert(w->checkpoint, e, K3_MATRIX_W3, &scales);
    expert->w3_scale = scales;
    expert->w2 = k3_checkpoint_expert(w->checkpoint, e, K3_MATRIX_W2, &scales);
    expert->w2_scale = scales;
}
