/* What the arithmetic on a device keeps for a cell: tables that the host fills and the device reads, and
 * the rows between the kernels of the experts. */
#ifndef K3_ENGINES_COMPUTE_TABLES_H
#define K3_ENGINES_COMPUTE_TABLES_H

#include "bench/engines/compute.h"

/* The same entries in the host's memory and in the device's; for what runs on the main stream. */
typedef struct k3_table {
    void    *host, *device;
    uint64_t count;   /* entries of room */
    size_t   entry;   /* bytes */
    uint64_t sent_in; /* turn in which the host's went to the device; 0: never */
} k3_table_t;

/* Rows of a format, with a pointer to each in the device's tables. */
typedef struct k3_coded_rows {
    uint8_t   *bytes;
    uint64_t   stride, scales_at;
    k3_table_t values, scales;
} k3_coded_rows_t;

typedef struct k3_on_device {
    const k3_gpu_t      *gpu;
    k3_blas_t           *blas; /* NULL: dense layers by plain kernels */
    const k3_blas_ops_t *blas_ops;
    k3_stream_t          stream; /* that calls are started on */
    uint64_t             turn;   /* grows when all that was started is done; from 1 */
    k3_table_t           parts, part_weights, part_rows, copies, small, ids, wanted;
    uint64_t             copy_count;
    /* experts: tables by row, tasks */
    k3_table_t      values, scales, out, row_weights, row_factors, tasks;
    uint64_t        row_count, task_count;
    k3_format_t     format; /* of the rows */
    bool            weighted;
    uint16_t       *plain, *activated; /* [rows][L], [rows][I] bf16 */
    k3_table_t      plain_rows, activated_rows;
    k3_coded_rows_t input, middle; /* in the formats of the recipe */
    /* Kernels read and write rows at multiples of 16 bytes. Where records are not such: rows in front of
     * their records, with their headers, and rows out of them. */
    uint8_t        *drafts;
    k3_coded_rows_t gathered;
    bool            scattered; /* some row of the experts lies elsewhere */
    /* Of results that are not bf16, k3_results_at_once: as they leave, and where they arrived; of messages where rows
     * and messages lie, and their bytes. */
    uint8_t   *results;
    k3_table_t result_values, result_scales, result_bytes;
} k3_on_device_t;

/* The host's entries, when nothing that was started reads them any more. */
void *k3_table_open(k3_compute_t *c, k3_table_t *table);
/* The first n entries go to the device; where they are there. `send` takes them from elsewhere. */
const void *k3_table_sent(k3_compute_t *c, k3_table_t *table, uint64_t n);
const void *k3_table_send(k3_compute_t *c, k3_table_t *table, const void *from, uint64_t n);
/* All that was started on the main stream is done. */
k3_status_t k3_tables_finish(k3_compute_t *c, k3_error_t *err);

/* Where scales begin behind values, and the bytes of a row, as kernels read and write them. */
void k3_coded_layout(k3_format_t format, uint64_t width, uint64_t *scales_at, uint64_t *stride);

enum { K3_DRAFT_HEADER = 16 }; /* in front of a draft */

#endif
