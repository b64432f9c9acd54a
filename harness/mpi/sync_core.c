/* What the synchronisation does with clocks, whoever they are. */
#include <math.h>

#include "harness/mpi/sync_internal.h"

static const double slack_least = 50e3, slack_most = 1e6; /* ns */

double k3_clock_source_at(const k3_clock_source_t *source, uint64_t ticks)
{
    /* Not in whole nanoseconds: the span of one rank is no shorter than its own time. */
    return (double)(ticks - source->origin) * source->scale->ns_per_tick;
}

double k3_clock_source_now(const k3_clock_source_t *source)
{
    return k3_clock_source_at(source, source->ticks(source->arg));
}

k3_clock_point_t k3_sync_compare(const k3_clock_source_t *own, const k3_sync_peer_t *peer,
                                 unsigned tries)
{
    k3_clock_point_t best = {.round_trip = INFINITY};

    for (unsigned i = 0; i < tries; i++) {
        double before = k3_clock_source_now(own);
        double theirs = peer->ask(peer->arg);
        double after = k3_clock_source_now(own);
        double middle = before + (after - before) / 2.0;

        if (after - before < best.round_trip) {
            best = (k3_clock_point_t){middle, theirs - middle, after - before};
        }
    }
    return best;
}

double k3_sync_wait_until(const k3_clock_source_t *own, double start)
{
    double now = k3_clock_source_now(own);

    while (now < start) {
        own->pause(own->arg);
        now = k3_clock_source_now(own);
    }
    return now - start;
}

double k3_sync_next_slack(double slack, double late)
{
    return late > 0.0 ? fmin(slack * 1.25, slack_most) : fmax(slack * 0.995, slack_least);
}

/* A binomial tree: the lowest bit is cleared. */
int k3_sync_tree_parent(int leader)
{
    return leader == 0 ? -1 : leader & (leader - 1);
}
