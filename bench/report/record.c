#include "bench/report/record.h"

#include <string.h>

#include "bench/cell/routing.h"
#include "bench/plan/expect.h"
#include "bench/report/fields.h"
#include "bench/report/values.h"
#include "harness/base/arith.h"
#include "harness/record/json_values.h"

void k3_record_status(json_t *object, const char *status, const char *reason)
{
    k3_set_text(object, "status", status);
    k3_set_text(object, "reason", reason);
}

/* A seed above what JSON's integers hold stays itself as text. */
static json_t *seed_value(uint64_t seed)
{
    char text[24];

    if (seed <= INT64_MAX) {
        return json_integer((json_int_t)seed);
    }
    snprintf(text, sizeof(text), "%llu", (unsigned long long)seed);
    return json_string(text);
}

/* --- what was resolved and planned ----------------------------------------------------------- */

static json_t *record_model(const k3_model_t *m)
{
    return json_pack("{s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s}", "name",
                     k3_json_string(m->name), "hidden", (int)m->hidden, "latent", (int)m->latent,
                     "experts", (int)m->experts, "topk", (int)m->topk, "intermediate",
                     (int)m->intermediate, "shared", (int)m->shared, "activation",
                     m->activation == K3_ACT_SITU ? "situ" : "swiglu", "weights",
                     k3_weight_format_names[m->weights]);
}

static json_t *record_layout(const k3_cell_t *cell)
{
    const k3_layout_t *l = &cell->layout;

    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "tp", (int)l->tp, "dp", (int)l->dp,
                     "cp", (int)l->cp, "ep", (int)l->ep, "attn_tp", (int)l->attn_tp, "moe_tp",
                     (int)l->moe_tp, "nodes", (int)cell->nodes, "virtual_nodes",
                     cell->virtual_nodes);
}

static json_t *record_path(const k3_cell_t *cell)
{
    const k3_path_t *path = &cell->path;

    return json_pack("{s:s, s:b, s:b, s:b, s:b}", "rule", path->rule->name, "fast", path->fast,
                     "sp_moe", path->sp_moe, "reduced_twice", path->reduced_twice, "moves_rows",
                     k3_profile_moves_rows(cell->profile));
}

static json_t *record_tokens(const k3_cell_t *cell)
{
    const k3_layout_t *l = &cell->layout;
    uint64_t           min = l->rows[0], max = l->rows[0];
    json_t            *tokens = json_object();

    for (uint32_t r = 1; r < l->tp; r++) {
        min = l->rows[r] < min ? l->rows[r] : min;
        max = l->rows[r] > max ? l->rows[r] : max;
    }
    k3_set_count(tokens, "asked", l->tokens);
    k3_set_count(tokens, "min", min);
    k3_set_count(tokens, "max", max);
    k3_set_count(tokens, "total", l->rows_global);
    k3_set_count(tokens, "bound", cell->max_tokens);
    return tokens;
}

/* Where numbers are rounded, in words too: a reader need not know the code. */
static json_t *record_recipe(const k3_cell_t *cell)
{
    const k3_recipe_t *recipe = &cell->runner->recipe;
    char               points[K3_RECIPE_POINTS][K3_RECIPE_TEXT];
    json_t            *list = json_array();

    k3_recipe_points(recipe, points);
    for (int i = 0; i < K3_RECIPE_POINTS; i++) {
        json_array_append_new(list, json_string(points[i]));
    }
    return json_pack("{s:s, s:s, s:s, s:b, s:s, s:b, s:o}", "runner", cell->runner->name, "name",
                     recipe->name, "input", k3_format_names[recipe->input], "round_gate_up",
                     recipe->round_gate_up, "middle", k3_format_names[recipe->middle],
                     "rows_converted", k3_runner_converts(cell->runner, cell->dispatch_format),
                     "points", list);
}

/* 16 hex digits, as hashes stand everywhere. */
static void set_digest(json_t *object, const char *name, uint64_t digest)
{
    char text[17];

    snprintf(text, sizeof(text), "%016llx", (unsigned long long)digest);
    k3_set_text(object, name, text);
}

