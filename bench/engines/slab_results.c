/* Results of slab profiles with one signal for each (expert, source): made, sent to the rows' origins and added up
 * there. */
#include "bench/engines/slab_engine.h"
#include "bench/plan/cell_rows.h"

/* What is posted for result `number` of those in the order of origins: encoded or copied into the send area; mapped peers are stored to
 * straight from where the expert wrote. */
static const uint8_t *make_result(slab_engine_t *e, const uint8_t *output, uint8_t *staging,
                                  bool mapped, uint64_t number, uint64_t *bytes, uint64_t *payload)
{
    const k3_slab_t *s = &e->slab;
    k3_compute_t    *c = e->env.compute;

    *bytes = s->result;
    *payload = s->result_payload;
    if (e->decoded != NULL) {
        const uint16_t *row = (const uint16_t *)(const void *)output;

        if (c->device == NULL) {
            c->ops->log_encode(c, &row, 1, e->env.cell->model.latent, &staging,
                               e->lengths + number);
        }
        *bytes = e->lengths[number];
        *payload = *bytes;
        return staging;
    }
    if (e->results == NULL || mapped) {
        return output;
    }
    if (e->env.compute->device == NULL) {
        memcpy(staging, output, s->output); /* on its way out: it is in the cache */
    }
    return staging;
}

static k3_status_t check_source_row(const slab_engine_t *e, uint32_t local, uint32_t source,
                                    uint32_t slot, int32_t row, k3_error_t *err)
{
    if (row < 0 || (uint64_t)row >= e->slab.m) {
        return k3_fail(err, K3_ERR_CHECK,
                       "local expert %u, slot %u of rank %u: source row %d is outside 0..%llu",
                       local, slot, source, row, (unsigned long long)e->slab.m - 1);
    }
    return K3_OK;
}

/* The source's row number of each record that arrived, source by source as they are sent back. */
static k3_status_t read_origins(slab_engine_t *e, unsigned half, k3_error_t *err)
{
    const k3_slab_t *s = &e->slab;
    const uint8_t   *recv = e->block + s->recv[half ^ 1];
    uint64_t         n = 0;

    for (uint32_t step = 0; step < s->ranks; step++) {
        uint32_t source = (e->rank + step) % s->ranks;

        for (uint32_t local = 0; local < s->local; local++) {
            uint32_t       count = e->arrived[local * s->ranks + source];
            const uint8_t *record = recv + k3_slab_record_at(s, local, source, 0);

            if (count > e->arriving - n) {
                return k3_fail(err, K3_ERR_CHECK,
                               "%llu rows and more arrived at rank %u, the routing sends %llu",
                               (unsigned long long)(n + count), e->rank,
                               (unsigned long long)e->arriving);
            }
            for (uint32_t i = 0; i < count; i++) {
                e->records[n++] = record + i * s->record;
            }
        }
    }
    e->env.compute->ops->fetch(e->env.compute, e->origins, e->records, n, sizeof(*e->origins));
    return err->status;
}

/* The rows of one (local expert, source) range go back to the source, to the slots (expert, its
 * row), which are read from `origins`. */
static k3_status_t send_range(slab_engine_t *e, uint32_t local, uint32_t source, unsigned half,
                              const int32_t *origins, k3_error_t *err)
{
    const k3_slab_t *s = &e->slab;
    uint64_t         number = (uint64_t)(origins - e->origins); /* of the first one */
    uint32_t         expert_id = e->rank * s->local + local;
    uint32_t         every = e->env.cell->profile->doorbell_every;
    uint8_t         *staging = e->block + s->send[half] + k3_slab_staging_at(s, local, source, 0);
    uint64_t         stride, bytes, payload;
    const uint8_t   *output = k3_slab_output(e, local, source, &stride);
    unsigned         qp = k3_slab_qp(s, local);
    bool             mapped = k3_qps_mapped(e->qps, (int)source) != NULL;
    k3_signal_t      flag;

    for (uint32_t i = 0; i < e->arrived[local * s->ranks + source]; i++) {
        const uint8_t *result;
        int32_t        row = origins[i];

        if (check_source_row(e, local, source, i, row, err) != K3_OK) {
            return err->status;
        }
        result = make_result(e, output, staging, mapped, number + i, &bytes, &payload);
        k3_qps_put(e->qps, (int)source, qp, result,
                   s->recv[half] + k3_slab_result_at(s, expert_id, (uint64_t)row), bytes, payload);
        if (k3_rings(every, i)) {
            k3_qps_doorbell(e->qps, (int)source, qp);
        }
        output += stride;
        staging += s->result_stride;
    }
    flag = (k3_signal_t){s->signal[half] + k3_slab_flag_at(s, expert_id), 1, qp};
    k3_slab_signals(e, (int)source, &flag, 1, e->env.cell->profile->doorbell_signal);
    return K3_OK;
}

