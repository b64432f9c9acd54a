#include "bench/cell/source.h"

#include <string.h>

void k3_source_tensor_row(const k3_source_t *s, k3_tensor_t tensor, uint32_t row, uint32_t begin,
                          uint32_t end, uint16_t *out)
{
    uint32_t rows, columns;
    size_t   at;

    if (s->checkpoint == NULL) {
        k3_tensor_row(s->model, s->seed, tensor, row, begin, end, out);
        return;
    }
    k3_tensor_shape(s->model, tensor, &rows, &columns);
    at = ((size_t)row * columns + begin) * sizeof(*out);
    memcpy(out, k3_checkpoint_tensor(s->checkpoint, tensor) + at, (end - begin) * sizeof(*out));
}

float k3_source_bias(const k3_source_t *s, uint32_t expert)
{
    float bias;

    if (s->checkpoint == NULL) {
        return k3_router_bias(s->seed, expert);
    }
    memcpy(&bias, k3_checkpoint_bias(s->checkpoint) + (size_t)expert * sizeof(bias), sizeof(bias));
    return bias;
}

void k3_source_expert_row(const k3_source_t *s, uint32_t expert, k3_expert_matrix_t matrix,
                          uint32_t row, uint32_t begin, uint32_t end, uint8_t *values, void *scales)
{
    size_t         columns = matrix == K3_MATRIX_W2 ? s->model->intermediate : s->model->latent;
    const uint8_t *from, *from_scales;

    if (s->checkpoint == NULL) {
        k3_expert_row(s->model, s->seed, expert, matrix, row, begin, end, values, scales);
        return;
    }
    from = k3_checkpoint_expert(s->checkpoint, expert, matrix, &from_scales);
    memcpy(values, from + (row * columns + begin) / 2, (end - begin) / 2);
    memcpy(scales, from_scales + (row * columns + begin) / 32, (end - begin) / 32);
}

void k3_source_partial(const k3_source_t *s, uint64_t payload, uint64_t row, uint32_t attn_index,
                       uint32_t attn_tp, uint16_t *out)
{
    enum { PIECE = 16 };
    uint32_t        width = s->model->hidden;
    const uint16_t *from;

    if (s->hidden == NULL) {
        k3_input_partial(s->model, s->seed, payload, row, attn_index, attn_tp, out);
        return;
    }
    from = k3_hidden_row(s->hidden, row);
    memset(out, 0, width * sizeof(*out));
    for (uint32_t at = attn_index * PIECE; at < width; at += attn_tp * PIECE) {
        memcpy(out + at, from + at, PIECE * sizeof(*out));
    }
}
