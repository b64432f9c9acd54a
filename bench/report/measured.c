/* What was measured. */
#include <math.h>
#include <stdlib.h>

#include "bench/report/pattern.h"
#include "bench/report/record.h"
#include "bench/report/sampling.h"
#include "bench/report/values.h"
#include "harness/record/json_values.h"

static json_t *number(double value)
{
    return k3_json_number(value);
}

static json_t *count(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* --- check and times ------------------------------------------------------------------------- */

static json_t *first_wrong(const k3_check_t *c)
{
    json_t *wrong = json_object();

    k3_set_count(wrong, "row", c->first_row);
    k3_set_count(wrong, "iteration", c->first_payload);
    k3_set_text(wrong, "stage", k3_stage_names[c->first_stage]);
    k3_set_count(wrong, "element", c->first_element);
    k3_set_number(wrong, "want", c->first_want);
    k3_set_number(wrong, "got", c->first_got);
    k3_set_text(wrong, "diagnosis", c->diagnosis);
    return wrong;
}

static json_t *record_check(const k3_cell_t *cell, const k3_measurement_t *m, k3_check_mode_t mode)
{
    const k3_check_t *c = &m->check;
    json_t           *check = json_object(), *stages = json_object();

    k3_set_text(check, "state", !m->checked ? "not checked" : c->wrong ? "wrong" : "ok");
    k3_set_text(check, "mode", k3_check_mode_names[mode]);
    k3_set_count(check, "rows_checked", c->rows_checked);
    k3_set_count(check, "rows_wrong", c->rows_wrong);
    if (m->checked) {
        k3_set_number(check, "max_rel_err", c->max_rel_err);
    } else {
        k3_set_null(check, "max_rel_err", "not checked");
    }
    k3_set_number(check, "tolerance", k3_oracle_tolerance(cell, K3_STAGE_COMBINED));
    for (int s = 0; s < K3_STAGE_COUNT && m->checked; s++) {
        json_t *stage = json_object();

        k3_set_number(stage, "max_error", c->max_error[s]);
        k3_set_number(stage, "tolerance", k3_oracle_tolerance(cell, (k3_stage_t)s));
        json_object_set_new(stages, k3_stage_names[s], stage);
    }
    json_object_set_new(check, "stages", stages);
    json_object_set_new(check, "first_wrong", c->wrong ? first_wrong(c) : json_null());
    return check;
}

static void add_summary(json_t *o, const k3_summary_t *s)
{
    k3_set_number(o, "median", s->median);
    if (s->has_ci) {
        json_object_set_new(
            o, "ci95", json_pack("[o, o]", k3_json_number(s->ci_low), k3_json_number(s->ci_high)));
    } else {
        k3_set_null(o, "ci95", "fewer than 6 samples");
    }
    k3_set_number(o, "p95", s->p95);
    k3_set_number(o, "p99", s->p99);
    k3_set_bool(o, "p99_is_max", s->p99_is_max);
    k3_set_number(o, "min", s->min);
    k3_set_number(o, "max", s->max);
    k3_set_number(o, "mean", s->mean);
    k3_set_number(o, "deviation", s->deviation);
}

static json_t *record_phase(const char *name, const k3_phase_result_t *p)
{
    static const char *const values[] = {"median", "ci95", "p95",  "p99",       "p99_is_max",
                                         "min",    "max",  "mean", "deviation", "slowest_rank"};
    json_t                  *o = json_object();

    k3_set_text(o, "name", name);
    k3_set_text(o, "unit", "us");
    k3_set_text(o, "reduction", "max over ranks per iteration");
    k3_set_count(o, "n", p->summary.valid ? p->summary.n : 0);
    if (p->summary.valid) {
        add_summary(o, &p->summary);
        json_object_set_new(o, "slowest_rank", json_integer(p->slowest_rank));
        k3_set_count(o, "max_iteration", p->max_iteration);
        json_object_set_new(o, "max_rank", json_integer(p->max_rank));
        return o;
    }
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        k3_set_null(o, values[i], "no samples");
    }
    return o;
}

