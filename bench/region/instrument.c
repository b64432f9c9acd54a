/* What the accounts of the queue pairs cost: iterations without them, beside those with. */
#include "bench/region/sampler.h"
#include "harness/base/ranktest.h"

enum { EACH = 7, FIRST = 4, THINNED = 512 };

static k3_qps_t *qps_of(const k3_sampler_t *s)
{
    return s->region->ops->qps(s->region->engine);
}

bool k3_instrument_due(const k3_sampler_t *s, uint64_t n)
{
    return s->options->accounting && qps_of(s) != NULL && n % EACH == FIRST &&
           s->region->cell->component != K3_COMPONENT_CONTROL;
}

/* With a beat in front, as the others have: it leaves the caches as it does theirs. */
void k3_instrument_iterate(k3_sampler_t *s, k3_instrument_t *instrument)
{
    (void)k3_sampler_beat(s);
    k3_region_keep_waits(s->region);
    k3_qps_accounting(qps_of(s), false);
    k3_sampler_iterate(s);
    k3_qps_accounting(qps_of(s), true);
    k3_region_restore_waits(s->region);
    s->region->unbooked++;
    s->unbooked[instrument->off++] = k3_sampler_headline(s, NULL);
    s->timed_us += s->took_us;
}

/* Evenly spread over the launch: all pairs of thousands of samples are too many. */
static uint64_t thin(const double *values, uint64_t n, double *out)
{
    uint64_t kept = n < THINNED ? n : THINNED;

    for (uint64_t i = 0; i < kept; i++) {
        out[i] = values[i * n / kept];
    }
    return kept;
}

k3_status_t k3_instrument_judge(const k3_sampler_t *s, uint64_t n, k3_instrument_t *instrument,
                                k3_error_t *err)
{
    double       on[THINNED], off[THINNED];
    k3_shift_t   shift;
    k3_summary_t sum;
    uint64_t     ons = thin(s->headline_max, n, on), offs = thin(s->unbooked, instrument->off, off);

    instrument->on = n;
    if (ons == 0 || offs == 0) {
        return K3_OK;
    }
    k3_summarize(s->unbooked, instrument->off, s->scratch, &sum);
    if (k3_hodges_lehmann(off, offs, on, ons, 0.95, &shift, err) != K3_OK || sum.median <= 0.0) {
        return err->status;
    }
    instrument->valid = true;
    instrument->pct = 100.0 * shift.shift / sum.median;
    instrument->has_range = shift.has_range;
    instrument->low_pct = 100.0 * shift.low / sum.median;
    instrument->high_pct = 100.0 * shift.high / sum.median;
    return K3_OK;
}