/* Files by their names alone: where they lie is this machine's affair. */
static json_t *record_weights(const k3_cell_t *cell)
{
    const k3_checkpoint_t *c = cell->checkpoint;
    json_t                *weights = json_object(), *files = json_array();

    k3_set_text(weights, "source", c == NULL ? "synthetic" : "checkpoint");
    if (c == NULL) {
        json_decref(files);
        return weights;
    }
    k3_set_count(weights, "layer", k3_checkpoint_layer(c));
    set_digest(weights, "digest", k3_checkpoint_identity(c));
    for (size_t i = 0; i < k3_checkpoint_files(c); i++) {
        uint64_t    bytes;
        const char *name = k3_checkpoint_file(c, i, &bytes);

        json_array_append_new(files, json_pack("{s:o, s:I}", "name", k3_json_string(name), "bytes",
                                               (json_int_t)bytes));
    }
    json_object_set_new(weights, "files", files);
    return weights;
}

static json_t *record_hidden(const k3_cell_t *cell)
{
    json_t     *hidden = json_object();
    const char *path, *slash;

    k3_set_text(hidden, "source", cell->hidden == NULL ? "synthetic" : "file");
    if (cell->hidden != NULL) {
        path = k3_hidden_path(cell->hidden);
        slash = strrchr(path, '/');
        json_object_set_new(hidden, "file", k3_json_string(slash != NULL ? slash + 1 : path));
        k3_set_count(hidden, "rows", k3_hidden_rows(cell->hidden));
        set_digest(hidden, "digest", k3_hidden_identity(cell->hidden, cell->layout.rows_global));
    }
    return hidden;
}

/* What the cell is executed with: profile, precision, queue pairs. */
static json_t *record_choices(const k3_cell_t *cell)
{
    json_t *choices = json_pack(
        "{s:s, s:s, s:s, s:o, s:i, s:i, s:b, s:s, s:b, s:o, s:o, s:o}", "engine",
        k3_engine_name(cell->profile->engine), "dispatch_dtype",
        k3_format_names[cell->dispatch_format], "combine_dtype",
        k3_format_names[cell->combine_format], "recipe", record_recipe(cell), "qps_per_peer",
        (int)cell->qps.active, "qps_existing", (int)cell->qps.existing, "below_upstream_minimum",
        cell->qps.what_if, "fabric", cell->fabric == K3_FABRIC_IB ? "ib" : "roce", "p2p", cell->p2p,
        "tokens_skew", k3_json_string(cell->skew_text), "routing",
        k3_json_string(cell->routing_text), "seed", seed_value(cell->seed));

    json_object_set_new(choices, "weights", record_weights(cell));
    json_object_set_new(choices, "hidden", record_hidden(cell));
    k3_set_text(choices, "shared", k3_shared_names[cell->shared]);
    k3_set_bool(choices, "shared_overlap", cell->shared_overlap);
    k3_set_text(choices, "signal", k3_signal_op_name(cell->signal_op));
    k3_set_bool(choices, "signal_waits", cell->signal_waits);
    k3_set_bool(choices, "zero_copy", cell->zero_copy);
    k3_set_text(choices, "on_timeout", k3_fault_action_name(cell->fault));
    return choices;
}

static json_t *record_imbalance(const k3_work_t *w)
{
    json_t     *imbalance = json_object();
    const char *nothing = w->expected           ? "counts are expected"
                          : w->rows_global == 0 ? "no rows"
                                                : "no row is sent to an expert";

    if (w->has_imbalance_expert) {
        k3_set_number(imbalance, "expert", w->imbalance_expert);
    } else {
        k3_set_null(imbalance, "expert", nothing);
    }
    if (w->has_imbalance_rank) {
        k3_set_number(imbalance, "rank", w->imbalance_rank);
    } else {
        k3_set_null(imbalance, "rank", w->dispatches ? nothing : "no dispatch");
    }
    if (w->has_imbalance_qp) {
        k3_set_number(imbalance, "qp", w->imbalance_qp);
    } else {
        k3_set_null(imbalance, "qp", w->expected ? nothing : "no queue pair leaves a node");
    }
    return imbalance;
}

