/* Queue pairs over UCX.
 *
 * A queue pair is (source, destination, index): one ordered lane with its own UCX endpoint, so that
 * over RC transports one lane is one hardware QP. Lanes to the own rank (self) and, with p2p on, to
 * peers of the same node whose memory is mapped (p2p) are plain stores and have no endpoint; they
 * are counted in the same way.
 *
 * Memory is symmetric: every rank registers one block of the same size and addresses the memory of
 * a peer by offset. The block is zeroed.
 *
 * Rows may lie in a second symmetric block in the memory of a device: puts then go there, while signals
 * stay in the first block, which the host polls. Peers are not mapped then (p2p is off), what a rank puts
 * to itself is handed to config.copy.
 *
 * Order. A put and a following signal of the same QP arrive in that order: for mapped memory by a
 * release store, through UCX by a worker fence or, where the self-test saw the fence fail, by a
 * flush of the lane. What that costs is part of the signal's time. Puts among themselves are not
 * ordered.
 *
 * Errors. Posting functions return nothing, the first transport error is kept and comes back from
 * the next k3_qps_progress, k3_qps_wait or k3_qps_flush; the timed path has no branch for it.
 *
 * Accounting per lane and bank (a bank is a phase, as the caller numbers them) runs without
 * allocation and without system calls; with `accounting` off only error handling remains. */
#ifndef K3_MPI_QP_H
#define K3_MPI_QP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/base/stats.h"
#include "harness/base/status.h"
#include "harness/device/device.h"
#include "harness/mpi/world.h"

/* --- the fabric: UCX context and what a launch knows about it -------------------------------- */

typedef struct k3_fabric k3_fabric_t;

/* Collective. Opens UCX; K3_ERR_ENV with the UCX error when no usable transport is there. */
k3_status_t k3_fabric_open(const k3_world_t *world, k3_fabric_t **fabric_p, k3_error_t *err);
void        k3_fabric_close(k3_fabric_t *fabric);

/* Whether the loaded UCX takes addresses of that memory. */
bool k3_fabric_reaches(const k3_fabric_t *fabric, k3_memory_type_t type);

const char *k3_fabric_version_compiled(void); /* "1.13": the headers name no more than the API */
const char *k3_fabric_version_loaded(void);   /* "1.13.1" */

/* --- a set of queue pairs -------------------------------------------------------------------- */

typedef enum k3_lane_kind { K3_LANE_SELF, K3_LANE_P2P, K3_LANE_QP } k3_lane_kind_t;
const char *k3_lane_kind_name(k3_lane_kind_t kind); /* "self", "p2p", "qp" */

typedef enum k3_signal_order { K3_ORDER_FENCE, K3_ORDER_FLUSH } k3_signal_order_t;
const char *k3_signal_order_name(k3_signal_order_t order);

enum { K3_BANKS_MAX = 4, K3_TRANSPORT_MAX = 64 };

typedef struct k3_qps_config {
    uint64_t   bytes;        /* of the symmetric block; the same on all ranks (checked) */
    unsigned   qps_per_peer; /* lanes to each peer, 1..4096; the same on all ranks (checked) */
    unsigned   banks;        /* 1..K3_BANKS_MAX */
    bool       p2p;          /* plain stores to mapped peers of the same node */
    const int *node_of; /* [size]: node of each rank, real or virtual; read during create only */
    bool       accounting;
    bool       pulls;        /* k3_qps_get will be used */
    unsigned   order_rounds; /* rounds of the order self-test for each peer class; 0: not tested */
    int        slow_peer; /* fault injection: posts on lane (slow_peer, slow_qp) take slow_factor */
    unsigned   slow_qp;   /*   times as long; slow_peer -1: off */
    bool       slow_network; /* ... and those on all lanes to other nodes */
    double     slow_factor;

    k3_device_t *device;     /* of the block for rows; NULL: rows lie in the one block */
    uint64_t     rows_bytes; /* of that block; the same on all ranks (checked) */
    void (*copy)(void *arg, void *to, const void *from, uint64_t bytes);
    void *copy_arg;
} k3_qps_config_t;

