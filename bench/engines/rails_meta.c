/* Records of own rows, and the metadata of records: behind their values where the host holds these; else they
 * are copied from and to the device, many at a time. */
#include <string.h>

#include "bench/engines/rails_engine.h"
#include "bench/engines/rails_rings.h"
#include "harness/base/memory.h"

/* --- set-up ---------------------------------------------------------------------------------- */

k3_status_t k3_rails_meta_create(rails_engine_t *e, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;

    e->meta_bytes = r->record - r->meta_at;
    if (!k3_rails_on_device(e)) {
        return K3_OK;
    }
    e->meta_cap = e->rows_cap > r->slots ? e->rows_cap : r->slots;
    e->meta_cap = e->meta_cap > r->m ? e->meta_cap : r->m;
    if (k3_alloc("metadata of own rows", r->m, e->meta_bytes, &e->own_meta, err) != K3_OK ||
        k3_alloc("metadata", e->meta_cap, e->meta_bytes, &e->meta, err) != K3_OK ||
        k3_alloc("places of metadata", e->meta_cap, sizeof(void *), &e->meta_at, err) != K3_OK) {
        return err->status;
    }
    return k3_rails_sums_create(e, err);
}

void k3_rails_meta_destroy(rails_engine_t *e)
{
    k3_rails_sums_destroy(e);
    k3_free(e->meta_at);
    k3_free(e->meta);
    k3_free(e->own_meta);
}

/* --- own rows -------------------------------------------------------------------------------- */

/* Name and experts; weights are memory of the compute. */
static void write_meta(const rails_engine_t *e, const k3_rows_t *rows, uint64_t i, uint8_t *meta)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          name = (uint32_t)(e->rank * r->m + i);

    memcpy(meta, &name, sizeof(name));
    for (uint32_t k = 0; k < r->topk; k++) {
        int64_t id = rows->ids[i * r->topk + k];

        memcpy(meta + r->name_bytes + (size_t)k * r->id_bytes, &id,
               r->id_bytes); /* little endian */
    }
}

static uint64_t weights_at(const k3_rails_t *r)
{
    return r->meta_at + r->name_bytes + (uint64_t)r->topk * r->id_bytes;
}

static void quantize_row(rails_engine_t *e, const k3_rows_t *rows, uint64_t i)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          width = e->env.cell->model.latent;
    uint8_t          *record = e->records + i * r->record;

    e->env.kernels->encode(e->env.cell->dispatch_format, rows->latent + i * width, width, record,
                           record + r->scales_at);
    write_meta(e, rows, i, record + r->meta_at);
    memcpy(record + weights_at(r), rows->weights + i * r->topk, r->topk * sizeof(float));
}

static void quantize_on_device(rails_engine_t *e, const k3_rows_t *rows)
{
    const k3_rails_t      *r = &e->rails;
    k3_compute_t          *c = e->env.compute;
    const k3_encode_rows_t to = {.format = e->env.cell->dispatch_format,
                                 .rows = rows->count,
                                 .width = e->env.cell->model.latent,
                                 .in = rows->latent,
                                 .records = e->records,
                                 .stride = r->record,
                                 .scales_at = r->scales_at};

    c->ops->encode(c, &to);
    for (uint64_t i = 0; i < rows->count; i++) {
        write_meta(e, rows, i, e->own_meta + i * e->meta_bytes);
        e->meta_at[i] = e->records + i * r->record + r->meta_at;
    }
    c->ops->place(c, e->meta_at, e->own_meta, rows->count, e->meta_bytes);
    for (uint64_t i = 0; i < rows->count; i++) {
        c->ops->copy(c, e->records + i * r->record + weights_at(r), rows->weights + i * r->topk,
                     r->topk * sizeof(float));
    }
    c->ops->copies_done(c);
}

k3_status_t k3_rails_quantize(rails_engine_t *e, const k3_rows_t *rows, uint64_t first,
                              uint64_t end, k3_error_t *err)
{
    if (k3_rails_on_device(e)) {
        quantize_on_device(e, rows);
        return e->env.compute->ops->finish(e->env.compute, err);
    }
    for (uint64_t i = first; i < end; i++) {
        quantize_row(e, rows, i);
    }
    return err->status;
}

/* --- where the host reads them --------------------------------------------------------------- */

const uint8_t *k3_rails_own(const rails_engine_t *e, uint32_t row)
{
    return k3_rails_on_device(e) ? e->own_meta + row * e->meta_bytes
                                 : e->records + row * e->rails.record + e->rails.meta_at;
}

const uint8_t *k3_rails_read(rails_engine_t *e, uint8_t *records, uint64_t n, uint64_t *stride)
{
    const k3_rails_t *r = &e->rails;

    if (!k3_rails_on_device(e)) {
        *stride = r->record;
        return records + r->meta_at;
    }
    for (uint64_t i = 0; i < n; i++) {
        e->meta_at[i] = records + i * r->record + r->meta_at;
    }
    e->env.compute->ops->fetch(e->env.compute, e->meta, (const uint8_t *const *)e->meta_at, n,
                               e->meta_bytes);
    *stride = e->meta_bytes;
    return e->meta;
}

/* --- what they say --------------------------------------------------------------------------- */

k3_status_t k3_rails_name(const rails_engine_t *e, const uint8_t *meta, rails_row_t *row,
                          k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          name;

    memcpy(&name, meta, sizeof(name));
    *row = (rails_row_t){.source = (uint32_t)(name / r->m), .row = (uint32_t)(name % r->m)};
    if (row->source >= r->ranks) {
        return k3_fail(err, K3_ERR_CHECK, "a record names row %u, there are %llu", name,
                       (unsigned long long)(r->ranks * r->m));
    }
    return K3_OK;
}

k3_status_t k3_rails_refuse(const rails_engine_t *e, const rails_row_t *row, int32_t id,
                            k3_error_t *err)
{
    return k3_fail(err, K3_ERR_CHECK, "row %u of rank %u names expert %d of %u", row->row,
                   row->source, id, e->rails.experts);
}

k3_status_t k3_rails_meta(const rails_engine_t *e, const uint8_t *meta, rails_row_t *row,
                          int32_t *ids, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;

    if (k3_rails_name(e, meta, row, err) != K3_OK) {
        return err->status;
    }
    for (uint32_t k = 0; k < r->topk; k++) {
        ids[k] = k3_rails_id(r, meta, k);
        if (ids[k] < -1 || ids[k] >= (int32_t)r->experts) {
            return k3_rails_refuse(e, row, ids[k], err);
        }
    }
    return K3_OK;
}
