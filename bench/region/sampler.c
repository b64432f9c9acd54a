/* One iteration, its headline over the ranks, and what a person sees meanwhile. */
#include "bench/region/sampler.h"

#include <stdio.h>
#include <string.h>

#include "bench/region/progress.h"
#include "harness/mpi/beat.h"

/* A rank that a limit has stopped goes on with the steps of the harness: here all learn of it. */
static void find_trapped(k3_sampler_t *s)
{
    const k3_region_t *r = s->region;
    const k3_error_t  *own = r->limit_s > 0.0 ? r->ops->trapped(r->engine) : NULL;

    if (r->limit_s > 0.0) {
        s->trapped = own != NULL ? *own : (k3_error_t)K3_ERROR_INIT;
        k3_world_agree(r->world, &s->trapped);
    }
}

void k3_sampler_iterate(k3_sampler_t *s)
{
    k3_error_t err = K3_ERROR_INIT;
    uint64_t   begin = k3_clock_now();

    k3_region_fill(s->region, s->payload);
    s->last_gap = k3_clock_us(k3_clock_now() - s->last_end);
    if (k3_region_run(s->region, s->payload, &err) != K3_OK) {
        k3_watchdog_last_words(err.text);
        k3_world_die(s->region->world, &err);
    }
    s->last_end = k3_clock_now();
    s->took_us = k3_clock_us(s->last_end - begin);
    s->payload++;
    find_trapped(s);
}

/* Where ranks share cores it would measure the sharing. */
double k3_sampler_beat(const k3_sampler_t *s)
{
    return s->region->world->oversubscribed ? 0.0 : k3_beat();
}

double k3_sampler_time(const k3_sampler_t *s, int phase)
{
    return k3_clock_us(s->region->spans.ticks[phase]) / s->region->pairs;
}

double k3_sampler_headline(k3_sampler_t *s, double *late_us)
{
    double own[3] = {k3_sampler_time(s, s->headline), s->region->late_us, s->took_us}, all[3];

    MPI_Allreduce(own, all, 3, MPI_DOUBLE, MPI_MAX, s->region->world->comm);
    if (s->region->sync != NULL) {
        k3_sync_punctuality(s->region->sync, all[1]);
    }
    if (late_us != NULL) {
        *late_us = all[1];
    }
    s->took_us = all[2];
    return all[0];
}

/* Not more often than a reader can follow; a summary of many samples takes its time. */
void k3_sampler_progress(k3_sampler_t *s, bool warm_up, uint64_t n)
{
    const double        pause_us = 250e3;
    k3_progress_state_t state = {
        .name = s->region->cell->profile->name, .warm_up = warm_up, .n = n};
    uint64_t now = k3_clock_now();
    char     text[120];

    if (!s->options->progress.shown || s->region->world->rank != 0 ||
        (s->shown_at != 0 && k3_clock_us(now - s->shown_at) < pause_us)) {
        return;
    }
    s->shown_at = now;
    if (!warm_up) {
        k3_summarize(s->headline_max, n, s->scratch, &state.summary);
        state.iters = s->options->iters;
        state.elapsed_us = k3_clock_us(now - s->timed_begin);
        state.timed_us = s->timed_us;
        state.limit_us = s->options->max_seconds * 1e6;
        state.target = s->options->ci_target / 100.0;
    }
    fprintf(stderr, "\r\033[K%s",
            k3_progress_text(&s->options->progress, &state, text, sizeof(text)));
    fflush(stderr);
}
