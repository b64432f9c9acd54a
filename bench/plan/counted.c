#include "bench/plan/counted.h"

#include "harness/base/arith.h"

/* Areas one behind the other, saturating. */
static uint64_t place(uint64_t *end, uint64_t bytes)
{
    uint64_t at = *end;

    *end = k3_add(at, bytes);
    return at;
}

/* Signals from `end` on; where they end. */
static uint64_t place_words(k3_counted_t *c, uint64_t end)
{
    c->counts = place(&end, (uint64_t)c->local * c->groups * K3_COUNTED_SIGNAL);
    c->arrivals = place(&end, (uint64_t)c->local * c->groups * K3_COUNTED_SIGNAL);
    c->row_counts = place(&end, k3_mul(c->group_m, K3_COUNTED_SIGNAL));
    c->flags = place(&end, (uint64_t)c->ranks * K3_COUNTED_SIGNAL);
    return end;
}

uint64_t k3_counted_part_words(k3_counted_t *c)
{
    return place_words(c, 0);
}

void k3_counted_plan(const k3_cell_t *cell, k3_counted_t *c)
{
    const k3_profile_t *p = cell->profile;
    k3_format_t         format = cell->dispatch_format;
    uint32_t            width = cell->model.latent, topk = cell->model.topk;
    uint64_t            slots, end = 0;

    c->experts = cell->model.experts;
    c->ranks = cell->layout.tp;
    c->local = c->experts / c->ranks;
    c->groups = cell->path.all_rows ? c->ranks : cell->layout.groups;
    c->group_ranks = c->ranks / c->groups;
    c->m = cell->max_tokens;
    c->group_m = k3_mul(c->m, c->group_ranks);
    c->record = k3_profile_dispatch_record(p, format, width, topk);
    c->record_payload = k3_profile_dispatch_payload(p, format, width);
    c->record_scales = k3_format_value_bytes(format, width);
    c->record_source = c->record_payload;
    c->result = k3_profile_combine_record(p, cell->combine_format, width, topk);
    c->result_stride = 4 * (uint64_t)width;
    slots = k3_mul((uint64_t)c->local * c->groups, c->group_m);
    c->send = place(&end, k3_mul(c->group_m, c->record));
    c->recv = place(&end, k3_mul(slots, c->record));
    c->staging = place(&end, k3_mul(slots, c->result_stride));
    c->results = place(&end, k3_mul(k3_mul(c->group_m, c->experts), c->result_stride));
    c->bytes = place_words(c, end);
    c->output = 2 * (uint64_t)width;
    c->outputs = k3_mul(slots, c->output);
}
