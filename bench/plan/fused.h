/* Geometry of the fused family: where each list, row, result and status word lies in the symmetric
 * block. Used by the plan, by set-up and by the engine. Two protocols, told apart by the profile's
 * copy rule. */
#ifndef K3_PLAN_FUSED_H
#define K3_PLAN_FUSED_H

#include <stdint.h>

#include "bench/plan/cell.h"

/* Rows of one expert that are computed, and sent back, at once. */
enum { K3_FUSED_BLOCK = 192 };

/* Rows of each block, the last may be shorter, when `rows` of one expert are cut into as few blocks as
 * hold them: of nearly equal length, so that equal rows meet the same code of the GEMM. */
static inline uint64_t k3_fused_block_rows(uint64_t rows)
{
    uint64_t blocks = rows == 0 ? 1 : (rows + K3_FUSED_BLOCK - 1) / K3_FUSED_BLOCK;

    return (rows + blocks - 1) / blocks;
}

/* What a row and a result are, the same for both protocols. */
typedef struct k3_fused_rows {
    uint32_t experts, local, ranks, topk, width;
    uint64_t m; /* rows bound of a source */
    uint64_t values, scales;
    uint64_t record, record_payload;
    uint64_t result, result_payload;
} k3_fused_rows_t;

/* The owner reads. Sizes: DeepGEMM csrc/apis/mega.hpp, layout/mega_moe.cuh. The rows bound is rounded
 * up to 384, the smallest number of rows that all of upstream's block sizes divide. In the block lie,
 * one after another, each at a multiple of 64 bytes:
 *
 *   workspace  32 bytes of barrier words; [E] counts sent; [R][L] counts received; [L] their sums;
 *              16 bytes for each block of the ring; [L][R][R M] list of (row, selection); 12 bytes
 *              (source, row, selection) for each row of the pool
 *   input      what the owners read: [M] values, [M] scales, [M][K] ids (8 bytes), [M][K] weights
 *   ring 1     rows that were read: values, scales, weight; a ring, rows of all experts one after
 *              another
 *   ring 2     what upstream keeps between its two GEMMs, [rows of the ring] of width I in the format
 *              of the rows; not used by this program's experts, which have work space of their own
 *   combine    [K][M] results
 *
 * The pool holds what can arrive at most, with each expert's rows padded to upstream's largest block
 * of 192: R M min(K, L) + 191 L, rounded up to 384. The ring holds 768 rows (decided: four of the
 * largest blocks), its blocks are of 8 rows, upstream's smallest. */
typedef struct k3_pull {
    k3_fused_rows_t row;
    uint64_t        m;    /* rounded up */
    uint64_t        pool; /* rows */
    uint64_t        ring; /* rows */
    uint64_t        workspace_bytes, input_bytes, ring1_bytes, ring2_bytes, combine_bytes;
    /* offsets in the block */
    uint64_t barrier, sent, received, sums, list, source;
    uint64_t values, scales, ids, weights;
    uint64_t ring_values, ring_scales, ring_weights;
    uint64_t combine;
    uint64_t bytes;  /* of the block; K3_TOO_BIG when it does not fit in 64 bits */
    uint64_t engine; /* other memory */
} k3_pull_t;

enum { K3_PULL_RING = 768, K3_PULL_UNIT = 384, K3_PULL_BLOCK_LEAST = 8 };

void k3_pull_plan(const k3_cell_t *cell, k3_pull_t *pull);

/* One word on each rank counts a barrier's arrivals up, the next time down again; two take turns. */
static inline uint64_t k3_pull_barrier_at(const k3_pull_t *p, uint32_t turn)
{
    return p->barrier + 4 * (uint64_t)(turn & 1);
}

static inline uint64_t k3_pull_received_at(const k3_pull_t *p, uint32_t source, uint32_t local)
{
    return p->received + ((uint64_t)source * p->row.local + local) * 8;
}

static inline uint64_t k3_pull_sum_at(const k3_pull_t *p, uint32_t local)
{
    return p->sums + (uint64_t)local * 8;
}

static inline uint64_t k3_pull_list_at(const k3_pull_t *p, uint32_t local, uint32_t source,
                                       uint64_t index)
{
    return p->list + (((uint64_t)local * p->row.ranks + source) * p->row.ranks * p->m + index) * 4;
}

static inline uint64_t k3_pull_result_at(const k3_pull_t *p, uint32_t k, uint64_t row)
{
    return p->combine + (k * p->m + row) * p->row.result;
}

/* The source stores into a window of the owner. Sizes: sgl-kernel-npu python/deep_ep. The block is
 * two halves of (M R min(L, K) W 2 + 2 MiB), one for dispatch and one for combine. A half begins with
 * the status area, one block for each (source, expert), behind it lie the rows: M min(L, K) of each
 * source, those of its first local expert first (what the window is sized for is less than a slot for
 * each (source, expert, row)). */
typedef struct k3_window {
    k3_fused_rows_t row;
    uint64_t        rows_from; /* of one source: M min(L, K) */
    uint64_t        slot;      /* bytes of a row's place: record or result */
    uint64_t        result_slot;
    uint64_t        status_stride, status_bytes; /* of an area */
    uint64_t        half;                        /* bytes */
    uint64_t        bytes, engine;
} k3_window_t;

void k3_window_plan(const k3_cell_t *cell, k3_window_t *window);

static inline uint64_t k3_window_status_at(const k3_window_t *w, unsigned half, uint32_t rank,
                                           uint32_t local)
{
    return half * w->half + ((uint64_t)rank * w->row.local + local) * w->status_stride;
}

/* Of the rows that `rank` stores here (half 0), of the results that it sends back (half 1). */
static inline uint64_t k3_window_row_at(const k3_window_t *w, unsigned half, uint32_t rank,
                                        uint64_t index)
{
    return half * w->half + w->status_bytes +
           ((uint64_t)rank * w->rows_from + index) * (half == 0 ? w->slot : w->result_slot);
}

/* Block and other memory of a fused cell. */
void k3_fused_memory(const k3_cell_t *cell, uint64_t *block, uint64_t *engine);

#endif
