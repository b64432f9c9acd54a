#include "bench/region/measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/region/collect.h"
#include "bench/region/dump.h"
#include "bench/region/sampler.h"
#include "harness/base/memory.h"
#include "harness/mpi/beat.h"

const char *const k3_check_mode_names[] = {"off", "ends", "every", NULL};

enum {
    ITERATIONS_MIN = 10,
    ITERATIONS_MAX = 20000 /* when a target decides */
};

static k3_phase_t headline_of(k3_component_t component)
{
    switch (component) {
    case K3_COMPONENT_REGION:
        return K3_PHASE_REGION;
    case K3_COMPONENT_DISPATCH:
    case K3_COMPONENT_CONTROL:
        return K3_PHASE_DISPATCH;
    case K3_COMPONENT_COMBINE:
        return K3_PHASE_COMBINE;
    case K3_COMPONENT_EXPERTS:
        return K3_PHASE_EXPERT_MLP;
    case K3_COMPONENT_CHAIN:
        return K3_PHASE_CHAIN;
    default:
        return K3_PHASE_PAIR;
    }
}

static void sampler_free(k3_sampler_t *s)
{
    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        k3_free(s->local[p]);
    }
    k3_free(s->overlap);
    k3_free(s->unbooked);
    k3_free(s->unmarked);
    k3_free(s->gap);
    k3_free(s->beat);
    k3_free(s->headline_max);
    k3_free(s->scratch);
    k3_timeline_close(&s->timeline);
    k3_spans_global_close(&s->global);
    k3_verify_close(&s->verify);
}

/* Room for n samples. Large arrays come in huge pages: the first one of each is written here, or all of them would be
 * brought in between the first iterations (a hundred megabytes a rank). */
static k3_status_t open_samples(const char *what, uint64_t n, double **samples_p, k3_error_t *err)
{
    if (k3_alloc(what, n, sizeof(double), samples_p, err) == K3_OK) {
        (*samples_p)[0] = 0.0;
    }
    return err->status;
}

static k3_status_t sampler_open(k3_sampler_t *s, k3_measurement_t *out, k3_error_t *err)
{
    uint64_t n = s->options->iters != 0 ? s->options->iters : ITERATIONS_MAX;

    s->capacity = n;
    s->headline = headline_of(s->region->cell->component);
    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        if (open_samples("samples", n, &s->local[p], err) != K3_OK) {
            return err->status;
        }
    }
    n = n > K3_WARMUP_MOST ? n : K3_WARMUP_MOST;
    if (open_samples("samples", n, &s->headline_max, err) != K3_OK ||
        open_samples("samples", 2 * n, &s->scratch, err) != K3_OK ||
        open_samples("gaps", n, &s->gap, err) != K3_OK ||
        open_samples("beats", n, &s->beat, err) != K3_OK ||
        open_samples("samples", n, &s->unbooked, err) != K3_OK ||
        open_samples("samples", n, &s->unmarked, err) != K3_OK ||
        k3_alloc("late starts", n, sizeof(uint32_t), &out->starts.late_at, err) != K3_OK ||
        k3_alloc("warm-up samples", K3_WARMUP_MOST, sizeof(double), &out->warmup.samples, err) !=
            K3_OK ||
        k3_spans_global_open(&s->global, s->options->sync, s->region, s->capacity, err) != K3_OK ||
        k3_timeline_open(&s->timeline, s->options->sync, err) != K3_OK) {
        return err->status;
    }
    if (s->region->ops->fused != NULL &&
        k3_alloc("samples", s->capacity, sizeof(*s->overlap), &s->overlap, err) != K3_OK) {
        return err->status;
    }
    return k3_verify_open(s->region, s->options->check != K3_CHECK_OFF, &s->verify, err);
}

static void wipe_progress(const k3_sampler_t *s)
{
    if (s->shown_at != 0) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
    }
}

static void forget_warm_up(k3_sampler_t *s)
{
    k3_region_t *r = s->region;
    k3_qps_t    *qps = r->ops->qps(r->engine);

    if (qps != NULL) {
        k3_qps_reset(qps);
    }
    for (int t = 0; t < K3_TRAFFIC_COUNT; t++) {
        memset(r->waits[t], 0, r->cell->layout.tp * sizeof(k3_wait_t));
    }
}

/* --- timed iterations ------------------------------------------------------------------------ */

static bool target_reached(k3_sampler_t *s, uint64_t n)
{
    k3_summary_t sum;

    if (n < ITERATIONS_MIN) {
        return false;
    }
    k3_summarize(s->headline_max, n, s->scratch, &sum);
    return sum.has_ci &&
           (sum.ci_high - sum.ci_low) / 2.0 <= s->options->ci_target / 100.0 * sum.median;
}

