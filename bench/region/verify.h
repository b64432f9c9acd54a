/* Holds the values of an iteration against the oracle: every rank checks the rows that it owns, all
 * stages and elements, and that every rank of its attention group restored the same rows. */
#ifndef K3_REGION_VERIFY_H
#define K3_REGION_VERIFY_H

#include "bench/region/oracle.h"
#include "bench/region/region.h"

typedef struct k3_verify {
    k3_region_t       *region;
    k3_region_view_t   view;   /* of the iteration looked at */
    k3_oracle_t       *oracle; /* NULL: closed or switched off */
    k3_measured_row_t *rows;
    int32_t           *served; /* [rows][K] */
    uint64_t          *hashes; /* [group rows] of the restored rows, by their owners */
    int               *counts, *at;
    k3_check_t         check; /* of this rank */
} k3_verify_t;

k3_status_t k3_verify_open(k3_region_t *region, bool on, k3_verify_t *verify, k3_error_t *err);
void        k3_verify_close(k3_verify_t *verify);

/* Collective: all rows of the last iteration. */
void k3_verify_all(k3_verify_t *verify, uint64_t payload);
/* Local: one own row; `turn` picks it. */
void k3_verify_one(k3_verify_t *verify, uint64_t payload, uint64_t turn);

/* Collective: the check of all ranks, at every rank. */
void k3_verify_merge(const k3_verify_t *verify, k3_check_t *check);

#endif
