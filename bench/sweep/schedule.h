/* The launches of a sweep in order: the first of every variant, then the second of every variant, so that what
 * changes while the sweep lasts falls on all of them alike. Each round begins with another variant, and each launch
 * executes its cells in another order. */
#ifndef K3_SWEEP_SCHEDULE_H
#define K3_SWEEP_SCHEDULE_H

#include <stdbool.h>

#include "bench/sweep/journal.h"
#include "bench/sweep/variants.h"

typedef struct k3_launch_item {
    const k3_variant_t *variant;
    uint64_t            round; /* from 1 */
    char                id[K3_LAUNCH_ID_MAX];
    k3_launch_past_t    past;
} k3_launch_item_t;

/* Of one variant. */
typedef struct k3_variant_tally {
    double seconds; /* sum over the launches that are done */
    size_t timed, open;
} k3_variant_tally_t;

typedef struct k3_schedule {
    const k3_variants_t *variants;
    k3_launch_item_t    *items;
    size_t               count;
    k3_variant_tally_t  *tallies; /* [variants] */
    bool                 retry;   /* what failed or was rejected is open too */
    size_t               open;
} k3_schedule_t;

k3_status_t k3_schedule_create(const k3_variants_t *variants, const k3_journal_t *journal,
                               bool retry, k3_schedule_t *schedule, k3_error_t *err);
void        k3_schedule_free(k3_schedule_t *schedule);

/* Whether it is still to be started. */
bool k3_launch_is_open(const k3_schedule_t *schedule, const k3_launch_item_t *item);

/* What became of a launch that was open. */
void k3_schedule_close(k3_schedule_t *schedule, k3_launch_item_t *item, const k3_launch_end_t *end);

/* A launch that was done is to be made again. */
void k3_schedule_reopen(k3_schedule_t *schedule, k3_launch_item_t *item);

/* Seconds that a launch of the variant should take: the mean of those that are done, else its guess. */
double k3_schedule_expect(const k3_schedule_t *schedule, const k3_variant_t *variant);

/* ... and all that are open, one after another. */
double k3_schedule_remaining(const k3_schedule_t *schedule);

#endif
