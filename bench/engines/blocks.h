/* A processor brings rows to their format and sends them by blocks of a few rows: a block's records are still in
 * the first-level cache when their copies leave, and the next block's rows are fetched meanwhile. For a device
 * all rows are one block. */
#ifndef K3_ENGINES_BLOCKS_H
#define K3_ENGINES_BLOCKS_H

#include "bench/engines/engine.h"

enum { K3_BLOCK_ROWS = 4, K3_BLOCK_LINE = 64 };

/* The lines of [at, at + bytes) are fetched for a read that comes soon. */
static inline void k3_block_expect(const void *at, uint64_t bytes)
{
    uintptr_t line = (uintptr_t)at & ~(uintptr_t)(K3_BLOCK_LINE - 1);

    for (; line < (uintptr_t)at + bytes; line += K3_BLOCK_LINE) {
        __builtin_prefetch((const void *)line, 0, 3);
    }
}

/* One past the last row of the block that begins at `first`; of no rows there is one block of none. */
static inline uint64_t k3_block_end(const k3_compute_t *compute, uint64_t first, uint64_t count)
{
    bool all = compute->device != NULL || count - first < K3_BLOCK_ROWS;

    return all ? count : first + K3_BLOCK_ROWS;
}

/* The row that the next block has at this row's place. */
static inline void k3_block_fetch_ahead(const k3_rows_t *rows, uint32_t width, uint64_t row)
{
    uint64_t next = row + K3_BLOCK_ROWS;

    if (next < rows->count) {
        k3_block_expect(rows->latent + next * width, width * sizeof(*rows->latent));
    }
}

#endif
