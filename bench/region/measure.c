#include "bench/region/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/region/collect.h"
#include "bench/region/verify.h"
#include "harness/base/memory.h"

const char *const k3_check_mode_names[] = {"off", "ends", "every", NULL};

enum {
    WARMUP_MIN = 2,
    WARMUP_MAX = 50,
    ITERATIONS_MIN = 10,
    ITERATIONS_MAX = 20000 /* when a target decides */
};

static const double warmup_seconds = 0.2;

typedef struct sampler {
    k3_region_t                *region;
    const k3_measure_options_t *options;
    k3_verify_t                 verify;
    k3_phase_t                  headline;
    uint64_t                    payload, capacity;
    double                     *local[K3_PHASE_COUNT]; /* [capacity] this rank's times */
    k3_overlap_us_t            *overlap;               /* [capacity]; NULL: nothing overlaps */
    double                     *headline_max, *scratch;
    double                      timed_us;
    k3_error_t                  trapped;
} sampler_t;

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
    default:
        return K3_PHASE_PAIR;
    }
}

static void sampler_free(sampler_t *s)
{
    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        k3_free(s->local[p]);
    }
    k3_free(s->overlap);
    k3_free(s->headline_max);
    k3_free(s->scratch);
    k3_verify_close(&s->verify);
}

static k3_status_t sampler_open(sampler_t *s, k3_error_t *err)
{
    s->capacity = s->options->iters != 0 ? s->options->iters : ITERATIONS_MAX;
    s->headline = headline_of(s->region->cell->component);
    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        if (k3_alloc("samples", s->capacity, sizeof(double), &s->local[p], err) != K3_OK) {
            return err->status;
        }
    }
    if (k3_alloc("samples", s->capacity, sizeof(double), &s->headline_max, err) != K3_OK ||
        k3_alloc("samples", s->capacity, sizeof(double), &s->scratch, err) != K3_OK) {
        return err->status;
    }
    if (s->region->ops->fused != NULL &&
        k3_alloc("samples", s->capacity, sizeof(*s->overlap), &s->overlap, err) != K3_OK) {
        return err->status;
    }
    return k3_verify_open(s->region, s->options->check != K3_CHECK_OFF, &s->verify, err);
}

/* A rank that a limit has stopped goes on with the steps of the harness: here all learn of it. */
static void find_trapped(sampler_t *s)
{
    const k3_region_t *r = s->region;
    const k3_error_t  *own = r->limit_s > 0.0 ? r->ops->trapped(r->engine) : NULL;

    if (r->limit_s > 0.0) {
        s->trapped = own != NULL ? *own : (k3_error_t)K3_ERROR_INIT;
        k3_world_agree(r->world, &s->trapped);
    }
}

/* One iteration with fresh inputs. Another rank waits inside it, so a fault cannot be agreed on. */
static void iterate(sampler_t *s)
{
    k3_error_t err = K3_ERROR_INIT;

    k3_region_fill(s->region, s->payload);
    if (k3_region_run(s->region, s->payload, &err) != K3_OK) {
        k3_world_die(s->region->world, &err);
    }
    s->payload++;
    find_trapped(s);
}

static bool rank0_says(const sampler_t *s, bool yes)
{
    int answer = yes;

    MPI_Bcast(&answer, 1, MPI_INT, 0, s->region->world->comm);
    return answer != 0;
}

/* --- warm-up --------------------------------------------------------------------------------- */

static uint64_t warm_up(sampler_t *s)
{
    double us = 0.0;

    do {
        iterate(s);
        us += k3_clock_us(s->region->spans.ticks[s->headline]);
        if (s->trapped.status == K3_OK && s->payload == 1 && s->options->check != K3_CHECK_OFF) {
            k3_verify_all(&s->verify, s->payload - 1);
        }
    } while (s->trapped.status == K3_OK &&
             rank0_says(s, s->payload < WARMUP_MIN ||
                               (us < warmup_seconds * 1e6 && s->payload < WARMUP_MAX)));
    return s->payload;
}