/* All results as messages in the send area, in the order of origins; what is for a masked source stays unsent. */
static k3_status_t encode_results(slab_engine_t *e, unsigned half, k3_error_t *err)
{
    const k3_slab_t *s = &e->slab;
    k3_compute_t    *c = e->env.compute;
    uint64_t         n = 0;

    for (uint32_t step = 0; step < s->ranks; step++) {
        uint32_t source = (e->rank + step) % s->ranks;

        for (uint32_t local = 0; local < s->local; local++) {
            uint8_t *staging = e->block + s->send[half] + k3_slab_staging_at(s, local, source, 0);
            uint64_t stride;
            const uint8_t *output = k3_slab_output(e, local, source, &stride);

            for (uint32_t i = e->arrived[local * s->ranks + source]; i > 0; i--) {
                e->records[n] = output;
                e->messages[n++] = staging;
                output += stride;
                staging += s->result_stride;
            }
        }
    }
    c->ops->log_encode(c, (const uint16_t *const *)(const void *)e->records, n,
                       e->env.cell->model.latent, e->messages, e->lengths);
    return c->ops->finish(c, err);
}

/* On a device all results are brought to the send area by one kernel, in front of the first post. */
static k3_status_t stage_results(slab_engine_t *e, unsigned half, k3_error_t *err)
{
    const k3_slab_t *s = &e->slab;
    k3_compute_t    *c = e->env.compute;

    for (uint32_t source = 0; source < s->ranks && e->results != NULL; source++) {
        for (uint32_t local = 0; local < s->local && (int)source != (int)e->rank; local++) {
            uint8_t *staging = e->block + s->send[half] + k3_slab_staging_at(s, local, source, 0);
            uint64_t stride;
            const uint8_t *output = k3_slab_output(e, local, source, &stride);

            for (uint32_t i = e->arrived[local * s->ranks + source]; i > 0; i--) {
                c->ops->copy(c, staging, output, s->output);
                output += stride;
                staging += s->result_stride;
            }
        }
    }
    c->ops->copies_done(c);
    return c->ops->finish(c, err);
}

/* A masked source gets no flag either: it would vouch for rows that were never computed. A source that
 * is late and not dead then masks this rank too. */
void k3_slab_send_results(slab_engine_t *e, unsigned half, k3_error_t *err)
{
    const k3_slab_t *s = &e->slab;
    const int32_t   *origins = e->origins;

    read_origins(e, half, err);
    if (e->env.compute->device != NULL && err->status == K3_OK) {
        e->decoded != NULL ? encode_results(e, half, err) : stage_results(e, half, err);
    }
    for (uint32_t step = 0; step < s->ranks && err->status == K3_OK; step++) {
        uint32_t source = (e->rank + step) % s->ranks;

        for (uint32_t local = 0; local < s->local && err->status == K3_OK; local++) {
            if (!k3_slab_is_masked(e, source)) {
                send_range(e, local, source, half, origins, err);
            }
            origins += e->arrived[local * s->ranks + source];
        }
    }
    e->env.compute->ops->copies_done(e->env.compute);
}

/* The result of one selection of an own row, NULL where it is missing. */
static const uint8_t *part_of(const slab_engine_t *e, const uint8_t *recv, int32_t id, uint64_t row)
{
    if (id < 0 || k3_slab_is_masked(e, (uint32_t)e->target[id].peer)) {
        return NULL;
    }
    return recv + k3_slab_result_at(&e->slab, (uint32_t)id, row);
}

void k3_slab_reduce(slab_engine_t *e, const k3_rows_t *rows, unsigned half, uint16_t *combined)
{
    uint32_t       topk = e->env.cell->model.topk, width = e->env.cell->model.latent;
    const uint8_t *recv = e->block + e->slab.recv[half];
    k3_compute_t  *c = e->env.compute;
    uint64_t       at_once = k3_slab_rows_at_once(e, rows->count);

    for (uint64_t first = 0; first < rows->count; first += at_once) {
        const float *weights = rows->weights + first * topk;
        uint16_t    *to = combined + first * width;

        for (uint64_t i = 0; i < at_once * topk; i++) {
            uint64_t at = first * topk + i;

            e->parts[i] = part_of(e, recv, rows->ids[at], at / topk);
        }
        if (e->decoded != NULL) {
            c->ops->log_combine(c, e->parts, weights, at_once, topk, width,
                                (uint16_t *)(void *)e->decoded, to);
        } else {
            c->ops->combine(c, (const uint16_t *const *)(const void *)e->parts, weights, at_once,
                            topk, width, to);
        }
    }
}
