/* Posting. The timed path: no allocation, no system call, no branch for errors beyond what UCX
 * returned; with accounting the clock is read once before and once after each post, but for a signal
 * that is one plain store only before. */
#include <assert.h>
#include <string.h>

#include "harness/mpi/qp_book.h"

void k3_op_done(void *request, ucs_status_t status, void *user_data)
{
    k3_op_t   *op = user_data;
    k3_qps_t  *qps = op->qps;
    k3_lane_t *lane = op->lane;

    if (__builtin_expect(status != UCS_OK, 0)) {
        k3_qps_note(qps, op->is_message ? "put" : "signal", status);
    }
    lane->in_flight--;
    qps->in_flight--;
    if (op->book != NULL) {
        uint64_t now = k3_clock_now();

        book_done(qps, &qps->posts, op->book, op->posted, now, op->is_message);
        if (lane->in_flight == 0) {
            book_busy(qps, lane, op->book, lane->busy_since, now);
        }
    }
    give_op(qps, op);
    ucp_request_free(request);
}

/* --- posts ----------------------------------------------------------------------------------- */

typedef struct put {
    const void *local;
    uint64_t    offset, bytes, payload;
    bool        words; /* to the block of signals, from the host */
} put_t;

/* To the own rank or a mapped peer. */
static inline void store_put(const k3_qps_t *qps, const k3_lane_t *lane, const put_t *put)
{
    if (qps->rows.device == NULL || put->words) {
        memcpy(lane->mapped + put->offset, put->local, put->bytes);
    } else {
        qps->rows.copy(qps->rows.copy_arg, qps->rows.memory + put->offset, put->local, put->bytes);
    }
}

static inline bool send_put(k3_qps_t *qps, k3_lane_t *lane, const put_t *put, k3_op_t *op)
{
    const k3_lane_words_t *words =
        put->words && qps->words != NULL ? &qps->words[lane - qps->lanes] : NULL;
    intptr_t shift =
        put->words || qps->rows.device == NULL ? 0 : k3_device_reach(qps->rows.device, put->local);
    const char *local = (const char *)put->local + shift;
    uint64_t    remote = (words != NULL ? words->remote : lane->remote) + put->offset;

    qps->unfenced = true;
    qps->put_param.user_data = op;
    return settle_op(qps, op,
                     ucp_put_nbx(lane->ep, local, put->bytes, remote,
                                 words != NULL ? words->rkey : lane->rkey, &qps->put_param));
}

/* Returns when the message was complete, in ticks; 0: not yet, or nobody keeps time. */
static inline uint64_t post_put(k3_qps_t *qps, k3_lane_t *lane, const put_t *put, uint64_t posted)
{
    k3_book_t *book = qps->booking ? open_book(qps, &qps->posts, lane, posted) : NULL;
    bool       in_flight = false;
    uint64_t   now;

    assert(put->offset + put->bytes <= (put->words ? qps->tail : qps->rows.tail) + K3_TAIL_BYTES);
    if (book != NULL) {
        expect_done(&qps->posts, book);
    }
    if (lane->mapped != NULL) {
        store_put(qps, lane, put);
    } else {
        in_flight = send_put(qps, lane, put, take_op(qps, lane, book, posted, true));
    }
    if (__builtin_expect(lane->slow, 0)) {
        slow_down(qps, posted);
    }
    if (book == NULL) {
        return 0;
    }
    book->messages++;
    book->bytes_payload += put->payload;
    book->bytes_wire += put->bytes;
    if (in_flight) {
        return 0;
    }
    now = k3_clock_now();
    book_stored(qps, lane, book, posted, now, true);
    return now;
}

void k3_qps_put(k3_qps_t *qps, int peer, unsigned qp, const void *local, uint64_t offset,
                uint64_t bytes, uint64_t payload)
{
    k3_lane_t *lane = k3_lane_of(qps, peer, qp);
    put_t      put = {local, offset, bytes, payload, false};

    assert(qp < qps->qps_per_peer);
    post_put(qps, lane, &put, needs_time(qps, lane) ? k3_clock_now() : 0);
}

void k3_qps_put_words(k3_qps_t *qps, int peer, unsigned qp, const void *local, uint64_t offset,
                      uint64_t bytes)
{
    k3_lane_t *lane = k3_lane_of(qps, peer, qp);
    put_t      put = {local, offset, bytes, 0, true};

    assert(qp < qps->qps_per_peer);
    post_put(qps, lane, &put, needs_time(qps, lane) ? k3_clock_now() : 0);
}

/* One post begins where the one before was complete, if that is known: half the looks at the clock. */
static inline uint64_t begins_at(const k3_qps_t *qps, const k3_lane_t *lane, uint64_t done)
{
    if (done != 0) {
        return done;
    }
    return needs_time(qps, lane) ? k3_clock_now() : 0;
}