typedef struct k3_qps k3_qps_t;

/* Collective; set-up, never timed. All ranks leave with the same status. */
k3_status_t k3_qps_create(k3_fabric_t *fabric, const k3_qps_config_t *config, k3_qps_t **qps_p,
                          k3_error_t *err);
/* Collective. */
void k3_qps_destroy(k3_qps_t *qps);

void          *k3_qps_memory(k3_qps_t *qps); /* own block */
void          *k3_qps_rows(k3_qps_t *qps);   /* where puts go: own block, or that of the device */
uint64_t       k3_qps_bytes(const k3_qps_t *qps); /* its size */
void          *k3_qps_mapped(k3_qps_t *qps,
                             int peer); /* the peer's block for plain stores (self and p2p), else NULL */
k3_lane_kind_t k3_qps_kind(const k3_qps_t *qps, int peer);
/* The UCX transport and device that carries puts to `peer` as UCX names them ("posix/memory",
 * "tcp/eth0"); "self" and "mapped" for lanes without an endpoint. */
const char *k3_qps_transport(const k3_qps_t *qps, int peer);
/* Whether puts to `peer` end only while the peer progresses its worker, because UCX emulates them
 * in software (TCP, datagram transports). Mapped and shared memory and RC transports need no help.
 */
bool k3_qps_needs_progress(const k3_qps_t *qps, int peer);
/* Whether an RDMA transport (rc, dc, ud) carries the puts to `peer`. */
bool              k3_qps_is_rdma(const k3_qps_t *qps, int peer);
k3_signal_order_t k3_qps_order(const k3_qps_t *qps);
/* Result of the self-test, summed over all ranks: rounds run with each order, and rounds in which
 * the signal overtook the data, without any fence, and with the order in use (the latter must be
 * 0). */
void k3_qps_order_result(const k3_qps_t *qps, uint64_t *rounds, uint64_t *overtaken_bare,
                         uint64_t *overtaken_used);
/* Brings in all pages of the own block, and of those of mapped peers as this rank sees them; else that happens at the
 * first store to each. */
void k3_qps_touch(k3_qps_t *qps);
/* Slowest step of set-up on this rank, microseconds. */
void k3_qps_setup_times(const k3_qps_t *qps, double *registration_us, double *connection_us,
                        double *selftest_us);

/* --- posting --------------------------------------------------------------------------------- */

/* Copies `bytes` from local memory to `offset` of the peer's block. `payload` is the part of the
 * bytes that is values and scales. The local memory must stay unchanged until the lane was flushed
 * (or the protocol shows that the data arrived). One message. */
void k3_qps_put(k3_qps_t *qps, int peer, unsigned qp, const void *local, uint64_t offset,
                uint64_t bytes, uint64_t payload);

/* The same from the host's memory to the block that holds the signals: counts and metadata messages. */
void k3_qps_put_words(k3_qps_t *qps, int peer, unsigned qp, const void *local, uint64_t offset,
                      uint64_t bytes);

/* The same bytes to several places, in turn: one message each. `rings`: a doorbell behind it. The message
 * behind one that was complete at once counts as posted at that moment. */
typedef struct k3_copy {
    uint64_t offset;
    int      peer;
    unsigned qp;
    bool     rings;
} k3_copy_t;
void k3_qps_put_copies(k3_qps_t *qps, const k3_copy_t *to, unsigned count, const void *local,
                       uint64_t bytes, uint64_t payload);

/* The same for rows that lie in several places, each with a part of its own behind it (tail_bytes 0: none):
 * one message, the rows one behind the other. The peer must be mapped; on a device rows have no such part.
 * `payload` is that of all. */
