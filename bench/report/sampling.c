#include "bench/report/sampling.h"

#include "bench/report/fields.h"
#include "bench/report/values.h"
#include "harness/record/json_values.h"

static json_t *record_warmup(const k3_warmup_t *w)
{
    json_t *o = json_object(), *samples = json_array();

    k3_set_count(o, "n", w->n);
    if (w->n > 0) {
        k3_set_number(o, "first_call_us", w->samples[0]);
    } else {
        k3_set_null(o, "first_call_us", "no warm-up");
    }
    k3_set_text(o, "ended", w->steady ? "steady" : "limit");
    for (uint64_t i = 0; i < w->n; i++) {
        json_array_append_new(samples, k3_json_number(w->samples[i]));
    }
    json_object_set_new(o, "samples", samples);
    return o;
}

/* --- starts and clocks ----------------------------------------------------------------------- */

static json_t *record_clock(const k3_sync_quality_t *q)
{
    json_t *o = json_object();

    k3_set_number(o, "error_us", q->error);
    k3_set_number(o, "residual_us", q->residual);
    k3_set_number(o, "round_trip_us", q->round_trip);
    k3_set_number(o, "predicted_off_us", q->predicted);
    k3_set_number(o, "drift_ppm", q->drift_ppm);
    k3_set_count(o, "comparisons", q->fits);
    k3_set_count(o, "steps", q->steps);
    return o;
}

static json_t *record_late(const k3_starts_t *starts)
{
    json_t *late = json_array();

    for (uint64_t i = 0; i < starts->late; i++) {
        json_array_append_new(late, json_integer(starts->late_at[i]));
    }
    return late;
}

static json_t *record_sync(const k3_starts_t *starts)
{
    static const char *const of_rounds[] = {"late", "late_max_us", "late_iterations", "slack_us"};
    json_t                  *o = json_object();

    k3_set_text(o, "method", starts->common ? "round" : "barrier");
    k3_set_text(o, "why", starts->why[0] != '\0' ? starts->why : "asked for");
    for (size_t i = 0; i < sizeof(of_rounds) / sizeof(of_rounds[0]) && !starts->common; i++) {
        k3_set_null(o, of_rounds[i], "a barrier has no moment that can be missed");
    }
    if (starts->common) {
        k3_set_count(o, "late", starts->late);
        k3_set_number(o, "late_max_us", starts->late_max_us);
        json_object_set_new(o, "late_iterations", record_late(starts));
        k3_set_number(o, "slack_us", starts->slack_us);
    }
    if (starts->compared) {
        json_object_set_new(o, "clock", record_clock(&starts->clock));
    } else {
        k3_set_null(o, "clock", "the clocks were not compared");
    }
    return o;
}

/* --- doubts ---------------------------------------------------------------------------------- */

static json_t *record_trend(const k3_trend_t *t)
{
    json_t *o = json_object();

    k3_set_number(o, "halves_pct", 100.0 * t->halves);
    k3_set_number(o, "slope_pct", 100.0 * t->slope);
    k3_set_number(o, "p", t->p);
    k3_set_bool(o, "stationary", !k3_trend_moves(t));
    return o;
}

static json_t *record_idle(const k3_idle_t *idle)
{
    json_t *o = json_object();

    k3_set_number(o, "median_us", idle->median_us);
    k3_set_number(o, "max_us", idle->max_us);
    k3_set_count(o, "long", idle->long_gaps);
    if (idle->has_difference) {
        k3_set_number(o, "difference_pct", idle->pct);
    } else {
        k3_set_null(o, "difference_pct", "no gap stands out");
    }
    return o;
}

static json_t *record_host(const k3_host_speed_t *h)
{
    json_t *o = json_object();

    k3_set_number(o, "beat_us", h->beat.median);
    k3_set_number(o, "beat_min_us", h->beat.min);
    k3_set_number(o, "beat_max_us", h->beat.max);
    k3_set_number(o, "scaled_us", h->scaled.median);
    if (h->scaled.has_ci) {
        json_object_set_new(o, "scaled_ci95_us",
                            json_pack("[o, o]", k3_json_number(h->scaled.ci_low),
                                      k3_json_number(h->scaled.ci_high)));
    } else {
        k3_set_null(o, "scaled_ci95_us", "fewer than 6 samples");
    }
    return o;
}

