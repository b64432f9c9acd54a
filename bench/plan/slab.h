/* Geometry of the slab family: where each slot and signal lies in the symmetric block, which QP an
 * expert's rows take. Used by the plan, by set-up and by the engine.
 *
 * The block is two equal halves that alternate with every dispatch and every combine. A half is a
 * send area, a receive area and the signal words:
 *
 *   send     dispatch: one record for each row [M]; combine: one slot for each row received
 *            [L][R][M]
 *   receive  dispatch: [L][R][M] records, slot (local expert, source, running index); combine:
 *            [E][M] slots (expert, row of the origin)
 *   signals  E words. dispatch: [L][R] counts; combine: [E] flags
 *
 * Sizes: DeepEP csrc/legacy/config.hpp (LowLatencyLayout), Mooncake
 * mooncake-ep/include/mooncake_ep_buffer.h.
 *
 * Profiles that count arrivals (pplx) have another block: bench/plan/counted.h. */
#ifndef K3_PLAN_SLAB_H
#define K3_PLAN_SLAB_H

#include <stdint.h>

#include "bench/plan/cell.h"

typedef struct k3_slab {
    uint32_t experts, local, ranks;
    uint64_t m;      /* rows bound of a source */
    uint64_t record; /* bytes of a dispatched record: what is posted, and the slot's stride */
    uint64_t record_payload; /* values and scales in it */
    uint64_t record_values;  /* offset of the values in the record (the header's size) */
    uint64_t record_scales;  /* offset of the scales */
    uint64_t result;         /* bytes of a returned row as posted */
    uint64_t result_payload;
    uint64_t result_stride;
    uint64_t
        result_spare; /* so many bytes of a returned row may be missing, values that compress */
    uint64_t output;  /* bytes of an expert's result, bf16 */
    uint64_t signal_bytes;                /* of one word */
    uint64_t send[2], recv[2], signal[2]; /* offsets of the areas in the block */
    uint64_t bytes;    /* of the block; K3_TOO_BIG when it does not fit in 64 bits */
    uint32_t qps;      /* active per peer */
    uint32_t channels; /* of the proxies, between expert and QP; 0: none */
    uint64_t results;  /* bytes of the experts' results outside the block; 0: zero copy */
    uint64_t decoded;  /* bytes of one row's results after decoding; 0: they come as bf16 */
} k3_slab_t;

void k3_slab_plan(const k3_cell_t *cell, k3_slab_t *slab);

/* Moves the signal words into a block of their own, which the host polls while rows lie on a device; its
 * bytes. */
uint64_t k3_slab_part_words(k3_slab_t *slab);

static inline uint32_t k3_slab_qp(const k3_slab_t *slab, uint32_t local_expert)
{
    uint32_t lane = slab->channels > 0 ? local_expert % slab->channels : local_expert;

    return lane % slab->qps;
}

/* Lanes that carry something: an expert at least. */
static inline uint32_t k3_slab_lanes(const k3_slab_t *slab)
{
    uint32_t lanes =
        slab->channels > 0 && slab->channels < slab->local ? slab->channels : slab->local;

    return slab->qps < lanes ? slab->qps : lanes;
}

/* Offsets inside an area. */
static inline uint64_t k3_slab_record_at(const k3_slab_t *slab, uint32_t local_expert,
                                         uint32_t source, uint64_t index)
{
    return (((uint64_t)local_expert * slab->ranks + source) * slab->m + index) * slab->record;
}

static inline uint64_t k3_slab_staging_at(const k3_slab_t *slab, uint32_t local_expert,
                                          uint32_t source, uint64_t index)
{
    return (((uint64_t)local_expert * slab->ranks + source) * slab->m + index) *
           slab->result_stride;
}

/* In the experts' results outside the block, which are bf16 rows without gaps. */
static inline uint64_t k3_slab_output_at(const k3_slab_t *slab, uint32_t local_expert,
                                         uint32_t source, uint64_t index)
{
    return (((uint64_t)local_expert * slab->ranks + source) * slab->m + index) * slab->output;
}

static inline uint64_t k3_slab_result_at(const k3_slab_t *slab, uint32_t expert, uint64_t row)
{
    return ((uint64_t)expert * slab->m + row) * slab->result_stride;
}

static inline uint64_t k3_slab_count_at(const k3_slab_t *slab, uint32_t local_expert,
                                        uint32_t source)
{
    return ((uint64_t)local_expert * slab->ranks + source) * slab->signal_bytes;
}

static inline uint64_t k3_slab_flag_at(const k3_slab_t *slab, uint32_t expert)
{
    return expert * slab->signal_bytes;
}

#endif