typedef struct k3_gather {
    const void *const *rows;
    uint64_t           row_bytes;
    const char        *tails; /* one behind the other */
    uint64_t           tail_bytes;
    uint64_t           count;
} k3_gather_t;
void k3_qps_put_gather(k3_qps_t *qps, int peer, unsigned qp, const k3_gather_t *from,
                       uint64_t offset, uint64_t payload);

/* Copies `bytes` from `offset` of the peer's block (on a device: of rows) to local memory. From a mapped peer
 * they are there when it returns (own rows on a device: when config.copy is done), from others when k3_qps_land
 * returns, and the peer's progress may be needed for it as for a put. Booked on the lane (peer, qp) in the
 * direction in which the data move, apart from what this rank posts. One thread may get from mapped peers while
 * another posts, but bank_begin, bank_end and reset need both at rest. */
void k3_qps_get(k3_qps_t *qps, int peer, unsigned qp, void *local, uint64_t offset, uint64_t bytes,
                uint64_t payload);

/* The same for a row that lies in several places there, of a peer that must be mapped: one message. */
typedef struct k3_part {
    void    *local;
    uint64_t offset, bytes;
} k3_part_t;
void k3_qps_get_parts(k3_qps_t *qps, int peer, unsigned qp, const k3_part_t *parts, unsigned count,
                      uint64_t payload);

/* Adds to a word of the peer's block that holds the signals and brings what it was before: there when it
 * returns, or when k3_qps_land returns. Carries nothing and is not booked. Adds of processors and of adapters
 * are not atomic to each other: a word takes those of mapped ranks or those of others. */
void k3_qps_fetch_add64(k3_qps_t *qps, int peer, unsigned qp, uint64_t offset, uint64_t value,
                        uint64_t *before);

/* All that was read is here. Progresses. */
k3_status_t k3_qps_land(k3_qps_t *qps, k3_error_t *err);

/* Signals are ordered behind all puts posted before on the same QP. Offsets are aligned to the
 * width. */
void k3_qps_signal_add32(k3_qps_t *qps, int peer, unsigned qp, uint64_t offset, uint32_t value);
void k3_qps_signal_add64(k3_qps_t *qps, int peer, unsigned qp, uint64_t offset, uint64_t value);
void k3_qps_signal_write32(k3_qps_t *qps, int peer, unsigned qp, uint64_t offset, uint32_t value);
void k3_qps_signal_write64(k3_qps_t *qps, int peer, unsigned qp, uint64_t offset, uint64_t value);

/* Signals to one peer in the order of the list, each with a doorbell where it rings: for the accounts one begins where
 * the one before was complete. */
typedef enum k3_signal_kind { K3_ADD32, K3_ADD64, K3_WRITE32, K3_WRITE64 } k3_signal_kind_t;
typedef struct k3_signal {
    uint64_t offset, value;
    unsigned qp;
} k3_signal_t;
void k3_qps_signals(k3_qps_t *qps, int peer, k3_signal_kind_t kind, const k3_signal_t *list,
                    unsigned count, bool rings);

/* A signal of `bytes` (a multiple of 8) in one block of a peer that must be mapped: the first 8 bytes,
 * which tell that the rest is there, are stored last and at once. */
void k3_qps_signal_block(k3_qps_t *qps, int peer, unsigned qp, uint64_t offset,
                         const uint64_t *words, uint64_t bytes);

/* The next post will go to this lane: its tables are fetched meanwhile. */
void k3_qps_expect(const k3_qps_t *qps, int peer, unsigned qp);

/* Hands posted work to the transport: one progress call, counted on the lane. Nothing for self and
 * p2p lanes. */
void k3_qps_doorbell(k3_qps_t *qps, int peer, unsigned qp);

/* --- waiting --------------------------------------------------------------------------------- */

k3_status_t k3_qps_progress(k3_qps_t *qps, k3_error_t *err);

