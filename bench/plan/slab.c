#include "bench/plan/slab.h"

#include "harness/base/arith.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* DeepEP: the send area holds M records or E * M results, the receive area E * M of the larger; the
 * signal words are padded to 128 bytes. Upstream sizes the record for the largest format. */
static void size_deepep(const k3_cell_t *cell, k3_slab_t *s, uint64_t *send, uint64_t *recv,
                        uint64_t *signal)
{
    uint64_t w = cell->model.latent;
    uint64_t slot = 16 + larger(2 * w, w + w / 128 * 4);
    uint64_t rows = k3_mul(s->experts, s->m);

    *send = larger(k3_mul(s->m, slot), k3_mul(rows, s->result_stride));
    *recv = k3_mul(rows, larger(slot, s->result_stride));
    *signal = k3_round_up(s->experts * s->signal_bytes, 128);
}

/* Mooncake: send and receive areas of E * M slots that hold either message, and two sets of E words
 * in a half: the counts, and the words that its remote add returns. */
static void size_mooncake(const k3_cell_t *cell, k3_slab_t *s, uint64_t *send, uint64_t *recv,
                          uint64_t *signal)
{
    uint64_t area = k3_mul(k3_mul(s->experts, s->m), 32 + 2 * (uint64_t)cell->model.latent);

    *send = area;
    *recv = area;
    *signal = 2 * s->experts * s->signal_bytes;
}

void k3_slab_plan(const k3_cell_t *cell, k3_slab_t *s)
{
    const k3_profile_t *p = cell->profile;
    uint32_t            width = cell->model.latent;
    uint64_t            send, recv, signal, half;

    s->experts = cell->model.experts;
    s->ranks = cell->layout.tp;
    s->local = s->experts / s->ranks;
    s->m = cell->max_tokens;
    s->record = k3_profile_dispatch_record(p, cell->dispatch_format, width, cell->model.topk);
    s->record_payload = k3_profile_dispatch_payload(p, cell->dispatch_format, width);
    s->record_values = p->header_bytes;
    s->record_scales = p->header_bytes + k3_format_value_bytes(cell->dispatch_format, width);
    s->result = k3_profile_combine_record(p, cell->combine_format, width, cell->model.topk);
    s->result_payload = k3_profile_combine_payload(p, cell->combine_format, width);
    s->result_stride = k3_profile_combine_stride(p, cell->combine_format, width, cell->model.topk);
    s->result_spare = k3_format_spare_bytes(cell->combine_format, width);
    s->output = 2 * (uint64_t)width;
    s->results = cell->zero_copy ? 0 : k3_mul(k3_mul(s->experts, s->m), s->output);
    s->decoded = cell->combine_format == K3_FORMAT_BF16 ? 0 : cell->model.topk * s->output;
    s->signal_bytes = p->signal_bytes;
    s->qps = cell->qps.active;
    s->channels = p->qp_map == K3_QP_BY_PROXY ? p->channels : 0;
    if (p->buffer_formula == K3_BUFFER_DEEPEP_LL) {
        size_deepep(cell, s, &send, &recv, &signal);
    } else {
        size_mooncake(cell, s, &send, &recv, &signal);
    }
    half = k3_add(k3_add(send, recv), signal);
    for (int b = 0; b < 2; b++) {
        s->send[b] = k3_mul(half, (uint64_t)b);
        s->recv[b] = k3_add(s->send[b], send);
        s->signal[b] = k3_add(s->recv[b], recv);
    }
    s->bytes = k3_mul(half, 2);
    if (p->buffer_formula == K3_BUFFER_DEEPEP_LL) {
        /* Upstream's size hint: rounded up past the next 128. */
        s->bytes = s->bytes == K3_TOO_BIG ? K3_TOO_BIG : k3_add(s->bytes, 128) / 128 * 128;
    }
}

uint64_t k3_slab_part_words(k3_slab_t *s)
{
    uint64_t half = k3_round_up(k3_mul(s->experts, s->signal_bytes), 128);

    for (int b = 0; b < 2; b++) {
        s->signal[b] = (uint64_t)b * half;
    }
    return k3_mul(half, 2);
}
