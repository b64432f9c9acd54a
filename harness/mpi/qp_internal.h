/* The inside of a set of queue pairs, shared by qp_*.c. */
#ifndef K3_MPI_QP_INTERNAL_H
#define K3_MPI_QP_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

#include "harness/mpi/clock.h"
#include "harness/mpi/clock_internal.h"
#include "harness/mpi/fabric.h"
#include "harness/mpi/qp.h"

/* Behind the symmetric block each rank has a part of its own for set-up: words for wiring and
 * signals, and the data of the order self-test. */
enum {
    K3_TAIL_WIRE_PUT = 0,
    K3_TAIL_WIRE_ADD = 64,
    K3_TAIL_WRITE = 128,
    K3_TAIL_ADD32 = 192,
    K3_TAIL_ADD64 = 256,
    K3_TAIL_ACK = 320,
    K3_TAIL_DATA = 4096,
    K3_TAIL_DATA_BYTES = 65536,
    K3_TAIL_BYTES = K3_TAIL_DATA + K3_TAIL_DATA_BYTES,
    K3_TAIL_SOURCE = K3_TAIL_BYTES, /* on a device: what the self-test sends */
    K3_TAIL_ROWS_BYTES = K3_TAIL_SOURCE + K3_TAIL_DATA_BYTES
};

/* How a signal is kept behind the data; bare only within the self-test. */
typedef enum k3_form { K3_FORM_FENCE, K3_FORM_FLUSH, K3_FORM_BARE } k3_form_t;

/* One cache line. */
typedef struct __attribute__((aligned(64))) k3_lane {
    ucp_ep_h   ep;
    ucp_rkey_h rkey;
    uint64_t   remote;     /* address of the peer's block there */
    char      *mapped;     /* the peer's block here; NULL for a lane of kind qp */
    uint64_t   busy_since; /* ticks; when in_flight rose from 0 */
    uint64_t   busy_until; /* ticks; up to here the time is booked already */
    uint32_t   in_flight;  /* operations that UCX has not completed */
    bool       slow;       /* fault injection */
} k3_lane_t;

_Static_assert(sizeof(k3_lane_t) == 64, "a lane is one cache line");

/* Where signals of a lane go when rows lie on a device. */
typedef struct k3_lane_words {
    ucp_rkey_h rkey;
    uint64_t   remote;
} k3_lane_words_t;

/* The block for rows. Without a device it is the one block. */
typedef struct k3_rows_block {
    k3_device_t *device;
    char        *memory; /* own; an address of the device */
    intptr_t     shift;  /* how far behind its addresses transports find it */
    uint64_t     bytes, tail;
    ucp_mem_h    handle;
    void (*copy)(void *arg, void *to, const void *from, uint64_t bytes);
    void *copy_arg;
} k3_rows_block_t;

/* The account of one lane in one bank. Times are ticks; `first` and `last` belong to the present
 * span and are relative to its begin plus 1, so that 0 means unused. What a message touches is one
 * cache line: between two messages of a lane the rows of all others have gone through the caches. */
typedef struct __attribute__((aligned(64))) k3_book {
    k3_hist_t *hist;
    uint64_t   messages, bytes_payload, bytes_wire, signals;
    uint64_t   first, last, busy;
    uint64_t   doorbells, spans, first_sum, last_sum;
} k3_book_t;

/* An operation that UCX may not complete at once. */
typedef struct k3_op {
    struct k3_op *next;
    k3_qps_t     *qps;
    k3_lane_t    *lane;
    k3_book_t    *book;   /* NULL: not booked */
    uint64_t      posted; /* ticks */
    union {
        uint32_t u32;
        uint64_t u64;
    } value; /* of a signal; UCX reads it until completion */
    bool is_message;
} k3_op_t;

/* The accounts of one direction. */
typedef struct k3_ledger {
    k3_book_t *books;      /* [banks][size][qps_per_peer] */
    k3_book_t *bank_books; /* those of the open bank */
    k3_hist_t *hists;
    uint64_t   hist_count;
    uint32_t  *touched; /* lanes used in the open span */
    uint32_t   touched_count;
    unsigned   last_bucket; /* of the latest message in a histogram */
} k3_ledger_t;

typedef struct k3_peer {
    k3_lane_kind_t kind;
    ucp_ep_h       ep; /* of a mapped peer, only to hold the mapping; else that of lane 0 */
    ucp_rkey_h     rkey;
    char           transport[K3_TRANSPORT_MAX];
} k3_peer_t;

