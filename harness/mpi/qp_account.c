/* Accounts: one book per lane and bank, histograms, spans. */
#include <string.h>

#include "harness/base/memory.h"
#include "harness/mpi/qp_internal.h"

/* Above this the lanes to one peer share a histogram per bank. */
#define HIST_BYTES_MAX (UINT64_C(64) << 20)

/* Pages of a histogram that was never written would be faulted in within a timed span. */
static void touch(void *memory, uint64_t bytes)
{
    memset(memory, 0, bytes);
}

static void assign_hists(k3_qps_t *qps, bool shared)
{
    uint64_t per_bank = shared ? qps->lane_count / qps->qps_per_peer : qps->lane_count;

    for (uint64_t bank = 0; bank < qps->banks; bank++) {
        for (uint64_t lane = 0; lane < qps->lane_count; lane++) {
            uint64_t hist = shared ? lane / qps->qps_per_peer : lane;

            qps->books[bank * qps->lane_count + lane].hist = &qps->hists[bank * per_bank + hist];
        }
    }
    qps->hist_count = per_bank * qps->banks;
}

k3_status_t k3_accounts_create(k3_qps_t *qps, k3_error_t *err)
{
    uint64_t    books = qps->lane_count * qps->banks;
    bool        shared = books * sizeof(k3_hist_t) > HIST_BYTES_MAX;
    uint64_t    hists = shared ? books / qps->qps_per_peer : books;
    k3_status_t status;

    status = k3_alloc("accounts of the queue pairs", books, sizeof(*qps->books), &qps->books, err);
    if (status == K3_OK) {
        status = k3_alloc("histograms", hists, sizeof(*qps->hists), &qps->hists, err);
    }
    if (status == K3_OK) {
        status = k3_alloc("list of used lanes", qps->lane_count, sizeof(*qps->touched),
                          &qps->touched, err);
    }
    if (status != K3_OK) {
        return status;
    }
    touch(qps->books, books * sizeof(*qps->books));
    touch(qps->hists, hists * sizeof(*qps->hists));
    touch(qps->touched, qps->lane_count * sizeof(*qps->touched));
    assign_hists(qps, shared);
    qps->bank_books = qps->books;
    return K3_OK;
}

void k3_accounts_destroy(k3_qps_t *qps)
{
    k3_free(qps->touched);
    k3_free(qps->hists);
    k3_free(qps->books);
}

static void close_span(k3_qps_t *qps)
{
    for (uint32_t i = 0; i < qps->touched_count; i++) {
        k3_book_t *book = &qps->bank_books[qps->touched[i]];

        book->spans++;
        book->first_sum += book->first - 1;
        book->last_sum += book->last == 0 ? 0 : book->last - 1;
        book->first = 0;
        book->last = 0;
    }
    qps->touched_count = 0;
    qps->span_open = false;
    qps->booking = false;
}

void k3_qps_bank_begin(k3_qps_t *qps, unsigned bank)
{
    if (qps->span_open) {
        /* Only what is still in flight has times to come. A fault is kept for the next call that
         * returns a status. */
        if (qps->in_flight != 0) {
            k3_qps_drain(qps);
        }
        close_span(qps);
    }
    qps->bank_books = qps->books + (uint64_t)bank * qps->lane_count;
    qps->span_open = true;
    qps->booking = qps->accounting;
    qps->span_begin = k3_clock_now();
}

k3_status_t k3_qps_bank_end(k3_qps_t *qps, k3_error_t *err)
{
    k3_status_t status = k3_qps_flush(qps, err);

    if (qps->span_open) {
        close_span(qps);
    }
    return status;
}

void k3_qps_accounting(k3_qps_t *qps, bool on)
{
    qps->accounting = on;
    qps->booking = on && qps->span_open;
}

void k3_qps_reset(k3_qps_t *qps)
{
    for (uint64_t i = 0; i < qps->lane_count * qps->banks; i++) {
        k3_hist_t *hist = qps->books[i].hist;

        memset(&qps->books[i], 0, sizeof(qps->books[i]));
        qps->books[i].hist = hist;
    }
    memset(qps->hists, 0, qps->hist_count * sizeof(*qps->hists));
    qps->touched_count = 0;
}

void k3_qps_lane_stats(const k3_qps_t *qps, unsigned bank, int peer, unsigned qp,
                       k3_lane_stats_t *stats)
{
    uint64_t         lane = (uint64_t)(unsigned)peer * qps->qps_per_peer + qp;
    const k3_book_t *book = &qps->books[bank * qps->lane_count + lane];

    stats->messages = book->messages;
    stats->signals = book->signals;
    stats->doorbells = book->doorbells;
    stats->bytes_payload = book->bytes_payload;
    stats->bytes_wire = book->bytes_wire;
    stats->spans = book->spans;
    stats->first_post_us = k3_clock_us(book->first_sum);
    stats->last_done_us = k3_clock_us(book->last_sum);
    stats->busy_us = k3_clock_us(book->busy);
    stats->hist = book->messages == 0 ? NULL : book->hist;
}

unsigned k3_qps_per_peer(const k3_qps_t *qps)
{
    return qps->qps_per_peer;
}
