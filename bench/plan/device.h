/* What rows on a device need beyond what they need in the host. */
#ifndef K3_PLAN_DEVICE_H
#define K3_PLAN_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/plan/cell.h"

/* Kernels read and write rows at multiples of 16 bytes. Whether the rows in the records of this cell are such;
 * if not, they are copied in front of their records and out of them. */
bool k3_rows_aligned(const k3_cell_t *cell);

/* Results in other formats than bf16 that kernels encode or decode together: all that leave where the host waits for
 * their lengths, else some hundred. Sums of such that a two-hop engine starts together. */
enum { K3_CODED_SUMS = 64 };
uint64_t k3_results_at_once(const k3_cell_t *cell, uint32_t rank);

/* The most metadata of a record, either way: what the host writes and reads of it. */
uint64_t k3_meta_bytes(const k3_cell_t *cell);

#endif