/* Rank 0 decides for all. The interval is looked at when the count has grown by an eighth, so that
 * looking stays cheap. */
static bool enough(k3_sampler_t *s, uint64_t n, uint64_t *next_look)
{
    if (n >= s->capacity) {
        return true;
    }
    if (s->options->iters != 0) {
        return false;
    }
    if (s->timed_us >= s->options->max_seconds * 1e6) {
        return true;
    }
    if (n < *next_look) {
        return false;
    }
    *next_look = n + (n / 8 > 5 ? n / 8 : 5);
    return target_reached(s, n);
}

/* Compares the clocks; times of iterations up to n become global. */
static void place(k3_sampler_t *s, uint64_t n)
{
    k3_spans_global_place(&s->global, n);
    k3_timeline_place(&s->timeline);
}

static void store(k3_sampler_t *s, uint64_t n, k3_starts_t *starts)
{
    const k3_spans_t *spans = &s->region->spans;
    double            late;

    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        s->local[p][n] = spans->used[p] ? k3_sampler_time(s, p) : -1.0;
    }
    k3_spans_global_note(&s->global, spans, n);
    k3_timeline_note(&s->timeline, spans, n);
    s->headline_max[n] = k3_sampler_headline(s, &late);
    if (s->overlap != NULL) {
        s->overlap[n] = (k3_overlap_us_t){
            .dispatch = k3_clock_us(spans->overlap.dispatch),
            .expert = k3_clock_us(spans->ticks[K3_PHASE_EXPERT_MLP]),
            .combine = k3_clock_us(spans->overlap.combine),
            .span = k3_clock_us(spans->overlap.span),
        };
    }
    s->timed_us += s->took_us;
    s->gap[n] = s->last_gap;
    if (s->region->sync != NULL && late > K3_SYNC_LATE_US) {
        starts->late_at[starts->late++] = (uint32_t)n;
        starts->late_max_us = fmax(starts->late_max_us, late);
    }
}

/* In mode `ends` one row of the iterations 1, 2, 4, 8, ... is checked too, another one each time.
 */
static void check_iteration(k3_sampler_t *s, uint64_t n, bool last)
{
    if (s->options->check == K3_CHECK_EVERY || (s->options->check == K3_CHECK_ENDS && last)) {
        k3_verify_all(&s->verify, s->payload - 1);
    } else if (s->options->check == K3_CHECK_ENDS && (n & (n - 1)) == 0) {
        k3_verify_one(&s->verify, s->payload - 1, n);
    }
}

/* Rank 0 says what comes next, for all. */
enum { GO_ON, COMPARE_CLOCKS, STOP };

static int what_next(k3_sampler_t *s, uint64_t n, uint64_t *next_look)
{
    int next = GO_ON;

    if (s->region->world->rank == 0) {
        next = enough(s, n, next_look)                                     ? STOP
               : s->options->sync != NULL && k3_sync_due(s->options->sync) ? COMPARE_CLOCKS
                                                                           : GO_ON;
    }
    MPI_Bcast(&next, 1, MPI_INT, 0, s->region->world->comm);
    return next;
}

static uint64_t sample(k3_sampler_t *s, k3_measurement_t *out)
{
    uint64_t n = 0, next_look = ITERATIONS_MIN;
    int      next;

    s->timed_begin = k3_clock_now();
    do {
        uint64_t calls;

        k3_instrument_control(s, n, out);
        s->beat[n] = k3_sampler_beat(s);
        calls = k3_alloc_calls();
        k3_sampler_iterate(s);
        out->timed_allocations += k3_alloc_calls() - calls;
        s->region->booked[k3_region_step(s->region, s->payload - 1)]++;
        if (s->trapped.status != K3_OK) {
            break;
        }
        store(s, n++, &out->starts);
        k3_sampler_progress(s, false, n);
        next = what_next(s, n, &next_look);
        check_iteration(s, n, next == STOP);
        if (next == COMPARE_CLOCKS) {
            place(s, n);
        }
    } while (next != STOP);
    return n;
}

/* --- results --------------------------------------------------------------------------------- */

static void describe_starts(const k3_sampler_t *s, k3_starts_t *starts)
{
    const char *why = s->options->start_reason;

    snprintf(starts->why, sizeof(starts->why), "%s", why != NULL ? why : "asked for");
    starts->common = s->region->sync != NULL;
    starts->slack_us = starts->common ? k3_sync_slack_us(s->region->sync) : 0.0;
    starts->compared = s->options->sync != NULL;
    if (starts->compared) {
        k3_sync_quality(s->options->sync, &starts->clock);
        starts->clock.error = s->global.error_us; /* the worst while this cell was measured */
    }
}

