#include "bench/report/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cell/routing.h"
#include "harness/base/arith.h"
#include "harness/record/document.h"

static json_t *number(double value)
{
    return k3_json_number(value);
}

static json_t *count(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static void set_null(json_t *object, const char *name, const char *reason)
{
    char key[64];

    snprintf(key, sizeof(key), "%s_reason", name);
    json_object_set_new(object, name, json_null());
    json_object_set_new(object, key, json_string(reason));
}

void k3_record_status(json_t *object, const char *status, const char *reason)
{
    json_object_set_new(object, "status", json_string(status));
    json_object_set_new(object, "reason", k3_json_string(reason));
}

/* --- what was asked and planned -------------------------------------------------------------- */

static json_t *record_model(const k3_model_t *m)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s}", "name", m->name, "hidden",
                     (int)m->hidden, "latent", (int)m->latent, "experts", (int)m->experts, "topk",
                     (int)m->topk, "intermediate", (int)m->intermediate, "shared", (int)m->shared,
                     "activation", m->activation == K3_ACT_SITU ? "situ" : "swiglu", "weights",
                     m->weights == K3_WEIGHT_MXFP4 ? "mxfp4" : "fp8_b128");
}

static json_t *record_layout(const k3_cell_t *cell)
{
    const k3_layout_t *l = &cell->layout;

    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "tp", (int)l->tp, "dp", (int)l->dp,
                     "cp", (int)l->cp, "ep", (int)l->ep, "attn_tp", (int)l->attn_tp, "moe_tp",
                     (int)l->moe_tp, "nodes", (int)cell->nodes, "virtual_nodes",
                     cell->virtual_nodes);
}

static json_t *record_tokens(const k3_cell_t *cell)
{
    const k3_layout_t *l = &cell->layout;
    uint64_t           min = l->rows[0], max = l->rows[0];

    for (uint32_t r = 1; r < l->tp; r++) {
        min = l->rows[r] < min ? l->rows[r] : min;
        max = l->rows[r] > max ? l->rows[r] : max;
    }
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "asked", (json_int_t)l->tokens, "min",
                     (json_int_t)min, "max", (json_int_t)max, "total", (json_int_t)l->rows_global,
                     "bound", (json_int_t)cell->max_tokens);
}

/* What the cell is executed with: profile, precision, queue pairs. */
static json_t *record_choices(const k3_cell_t *cell)
{
    const k3_recipe_t *recipe = &cell->runner->recipe;

    return json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:b, s:s}, s:i, s:i, s:b, s:s, s:b, s:s, s:I}",
                     "engine", k3_engine_name(cell->profile->engine), "dispatch_dtype",
                     k3_format_names[cell->dispatch_format], "combine_dtype",
                     k3_format_names[cell->combine_format], "recipe", "runner", cell->runner->name,
                     "input", k3_format_names[recipe->input], "round_gate_up",
                     recipe->round_gate_up, "middle", k3_format_names[recipe->middle],
                     "qps_per_peer", (int)cell->qps.active, "qps_existing", (int)cell->qps.existing,
                     "below_upstream_minimum", cell->qps.what_if, "fabric",
                     cell->fabric == K3_FABRIC_IB ? "ib" : "roce", "p2p", cell->p2p, "routing",
                     cell->routing_text, "seed", (json_int_t)cell->seed);
}

static json_t *record_work(const k3_cell_t *cell, const k3_work_t *w)
{
    char    hash[17];
    json_t *work = json_object(), *imbalance = json_object();

    k3_routing_hash(cell->routing, hash);
    json_object_set_new(work, "rows_global", count(w->rows_global));
    json_object_set_new(work, "rows_padding", count(w->rows_padding));
    if (w->dispatches) {
        json_object_set_new(work, "rows_dispatched", count(w->rows_dispatched));
        json_object_set_new(work, "assignments", count(w->assignments));
        if (w->rows_global > 0) {
            json_object_set_new(work, "dispatch_ratio", number(w->dispatch_ratio));
        } else {
            set_null(work, "dispatch_ratio", "no rows");
        }
    } else {
        set_null(work, "rows_dispatched", "no dispatch");
        set_null(work, "assignments", "no dispatch");
        set_null(work, "dispatch_ratio", "no dispatch");
    }
    json_object_set_new(work, "routing_hash", json_string(hash));
    json_object_set_new(imbalance, "expert", number(w->imbalance_expert));
    json_object_set_new(imbalance, "rank", number(w->imbalance_rank));
    if (w->has_imbalance_qp) {
        json_object_set_new(imbalance, "qp", number(w->imbalance_qp));
    } else {
        set_null(imbalance, "qp", "no queue pair leaves a node");
    }
    json_object_set_new(work, "imbalance", imbalance);
    return work;
}