void k3_qps_put_copies(k3_qps_t *qps, const k3_copy_t *to, unsigned count, const void *local,
                       uint64_t bytes, uint64_t payload)
{
    uint64_t done = 0;

    for (unsigned i = 0; i < count; i++) {
        k3_lane_t *lane = k3_lane_of(qps, to[i].peer, to[i].qp);
        put_t      put = {local, to[i].offset, bytes, payload, false};

        assert(to[i].qp < qps->qps_per_peer);
        if (i + 1 < count) {
            k3_qps_expect(qps, to[i + 1].peer, to[i + 1].qp);
        }
        done = post_put(qps, lane, &put, begins_at(qps, lane, done));
        if (to[i].rings) {
            k3_qps_doorbell(qps, to[i].peer, to[i].qp);
            done = 0;
        }
    }
}

static uint64_t gather_on_device(const k3_qps_t *qps, uint64_t offset, const k3_gather_t *from)
{
    assert(from->tail_bytes == 0);
    for (uint64_t i = 0; i < from->count; i++) {
        qps->rows.copy(qps->rows.copy_arg, qps->rows.memory + offset + i * from->row_bytes,
                       from->rows[i], from->row_bytes);
    }
    return from->count * from->row_bytes;
}

static uint64_t gather(char *to, const k3_gather_t *from)
{
    const char *begin = to;

    for (uint64_t i = 0; i < from->count; i++) {
        memcpy(to, from->rows[i], from->row_bytes);
        to += from->row_bytes;
        if (from->tail_bytes > 0) {
            memcpy(to, from->tails + i * from->tail_bytes, from->tail_bytes);
            to += from->tail_bytes;
        }
    }
    return (uint64_t)(to - begin);
}

void k3_qps_put_gather(k3_qps_t *qps, int peer, unsigned qp, const k3_gather_t *from,
                       uint64_t offset, uint64_t payload)
{
    k3_lane_t *lane = k3_lane_of(qps, peer, qp);
    uint64_t   posted = needs_time(qps, lane) ? k3_clock_now() : 0, bytes;
    k3_book_t *book = qps->booking ? open_book(qps, &qps->posts, lane, posted) : NULL;

    assert(qp < qps->qps_per_peer && lane->mapped != NULL &&
           offset + from->count * (from->row_bytes + from->tail_bytes) <= qps->rows.tail);
    bytes = qps->rows.device == NULL ? gather(lane->mapped + offset, from)
                                     : gather_on_device(qps, offset, from);
    if (__builtin_expect(lane->slow, 0)) {
        slow_down(qps, posted);
    }
    if (book != NULL) {
        book->messages++;
        book->bytes_payload += payload;
        book->bytes_wire += bytes;
        book_stored(qps, lane, book, posted, k3_clock_now(), true);
    }
}

/* Everything posted on the lane so far arrives before what is posted from here on. */
static inline void order_lane(k3_qps_t *qps, k3_lane_t *lane)
{
    if (qps->form == K3_FORM_FENCE) {
        if (qps->unfenced) {
            qps->unfenced = false;
            if (__builtin_expect(ucp_worker_fence(qps->worker) != UCS_OK, 0)) {
                k3_lane_drain(qps, lane);
                qps->unfenced = true; /* only this lane is known to be in order */
            }
        }
    } else if (qps->form == K3_FORM_FLUSH) {
        k3_lane_drain(qps, lane);
    }
}

static inline unsigned width_of(k3_signal_kind_t kind)
{
    return kind == K3_ADD32 || kind == K3_WRITE32 ? 4 : 8;
}

static inline void store_signal(char *word, uint64_t value, k3_signal_kind_t kind)
{
    switch (kind) {
    case K3_ADD32:
        __atomic_fetch_add((uint32_t *)(void *)word, (uint32_t)value, __ATOMIC_RELEASE);
        break;
    case K3_ADD64:
        __atomic_fetch_add((uint64_t *)(void *)word, value, __ATOMIC_RELEASE);
        break;
    case K3_WRITE32:
        __atomic_store_n((uint32_t *)(void *)word, (uint32_t)value, __ATOMIC_RELEASE);
        break;
    case K3_WRITE64:
        __atomic_store_n((uint64_t *)(void *)word, value, __ATOMIC_RELEASE);
        break;
    }
}

static inline bool send_signal(k3_qps_t *qps, k3_lane_t *lane, k3_op_t *op, uint64_t offset,
                               uint64_t value, k3_signal_kind_t kind)
{
    ucp_request_param_t   *param = kind == K3_ADD32   ? &qps->add32_param
                                   : kind == K3_ADD64 ? &qps->add64_param
                                                      : &qps->put_param;
    const k3_lane_words_t *words = qps->words != NULL ? &qps->words[lane - qps->lanes] : NULL;
    ucp_rkey_h             rkey = words != NULL ? words->rkey : lane->rkey;
    uint64_t               remote = (words != NULL ? words->remote : lane->remote) + offset;
    ucs_status_ptr_t       result;

    if (width_of(kind) == 4) {
        op->value.u32 = (uint32_t)value;
    } else {
        op->value.u64 = value;
    }
    param->user_data = op;
    if (kind == K3_ADD32 || kind == K3_ADD64) {
        result = ucp_atomic_op_nbx(lane->ep, UCP_ATOMIC_OP_ADD, &op->value, 1, remote, rkey, param);
    } else {
        result = ucp_put_nbx(lane->ep, &op->value, width_of(kind), remote, rkey, param);
    }
    return settle_op(qps, op, result);
}

