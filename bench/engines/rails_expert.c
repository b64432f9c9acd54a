/* The receiver's part: what the forwarders of the node brought, grouped by expert. */
#include <string.h>

#include "bench/engines/rails_engine.h"

/* --- arrival --------------------------------------------------------------------------------- */

static bool poll_forwarder(rails_engine_t *e, uint32_t index, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;
    uint64_t          word = k3_rails_take(e, r->counts + (uint64_t)index * 8);

    if (word == 0) {
        return false;
    }
    if (word - 1 > r->nodes * r->m) {
        k3_fail(err, K3_ERR_CHECK, "rank %u forwarded %llu rows, the bound is %llu",
                k3_rails_local_rank(e, index), (unsigned long long)(word - 1),
                (unsigned long long)(r->nodes * r->m));
    }
    e->from[index + 1] = word - 1;
    return true;
}

static k3_status_t refuse_selection(const rails_engine_t *e, const int32_t *ids,
                                    const rails_row_t *row, k3_error_t *err)
{
    uint32_t k = 0;

    while (ids[k] >= -1 && ids[k] < (int32_t)e->rails.experts) {
        k++;
    }
    return k3_rails_refuse(e, row, ids[k], err);
}

/* One look at the selections of a record: those of this rank's experts, and how many ranks of the node in front
 * of this one have some. */
static k3_status_t take_selections(rails_engine_t *e, const uint8_t *meta, rails_row_t *row,
                                   k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          first = e->rank * r->local;
    int32_t           ids[K3_TOPK_MAX];
    uint64_t          mine;

    for (uint32_t k = 0; k < r->topk; k++) {
        ids[k] = k3_rails_id(r, meta, k);
    }
    if (k3_holders_outside(ids, r->topk, r->experts)) {
        return refuse_selection(e, ids, row, err);
    }
    mine = k3_holders_mine(ids, r->topk, first, r->local);
    row->pair = e->got_count[1];
    row->pairs = (uint32_t)__builtin_popcountll(mine);
    if (row->pairs > e->pairs_cap - e->got_count[1]) {
        return k3_fail(err, K3_ERR_CHECK, "more than the %llu selections planned arrived",
                       (unsigned long long)e->pairs_cap);
    }
    for (; mine != 0; mine &= mine - 1) {
        uint32_t k = (uint32_t)__builtin_ctzll(mine);

        e->pair[e->got_count[1]++] =
            (rails_pair_t){(uint32_t)ids[k] - first, k3_rails_weight(r, meta, k)};
    }
    row->part = k3_holders_number(&e->before, ids, r->topk);
    return K3_OK;
}

k3_status_t k3_rails_take_row(rails_engine_t *e, const uint8_t *record, const uint8_t *meta,
                              k3_error_t *err)
{
    uint64_t     i = e->got_count[0];
    rails_row_t *row = &e->row[i];

    if (i >= e->rows_cap) {
        return k3_fail(err, K3_ERR_CHECK, "more than the %llu rows planned arrived",
                       (unsigned long long)e->rows_cap);
    }
    if (k3_rails_name(e, meta, row, err) != K3_OK || take_selections(e, meta, row, err) != K3_OK) {
        return err->status;
    }
    if (row->pairs == 0) {
        return k3_fail(err, K3_ERR_CHECK, "row %u of rank %u has no expert of rank %u", row->row,
                       row->source, e->rank);
    }
    e->record[i] = record;
    e->got_count[0]++;
    return K3_OK;
}

static k3_status_t take_records(rails_engine_t *e, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;

    e->from[0] = e->got_count[0] = e->got_count[1] = 0;
    for (uint32_t f = 0; f < r->per_node && err->status == K3_OK; f++) {
        uint8_t       *record = e->block + r->receive + f * r->nodes * r->m * r->record;
        uint64_t       count = e->from[f + 1], stride;
        const uint8_t *meta =
            k3_rails_read(e, record, count < e->rows_cap ? count : e->rows_cap, &stride);

        k3_rails_expect(e, meta, stride, 0, k3_rails_ahead(count));
        for (uint64_t i = count; i > 0 && err->status == K3_OK; i--) {
            k3_rails_expect(e, meta, stride, K3_RAILS_AHEAD, K3_RAILS_AHEAD + 1);
            k3_rails_take_row(e, record, meta, err);
            record += r->record;
            meta += stride;
        }
        e->from[f + 1] = e->got_count[0];
    }
    return err->status;
}

/* --- by expert ------------------------------------------------------------------------------- */

static void group_pairs(rails_engine_t *e)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          width = e->env.cell->model.latent;

    memset(e->expert_fill, 0, r->local * sizeof(uint64_t));
    for (uint64_t i = 0; i < e->got_count[1]; i++) {
        e->expert_fill[e->pair[i].expert]++;
    }
    e->expert_begin[0] = 0;
    for (uint32_t x = 0; x < r->local; x++) {
        e->expert_begin[x + 1] = e->expert_begin[x] + e->expert_fill[x];
        e->expert_fill[x] = e->expert_begin[x];
    }
    for (uint64_t i = 0; i < e->got_count[0]; i++) {
        const uint8_t *record = e->record[i];

        for (uint64_t p = e->row[i].pair; p < e->row[i].pair + e->row[i].pairs; p++) {
            uint64_t at = e->expert_fill[e->pair[p].expert]++;

            e->values[at] = record;
            e->scales[at] = record + r->scales_at;
            e->out[at] = e->results + at * width;
            e->pair_out[p] = e->out[at];
        }
    }
}

/* What was announced has come. */
static k3_status_t check_announced(const rails_engine_t *e, k3_error_t *err)
{
    if (e->got_count[0] != e->notify_wants[0]) {
        return k3_fail(err, K3_ERR_CHECK, "%llu rows arrived, announced were %llu",
                       (unsigned long long)e->got_count[0], (unsigned long long)e->notify_wants[0]);
    }
    for (uint32_t x = 0; x < e->rails.local; x++) {
        uint64_t n = e->expert_begin[x + 1] - e->expert_begin[x];

        if (n != e->notify_wants[1 + x]) {
            return k3_fail(err, K3_ERR_CHECK, "local expert %u got %llu rows, announced were %llu",
                           x, (unsigned long long)n, (unsigned long long)e->notify_wants[1 + x]);
        }
    }
    return K3_OK;
}

k3_status_t k3_rails_sort(rails_engine_t *e, k3_error_t *err)
{
    group_pairs(e);
    return e->env.cell->profile->notify ? check_announced(e, err) : K3_OK;
}

k3_status_t k3_rails_receive(rails_engine_t *e, k3_error_t *err)
{
    if (k3_rails_wait(e, "counts of forwarders", K3_TRAFFIC_DISPATCH, false, poll_forwarder, err) !=
            K3_OK ||
        take_records(e, err) != K3_OK) {
        return err->status;
    }
    return k3_rails_sort(e, err);
}

void k3_rails_expert(void *engine, uint32_t local_expert, k3_expert_rows_t *work)
{
    rails_engine_t *e = engine;
    uint64_t        at = e->expert_begin[local_expert];

    *work = (k3_expert_rows_t){e->expert_begin[local_expert + 1] - at, e->env.cell->dispatch_format,
                               e->values + at, e->scales + at, e->out + at};
}
