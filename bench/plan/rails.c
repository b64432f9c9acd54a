#include "bench/plan/rails.h"

#include "harness/base/arith.h"

enum { AREA_UNIT = 128, HYBRID_UNIT = 1 << 21, HYBRID_CHANNELS_MAX = 1280 };

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint32_t fewer(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint64_t area(uint64_t *end, uint64_t rows, uint64_t bytes)
{
    uint64_t at = k3_round_up(*end, AREA_UNIT);

    *end = k3_add(at, k3_mul(rows, bytes));
    return at;
}

/* MoRI: no area is used twice. The staging of 2 N M records holds sums that leave and sums that come
 * back; the larger of both messages decides. */
static void place_apart(k3_rails_t *r, uint64_t *end)
{
    uint64_t stride = larger(r->record, r->result);
    uint64_t rows = k3_mul(r->nodes, r->m);

    r->hop1 = area(end, rows, r->record);
    r->staging = area(end, rows, stride);
    r->returned = area(end, rows, stride);
    r->send = area(end, r->m, r->record);
    r->receive = area(end, k3_mul(r->per_node, rows), r->record);
    r->arrive = area(end, k3_mul(r->parts, rows), r->result);
    r->buffer = *end;
}

/* Bytes of a record as DeepEP V2 sizes its buffers: for fp8 one scale pack for 32 values. */
static uint64_t hybrid_token(const k3_cell_t *cell, const k3_rails_t *r)
{
    uint64_t w = cell->model.latent, meta = r->record - r->meta_at;

    if (cell->dispatch_format != K3_FORMAT_FP8) {
        return r->record;
    }
    return k3_round_up(w, 32) + k3_round_up(k3_ceil_div(w, 32) * 4, 32) + meta;
}

/* DeepEP V2: the larger of dispatch and combine, in units of 2 MiB. */
static void place_shared(const k3_cell_t *cell, k3_rails_t *r, uint64_t *end)
{
    uint64_t rows = k3_mul(r->nodes, r->m), token = hybrid_token(cell, r);
    uint64_t rails = k3_mul(r->nodes, k3_add(r->m, HYBRID_CHANNELS_MAX));
    uint64_t received = k3_mul(r->per_node, rows), arriving = k3_mul(r->parts, rows);
    uint64_t back = k3_mul(r->nodes_of_row, r->m);
    uint64_t dispatch = k3_mul(token, k3_add(k3_add(received, r->m), rails));
    uint64_t combine = k3_mul(r->result, k3_add(k3_add(arriving, back), rails));

    r->receive = 0;
    r->send = k3_mul(received, token);
    r->hop1 = k3_add(r->send, k3_mul(r->m, token));
    r->arrive = 0;
    r->staging = k3_mul(arriving, r->result);
    r->returned = larger(dispatch, k3_add(r->staging, k3_mul(rails, r->result)));
    r->buffer = k3_round_up(larger(dispatch, combine), HYBRID_UNIT);
    *end = larger(r->buffer, k3_add(r->returned, k3_mul(back, r->result)));
}

static void place_signals(const k3_cell_t *cell, k3_rails_t *r, uint64_t *end)
{
    uint64_t row = 1 + (uint64_t)r->local;
    uint32_t lanes = r->chunk > 0 ? r->chunks : r->channels;

    r->flags = area(end, k3_mul(r->nodes, lanes), 8);
    r->ends = area(end, r->nodes, 8);
    r->counts = area(end, r->per_node, 8);
    r->ready = area(end, r->per_node, 8);
    r->results = area(end, r->per_node, 8);
    r->closing = area(end, k3_mul(r->nodes, r->chunk > 0 ? 1 : r->channels), 8);
    r->rail_row = area(end, cell->profile->notify ? k3_mul(r->nodes, r->per_node * row) : 0, 4);
    r->row = area(end, cell->profile->notify ? row : 0, 8);
    r->bytes = k3_round_up(*end, AREA_UNIT);
}

uint64_t k3_rails_part_words(const k3_cell_t *cell, k3_rails_t *r)
{
    uint64_t end = 0;

    place_signals(cell, r, &end);
    return r->bytes;
}

static void plan_records(const k3_cell_t *cell, k3_rails_t *r)
{
    const k3_profile_t *p = cell->profile;
    uint32_t            width = cell->model.latent;

    r->record = k3_profile_dispatch_record(p, cell->dispatch_format, width, r->topk);
    r->record_payload = k3_profile_dispatch_payload(p, cell->dispatch_format, width);
    r->name_bytes = p->meta_bytes;
    r->id_bytes = 4;
    if (p->rings != NULL && r->nodes == 1) {
        r->record = r->record_payload + p->one_node_meta_bytes +
                    (uint64_t)p->one_node_meta_topk_bytes * r->topk;
        r->name_bytes = p->one_node_meta_bytes;
        r->id_bytes = p->one_node_meta_topk_bytes - 4;
    }
    r->scales_at = k3_profile_scales_at(p, cell->dispatch_format, width);
    r->meta_at = k3_profile_meta_at(p, cell->dispatch_format, width);
    r->result = k3_profile_combine_record(p, cell->combine_format, width, r->topk);
    r->result_payload = k3_profile_combine_payload(p, cell->combine_format, width);
}

void k3_rails_plan(const k3_cell_t *cell, k3_rails_t *r)
{
    const k3_profile_t *p = cell->profile;
    uint64_t            end = 0;

    *r = (k3_rails_t){
        .ranks = cell->layout.tp,
        .nodes = cell->nodes,
        .per_node = cell->node_most,
        .experts = cell->model.experts,
        .local = cell->model.experts / cell->layout.tp,
        .topk = cell->model.topk,
        .qps = cell->qps.active,
        .m = cell->max_tokens,
        .chunk = p->chunk_rows,
        .channels = p->chunk_rows > 0 ? 0 : p->channels,
    };
    r->chunks = r->chunk > 0 ? (uint32_t)k3_ceil_div(r->m, r->chunk) : 0;
    r->channel_slots = r->channels > 0 ? k3_ceil_div(r->m, r->channels) : 0;
    r->slots = r->channels > 0 ? k3_mul(r->channels, r->channel_slots) : r->m;
    r->parts = fewer(r->per_node, r->topk);
    r->nodes_of_row = fewer(r->nodes, r->topk);
    plan_records(cell, r);
    if (p->rings != NULL) {
        r->copies_out = true;
        return; /* what the rings need is planned apart */
    }
    if (p->buffer_formula == K3_BUFFER_HYBRID) {
        place_shared(cell, r, &end);
    } else {
        place_apart(r, &end);
    }
    place_signals(cell, r, &end);
}

uint32_t k3_rails_places(const k3_cell_t *cell, const int32_t *ids, uint32_t *places)
{
    uint32_t local = cell->model.experts / cell->layout.tp, count = 0;

    for (uint32_t k = 0; k < cell->model.topk; k++) {
        uint32_t place, at;

        if (ids[k] < 0) {
            continue;
        }
        place = cell->place_of[(uint32_t)ids[k] / local];
        for (at = count; at > 0 && places[at - 1] > place; at--) {
        }
        if (at > 0 && places[at - 1] == place) {
            continue;
        }
        for (uint32_t i = count++; i > at; i--) {
            places[i] = places[i - 1];
        }
        places[at] = place;
    }
    return count;
}

/* Channels are numbered SM by SM. With a QP for each SM at least, SM s owns the QPs s, s + SMs, ... of
 * those that carry rows; else the channels share all of them. */
static uint32_t channel_qp(const k3_profile_t *p, uint32_t channel, uint32_t qps)
{
    uint32_t each = p->channels / p->sms, sm = channel / each;

    if (p->sms > qps) {
        return channel % qps;
    }
    return sm + channel % each % ((qps - sm - 1) / p->sms + 1) * p->sms;
}

uint32_t k3_rails_qp(const k3_profile_t *p, const k3_rails_t *r, uint32_t n, bool dispatch)
{
    uint32_t control = dispatch && r->qps > p->qp_control ? p->qp_control : 0;

    if (r->chunk > 0) {
        return n % r->qps;
    }
    return control + channel_qp(p, n, r->qps - control);
}