/* Ranks and nodes that a row's experts lie on: counted, and where all experts are equally likely what is
 * expected, with the standard deviation of a row. */
static json_t *record_distinct(const k3_cell_t *cell, const k3_work_t *w)
{
    json_t *o = json_object();
    double  rows = (double)w->rows_global * (cell->path.all_rows ? cell->layout.tp : 1);

    if (rows > 0 && w->assignments > 0) {
        k3_set_number(o, "ranks", (double)w->dedup_rows / rows);
        k3_set_number(o, "nodes", (double)w->node_rows / rows);
    } else {
        k3_set_null(o, "ranks", "no rows");
        k3_set_null(o, "nodes", "no rows");
    }
    if (k3_routing_is_uniform(cell->routing) && cell->layout.ep > 0) {
        k3_expectation_t e =
            k3_expected_distinct(cell->model.experts, cell->layout.ep, cell->model.topk);

        k3_set_number(o, "ranks_expected", e.mean);
        k3_set_number(o, "ranks_spread", e.spread);
    } else {
        k3_set_null(o, "ranks_expected", "no closed form for this routing");
    }
    return o;
}

static json_t *record_work(const k3_cell_t *cell, const k3_work_t *w)
{
    char    hash[17] = "";
    json_t *work = json_object();

    if (!cell->expected) {
        k3_routing_hash(cell->routing, hash);
    }
    k3_set_count(work, "rows_global", w->rows_global);
    k3_set_count(work, "rows_padding", w->rows_padding);
    if (w->dispatches) {
        k3_set_count(work, "rows_dispatched", w->rows_dispatched);
        k3_set_count(work, "assignments", w->assignments);
        if (w->rows_global > 0) {
            k3_set_number(work, "dispatch_ratio", w->dispatch_ratio);
        } else {
            k3_set_null(work, "dispatch_ratio", "no rows");
        }
    } else {
        k3_set_null(work, "rows_dispatched", "no dispatch");
        k3_set_null(work, "assignments", "no dispatch");
        k3_set_null(work, "dispatch_ratio", "no dispatch");
    }
    if (cell->expected) {
        k3_set_null(work, "routing_hash", "counts are expected, no row was drawn for good");
    } else {
        k3_set_text(work, "routing_hash", hash);
    }
    k3_set_count(work, "routing_steps", k3_routing_steps(cell->routing));
    json_object_set_new(work, "distinct", record_distinct(cell, w));
    json_object_set_new(work, "imbalance", record_imbalance(w));
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
            k3_set_null(entry, "doorbells", "no posting rule is documented");
        } else {
            k3_set_count(entry, "doorbells", s->doorbells);
        }
        json_object_set_new(traffic, k3_traffic_names[t], entry);
    }
    return traffic;
}

static json_t *record_memory(const k3_cell_t *cell, const k3_memory_t *m)
{
    uint64_t rest =
        k3_add(k3_add(m->expert_weights, m->hidden), k3_add(m->shared_expert, m->dense_weights));
    uint64_t all = cell->on_device ? m->device : m->total;
    json_t  *memory = json_object();

    rest -= cell->on_device ? m->hidden : 0;
    k3_set_count(memory, "buffers_bytes", all == K3_TOO_BIG ? K3_TOO_BIG : all - rest);
    k3_set_count(memory, "block_bytes", m->block);
    k3_set_count(memory, "expert_weights_bytes", m->expert_weights);
    k3_set_count(memory, "shared_expert_bytes", m->shared_expert);
    k3_set_count(memory, "shared_expert_model_bytes",
                 k3_mul(m->shared_expert, cell->model.moe_layers));
    k3_set_count(memory, "dense_weights_bytes", m->dense_weights);
    k3_set_count(memory, "hidden_bytes", m->hidden);
    k3_set_count(memory, "mapped_bytes", m->mapped_experts + m->mapped_dense);
    k3_set_count(memory, "total_bytes", m->total);
    if (cell->on_device) {
        k3_set_count(memory, "host_bytes", m->host);
        k3_set_count(memory, "on_device_bytes", m->device);
    }
    return memory;
}