/* One round of a polling loop that found nothing: progresses, and yields the core at once when
 * ranks outnumber cores, else after a few hundred rounds. Call it after each unsuccessful pass. */
k3_status_t k3_qps_idle(k3_qps_t *qps, k3_error_t *err);

/* All posted work is the device's to finish: a rank that makes no further call holds none of it back. */
k3_status_t k3_qps_hand_over(k3_qps_t *qps, k3_error_t *err);

/* Waits until all posted work has completed at its destination. */
k3_status_t k3_qps_flush(k3_qps_t *qps, k3_error_t *err);
k3_status_t k3_qps_flush_lane(k3_qps_t *qps, int peer, unsigned qp, k3_error_t *err);

/* Where UCX emulates remote memory access in software (TCP), a peer's flush ends only while this
 * rank progresses. So no rank may enter a blocking MPI call while another may still be flushing:
 * between posting and the next blocking MPI call stands this barrier (collective), or the MPI call
 * is a non-blocking one that is completed here. Both progress, yield and wait for nothing else. */
k3_status_t k3_qps_barrier(k3_qps_t *qps, k3_error_t *err);
k3_status_t k3_qps_complete(k3_qps_t *qps, MPI_Request *request, k3_error_t *err);

/* Reads a signal word of the own block (acquire), clears it (relaxed). */
static inline uint32_t k3_signal_read32(const void *word)
{
    return __atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE);
}

static inline uint64_t k3_signal_read64(const void *word)
{
    return __atomic_load_n((const uint64_t *)word, __ATOMIC_ACQUIRE);
}

static inline void k3_signal_clear32(void *word)
{
    __atomic_store_n((uint32_t *)word, 0, __ATOMIC_RELAXED);
}

static inline void k3_signal_clear64(void *word)
{
    __atomic_store_n((uint64_t *)word, 0, __ATOMIC_RELAXED);
}

/* --- accounting ------------------------------------------------------------------------------ */

/* Starts an iteration's span of a bank: later posts and completions are booked there, times are
 * relative to this moment. A span that is still open is ended first (with its flush). Posts outside
 * any span (warm-up, barriers) are carried out and not booked. */
void k3_qps_bank_begin(k3_qps_t *qps, unsigned bank);
/* The same with one bank for what is posted and another one for what is read. */
void k3_qps_banks_begin(k3_qps_t *qps, unsigned posts, unsigned pulls);
/* Ends the span: adds this iteration's first post and last completion to the lanes' sums.
 * Operations still in flight are completed first (flush). */
k3_status_t k3_qps_bank_end(k3_qps_t *qps, k3_error_t *err);

/* Switches accounting during a run (instrument control); set-up value is config.accounting. */
void k3_qps_accounting(k3_qps_t *qps, bool on);
void k3_qps_reset(k3_qps_t *qps); /* all counters to 0 */

/* Sums over all spans of a bank since the reset. The lane was busy while at least one operation was
 * in flight; a stored message (mapped memory, or completed at once by UCX) is in flight while it is
 * being posted. */
typedef struct k3_lane_stats {
    uint64_t         messages, signals, doorbells;
    uint64_t         bytes_payload;
    uint64_t         bytes_wire;    /* puts and signals */
    uint64_t         spans;         /* spans in which the lane was used */
    double           first_post_us; /* sum over spans, from the span's begin */
    double           last_done_us;  /* sum over spans */
    double           busy_us;       /* sum over spans */
    const k3_hist_t *hist; /* post to completion of every message (not signals), ns; NULL when never
                * used. Beyond 64 MiB of histograms a rank's lanes to one peer share one. */
} k3_lane_stats_t;

/* `pulled`: of what this rank read from the peer on that lane; else of what it posted. */
void     k3_qps_lane_stats(const k3_qps_t *qps, unsigned bank, int peer, unsigned qp, bool pulled,
                           k3_lane_stats_t *stats);
unsigned k3_qps_per_peer(const k3_qps_t *qps);

#endif