struct k3_qps {
    /* hot */
    k3_lane_t          *lanes; /* [size][qps_per_peer] */
    k3_lane_words_t    *words; /* likewise; NULL: signals go where rows go */
    k3_rows_block_t     rows;
    k3_ledger_t         posts;
    k3_op_t            *free_ops;
    uint64_t            span_begin;
    unsigned            qps_per_peer;
    k3_form_t           form;
    bool                booking;  /* accounting is on and a span is open */
    bool                unfenced; /* a put was posted since the last fence */
    bool                yield_at_once;
    unsigned            idle_rounds;
    uint64_t            in_flight;
    uint64_t            reads; /* not here yet: gets, and adds that fetch */
    k3_ledger_t         pulls; /* touched by qp_get.c alone; empty without config.pulls */
    ucp_worker_h        worker;
    k3_clock_scale_t    scale;
    ucp_request_param_t put_param, add32_param, add64_param,
        get_param; /* user_data is set for each post */

    /* set-up and reading */
    const k3_world_t *world;
    k3_fabric_t      *fabric;
    ucp_mem_h         memory_handle;
    char             *memory;
    uint64_t          bytes, tail; /* tail: offset of the part for set-up */
    k3_peer_t        *peers;
    k3_op_t          *ops;
    uint64_t          lane_count;
    unsigned          banks;
    bool              accounting, span_open;
    double            slow_factor;
    bool              everywhere; /* all ranks have their own parts */
    uint64_t          wiring;     /* the lane that is being connected + 1; 0: none */
    k3_error_t        fault;      /* the first transport error */
    uint64_t          order_rounds, overtaken_bare, overtaken_used;
    double            registration_us, connection_us, selftest_us;
};

static inline k3_lane_t *k3_lane_of(const k3_qps_t *qps, int peer, unsigned qp)
{
    return &qps->lanes[(uint64_t)(unsigned)peer * qps->qps_per_peer + qp];
}

/* qp_wait.c. All progress while they wait. */
void         k3_qps_poll(k3_qps_t *qps); /* progress; a fruitless round may yield */
ucs_status_t k3_qps_finish(k3_qps_t *qps, ucs_status_ptr_t request);
ucs_status_t k3_lane_drain(k3_qps_t *qps, k3_lane_t *lane);
ucs_status_t k3_qps_drain(k3_qps_t *qps);
void         k3_qps_reap(k3_qps_t *qps); /* waits for completions, without a flush */
void         k3_qps_note(k3_qps_t *qps, const char *what, ucs_status_t status);
k3_status_t  k3_qps_outcome(const k3_qps_t *qps, k3_error_t *err); /* the first fault, if any */

/* qp_post.c */
void k3_op_done(void *request, ucs_status_t status, void *user_data);

/* qp_get.c */
void k3_read_done(void *request, ucs_status_t status, void *user_data);

/* qp_account.c */
k3_status_t k3_accounts_create(k3_qps_t *qps, bool pulls, k3_error_t *err);
void        k3_accounts_destroy(k3_qps_t *qps);

/* qp_memory.c. The check comes before any rank allocates: UCX would take memory until the kernel
 * kills something. */
uint64_t           k3_block_bytes(uint64_t bytes);
unsigned long long k3_shm_free(void); /* bytes; 0: unknown */
k3_status_t        k3_block_check(const k3_world_t *world, uint64_t bytes, k3_error_t *err);
k3_status_t        k3_block_create(k3_qps_t *qps, k3_error_t *err);
/* After it: the block for rows, on the device or the same. */
k3_status_t k3_rows_create(k3_qps_t *qps, const k3_qps_config_t *config, k3_error_t *err);
void        k3_block_destroy(k3_qps_t *qps);

/* qp_connect.c: collective; every rank returns with the same status. */
k3_status_t k3_lanes_connect(k3_qps_t *qps, const k3_qps_config_t *config, k3_error_t *err);
void        k3_lanes_disconnect(k3_qps_t *qps);

/* qp_transport.c: from what UCX prints about an endpoint. `backing` ("sysv", "posix" or "") is
 * where the block lies. */
void  k3_transport_parse(const char *info, const char *backing, char *name);
char *k3_transport_info(ucp_ep_h ep); /* free() */
void  k3_memory_backing(const void *address, char *text, unsigned size);
/* The network devices that UCX may take, for people. */
const char *k3_qps_devices(void);

/* qp_order.c: collective. */
k3_status_t k3_order_test(k3_qps_t *qps, const int *node_of, unsigned rounds, k3_error_t *err);

/* Faults that a test plants in the self-test's own traffic. */
typedef enum k3_order_fault {
    K3_ORDER_FAULT_NONE,
    K3_ORDER_FAULT_FENCE, /* a fence orders nothing */
    K3_ORDER_FAULT_ALL,   /* neither does a flush */
    K3_ORDER_FAULT_ADD    /* adds are lost */
} k3_order_fault_t;
extern k3_order_fault_t k3_order_fault;
extern double           k3_order_limit; /* seconds that a signal may take */

#endif