json_t *k3_record_plan(const k3_cell_t *cell, const k3_work_t *work, const k3_memory_t *memory)
{
    static const char *const results[] = {"check", "phases", "rates", "overlap", "qps", "waits"};
    json_t                  *o = json_object();

    k3_set_text(o, "key", cell->key);
    k3_set_text(o, "backend", cell->profile->backend);
    k3_set_text(o, "mode", cell->profile->mode);
    k3_set_text(o, "generation", cell->generation == K3_GENERATION_K3 ? "k3" : "stock");
    json_object_set_new(o, "model", record_model(&cell->model));
    k3_set_text(o, "component", k3_component_names[cell->component]);
    json_object_set_new(o, "layout", record_layout(cell));
    json_object_set_new(o, "path", record_path(cell));
    json_object_set_new(o, "tokens", record_tokens(cell));
    json_object_set_new(o, "choices", record_choices(cell));
    k3_record_status(o, "planned", NULL);
    json_object_set_new(o, "work", record_work(cell, work));
    json_object_set_new(o, "traffic", record_traffic(work));
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        k3_set_null(o, results[i], "not run");
    }
    json_object_set_new(o, "memory", record_memory(cell, memory));
    return o;
}

/* --- what was asked and refused -------------------------------------------------------------- */

static const char refused[] = "refused", unresolved[] = "default, not resolved";

/* 0: left to its default. */
static void set_asked(json_t *object, const char *name, uint64_t value)
{
    if (value == 0) {
        k3_set_null(object, name, unresolved);
    } else {
        k3_set_count(object, name, value);
    }
}

static void set_nulls(json_t *object, const char *const *names)
{
    for (; *names != NULL; names++) {
        k3_set_null(object, *names, refused);
    }
}

static const char *text_or(const char *text, const char *fallback)
{
    return text != NULL ? text : fallback;
}

static json_t *asked_layout(const k3_cell_request_t *q)
{
    json_t *layout = json_object();

    set_asked(layout, "tp", q->tp != 0 ? q->tp : q->world);
    set_asked(layout, "dp", q->dp);
    set_asked(layout, "cp", q->cp);
    set_asked(layout, "ep", q->ep);
    set_nulls(layout, (const char *const[]){"attn_tp", "moe_tp", NULL});
    set_asked(layout, "nodes", q->nodes_as);
    k3_set_bool(layout, "virtual_nodes", q->nodes_as != 0);
    return layout;
}

static json_t *asked_tokens(const k3_cell_request_t *q)
{
    json_t *tokens = json_object();

    k3_set_count(tokens, "asked", q->tokens);
    set_nulls(tokens, (const char *const[]){"min", "max", "total", NULL});
    set_asked(tokens, "bound", q->max_tokens);
    return tokens;
}

static json_t *asked_path(const k3_cell_request_t *q, const k3_profile_t *profile)
{
    const char *choice = text_or(q->path, k3_path_choice_names[K3_PATH_AUTO]);
    json_t     *path = json_object();

    k3_set_text(path, "rule", text_or(q->path_rule, "registry"));
    if (strcmp(choice, k3_path_choice_names[K3_PATH_AUTO]) == 0) {
        k3_set_null(path, "fast", unresolved);
    } else {
        k3_set_bool(path, "fast", strcmp(choice, k3_path_choice_names[K3_PATH_FAST]) == 0);
    }
    set_nulls(path, (const char *const[]){"sp_moe", "reduced_twice", NULL});
    if (profile != NULL) {
        k3_set_bool(path, "moves_rows", k3_profile_moves_rows(profile));
    } else {
        k3_set_null(path, "moves_rows", "no such backend");
    }
    return path;
}