/* Returns when the signal was complete, in ticks; 0: not yet, or nobody keeps time. */
static inline uint64_t post_signal(k3_qps_t *qps, k3_lane_t *lane, uint64_t offset, uint64_t value,
                                   k3_signal_kind_t kind, uint64_t posted)
{
    k3_book_t *book = qps->booking ? open_book(qps, &qps->posts, lane, posted) : NULL;
    bool       in_flight = false;
    uint64_t   now;

    assert(offset % width_of(kind) == 0 && offset + width_of(kind) <= qps->tail + K3_TAIL_BYTES);
    if (lane->mapped != NULL) {
        store_signal(lane->mapped + offset, value, kind);
    } else {
        order_lane(qps, lane);
        in_flight =
            send_signal(qps, lane, take_op(qps, lane, book, posted, false), offset, value, kind);
    }
    if (__builtin_expect(lane->slow, 0)) {
        slow_down(qps, posted);
    }
    if (book == NULL) {
        return 0;
    }
    book->signals++;
    book->bytes_wire += width_of(kind);
    if (in_flight) {
        return 0;
    }
    /* One store: done when it is posted, a second look at the clock would cost more. */
    now = lane->mapped != NULL && !lane->slow ? posted : k3_clock_now();
    book_stored(qps, lane, book, posted, now, false);
    return now;
}

static inline void post_one_signal(k3_qps_t *qps, int peer, unsigned qp, uint64_t offset,
                                   uint64_t value, k3_signal_kind_t kind)
{
    k3_lane_t *lane = k3_lane_of(qps, peer, qp);

    assert(qp < qps->qps_per_peer);
    post_signal(qps, lane, offset, value, kind, needs_time(qps, lane) ? k3_clock_now() : 0);
}

void k3_qps_signal_add32(k3_qps_t *qps, int peer, unsigned qp, uint64_t offset, uint32_t value)
{
    post_one_signal(qps, peer, qp, offset, value, K3_ADD32);
}

void k3_qps_signal_add64(k3_qps_t *qps, int peer, unsigned qp, uint64_t offset, uint64_t value)
{
    post_one_signal(qps, peer, qp, offset, value, K3_ADD64);
}

void k3_qps_signal_write32(k3_qps_t *qps, int peer, unsigned qp, uint64_t offset, uint32_t value)
{
    post_one_signal(qps, peer, qp, offset, value, K3_WRITE32);
}

void k3_qps_signal_write64(k3_qps_t *qps, int peer, unsigned qp, uint64_t offset, uint64_t value)
{
    post_one_signal(qps, peer, qp, offset, value, K3_WRITE64);
}

void k3_qps_signals(k3_qps_t *qps, int peer, k3_signal_kind_t kind, const k3_signal_t *list,
                    unsigned count, bool rings)
{
    uint64_t done = 0;

    for (unsigned i = 0; i < count; i++) {
        k3_lane_t *lane = k3_lane_of(qps, peer, list[i].qp);

        assert(list[i].qp < qps->qps_per_peer);
        if (i + 1 < count) {
            k3_qps_expect(qps, peer, list[i + 1].qp);
        }
        done =
            post_signal(qps, lane, list[i].offset, list[i].value, kind, begins_at(qps, lane, done));
        if (rings && lane->mapped == NULL) {
            k3_qps_doorbell(qps, peer, list[i].qp);
            done = 0;
        }
    }
}

void k3_qps_signal_block(k3_qps_t *qps, int peer, unsigned qp, uint64_t offset,
                         const uint64_t *words, uint64_t bytes)
{
    k3_lane_t *lane = k3_lane_of(qps, peer, qp);

    assert(bytes >= 8 && bytes % 8 == 0 && offset + bytes <= qps->tail && lane->mapped != NULL);
    memcpy(lane->mapped + offset + 8, words + 1, bytes - 8);
    post_one_signal(qps, peer, qp, offset, words[0], K3_WRITE64);
    if (qps->booking) {
        qps->posts.bank_books[lane - qps->lanes].bytes_wire += bytes - 8;
    }
}

void k3_qps_expect(const k3_qps_t *qps, int peer, unsigned qp)
{
    const k3_lane_t *lane = k3_lane_of(qps, peer, qp);

    __builtin_prefetch(lane, 0);
    if (qps->booking) {
        __builtin_prefetch(&qps->posts.bank_books[lane - qps->lanes], 1);
    }
}

void k3_qps_doorbell(k3_qps_t *qps, int peer, unsigned qp)
{
    k3_lane_t *lane = k3_lane_of(qps, peer, qp);

    if (lane->mapped != NULL) {
        return;
    }
    if (qps->booking) {
        qps->posts.bank_books[lane - qps->lanes].doorbells++; /* of what was posted */
    }
    ucp_worker_progress(qps->worker);
}