static void forget_warm_up(sampler_t *s)
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

static bool target_reached(sampler_t *s, uint64_t n)
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
static bool enough(sampler_t *s, uint64_t n, uint64_t *next_look)
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

static void store(sampler_t *s, uint64_t n)
{
    const k3_spans_t *spans = &s->region->spans;
    double            own = k3_clock_us(spans->ticks[s->headline]);

    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        s->local[p][n] = spans->used[p] ? k3_clock_us(spans->ticks[p]) : -1.0;
    }
    if (s->overlap != NULL) {
        s->overlap[n] = (k3_overlap_us_t){
            .dispatch = k3_clock_us(spans->overlap.dispatch),
            .expert = k3_clock_us(spans->ticks[K3_PHASE_EXPERT_MLP]),
            .combine = k3_clock_us(spans->overlap.combine),
            .span = k3_clock_us(spans->overlap.span),
        };
    }
    MPI_Allreduce(&own, &s->headline_max[n], 1, MPI_DOUBLE, MPI_MAX, s->region->world->comm);
    s->timed_us += s->headline_max[n];
}

static void show_progress(const sampler_t *s, uint64_t n)
{
    if (s->options->progress && s->region->world->rank == 0 && isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[K%s  iteration %llu  last %.1f us", s->region->cell->profile->name,
                (unsigned long long)n, s->headline_max[n - 1]);
        fflush(stderr);
    }
}

/* In mode `ends` one row of the iterations 1, 2, 4, 8, ... is checked too, another one each time.
 */
static void check_iteration(sampler_t *s, uint64_t n, bool last)
{
    if (s->options->check == K3_CHECK_EVERY || (s->options->check == K3_CHECK_ENDS && last)) {
        k3_verify_all(&s->verify, s->payload - 1);
    } else if (s->options->check == K3_CHECK_ENDS && (n & (n - 1)) == 0) {
        k3_verify_one(&s->verify, s->payload - 1, n);
    }
}

static uint64_t sample(sampler_t *s, k3_measurement_t *out)
{
    uint64_t n = 0, next_look = ITERATIONS_MIN;
    bool     last;

    do {
        uint64_t calls = k3_alloc_calls();

        iterate(s);
        out->timed_allocations += k3_alloc_calls() - calls;
        if (s->trapped.status != K3_OK) {
            break;
        }
        store(s, n++);
        show_progress(s, n);
        last = rank0_says(s, enough(s, n, &next_look));
        check_iteration(s, n, last);
    } while (!last);
    if (s->options->progress && s->region->world->rank == 0 && isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[K");
    }
    return n;
}

k3_status_t k3_measure(k3_region_t *region, const k3_measure_options_t *options,
                       k3_measurement_t *out, k3_error_t *err)
{
    sampler_t s = {.region = region, .options = options, .trapped = K3_ERROR_INIT};

    memset(out, 0, sizeof(*out));
    sampler_open(&s, err);
    if (k3_world_agree(region->world, err) == K3_OK) {
        out->limit_s = region->limit_s;
        out->warmup = warm_up(&s);
        if (s.trapped.status == K3_OK) {
            forget_warm_up(&s);
            region->timed_from = s.payload + 1;
            out->iterations = sample(&s, out);
        }
        out->trapped = s.trapped;
    }
    if (err->status == K3_OK && s.trapped.status == K3_OK) {
        out->checked = options->check != K3_CHECK_OFF;
        k3_watchdog_tick("gathering the results", 0);
        k3_verify_merge(&s.verify, &out->check);
        k3_collect(region, s.local, s.overlap, out, err);
    }
    sampler_free(&s);
    return err->status;
}

void k3_measurement_free(k3_measurement_t *m)
{
    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        k3_free(m->phase[p].samples);
    }
    k3_free(m->masks);
    k3_free(m->lanes);
    k3_free(m->waits);
    memset(m, 0, sizeof(*m));
}
