/* What one pair of ranks can do, for each class of pair: small measurements, each of a few
 * milliseconds, while all other ranks sleep. */
#ifndef K3_MPI_PAIRS_H
#define K3_MPI_PAIRS_H

#include "harness/mpi/qp.h"

typedef enum k3_pair_class {
    K3_PAIR_SELF,    /* stores to the own block */
    K3_PAIR_MAPPED,  /* stores to a peer of the same host */
    K3_PAIR_SHARED,  /* a peer of the same host through its queue pair */
    K3_PAIR_NETWORK, /* a peer of another host */
    K3_PAIR_CLASSES
} k3_pair_class_t;

extern const char *const k3_pair_class_names[]; /* "self", "mapped", "shared", "network" */

typedef struct k3_pair_result {
    bool   measured; /* false: this launch has no such pair */
    int    src, dst;
    char   transport[K3_TRANSPORT_MAX];
    double latency_us;  /* half of a round trip of an 8-byte signal; self: a signal and its sight */
    double bulk_GBps;   /* puts of 1 MiB, until the receiver holds them */
    double row_GBps;    /* puts of 8 KiB: what each byte adds to a small message */
    double cold_GBps;   /* the same over 64 MiB, which no cache holds */
    double message_us;  /* a put of 64 bytes, posted one after another and flushed */
    double signal_us;   /* an add behind it, in the same way */
    double doorbell_us; /* a call of progress; 0 where stores ring none */
    /* The order self-test over all pairs of the launch in this form. */
    uint64_t          order_rounds, overtaken_bare, overtaken_used;
    k3_signal_order_t order;
} k3_pair_result_t;

typedef struct k3_pair_report {
    k3_pair_result_t result[K3_PAIR_CLASSES];
    double           barrier_us; /* of all ranks, mapped where they can be */
} k3_pair_report_t;

/* Collective; all ranks get the report. */
k3_status_t k3_pairs_measure(k3_fabric_t *fabric, const k3_world_t *world, k3_pair_report_t *report,
                             k3_error_t *err);

#endif