static json_t *asked_choices(const k3_cell_request_t *q, const k3_profile_t *profile)
{
    json_t *choices = json_object(), *recipe = json_object();
    char    space[K3_SHORT_TEXT_MAX];

    if (profile != NULL) {
        k3_set_text(choices, "engine", k3_engine_name(profile->engine));
    } else {
        k3_set_null(choices, "engine", "no such backend");
    }
    k3_set_text(choices, "shared", text_or(q->shared, "auto"));
    k3_set_bool(choices, "shared_overlap", strcmp(text_or(q->shared_overlap, "off"), "on") == 0);
    k3_set_text(choices, "dispatch_dtype", text_or(q->dispatch_dtype, "auto"));
    k3_set_text(choices, "combine_dtype", text_or(q->combine_dtype, "auto"));
    k3_set_text(recipe, "runner", text_or(q->runner, "auto"));
    set_nulls(recipe, (const char *const[]){"input", "round_gate_up", "middle", NULL});
    json_object_set_new(choices, "recipe", recipe);
    k3_set_text(choices, "signal", text_or(q->signal, "auto"));
    set_nulls(choices, (const char *const[]){"signal_waits", NULL});
    k3_set_bool(choices, "zero_copy", strcmp(text_or(q->zero_copy, "off"), "on") == 0);
    k3_set_text(choices, "on_timeout", text_or(q->on_timeout, "auto"));
    set_asked(choices, "qps_per_peer", q->qps);
    set_nulls(choices, (const char *const[]){"qps_existing", "below_upstream_minimum", NULL});
    k3_set_text(choices, "fabric", text_or(q->fabric, "ib"));
    k3_set_bool(choices, "p2p", q->p2p);
    k3_set_text(choices, "tokens_skew", k3_short_text(text_or(q->skew, "equal"), space));
    k3_set_text(choices, "routing", text_or(q->routing, "uniform"));
    json_object_set_new(choices, "seed", seed_value(q->seed));
    return choices;
}

json_t *k3_record_refused(const k3_cell_request_t *q, const k3_error_t *err)
{
    const k3_profile_t *profile = NULL;
    const char         *backend = text_or(q->backend, "none");
    k3_error_t          unused = K3_ERROR_INIT;
    json_t             *o = json_object();

    k3_registry_find(backend, &profile, &unused);
    k3_set_null(o, "key", refused);
    k3_set_text(o, "backend", profile != NULL ? profile->backend : backend);
    k3_set_text(o, "mode", profile != NULL ? profile->mode : "");
    k3_set_text(o, "generation", q->generation);
    if (q->generation == NULL) {
        k3_set_null(o, "generation", unresolved);
    }
    json_object_set_new(o, "model",
                        json_pack("{s:o}", "name", k3_json_string(text_or(q->model, "tiny"))));
    k3_set_text(o, "component", text_or(q->component, "region"));
    json_object_set_new(o, "layout", asked_layout(q));
    json_object_set_new(o, "path", asked_path(q, profile));
    json_object_set_new(o, "tokens", asked_tokens(q));
    json_object_set_new(o, "choices", asked_choices(q, profile));
    k3_record_status(o, "unsupported", err->text);
    set_nulls(o, (const char *const[]){"work", "traffic", "check", "phases", "rates", "overlap",
                                       "qps", "waits", "memory", NULL});
    return o;
}

/* All of them are refused; *reason: the one that all give, or NULL. False for no cells. */
static bool all_refused(const json_t *cells, const char **reason)
{
    const json_t *first = json_object_get(json_array_get(cells, 0), "reason"), *cell;
    size_t        i;

    *reason = json_string_value(first);
    json_array_foreach(cells, i, cell)
    {
        if (strcmp(k3_get_text(cell, "status"), "unsupported") != 0) {
            return false;
        }
        if (!json_equal(json_object_get(cell, "reason"), first)) {
            *reason = NULL;
        }
    }
    return json_array_size(cells) > 0;
}

k3_status_t k3_record_refuse_all(const json_t *cells, k3_status_t status, k3_error_t *err)
{
    const char *reason;

    if (all_refused(cells, &reason) && reason != NULL) {
        k3_fail(err, status, "%s", reason);
    }
    return err->status;
}

k3_status_t k3_record_refuse_each(const json_t *cells, k3_status_t status, k3_error_t *err)
{
    const char *reason;

    if (all_refused(cells, &reason) && reason == NULL) {
        k3_fail(err, status, "none of the %zu cells can be done, each for a reason of its own",
                json_array_size(cells));
    }
    return err->status;
}
