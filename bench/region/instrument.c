/* What the accounts of the queue pairs cost, and the events of a device: iterations without them, beside those
 * with. */
#include "bench/region/sampler.h"
#include "harness/base/ranktest.h"

enum { EACH = 7, FIRST = 4, FIRST_EVENTS = 1, THINNED = 512 };

static k3_qps_t *qps_of(const k3_sampler_t *s)
{
    return s->region->ops->qps(s->region->engine);
}

/* The component control switches its accounts and events itself. */
static bool is_control(const k3_sampler_t *s)
{
    return s->region->cell->component == K3_COMPONENT_CONTROL;
}

static bool has_accounts(const k3_sampler_t *s)
{
    return s->options->accounting && qps_of(s) != NULL && !is_control(s);
}

/* One more iteration that nothing is booked of; its headline. With a beat in front, as the others have: it leaves
 * the caches as it does theirs. */
static double iterate_unbooked(k3_sampler_t *s)
{
    double headline;

    (void)k3_sampler_beat(s);
    k3_region_keep_waits(s->region);
    if (has_accounts(s)) {
        k3_qps_accounting(qps_of(s), false);
    }
    k3_sampler_iterate(s);
    if (has_accounts(s)) {
        k3_qps_accounting(qps_of(s), true);
    }
    k3_region_restore_waits(s->region);
    s->region->unbooked++;
    headline = k3_sampler_headline(s, NULL);
    s->timed_us += s->took_us;
    return headline;
}

void k3_instrument_control(k3_sampler_t *s, uint64_t n, k3_measurement_t *out)
{
    if (has_accounts(s) && n % EACH == FIRST) {
        s->unbooked[out->instrument.off++] = iterate_unbooked(s);
    }
    if (k3_region_times_kernels(s->region) && !is_control(s) && n % EACH == FIRST_EVENTS) {
        k3_region_time_kernels(s->region, false);
        s->unmarked[out->events.off++] = iterate_unbooked(s);
        k3_region_time_kernels(s->region, true);
    }
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

static k3_status_t judge(const k3_sampler_t *s, const double *with, uint64_t n,
                         const double *without, k3_instrument_t *instrument, k3_error_t *err)
{
    double       on[THINNED], off[THINNED];
    k3_shift_t   shift;
    k3_summary_t sum;
    uint64_t     ons = thin(with, n, on), offs = thin(without, instrument->off, off);

    instrument->on = n;
    if (ons == 0 || offs == 0) {
        return K3_OK;
    }
    k3_summarize(without, instrument->off, s->scratch, &sum);
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

/* Iterations without events keep no accounts either: where others do, those without accounts stand beside
 * them. */
k3_status_t k3_instrument_judge(const k3_sampler_t *s, uint64_t n, k3_measurement_t *out,
                                k3_error_t *err)
{
    bool          beside = has_accounts(s);
    const double *with = beside ? s->unbooked : s->headline_max;

    if (judge(s, s->headline_max, n, s->unbooked, &out->instrument, err) != K3_OK) {
        return err->status;
    }
    return judge(s, with, beside ? out->instrument.off : n, s->unmarked, &out->events, err);
}