static json_t *record_traffic(const k3_work_t *w)
{
    json_t *traffic = json_object();

    for (int t = 0; t < K3_TRAFFIC_COUNT; t++) {
        const k3_traffic_sum_t *s = &w->sum[t];
        json_t                 *entry;

        if (s->lanes == 0) {
            continue;
        }
        entry = json_pack(
            "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "lanes", (json_int_t)s->lanes,
            "messages", (json_int_t)s->messages, "signals", (json_int_t)s->signals, "bytes_payload",
            (json_int_t)s->payload, "bytes_wire", (json_int_t)s->wire, "bytes_payload_remote",
            (json_int_t)s->payload_remote, "bytes_wire_remote", (json_int_t)s->wire_remote,
            "bytes_payload_network", (json_int_t)s->payload_network, "bytes_wire_network",
            (json_int_t)s->wire_network);
        if (s->doorbells == K3_DOORBELLS_UNKNOWN) {
            set_null(entry, "doorbells", "no posting rule is documented");
        } else {
            json_object_set_new(entry, "doorbells", count(s->doorbells));
        }
        json_object_set_new(traffic, k3_traffic_names[t], entry);
    }
    return traffic;
}

static json_t *record_memory(const k3_memory_t *m)
{
    uint64_t rows = m->total - m->expert_weights - m->shared_expert - m->dense_weights;

    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "buffers_bytes", (json_int_t)rows,
                     "block_bytes", (json_int_t)m->block, "expert_weights_bytes",
                     (json_int_t)m->expert_weights, "shared_expert_bytes",
                     (json_int_t)m->shared_expert, "dense_weights_bytes",
                     (json_int_t)m->dense_weights, "total_bytes", (json_int_t)m->total);
}

json_t *k3_record_plan(const k3_cell_t *cell, const k3_work_t *work, const k3_memory_t *memory)
{
    json_t *o = json_object();

    json_object_set_new(o, "key", json_string(cell->key));
    json_object_set_new(o, "backend", json_string(cell->profile->backend));
    json_object_set_new(o, "mode", json_string(cell->profile->mode));
    json_object_set_new(o, "generation",
                        json_string(cell->generation == K3_GENERATION_K3 ? "k3" : "stock"));
    json_object_set_new(o, "model", record_model(&cell->model));
    json_object_set_new(o, "component", json_string(k3_component_names[cell->component]));
    json_object_set_new(o, "layout", record_layout(cell));
    json_object_set_new(o, "path",
                        json_pack("{s:s, s:b, s:b, s:b}", "rule", cell->path.rule->name, "fast",
                                  cell->path.fast, "sp_moe", cell->path.sp_moe, "reduced_twice",
                                  cell->path.reduced_twice));
    json_object_set_new(o, "tokens", record_tokens(cell));
    json_object_set_new(o, "choices", record_choices(cell));
    k3_record_status(o, "planned", NULL);
    json_object_set_new(o, "work", record_work(cell, work));
    json_object_set_new(o, "traffic", record_traffic(work));
    set_null(o, "check", "not run");
    set_null(o, "phases", "not run");
    set_null(o, "rates", "not run");
    set_null(o, "qps", "not run");
    set_null(o, "waits", "not run");
    json_object_set_new(o, "memory", record_memory(memory));
    return o;
}

json_t *k3_record_refused(const k3_cell_request_t *q, const k3_error_t *err)
{
    const k3_profile_t *profile;
    k3_error_t          unused = K3_ERROR_INIT;
    json_t             *o = json_object();
    bool                known =
        k3_registry_find(q->backend != NULL ? q->backend : "none", &profile, &unused) == K3_OK;

    json_object_set_new(o, "key", json_null());
    json_object_set_new(o, "backend", k3_json_string(known ? profile->backend : q->backend));
    json_object_set_new(o, "mode", json_string(known ? profile->mode : ""));
    json_object_set_new(o, "generation", k3_json_string(q->generation));
    json_object_set_new(o, "model",
                        json_pack("{s:s}", "name", q->model != NULL ? q->model : "tiny"));
    json_object_set_new(o, "component",
                        json_string(q->component != NULL ? q->component : "region"));
    json_object_set_new(o, "layout",
                        json_pack("{s:I, s:I, s:I, s:I}", "tp", (json_int_t)q->tp, "dp",
                                  (json_int_t)q->dp, "cp", (json_int_t)q->cp, "ep",
                                  (json_int_t)q->ep));
    json_object_set_new(o, "tokens", json_pack("{s:I}", "asked", (json_int_t)q->tokens));
    k3_record_status(o, "unsupported", err->text);
    return o;
}