static json_t *record_instrument(const k3_instrument_t *c)
{
    json_t *o = json_object();

    k3_set_count(o, "n_on", c->on);
    k3_set_count(o, "n_off", c->off);
    k3_set_number(o, "difference_pct", c->pct);
    if (c->has_range) {
        json_object_set_new(
            o, "ci95_pct",
            json_pack("[o, o]", k3_json_number(c->low_pct), k3_json_number(c->high_pct)));
    } else {
        k3_set_null(o, "ci95_pct", "too few iterations");
    }
    return o;
}

static const char *why_no_instrument(const k3_measurement_t *m, const k3_measure_options_t *options)
{
    if (!m->has_lanes) {
        return "no queue pairs, no accounts";
    }
    if (!options->accounting) {
        return "accounting is off";
    }
    return m->phase[K3_PHASE_UNBOOKED].present ? "see the phase dispatch_unbooked"
                                               : "no iteration was left for it";
}

static json_t *record_timeline(const k3_measurement_t *m, int ranks)
{
    const k3_timeline_result_t *t = &m->timeline;
    json_t                     *o = json_object(), *rows = json_array();

    k3_set_count(o, "iteration", t->iteration);
    k3_set_text(o, "chosen", "the nearest to the median of the headline, of up to 32 iterations");
    k3_set_number(o, "headline_us", t->headline_us);
    k3_set_number(o, "clock_error_us", m->starts.clock.error);
    k3_set_count(o, "ranks_total", (uint64_t)ranks);
    k3_set_count(o, "ranks_kept", (uint64_t)t->ranks_kept);
    json_object_set_new(
        o, "columns",
        json_pack("[s, s, s, s, s]", "rank", "phase", "begin_us", "end_us", "own_us"));
    for (uint64_t i = 0; i < t->row_count; i++) {
        const k3_timeline_row_t *r = &t->row[i];

        json_array_append_new(rows,
                              json_pack("[i, s, o, o, o]", r->rank, k3_phase_names[r->phase],
                                        k3_json_number(r->begin_us), k3_json_number(r->end_us),
                                        k3_json_number(r->own_us)));
    }
    json_object_set_new(o, "rows", rows);
    return o;
}

void k3_record_sampling(json_t *o, const k3_measurement_t *m, const k3_measure_options_t *options)
{
    if (m->timeline.row != NULL) {
        json_object_set_new(
            o, "timeline", record_timeline(m, (int)k3_get_int(json_object_get(o, "layout"), "tp")));
    } else {
        k3_set_null(o, "timeline", m->timeline.reason[0] != '\0' ? m->timeline.reason : "not kept");
    }
    json_object_set_new(o, "warmup", record_warmup(&m->warmup));
    json_object_set_new(o, "sync", record_sync(&m->starts));
    if (m->trend.valid) {
        json_object_set_new(o, "trend", record_trend(&m->trend));
    } else {
        k3_set_null(o, "trend", "fewer than 8 samples");
    }
    if (m->idle.valid) {
        json_object_set_new(o, "idle", record_idle(&m->idle));
    } else {
        k3_set_null(o, "idle", "no samples");
    }
    if (m->host.valid) {
        json_object_set_new(o, "host", record_host(&m->host));
    } else {
        k3_set_null(o, "host", m->iterations > 0 ? "ranks outnumber cores" : "no samples");
    }
    if (m->instrument.valid) {
        json_object_set_new(o, "instrument", record_instrument(&m->instrument));
    } else {
        k3_set_null(o, "instrument", why_no_instrument(m, options));
    }
    if (m->events.valid) {
        json_object_set_new(o, "events", record_instrument(&m->events));
    }
}
