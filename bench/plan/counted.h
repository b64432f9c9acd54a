/* Geometry of slab profiles that count arrivals: a record and its signal travel together, how many
 * there will be is announced apart, and nothing relies on order between messages (pplx).
 *
 * The ranks of a DP group share its rows: a slot belongs to (expert, group, index), where the index
 * counts the group's rows for that expert in row order, so that it is known without asking. Results
 * go to every rank of the group, to the slot (expert, row of the group).
 *
 * One block, not two halves. A flag of every rank, set when it is done with a call's results, guards
 * its reuse: no rank sends the next rows before all flags are there.
 *
 *   send      [M] records of the rank's own rows
 *   receive   [L][G][Mg] records
 *   staging   [L][G][Mg] results
 *   results   [E][Mg] slots
 *   signals   [L][G] counts, [L][G] arrivals, [Mg] results arrived of a row, [R] flags; 8 bytes each
 *
 * G groups of S ranks, M rows bound of a rank, Mg = S M. The sizes of the areas are pplx-kernels' own
 * (csrc/all_to_all/internode.cpp), whose bound is Mg; results are sized for f32 there. Where all ranks
 * dispatch all rows each rank is a group. */
#ifndef K3_PLAN_COUNTED_H
#define K3_PLAN_COUNTED_H

#include <stdint.h>

#include "bench/plan/cell.h"

typedef struct k3_counted {
    uint32_t experts, local, ranks;
    uint32_t groups, group_ranks;
    uint64_t m, group_m;
    uint64_t record, record_payload;
    uint64_t record_scales, record_source; /* offsets in the record; the values come first */
    uint64_t result;                       /* bytes as posted; all payload */
    uint64_t result_stride;
    uint64_t send, recv, staging, results; /* offsets of the areas */
    uint64_t counts, arrivals, row_counts, flags;
    uint64_t bytes;
    uint64_t output, outputs; /* bytes of an expert's result, and of all outside the block */
} k3_counted_t;

enum { K3_COUNTED_SIGNAL = 8 }; /* bytes of a signal */

/* Whether the profile is of this kind. */
static inline bool k3_is_counted(const k3_profile_t *p)
{
    return p->completion == K3_DONE_COUNTING;
}

void k3_counted_plan(const k3_cell_t *cell, k3_counted_t *counted);

/* Moves the signals into a block of their own, which the host polls while rows lie on a device; its bytes. */
uint64_t k3_counted_part_words(k3_counted_t *counted);

static inline uint32_t k3_counted_group(const k3_counted_t *c, uint32_t rank)
{
    return rank / c->group_ranks;
}

/* Number of (local expert, group). */
static inline uint64_t k3_counted_slot(const k3_counted_t *c, uint32_t local_expert, uint32_t group)
{
    return (uint64_t)local_expert * c->groups + group;
}

static inline uint64_t k3_counted_record_at(const k3_counted_t *c, uint32_t local_expert,
                                            uint32_t group, uint64_t index)
{
    return c->recv + (k3_counted_slot(c, local_expert, group) * c->group_m + index) * c->record;
}

static inline uint64_t k3_counted_staging_at(const k3_counted_t *c, uint32_t local_expert,
                                             uint32_t group, uint64_t index)
{
    return c->staging +
           (k3_counted_slot(c, local_expert, group) * c->group_m + index) * c->result_stride;
}

static inline uint64_t k3_counted_output_at(const k3_counted_t *c, uint32_t local_expert,
                                            uint32_t group, uint64_t index)
{
    return (k3_counted_slot(c, local_expert, group) * c->group_m + index) * c->output;
}

/* `row` of the group. */
static inline uint64_t k3_counted_result_at(const k3_counted_t *c, uint32_t expert, uint64_t row)
{
    return c->results + ((uint64_t)expert * c->group_m + row) * c->result_stride;
}

#endif