/* --- what was measured ----------------------------------------------------------------------- */

static json_t *record_check(const k3_cell_t *cell, const k3_measurement_t *m, k3_check_mode_t mode)
{
    const k3_check_t *c = &m->check;
    double            limit = k3_oracle_tolerance(cell, K3_STAGE_COMBINED);
    json_t           *check = json_object(), *stages = json_object();

    json_object_set_new(check, "state",
                        json_string(!m->checked ? "not checked"
                                    : c->wrong  ? "wrong"
                                                : "ok"));
    json_object_set_new(check, "mode", json_string(k3_check_mode_names[mode]));
    json_object_set_new(check, "rows_checked", count(c->rows_checked));
    json_object_set_new(check, "rows_wrong", count(c->rows_wrong));
    json_object_set_new(check, "max_rel_err", m->checked ? number(c->max_rel_err) : json_null());
    json_object_set_new(check, "tolerance", number(limit));
    for (int s = 0; s < K3_STAGE_COUNT && m->checked; s++) {
        json_object_set_new(stages, k3_stage_names[s],
                            json_pack("{s:o, s:o}", "max_error", number(c->max_error[s]),
                                      "tolerance",
                                      number(k3_oracle_tolerance(cell, (k3_stage_t)s))));
    }
    json_object_set_new(check, "stages", stages);
    json_object_set_new(check, "first_wrong", json_null());
    if (c->wrong) {
        json_object_set_new(check, "first_wrong",
                            json_pack("{s:I, s:I, s:s, s:i, s:o, s:o, s:s}", "row",
                                      (json_int_t)c->first_row, "iteration",
                                      (json_int_t)c->first_payload, "stage",
                                      k3_stage_names[c->first_stage], "element",
                                      (int)c->first_element, "want", number(c->first_want), "got",
                                      number(c->first_got), "diagnosis", c->diagnosis));
    }
    return check;
}

static json_t *record_phase(const char *name, const k3_phase_result_t *p)
{
    const k3_summary_t *s = &p->summary;
    json_t             *o = json_object();

    json_object_set_new(o, "name", json_string(name));
    json_object_set_new(o, "unit", json_string("us"));
    json_object_set_new(o, "reduction", json_string("max over ranks per iteration"));
    json_object_set_new(o, "n", count(s->n));
    json_object_set_new(o, "median", number(s->median));
    if (s->has_ci) {
        json_object_set_new(o, "ci95", json_pack("[o, o]", number(s->ci_low), number(s->ci_high)));
    } else {
        set_null(o, "ci95", "fewer than 6 samples");
    }
    json_object_set_new(o, "p95", number(s->p95));
    json_object_set_new(o, "p99", number(s->p99));
    json_object_set_new(o, "p99_is_max", json_boolean(s->p99_is_max));
    json_object_set_new(o, "min", number(s->min));
    json_object_set_new(o, "max", number(s->max));
    json_object_set_new(o, "mean", number(s->mean));
    json_object_set_new(o, "deviation", number(s->deviation));
    json_object_set_new(o, "slowest_rank", json_integer(p->slowest_rank));
    return o;
}