/* From the first rank's begin to the last one's end, beside the maximum of the ranks' own times. */
static void add_span(json_t *o, const k3_span_result_t *span)
{
    json_t *s = json_object();

    if (!span->valid) {
        k3_set_null(o, "span",
                    span->reason[0] != '\0' ? span->reason : "the clocks were not compared");
        json_decref(s);
        return;
    }
    k3_set_text(s, "reduction", "last end less first begin over ranks per iteration");
    k3_set_count(s, "n", span->summary.n);
    add_summary(s, &span->summary);
    json_object_set_new(o, "span", s);
}

static json_t *record_phases(const k3_measurement_t *m)
{
    json_t *phases = json_array();

    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        json_t *o;

        if (!m->phase[p].present) {
            continue;
        }
        o = record_phase(k3_phase_names[p], &m->phase[p]);
        if (k3_measurement_judges(m, p)) {
            json_t *samples = json_array();

            for (uint64_t i = 0; i < m->iterations; i++) {
                json_array_append_new(samples, number(m->phase[p].samples[i]));
            }
            json_object_set_new(o, "samples", samples);
            add_span(o, &m->phase[p].span);
        }
        json_array_append_new(phases, o);
    }
    return phases;
}

static void add_rate(json_t *rates, const char *name, const char *basis, uint64_t bytes,
                     const k3_phase_result_t *phase)
{
    json_t *rate =
        json_pack("{s:s, s:s, s:I}", "name", name, "basis", basis, "bytes", (json_int_t)bytes);

    if (bytes == 0) {
        k3_set_null(rate, "GBps", "no bytes of this basis move");
    } else if (!phase->summary.valid) {
        k3_set_null(rate, "GBps", "no samples");
    } else if (phase->summary.median <= 0.0) {
        k3_set_null(rate, "GBps", "the median is 0 us");
    } else {
        json_object_set_new(rate, "GBps", number((double)bytes / phase->summary.median / 1e3));
    }
    json_array_append_new(rates, rate);
}

/* Bytes of all ranks over the median of the slowest rank: BENCHMARKS.md. */
static json_t *record_rates(const k3_cell_t *cell, const k3_work_t *w, const k3_measurement_t *m)
{
    static const struct {
        k3_phase_t         phase;
        k3_traffic_phase_t traffic;
    } pairs[] = {{K3_PHASE_DISPATCH, K3_TRAFFIC_DISPATCH}, {K3_PHASE_COMBINE, K3_TRAFFIC_COMBINE}};
    const k3_profile_t *p = cell->profile;
    json_t             *rates = json_array();

    for (int i = 0; i < 2; i++) {
        const k3_phase_result_t *phase = &m->phase[pairs[i].phase];
        const k3_traffic_sum_t  *sum = &w->sum[pairs[i].traffic];
        const char              *name = k3_phase_names[pairs[i].phase];
        uint64_t                 row =
            i == 0 ? k3_profile_dispatch_payload(p, cell->dispatch_format, cell->model.latent)
                                   : k3_profile_combine_payload(p, cell->combine_format, cell->model.latent);

        if (!phase->present || !w->dispatches) {
            continue;
        }
        add_rate(rates, name, "assignment", w->assignments * row, phase);
        add_rate(rates, name, "deduplicated", w->dedup_rows * row, phase);
        add_rate(rates, name, "wire", sum->wire_remote, phase);
    }
    return rates;
}

/* How much of the parts' own times lies under one another: BENCHMARKS.md. */
static json_t *record_overlap(const k3_overlap_result_t *o)
{
    json_t *overlap = json_object();

    k3_set_number(overlap, "dispatch_us", o->own.dispatch);
    k3_set_number(overlap, "expert_us", o->own.expert);
    k3_set_number(overlap, "combine_us", o->own.combine);
    k3_set_number(overlap, "span_us", o->own.span);
    k3_set_number(overlap, "hidden_us", o->hidden);
    k3_set_text(overlap, "basis",
                "medians over iterations, each of the rank with the longest span");
    return overlap;
}

static int slower(const void *a, const void *b)
{
    double x = ((const k3_lane_row_t *)a)->last_done_us,
           y = ((const k3_lane_row_t *)b)->last_done_us;

    return (x < y) - (x > y);
}