/* Each sample against the beat of its own iteration: the speed changes while a cell is measured. */
static void judge_host(k3_sampler_t *s, uint64_t n, k3_host_speed_t *host)
{
    const k3_world_t *w = s->region->world;
    int               sharing = w->oversubscribed;
    double           *mean = s->unbooked; /* read by now */

    MPI_Allreduce(MPI_IN_PLACE, &sharing, 1, MPI_INT, MPI_MAX, w->comm);
    MPI_Reduce(s->beat, mean, (int)n, MPI_DOUBLE, MPI_SUM, 0, w->comm);
    if (w->rank != 0 || sharing || n == 0) {
        return;
    }
    host->valid = true;
    for (uint64_t i = 0; i < n; i++) {
        mean[i] /= w->size;
        s->beat[i] = s->headline_max[i] * K3_BEAT_NOMINAL_US / mean[i];
    }
    k3_summarize(mean, n, s->scratch, &host->beat);
    k3_summarize(s->beat, n, s->scratch, &host->scaled);
}

static k3_status_t judge(k3_sampler_t *s, k3_measurement_t *out, k3_error_t *err)
{
    uint64_t n = out->iterations;

    out->headline = s->headline;
    describe_starts(s, &out->starts);
    k3_trend(s->headline_max, n, s->scratch, &out->trend);
    if (s->global.stepped) {
        snprintf(out->timeline.reason, sizeof(out->timeline.reason), "a clock jumped");
    } else {
        k3_timeline_collect(&s->timeline, s->region->world, s->headline_max, n, s->headline,
                            s->scratch, &out->timeline, err);
    }
    k3_idle_judge(s->headline_max, s->gap, n, s->scratch, &out->idle);
    k3_instrument_judge(s, n, out, err);
    judge_host(s, n, &out->host);
    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        if (k3_measurement_judges(out, p)) {
            /* local[] was read by k3_collect: its room is free. */
            k3_spans_global_collect(&s->global, s->region->world, (k3_phase_t)p, n,
                                    s->region->pairs, s->local[p], s->scratch, &out->phase[p].span);
        }
    }
    return k3_world_agree(s->region->world, err);
}

/* One more iteration, after all that was measured: what the experts get is kept, all rows are checked, and
 * its values are written. */
static k3_status_t dump(k3_sampler_t *s, k3_error_t *err)
{
    k3_region_t *r = s->region;
    k3_capture_t capture;

    k3_capture_open(r, &capture, err);
    if (k3_world_agree(r->world, err) == K3_OK) {
        r->capture = &capture;
        k3_sampler_iterate(s);
        r->capture = NULL;
        k3_verify_all(&s->verify, s->payload - 1);
        k3_dump_write(&s->verify, &capture, s->payload - 1, s->options->dump, err);
    }
    k3_capture_close(&capture);
    return err->status;
}

k3_status_t k3_measure(k3_region_t *region, const k3_measure_options_t *options,
                       k3_measurement_t *out, k3_error_t *err)
{
    k3_sampler_t s = {.region = region, .options = options, .trapped = K3_ERROR_INIT};

    memset(out, 0, sizeof(*out));
    sampler_open(&s, out, err);
    if (k3_world_agree(region->world, err) == K3_OK) {
        out->limit_s = region->limit_s;
        k3_warm_up(&s, &out->warmup);
        if (s.trapped.status == K3_OK) {
            forget_warm_up(&s);
            place(&s, 0);
            region->timed_from = s.payload + 1;
            out->iterations = sample(&s, out);
            place(&s, out->iterations);
        }
        out->trapped = s.trapped;
    }
    if (err->status == K3_OK && s.trapped.status == K3_OK) {
        out->checked = options->check != K3_CHECK_OFF;
        k3_watchdog_tick("gathering the results", 0);
        if (k3_collect(region, s.local, s.overlap, out, err) == K3_OK &&
            judge(&s, out, err) == K3_OK && options->dump != NULL) {
            dump(&s, err);
        }
        if (err->status == K3_OK) {
            k3_verify_merge(&s.verify, &out->check);
        }
    }
    wipe_progress(&s);
    sampler_free(&s);
    if (err->status != K3_OK) {
        k3_measurement_free(out);
    }
    return err->status;
}

bool k3_measurement_judges(const k3_measurement_t *m, int phase)
{
    return phase >= K3_PHASE_DISPATCH || phase == (int)m->headline;
}

void k3_measurement_free(k3_measurement_t *m)
{
    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        k3_free(m->phase[p].samples);
    }
    k3_free(m->timeline.row);
    k3_free(m->masks);
    k3_free(m->transport);
    k3_free(m->lanes);
    k3_free(m->waits);
    k3_free(m->starts.late_at);
    k3_free(m->warmup.samples);
    memset(m, 0, sizeof(*m));
}
