#include "harness/base/trend.h"

#include "bench/region/sampler.h"

static const double enough_us = 0.2e6, most_us = 1e6;

/* The last round is the second half of all; too few samples say nothing. */
static bool is_steady(const k3_sampler_t *s, const k3_warmup_t *w)
{
    k3_trend_t trend;

    k3_trend(w->samples + w->n / 2, w->n - w->n / 2, s->scratch, &trend);
    return trend.valid && !k3_trend_moves(&trend);
}

/* Where the user says how many iterations are timed, no more than that warm up. */
static uint64_t most(const k3_sampler_t *s)
{
    uint64_t n = s->options->iters;

    return n == 0 || n > K3_WARMUP_MOST ? K3_WARMUP_MOST
           : n < K3_WARMUP_LEAST        ? K3_WARMUP_LEAST
                                        : n;
}

/* All ranks see the same samples and times and come to the same end. `us` is without the first call, which
 * says nothing about the others; the limit of time is for all. */
static bool is_over(const k3_sampler_t *s, k3_warmup_t *w, double first_us, double us)
{
    bool round_complete = (w->n & (w->n - 1)) == 0;

    if (w->n < K3_WARMUP_LEAST) {
        return false;
    }
    w->steady = round_complete && us >= enough_us && is_steady(s, w);
    return w->steady || us + first_us >= most_us || w->n >= most(s);
}

void k3_warm_up(k3_sampler_t *s, k3_warmup_t *w)
{
    double us = 0.0, first_us = 0.0;

    w->n = 0;
    do {
        k3_sampler_iterate(s);
        w->samples[w->n] = k3_sampler_headline(s, NULL);
        *(w->n == 0 ? &first_us : &us) += s->took_us;
        w->n++;
        k3_sampler_progress(s, true, w->n);
        if (s->trapped.status == K3_OK && w->n == 1 && s->options->check != K3_CHECK_OFF) {
            k3_verify_all(&s->verify, s->payload - 1);
        }
    } while (s->trapped.status == K3_OK && !is_over(s, w, first_us, us));
}