/* Plain stores ring none; of queue pairs it is known where a posting rule is documented. */
static json_t *record_doorbells(uint64_t doorbells, bool rule, bool queue_pair)
{
    return rule || !queue_pair ? count(doorbells) : json_null();
}

static json_t *record_lane(const k3_lane_row_t *l, bool rule)
{
    /* A lane that carried signals only has no message to time. */
    double none = l->messages > 0 ? 0.0 : NAN;

    return json_pack("[s, i, i, i, s, I, I, o, I, I, o, o, o, o, o, o]", k3_traffic_names[l->phase],
                     l->src, l->dst, l->qp, k3_lane_kind_name((k3_lane_kind_t)l->kind),
                     (json_int_t)l->messages, (json_int_t)l->signals,
                     record_doorbells(l->doorbells, rule, l->kind == K3_LANE_QP),
                     (json_int_t)l->payload, (json_int_t)l->wire, number(l->first_post_us),
                     number(l->last_done_us), number(l->busy_us), number(l->p50_us + none),
                     number(l->p99_us + none), number(l->max_us + none));
}

/* Sums over all lanes of each (phase, source rank). */
static json_t *rank_sums(const k3_measurement_t *m, bool rule)
{
    json_t *sums = json_array();

    for (uint64_t i = 0; i < m->lane_count;) {
        k3_lane_row_t sum = m->lanes[i];
        bool          queue_pair = sum.kind == K3_LANE_QP;
        uint64_t      j = i + 1;

        for (; j < m->lane_count && m->lanes[j].src == sum.src && m->lanes[j].phase == sum.phase;
             j++) {
            sum.messages += m->lanes[j].messages;
            sum.signals += m->lanes[j].signals;
            sum.doorbells += m->lanes[j].doorbells;
            sum.payload += m->lanes[j].payload;
            sum.wire += m->lanes[j].wire;
            queue_pair |= m->lanes[j].kind == K3_LANE_QP;
        }
        json_array_append_new(sums,
                              json_pack("[s, i, I, I, o, I, I]", k3_traffic_names[sum.phase],
                                        sum.src, (json_int_t)sum.messages, (json_int_t)sum.signals,
                                        record_doorbells(sum.doorbells, rule, queue_pair),
                                        (json_int_t)sum.payload, (json_int_t)sum.wire));
        i = j;
    }
    return sums;
}

static json_t *record_qps(const k3_cell_t *cell, const k3_measurement_t *m)
{
    json_t  *qps = json_object(), *rows = json_array();
    uint64_t kept = m->lane_count;
    bool     rule = cell->profile->doorbell_every != 0;

    json_object_set_new(qps, "matches_plan", json_boolean(m->matches_plan));
    json_object_set_new(qps, "mismatch",
                        m->matches_plan ? json_null() : k3_json_string(m->mismatch.text));
    k3_set_text(qps, "transport", m->transport);
    json_object_set_new(qps, "signal_order",
                        json_pack("{s:o, s:I, s:I}", "used", k3_json_string(m->order), "rounds",
                                  (json_int_t)m->order_rounds, "overtaken_without",
                                  (json_int_t)m->order_overtaken));
    json_object_set_new(qps, "columns",
                        json_pack("[s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s]", "phase",
                                  "src", "dst", "qp", "lane", "messages", "signals", "doorbells",
                                  "bytes_payload", "bytes_wire", "first_post_us", "last_done_us",
                                  "busy_us", "p50_us", "p99_us", "max_us"));
    json_object_set_new(qps, "lanes_total", count(m->lane_count));
    if (m->lane_count > K3_LANES_KEPT) {
        json_object_set_new(qps, "rank_columns",
                            json_pack("[s, s, s, s, s, s, s]", "phase", "src", "messages",
                                      "signals", "doorbells", "bytes_payload", "bytes_wire"));
        json_object_set_new(qps, "rank_sums", rank_sums(m, rule));
        qsort(m->lanes, m->lane_count, sizeof(*m->lanes), slower);
        kept = K3_LANES_SLOWEST;
    }
    json_object_set_new(qps, "lanes_kept", count(kept));
    for (uint64_t i = 0; i < kept; i++) {
        json_array_append_new(rows, record_lane(&m->lanes[i], rule));
    }
    json_object_set_new(qps, "rows", rows);
    return qps;
}

