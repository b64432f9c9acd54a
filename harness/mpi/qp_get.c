/* Reading from the blocks of peers. A mapped peer's bytes are here when the call returns; what comes through a
 * queue pair is here when k3_qps_land returns, and until then it is in flight like a post. */
#include <assert.h>
#include <string.h>

#include "harness/mpi/qp_book.h"

/* --- booking --------------------------------------------------------------------------------- */

static k3_book_t *book_get(k3_qps_t *qps, const k3_lane_t *lane, uint64_t posted, uint64_t payload,
                           uint64_t bytes)
{
    k3_book_t *book;

    if (!qps->booking) {
        return NULL;
    }
    assert(qps->pulls.books != NULL);
    book = open_book(qps, &qps->pulls, lane, posted);
    book->messages++;
    book->bytes_payload += payload;
    book->bytes_wire += bytes;
    return book;
}

/* Reads of a lane end in the order in which they were posted, so the time since the one before was over is busy
 * once; posts of the lane have a busy time of their own. */
static void book_landed(k3_qps_t *qps, k3_book_t *book, uint64_t posted)
{
    uint64_t now = k3_clock_now();
    uint64_t before = book->last > 0 ? qps->span_begin + book->last - 1 : 0;
    uint64_t from = later(posted, before);

    book->busy += now > from ? now - from : 0;
    book_done(qps, &qps->pulls, book, posted, now, true);
}

/* --- through a queue pair -------------------------------------------------------------------- */

void k3_read_done(void *request, ucs_status_t status, void *user_data)
{
    k3_op_t  *op = user_data;
    k3_qps_t *qps = op->qps;

    if (__builtin_expect(status != UCS_OK, 0)) {
        k3_qps_note(qps, op->is_message ? "get" : "fetch-and-add", status);
    }
    qps->reads--;
    if (op->book != NULL) {
        book_landed(qps, op->book, op->posted);
    }
    give_op(qps, op);
    ucp_request_free(request);
}

static void settle_read(k3_qps_t *qps, k3_op_t *op, ucs_status_ptr_t result)
{
    if (UCS_PTR_IS_PTR(result)) {
        qps->reads++;
        return;
    }
    if (result != NULL) {
        k3_qps_note(qps, op->is_message ? "get" : "fetch-and-add", UCS_PTR_STATUS(result));
    }
    if (op->book != NULL) {
        book_landed(qps, op->book, op->posted);
    }
    give_op(qps, op);
}

static void post_get(k3_qps_t *qps, k3_lane_t *lane, const k3_part_t *part, k3_book_t *book,
                     uint64_t posted)
{
    intptr_t shift = qps->rows.device == NULL ? 0 : k3_device_reach(qps->rows.device, part->local);
    k3_op_t *op = take_op(qps, lane, book, posted, true);

    qps->get_param.user_data = op;
    settle_read(qps, op,
                ucp_get_nbx(lane->ep, (char *)part->local + shift, part->bytes,
                            lane->remote + part->offset, lane->rkey, &qps->get_param));
}

/* --- rows ------------------------------------------------------------------------------------ */

static void load_part(const k3_qps_t *qps, const k3_lane_t *lane, const k3_part_t *part)
{
    if (qps->rows.device == NULL) {
        memcpy(part->local, lane->mapped + part->offset, part->bytes);
    } else {
        qps->rows.copy(qps->rows.copy_arg, part->local, qps->rows.memory + part->offset,
                       part->bytes);
    }
}

void k3_qps_get_parts(k3_qps_t *qps, int peer, unsigned qp, const k3_part_t *parts, unsigned count,
                      uint64_t payload)
{
    k3_lane_t *lane = k3_lane_of(qps, peer, qp);
    uint64_t   posted = needs_time(qps, lane) ? k3_clock_now() : 0, bytes = 0;
    k3_book_t *book;

    assert(qp < qps->qps_per_peer && lane->mapped != NULL);
    for (unsigned i = 0; i < count; i++) {
        assert(parts[i].offset + parts[i].bytes <= qps->rows.tail);
        load_part(qps, lane, &parts[i]);
        bytes += parts[i].bytes;
    }
    if (__builtin_expect(lane->slow, 0)) {
        slow_down(qps, posted);
    }
    book = book_get(qps, lane, posted, payload, bytes);
    if (book != NULL) {
        book_landed(qps, book, posted);
    }
}

void k3_qps_get(k3_qps_t *qps, int peer, unsigned qp, void *local, uint64_t offset, uint64_t bytes,
                uint64_t payload)
{
    k3_lane_t *lane = k3_lane_of(qps, peer, qp);
    k3_part_t  part = {local, offset, bytes};
    uint64_t   posted;

    if (lane->mapped != NULL) {
        k3_qps_get_parts(qps, peer, qp, &part, 1, payload);
        return;
    }
    assert(qp < qps->qps_per_peer && offset + bytes <= qps->rows.tail);
    posted = needs_time(qps, lane) ? k3_clock_now() : 0;
    post_get(qps, lane, &part, book_get(qps, lane, posted, payload, bytes), posted);
    if (__builtin_expect(lane->slow, 0)) {
        slow_down(qps, posted);
    }
}

/* --- places ---------------------------------------------------------------------------------- */

void k3_qps_fetch_add64(k3_qps_t *qps, int peer, unsigned qp, uint64_t offset, uint64_t value,
                        uint64_t *before)
{
    k3_lane_t             *lane = k3_lane_of(qps, peer, qp);
    const k3_lane_words_t *words = qps->words != NULL ? &qps->words[lane - qps->lanes] : NULL;
    ucp_request_param_t    param = qps->get_param;
    k3_op_t               *op;

    assert(qp < qps->qps_per_peer && offset % sizeof(value) == 0 &&
           offset + sizeof(value) <= qps->tail);
    if (lane->mapped != NULL) {
        *before = __atomic_fetch_add((uint64_t *)(void *)(lane->mapped + offset), value,
                                     __ATOMIC_RELAXED);
        return;
    }
    op = take_op(qps, lane, NULL, 0, false);
    op->value.u64 = value;
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    param.datatype = ucp_dt_make_contig(sizeof(value));
    param.reply_buffer = before;
    param.user_data = op;
    settle_read(qps, op,
                ucp_atomic_op_nbx(lane->ep, UCP_ATOMIC_OP_ADD, &op->value, 1,
                                  (words != NULL ? words->remote : lane->remote) + offset,
                                  words != NULL ? words->rkey : lane->rkey, &param));
}

k3_status_t k3_qps_land(k3_qps_t *qps, k3_error_t *err)
{
    while (qps->reads != 0 && qps->fault.status == K3_OK) {
        k3_qps_poll(qps);
    }
    return k3_qps_outcome(qps, err);
}