static bool is_headline(int phase)
{
    return phase >= K3_PHASE_DISPATCH;
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
        if (is_headline(p)) {
            json_t *samples = json_array();

            for (uint64_t i = 0; i < m->iterations; i++) {
                json_array_append_new(samples, number(m->phase[p].samples[i]));
            }
            json_object_set_new(o, "samples", samples);
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
        set_null(rate, "GBps", "no bytes of this basis move");
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

static int slower(const void *a, const void *b)
{
    double x = ((const k3_lane_row_t *)a)->last_done_us,
           y = ((const k3_lane_row_t *)b)->last_done_us;

    return (x < y) - (x > y);
}

static json_t *record_lane(const k3_lane_row_t *l, bool doorbells)
{
    /* A lane that carried signals only has no message to time. */
    double none = l->messages > 0 ? 0.0 : NAN;

    return json_pack("[s, i, i, i, s, I, I, o, I, I, o, o, o, o, o, o]", k3_traffic_names[l->phase],
                     l->src, l->dst, l->qp, k3_lane_kind_name((k3_lane_kind_t)l->kind),
                     (json_int_t)l->messages, (json_int_t)l->signals,
                     doorbells ? count(l->doorbells) : json_null(), (json_int_t)l->payload,
                     (json_int_t)l->wire, number(l->first_post_us), number(l->last_done_us),
                     number(l->busy_us), number(l->p50_us + none), number(l->p99_us + none),
                     number(l->max_us + none));
}

/* Sums over all lanes of each (phase, source rank). */
static json_t *rank_sums(const k3_measurement_t *m)
{
    json_t *sums = json_array();

    for (uint64_t i = 0; i < m->lane_count;) {
        k3_lane_row_t sum = m->lanes[i];
        uint64_t      j = i + 1;

        for (; j < m->lane_count && m->lanes[j].src == sum.src && m->lanes[j].phase == sum.phase;
             j++) {
            sum.messages += m->lanes[j].messages;
            sum.signals += m->lanes[j].signals;
            sum.payload += m->lanes[j].payload;
            sum.wire += m->lanes[j].wire;
        }
        json_array_append_new(sums,
                              json_pack("[s, i, I, I, I, I]", k3_traffic_names[sum.phase], sum.src,
                                        (json_int_t)sum.messages, (json_int_t)sum.signals,
                                        (json_int_t)sum.payload, (json_int_t)sum.wire));
        i = j;
    }
    return sums;
}

static json_t *record_qps(const k3_cell_t *cell, const k3_measurement_t *m)
{
    json_t  *qps = json_object(), *rows = json_array();
    uint64_t kept = m->lane_count;

    json_object_set_new(qps, "matches_plan", json_boolean(m->matches_plan));
    json_object_set_new(qps, "mismatch",
                        m->matches_plan ? json_null() : json_string(m->mismatch.text));
    json_object_set_new(qps, "transport", json_string(m->transport));
    json_object_set_new(qps, "signal_order",
                        json_pack("{s:s, s:I, s:I}", "used", m->order, "rounds",
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
                            json_pack("[s, s, s, s, s, s]", "phase", "src", "messages", "signals",
                                      "bytes_payload", "bytes_wire"));
        json_object_set_new(qps, "rank_sums", rank_sums(m));
        qsort(m->lanes, m->lane_count, sizeof(*m->lanes), slower);
        kept = K3_LANES_SLOWEST;
    }
    json_object_set_new(qps, "lanes_kept", count(kept));
    for (uint64_t i = 0; i < kept; i++) {
        json_array_append_new(rows, record_lane(&m->lanes[i], cell->profile->doorbell_every != 0));
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

static json_t *record_setup(const k3_measurement_t *m)
{
    return json_pack("[{s:s, s:o}, {s:s, s:o}, {s:s, s:o}, {s:s, s:o}, {s:s, s:o}]", "name",
                     "weights", "us", number(m->weights_us), "name", "queue_pairs", "us",
                     number(m->queue_pairs_us), "name", "registration", "us",
                     number(m->registration_us), "name", "connection", "us",
                     number(m->connection_us), "name", "order_test", "us", number(m->selftest_us));
}

void k3_record_measured(json_t *o, const k3_cell_t *cell, const k3_work_t *work,
                        const k3_measurement_t *m, k3_check_mode_t mode)
{
    static const char *const reasons[] = {"check_reason", "phases_reason", "rates_reason",
                                          "qps_reason", "waits_reason"};

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        json_object_del(o, reasons[i]);
    }
    json_object_set_new(o, "warmup", count(m->warmup));
    json_object_set_new(o, "check", record_check(cell, m, mode));
    json_object_set_new(o, "phases", record_phases(m));
    json_object_set_new(o, "rates", record_rates(cell, work, m));
    if (m->has_lanes) {
        json_object_set_new(o, "qps", record_qps(cell, m));
    } else {
        set_null(o, "qps",
                 cell->profile->engine == K3_ENGINE_MPI ? "MPI hides its queue pairs"
                                                        : "this engine has no queue pairs");
    }
    if (m->wait_count > 0) {
        json_object_set_new(o, "waits", record_waits(m));
    } else {
        set_null(o, "waits", "this engine waits for no signals");
    }
    json_object_set_new(o, "setup", record_setup(m));
    json_object_set_new(json_object_get(o, "memory"), "allocated_bytes", count(m->allocated_bytes));
    json_object_set_new(json_object_get(o, "memory"), "timed_allocations",
                        count(m->timed_allocations));
}
