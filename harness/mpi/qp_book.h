/* What posting and reading share: the books of the lanes, and the operations that UCX may not complete at
 * once. Inline, since all of it is in the timed path. */
#ifndef K3_MPI_QP_BOOK_H
#define K3_MPI_QP_BOOK_H

#include <sched.h>

#include "harness/mpi/qp_internal.h"

static inline uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The book of a lane in the open span; puts the lane on the span's list at its first post. */
static inline k3_book_t *open_book(const k3_qps_t *qps, k3_ledger_t *ledger, const k3_lane_t *lane,
                                   uint64_t posted)
{
    uint64_t   index = (uint64_t)(lane - qps->lanes);
    k3_book_t *book = &ledger->bank_books[index];

    if (book->first == 0) {
        ledger->touched[ledger->touched_count++] = (uint32_t)index;
        book->first = posted - qps->span_begin + 1;
    }
    return book;
}

/* Adds [from, until] to the busy time, less what is booked already. */
static inline void book_busy(const k3_qps_t *qps, k3_lane_t *lane, k3_book_t *book, uint64_t from,
                             uint64_t until)
{
    from = later(from, later(lane->busy_until, qps->span_begin));
    if (until > from) {
        book->busy += until - from;
        lane->busy_until = until;
    }
}

static inline void book_done(const k3_qps_t *qps, k3_ledger_t *ledger, k3_book_t *book,
                             uint64_t posted, uint64_t now, bool is_message)
{
    book->last = now - qps->span_begin + 1;
    if (is_message) {
        uint64_t ns = k3_clock_scaled_ns(&qps->scale, now - posted);

        k3_hist_add(book->hist, ns);
        ledger->last_bucket = k3_hist_bucket(ns);
    }
}

/* The lines of the histogram are fetched while the message is copied; messages of one size take about
 * the same time, so the last bucket tells which. */
static inline void expect_done(const k3_ledger_t *ledger, const k3_book_t *book)
{
    __builtin_prefetch(&book->hist->count[ledger->last_bucket], 1);
    __builtin_prefetch(&book->hist->total, 1);
}

/* An operation that was complete when its post returned: in flight while it was being posted. */
static inline void book_stored(k3_qps_t *qps, k3_lane_t *lane, k3_book_t *book, uint64_t posted,
                               uint64_t now, bool is_message)
{
    book_done(qps, &qps->posts, book, posted, now, is_message);
    if (lane->in_flight == 0) {
        book_busy(qps, lane, book, posted, now);
    }
}

/* Fault injection: holds the lane for (factor - 1) times what the post took, a microsecond at
 * least. */
static inline void slow_down(const k3_qps_t *qps, uint64_t posted)
{
    uint64_t now = k3_clock_now();
    uint64_t taken = later(now - posted, k3_clock_ticks(1.0));
    uint64_t until = now + (uint64_t)((double)taken * (qps->slow_factor - 1.0));

    while (k3_clock_now() < until) {
        sched_yield(); /* a slow link takes no processor from the other ranks */
    }
}

/* When the pool is empty, older operations must end first, as on a full send queue. */
static inline k3_op_t *take_op(k3_qps_t *qps, k3_lane_t *lane, k3_book_t *book, uint64_t posted,
                               bool is_message)
{
    k3_op_t *op;

    while (__builtin_expect(qps->free_ops == NULL, 0)) {
        k3_qps_poll(qps);
    }
    op = qps->free_ops;
    qps->free_ops = op->next;
    op->lane = lane;
    op->posted = posted;
    op->is_message = is_message;
    op->book = book;
    return op;
}

static inline void give_op(k3_qps_t *qps, k3_op_t *op)
{
    op->next = qps->free_ops;
    qps->free_ops = op;
}

/* True when the operation is still in flight. */
static inline bool settle_op(k3_qps_t *qps, k3_op_t *op, ucs_status_ptr_t result)
{
    k3_lane_t *lane = op->lane;

    if (__builtin_expect(UCS_PTR_IS_PTR(result), 0)) {
        qps->in_flight++;
        if (lane->in_flight++ == 0) {
            lane->busy_since = op->posted;
        }
        return true;
    }
    if (__builtin_expect(result != NULL, 0)) {
        k3_qps_note(qps, op->is_message ? "put" : "signal", UCS_PTR_STATUS(result));
    }
    give_op(qps, op);
    return false;
}

static inline bool needs_time(const k3_qps_t *qps, const k3_lane_t *lane)
{
    return qps->booking || lane->slow;
}

#endif