static json_t *record_waits(const k3_measurement_t *m)
{
    json_t *rows = json_array();

    for (uint64_t i = 0; i < m->wait_count; i++) {
        const k3_wait_row_t *w = &m->waits[i];

        json_array_append_new(rows, json_pack("[s, i, i, o, o, I]", k3_traffic_names[w->phase],
                                              w->dst, w->src, number(w->wait.sum_us),
                                              number(w->wait.max_us), (json_int_t)w->wait.count));
    }
    return json_pack("{s:[s, s, s, s, s, s], s:o}", "columns", "phase", "dst", "src", "sum_us",
                     "max_us", "count", "rows", rows);
}

static void add_setup(json_t *rows, const char *name, double us, bool has)
{
    json_t *row = json_pack("{s:s}", "name", name);

    if (has) {
        json_object_set_new(row, "us", number(us));
    } else {
        k3_set_null(row, "us", "this engine has no queue pairs");
    }
    json_array_append_new(rows, row);
}

static json_t *record_setup(const k3_measurement_t *m)
{
    json_t *rows = json_array();

    add_setup(rows, "weights", m->weights_us, true);
    add_setup(rows, "engine", m->queue_pairs_us, true);
    add_setup(rows, "registration", m->registration_us, m->has_lanes);
    add_setup(rows, "connection", m->connection_us, m->has_lanes);
    add_setup(rows, "order_test", m->selftest_us, m->has_lanes);
    return rows;
}

static void set_links(json_t *o, const k3_cell_t *cell, const k3_measurement_t *m)
{
    json_t *links = m->has_lanes && m->accounted ? k3_record_links(cell, m) : NULL;

    if (links != NULL) {
        json_object_set_new(o, "links", links);
    } else {
        k3_set_null(o, "links", cell->nodes < 2 ? "one node" : "the queue pairs were not counted");
    }
}

static void set_pattern(json_t *o, const k3_cell_t *cell, const k3_measurement_t *m)
{
    json_t *pattern = k3_pattern_of(o, cell->node_of, m->share_cores);

    json_object_set_new(o, "pattern", pattern != NULL ? pattern : json_null());
}

void k3_record_measured(json_t *o, const k3_cell_t *cell, const k3_work_t *work,
                        const k3_measurement_t *m, const k3_measure_options_t *options)
{
    static const char *const reasons[] = {"check_reason",   "phases_reason", "rates_reason",
                                          "overlap_reason", "qps_reason",    "waits_reason"};

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        json_object_del(o, reasons[i]);
    }
    k3_record_sampling(o, m, options);
    json_object_set_new(o, "check", record_check(cell, m, options->check));
    json_object_set_new(o, "phases", record_phases(m));
    json_object_set_new(o, "rates", record_rates(cell, work, m));
    if (m->overlap.nothing) {
        k3_set_null(o, "overlap", "exactly 0 us in every iteration, which no measurement gives");
    } else if (m->overlap.present) {
        json_object_set_new(o, "overlap", record_overlap(&m->overlap));
    } else {
        k3_set_null(o, "overlap", "dispatch, experts and combine follow one another here");
    }
    if (m->has_lanes && m->accounted) {
        json_object_set_new(o, "qps", record_qps(cell, m));
    } else if (m->has_lanes) {
        k3_set_null(o, "qps", "accounting is off");
    } else {
        k3_set_null(o, "qps",
                    cell->profile->engine == K3_ENGINE_MPI ? "MPI hides its queue pairs"
                                                           : "this engine has no queue pairs");
    }
    if (m->wait_count > 0) {
        json_object_set_new(o, "waits", record_waits(m));
    } else {
        k3_set_null(o, "waits", "this engine waits for no signal of a single source");
    }
    set_links(o, cell, m);
    set_pattern(o, cell, m);
    json_object_set_new(o, "setup", record_setup(m));
    json_object_set_new(json_object_get(o, "memory"), "allocated_bytes", count(m->allocated_bytes));
    if (cell->on_device) {
        json_object_set_new(json_object_get(o, "memory"), "on_device_allocated_bytes",
                            count(m->device_bytes));
    }
    json_object_set_new(json_object_get(o, "memory"), "timed_allocations",
                        count(m->timed_allocations));
}
