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

static void assign_hists(const k3_qps_t *qps, k3_ledger_t *ledger, bool shared)
{
    uint64_t per_bank = shared ? qps->lane_count / qps->qps_per_peer : qps->lane_count;

    for (uint64_t bank = 0; bank < qps->banks; bank++) {
        for (uint64_t lane = 0; lane < qps->lane_count; lane++) {
            uint64_t hist = shared ? lane / qps->qps_per_peer : lane;

            ledger->books[bank * qps->lane_count + lane].hist =
                &ledger->hists[bank * per_bank + hist];
        }
    }
    ledger->hist_count = per_bank * qps->banks;
}

static k3_status_t create_ledger(const k3_qps_t *qps, k3_ledger_t *ledger, k3_error_t *err)
{
    uint64_t books = qps->lane_count * qps->banks;
    bool     shared = books * sizeof(k3_hist_t) > HIST_BYTES_MAX;
    uint64_t hists = shared ? books / qps->qps_per_peer : books;

    if (k3_alloc("accounts of the queue pairs", books, sizeof(*ledger->books), &ledger->books,
                 err) != K3_OK ||
        k3_alloc("histograms", hists, sizeof(*ledger->hists), &ledger->hists, err) != K3_OK ||
        k3_alloc("list of used lanes", qps->lane_count, sizeof(*ledger->touched), &ledger->touched,
                 err) != K3_OK) {
        return err->status;
    }
    touch(ledger->books, books * sizeof(*ledger->books));
    touch(ledger->hists, hists * sizeof(*ledger->hists));
    touch(ledger->touched, qps->lane_count * sizeof(*ledger->touched));
    assign_hists(qps, ledger, shared);
    ledger->bank_books = ledger->books;
    return K3_OK;
}

k3_status_t k3_accounts_create(k3_qps_t *qps, bool pulls, k3_error_t *err)
{
    k3_status_t status = create_ledger(qps, &qps->posts, err);

    return status == K3_OK && pulls ? create_ledger(qps, &qps->pulls, err) : status;
}

static void destroy_ledger(k3_ledger_t *ledger)
{
    k3_free(ledger->touched);
    k3_free(ledger->hists);
    k3_free(ledger->books);
}

void k3_accounts_destroy(k3_qps_t *qps)
{
    destroy_ledger(&qps->pulls);
    destroy_ledger(&qps->posts);
}

static void close_ledger(k3_ledger_t *ledger)
{
    for (uint32_t i = 0; i < ledger->touched_count; i++) {
        k3_book_t *book = &ledger->bank_books[ledger->touched[i]];

        book->spans++;
        book->first_sum += book->first - 1;
        book->last_sum += book->last == 0 ? 0 : book->last - 1;
        book->first = 0;
        book->last = 0;
    }
    ledger->touched_count = 0;
}

static void close_span(k3_qps_t *qps)
{
    close_ledger(&qps->posts);
    close_ledger(&qps->pulls);
    qps->span_open = false;
    qps->booking = false;
}

void k3_qps_banks_begin(k3_qps_t *qps, unsigned posts, unsigned pulls)
{
    if (qps->span_open) {
        /* Only what is still in flight has times to come. Mostly it is done and only not seen yet: a flush of
         * all queue pairs would cost what no protocol asks for. A fault is kept for the next call that returns
         * a status. */
        k3_qps_reap(qps);
        close_span(qps);
    }
    qps->posts.bank_books = qps->posts.books + (uint64_t)posts * qps->lane_count;
    if (qps->pulls.books != NULL) {
        qps->pulls.bank_books = qps->pulls.books + (uint64_t)pulls * qps->lane_count;
    }
    qps->span_open = true;
    qps->booking = qps->accounting;
    qps->span_begin = k3_clock_now();
}

void k3_qps_bank_begin(k3_qps_t *qps, unsigned bank)
{
    k3_qps_banks_begin(qps, bank, bank);
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

static void reset_ledger(const k3_qps_t *qps, k3_ledger_t *ledger)
{
    for (uint64_t i = 0; ledger->books != NULL && i < qps->lane_count * qps->banks; i++) {
        k3_hist_t *hist = ledger->books[i].hist;

        memset(&ledger->books[i], 0, sizeof(ledger->books[i]));
        ledger->books[i].hist = hist;
    }
    if (ledger->hists != NULL) {
        memset(ledger->hists, 0, ledger->hist_count * sizeof(*ledger->hists));
    }
    ledger->touched_count = 0;
}

void k3_qps_reset(k3_qps_t *qps)
{
    reset_ledger(qps, &qps->posts);
    reset_ledger(qps, &qps->pulls);
}

void k3_qps_lane_stats(const k3_qps_t *qps, unsigned bank, int peer, unsigned qp, bool pulled,
                       k3_lane_stats_t *stats)
{
    uint64_t         lane = (uint64_t)(unsigned)peer * qps->qps_per_peer + qp;
    const k3_book_t *books = pulled ? qps->pulls.books : qps->posts.books;
    const k3_book_t *book = &books[bank * qps->lane_count + lane];

    if (books == NULL) {
        *stats = (k3_lane_stats_t){0};
        return;
    }
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
