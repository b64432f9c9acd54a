/* The receiver's part: what the forwarders of the node brought, grouped by expert, and the weighted sum
 * of each row over the experts that this rank holds. */
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

static k3_status_t point_at_records(rails_engine_t *e, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;
    uint64_t          n = 0;

    e->from[0] = 0;
    for (uint32_t f = 0; f < r->per_node; f++) {
        uint8_t *record = e->block + r->receive + f * r->nodes * r->m * r->record;
        uint64_t count = e->from[f + 1];

        if (n + count > e->rows_cap) {
            return k3_fail(err, K3_ERR_CHECK, "more than the %llu rows planned arrived",
                           (unsigned long long)e->rows_cap);
        }
        if (r->copies_out && count > 0) {
            memcpy(e->copied + n * r->record, record, count * r->record);
            record = e->copied + n * r->record;
        }
        for (uint64_t i = 0; i < count; i++) {
            e->record[n++] = record + i * r->record;
        }
        e->from[f + 1] = n;
    }
    e->got_count[0] = n;
    return K3_OK;
}

/* --- by expert ------------------------------------------------------------------------------- */

static bool is_local(const rails_engine_t *e, int32_t id)
{
    return id >= 0 && (uint32_t)id / e->rails.local == e->rank;
}

static k3_status_t count_pairs(rails_engine_t *e, k3_error_t *err)
{
    uint64_t     pairs = 0;
    rails_meta_t meta;

    memset(e->expert_fill, 0, e->rails.local * sizeof(uint64_t));
    for (uint64_t i = 0; i < e->got_count[0]; i++) {
        uint64_t before = pairs;

        if (k3_rails_meta(e, e->record[i], &meta, err) != K3_OK) {
            return err->status;
        }
        for (uint32_t k = 0; k < e->rails.topk; k++) {
            if (is_local(e, meta.ids[k])) {
                e->expert_fill[(uint32_t)meta.ids[k] % e->rails.local]++;
                pairs++;
            }
        }
        if (pairs == before || pairs > e->pairs_cap) {
            return k3_fail(err, K3_ERR_CHECK,
                           "row %u of rank %u brings selection %llu to %llu here, planned are %llu",
                           meta.row, meta.source, (unsigned long long)before,
                           (unsigned long long)pairs, (unsigned long long)e->pairs_cap);
        }
    }
    e->got_count[1] = pairs;
    return K3_OK;
}

static void group_pairs(rails_engine_t *e)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          width = e->env.cell->model.latent;
    uint64_t          pair = 0;
    int32_t           ids[K3_TOPK_MAX];

    e->expert_begin[0] = 0;
    for (uint32_t x = 0; x < r->local; x++) {
        e->expert_begin[x + 1] = e->expert_begin[x] + e->expert_fill[x];
        e->expert_fill[x] = e->expert_begin[x];
    }
    for (uint64_t i = 0; i < e->got_count[0]; i++) {
        const uint8_t *record = e->record[i];

        e->pair_first[i] = pair;
        k3_rails_ids(e, record, ids);
        for (uint32_t k = 0; k < r->topk; k++) {
            uint64_t at;

            if (!is_local(e, ids[k])) {
                continue;
            }
            at = e->expert_fill[(uint32_t)ids[k] % r->local]++;
            e->values[at] = record;
            e->scales[at] = record + r->scales_at;
            e->out[at] = e->results + at * width;
            e->pair_out[pair++] = e->out[at];
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
    if (count_pairs(e, err) != K3_OK) {
        return err->status;
    }
    group_pairs(e);
    return e->env.cell->profile->notify ? check_announced(e, err) : K3_OK;
}

k3_status_t k3_rails_receive(rails_engine_t *e, k3_error_t *err)
{
    if (k3_rails_wait(e, "counts of forwarders", K3_TRAFFIC_DISPATCH, false, poll_forwarder, err) !=
            K3_OK ||
        point_at_records(e, err) != K3_OK) {
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

/* --- sums ------------------------------------------------------------------------------------ */

void k3_rails_encode(const rails_engine_t *e, const uint16_t *row, uint8_t *out)
{
    e->env.kernels->encode(e->env.cell->combine_format, row, e->env.cell->model.latent, out,
                           out + e->rails.result_scales_at);
}

const void *k3_rails_partial(rails_engine_t *e, uint64_t i, const rails_meta_t *meta)
{
    const uint16_t *parts[K3_TOPK_MAX];
    float           weights[K3_TOPK_MAX];
    uint8_t        *out = e->partial + i * e->rails.result;
    uint64_t        pair = e->pair_first[i];
    uint32_t        count = 0;

    for (uint32_t k = 0; k < e->rails.topk; k++) {
        if (is_local(e, meta->ids[k])) {
            parts[count] = e->pair_out[pair++];
            weights[count++] = meta->weights[k];
        }
    }
    e->env.kernels->combine(parts, weights, count, e->env.cell->model.latent, e->sum_row);
    k3_rails_encode(e, e->sum_row, out);
    return out;
}

/* Results in bf16 are added where they lie, others are decoded and rounded to bf16 first. */
static const uint16_t *bf16_row(rails_engine_t *e, const uint8_t *result, uint32_t i)
{
    uint32_t  width = e->env.cell->model.latent;
    uint16_t *row = e->decoded + (size_t)i * width;

    if (e->env.cell->combine_format == K3_FORMAT_BF16) {
        return (const uint16_t *)(const void *)result;
    }
    e->env.kernels->decode(e->env.cell->combine_format, result, result + e->rails.result_scales_at,
                           width, e->decode_row);
    for (uint32_t j = 0; j < width; j++) {
        row[j] = k3_f32_to_bf16(e->decode_row[j]);
    }
    return row;
}

void k3_rails_sum(rails_engine_t *e, const uint8_t *const *results, uint32_t count, uint16_t *out)
{
    const uint16_t *parts[K3_TOPK_MAX];

    for (uint32_t i = 0; i < count; i++) {
        parts[i] = bf16_row(e, results[i], i);
    }
    e->env.kernels->combine(parts, NULL, count, e->env.cell->model.latent, out);
}
