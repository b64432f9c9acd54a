/* One time for all ranks, and a common start.
 *
 * Global time is rank 0's clock. Every other rank has a parent: on its node the lowest rank there,
 * and these leaders form a binomial tree. Child and parent compare clocks by exchanges, of which the
 * one with the shortest round trip counts, and a line through the last comparisons gives offset and
 * drift; the lines up to rank 0 are chained. No rank computes while clocks are compared.
 *
 * A common start is a moment of the near future that rank 0 announces and each rank waits for. How
 * near it is adapts to how long the announcement takes. */
#ifndef K3_MPI_SYNC_H
#define K3_MPI_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/base/status.h"
#include "harness/mpi/world.h"

typedef struct k3_sync k3_sync_t;

/* Collective; some ten milliseconds. k3_clock_init comes first. */
k3_status_t k3_sync_open(const k3_world_t *world, k3_sync_t **sync_p, k3_error_t *err);
void        k3_sync_close(k3_sync_t *sync);

/* Collective, outside timed spans: one more comparison for each rank. Times that were read since the
 * comparison before this one are converted best after it: the line then has a point at both ends. */
void k3_sync_refit(k3_sync_t *sync);
bool k3_sync_due(const k3_sync_t *sync); /* the last comparison is some seconds old */

/* Ticks of the own clock in global nanoseconds. `local` for later: k3_sync_global(k3_sync_local()). */
double k3_sync_local(const k3_sync_t *sync, uint64_t ticks);
double k3_sync_global(const k3_sync_t *sync, double local);

/* How well the clocks are known, the same on all ranks. Each the worst of all ranks, in us. */
typedef struct k3_sync_quality {
    double   error;      /* of a global time: half round trips and residuals, summed up to rank 0 */
    double   residual;   /* root mean square of the comparisons' distance from the line */
    double   round_trip; /* of the comparisons */
    double   predicted;  /* how far the last comparison lay from what the line had predicted */
    double   drift_ppm;  /* |drift| against rank 0, in 10^-6 */
    uint64_t fits;       /* comparisons of each rank since the opening */
    uint64_t steps;      /* jumps of a clock, of all ranks together */
} k3_sync_quality_t;

void k3_sync_quality(const k3_sync_t *sync, k3_sync_quality_t *quality);

/* Collective: returns at the common start, or as soon after it as this rank can; how much later in
 * us (0 or more). More than K3_SYNC_LATE_US counts as late. */
#define K3_SYNC_LATE_US 5.0
double k3_sync_start(k3_sync_t *sync);
/* Tells how late the latest rank was: the next starts are announced earlier or later for it. */
void   k3_sync_punctuality(k3_sync_t *sync, double late_us);
double k3_sync_slack_us(const k3_sync_t *sync); /* from announcement to start */

#endif
