/* The forwarder's part of a dispatch: rows of this rank's rail, from the other nodes as they arrive and
 * its own, go to the ranks of this node that hold their experts, one copy for each (row, rank). */
#include <string.h>

#include "bench/engines/rails_engine.h"
#include "harness/base/arith.h"

static k3_status_t forward_row(rails_engine_t *e, uint32_t node, uint64_t slot,
                               const uint8_t *record, const uint8_t *meta, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;
    rails_passed_t   *passed = &e->passed[node * r->slots + slot];
    uint64_t          area = k3_mul(r->nodes, r->m);
    int32_t           ids[K3_TOPK_MAX];
    rails_row_t       row;
    rails_here_t      here;

    if (k3_rails_meta(e, meta, &row, ids, err) != K3_OK) {
        return err->status;
    }
    if (row.source != k3_rails_peer(e, node)) {
        return k3_fail(err, K3_ERR_CHECK, "a row of rank %u came as one of rank %u", row.source,
                       k3_rails_peer(e, node));
    }
    k3_rails_here(e, ids, &here);
    for (uint32_t j = 0; j < here.count; j++) {
        uint32_t to = here.index[j];
        uint64_t at = e->index * area + e->forwarded[to]++;

        if (e->forwarded[to] > area) {
            return k3_fail(err, K3_ERR_CHECK, "more than %llu rows for rank %u",
                           (unsigned long long)area, k3_rails_local_rank(e, to));
        }
        k3_rails_put(e, k3_rails_local_rank(e, to), 0, record, r->receive + at * r->record,
                     r->record, r->record_payload);
    }
    *passed =
        (rails_passed_t){.row = row.row, .parts = (uint16_t)here.count, .position = here.position};
    return K3_OK;
}

k3_status_t k3_rails_forward_own(rails_engine_t *e, uint64_t end, k3_error_t *err)
{
    const k3_rails_t   *r = &e->rails;
    const rails_send_t *list = e->list + e->node * r->m;
    uint32_t           *i = &e->sent[e->node];

    for (; *i < e->listed[e->node] && list[*i].row < end && err->status == K3_OK; ++*i) {
        forward_row(e, e->node, list[*i].slot, e->records + list[*i].row * r->record,
                    k3_rails_own(e, list[*i].row), err);
    }
    return err->status;
}

static void forward_slots(rails_engine_t *e, uint32_t node, uint64_t slot, uint32_t rows,
                          k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;
    uint8_t          *records = e->block + r->hop1 + (node * r->slots + slot) * r->record;
    uint64_t          stride;
    const uint8_t    *meta = k3_rails_read(e, records, rows, &stride);

    k3_rails_expect(e, meta, stride, 0, k3_rails_ahead(rows));
    for (uint32_t i = 0; i < rows && err->status == K3_OK; i++) {
        k3_rails_expect(e, meta, stride, i + K3_RAILS_AHEAD, i + K3_RAILS_AHEAD + 1);
        forward_row(e, node, slot + i, records + i * r->record, meta + i * stride, err);
    }
    e->moved = true;
}

static bool refuse_count(const rails_engine_t *e, uint32_t node, const char *what, uint64_t value,
                         uint64_t limit, k3_error_t *err)
{
    k3_fail(err, K3_ERR_CHECK, "rank %u announces %s %llu, the limit is %llu",
            k3_rails_peer(e, node), what, (unsigned long long)value, (unsigned long long)limit);
    return false;
}

/* Chunks come in the order of their numbers; the end marker says how many they are. */
static bool poll_chunks(rails_engine_t *e, uint32_t node, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;
    uint64_t          end = k3_signal_read64(e->words + r->ends + node * 8), flag;
    uint32_t         *next = &e->got_next[node];

    while (err->status == K3_OK && *next < r->chunks &&
           (flag = k3_rails_take(e, r->flags + ((uint64_t)node * r->chunks + *next) * 8)) != 0) {
        uint64_t slot = (uint64_t)*next * r->chunk, rows = flag - 1;

        if (rows > r->chunk || slot + rows > r->slots) {
            return refuse_count(e, node, "rows of a chunk", rows, r->chunk, err);
        }
        e->got[(uint64_t)node * r->chunks + *next] = (uint32_t)rows;
        ++*next;
        forward_slots(e, node, slot, (uint32_t)rows, err);
    }
    e->wait_qp[node] = *next % r->qps;
    if (end == 0 || err->status != K3_OK) {
        return false;
    }
    if ((end - 1) % r->chunk != 0 || (end - 1) / r->chunk > r->chunks) {
        return refuse_count(e, node, "chunk rows", end - 1, (uint64_t)r->chunks * r->chunk, err);
    }
    if (*next < (end - 1) / r->chunk) {
        return false;
    }
    k3_signal_clear64(e->words + r->ends + node * 8);
    return true;
}

static void poll_channel(rails_engine_t *e, uint32_t node, uint32_t channel, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;
    uint64_t          lane = (uint64_t)node * r->channels + channel;
    uint64_t          word = k3_signal_read64(e->words + r->flags + lane * 8);
    uint32_t          tail = (uint32_t)word, head = e->got[lane] & INT32_MAX;

    if (e->got[lane] > INT32_MAX) {
        return;
    }
    e->wait_qp[node] = e->channel_qp[channel];
    if (word == 0) {
        return;
    }
    if (tail > r->channel_slots || word >> 32 > 1) {
        refuse_count(e, node, "rows of a channel", tail, r->channel_slots, err);
        return;
    }
    if (tail > head) {
        forward_slots(e, node, channel * r->channel_slots + head, tail - head, err);
    }
    e->got[lane] = tail;
    if (word >> 32 != 0) {
        k3_signal_clear64(e->words + r->flags + lane * 8);
        e->got[lane] |= UINT32_C(1) << 31; /* complete */
        e->got_next[node]++;
        e->moved = true;
    }
}

static bool poll_channels(rails_engine_t *e, uint32_t node, k3_error_t *err)
{
    for (uint32_t c = 0; c < e->rails.channels && err->status == K3_OK; c++) {
        poll_channel(e, node, c, err);
    }
    return err->status == K3_OK && e->got_next[node] == e->rails.channels;
}

/* The ranks of the node hear how many rows came by this rank when all have. */
k3_status_t k3_rails_forward(rails_engine_t *e, k3_error_t *err)
{
    const k3_rails_t *r = &e->rails;
    uint32_t          lanes = r->channels > 0 ? r->channels : r->chunks;

    memset(e->got, 0, (size_t)r->nodes * lanes * sizeof(uint32_t));
    memset(e->got_next, 0, r->nodes * sizeof(uint32_t));
    k3_rails_wait(e, "rows by rail", K3_TRAFFIC_DISPATCH, true,
                  r->chunk > 0 ? poll_chunks : poll_channels, err);
    for (uint32_t c = 0; c < r->nodes * r->channels; c++) {
        e->got[c] &= INT32_MAX;
    }
    e->env.compute->ops->copies_done(e->env.compute);
    for (uint32_t step = 0; step < r->per_node && err->status == K3_OK; step++) {
        uint32_t to = (e->index + step) % r->per_node;

        k3_rails_signal(e, k3_rails_local_rank(e, to), 0, r->counts + e->index * 8,
                        e->forwarded[to] + 1);
    }
    return err->status;
}
