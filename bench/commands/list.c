/* k3bench list backends|runners|models|paths [--json [FILE]]: the registry, for people and for programs. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "bench/cell/checkpoint.h"
#include "bench/cell/checkpoint_files.h"
#include "bench/cell/model.h"
#include "bench/commands/command.h"
#include "bench/profiles/path.h"
#include "bench/profiles/profile.h"
#include "bench/profiles/runner.h"
#include "bench/report/table.h"
#include "harness/base/text.h"
#include "harness/record/document.h"

static const char *formats_text(unsigned formats, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (unsigned f = 0; f < K3_FORMAT_COUNT; f++) {
        if ((formats & K3_BIT(f)) != 0) {
            used = k3_append(text, size, used, "%s%s", used > 0 ? "," : "", k3_format_names[f]);
        }
    }
    return text;
}

static const char *qp_text(const k3_profile_t *p, char *text, size_t size)
{
    switch (p->qp_count) {
    case K3_QPS_ZERO:
        snprintf(text, size, "none");
        break;
    case K3_QPS_PER_LOCAL_EXPERT:
        snprintf(text, size, "E/R");
        break;
    case K3_QPS_SHARE:
        snprintf(text, size, "%u/R", p->qp_param);
        break;
    default:
        snprintf(text, size, "%u", p->qp_param);
        break;
    }
    return text;
}

/* --- JSON ------------------------------------------------------------------------------------ */

static json_t *names_json(unsigned bits, unsigned count, const char *(*name)(unsigned))
{
    json_t *names = json_array();

    for (unsigned i = 0; i < count; i++) {
        if ((bits & K3_BIT(i)) != 0) {
            json_array_append_new(names, json_string(name(i)));
        }
    }
    return names;
}

static json_t *limits_json(const k3_limits_t *l)
{
    json_t *widths = json_array();

    for (int i = 0; i < K3_WIDTHS_MAX && l->widths[i] != 0; i++) {
        json_array_append_new(widths, json_integer(l->widths[i]));
    }
    return json_pack("{s:i, s:o, s:i, s:i, s:i, s:i, s:I, s:I, s:b, s:b, s:o}", "topk",
                     (int)l->topk, "widths", widths, "intermediate_min", (int)l->inter_min,
                     "intermediate_max", (int)l->inter_max, "intermediate_unit", (int)l->inter_unit,
                     "ranks", (int)l->ranks, "tokens", (json_int_t)l->tokens, "window_bytes",
                     (json_int_t)l->window, "experts_divide", l->experts_divide, "one_node",
                     l->one_node, "weights",
                     names_json(l->weights, K3_WEIGHT_FORMAT_COUNT, k3_weights_name_at));
}

static json_t *ring_json(const k3_ring_sizes_t *s)
{
    return json_pack("[i, i, i, i]", (int)s->nvl_send, (int)s->nvl_recv, (int)s->rdma_send,
                     (int)s->rdma_recv);
}

/* [] where slots are not used again. */
static json_t *rings_json(const k3_ring_tuning_t *t)
{
    json_t *rows = json_array();

    for (; t != NULL && t->ranks > 0; t++) {
        json_array_append_new(rows, json_pack("{s:i, s:o, s:o}", "ranks_from", (int)t->ranks,
                                              "dispatch", ring_json(&t->dispatch), "combine",
                                              ring_json(&t->combine)));
    }
    return rows;
}

/* What --on-timeout may ask for beside the profile's own action. */
static json_t *fault_choices(const k3_profile_t *p)
{
    json_t *choices = json_array();

    for (int a = K3_FAULT_WAIT; a <= K3_FAULT_ERROR; a++) {
        if ((p->fault_choices & K3_BIT(a)) != 0) {
            json_array_append_new(choices, json_string(k3_fault_action_name((k3_fault_action_t)a)));
        }
    }
    return choices;
}

static json_t *profile_json(const k3_profile_t *p)
{
    char    dispatch[64], combine[64];
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "name", p->name, "backend",
                          p->backend, "mode", p->mode, "state", k3_profile_state(p), "engine",
                          k3_engine_name(p->engine), "source", p->source, "notes", p->notes);

    json_object_set_new(o, "reliance",
                        json_pack("{s:b, s:b, s:s, s:s?, s:b}", "spans_ep", p->spans_ep,
                                  "combine_complete", p->combine_complete, "layout",
                                  k3_dispatch_layout_name(p->layout), "own_runner", p->own_runner,
                                  "context_parallel", p->context_parallel));
    json_object_set_new(
        o, "rows",
        json_pack(
            "{s:s, s:s, s:s, s:b, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b}",
            "copy", k3_copy_rule_name(p->copy), "combine_copy", k3_copy_rule_name(p->combine_copy),
            "slots", k3_slot_rule_name(p->slots), "combine_folds", p->combine_folds,
            "dispatch_formats", formats_text(p->dispatch_formats, dispatch, sizeof(dispatch)),
            "dispatch_auto", k3_format_names[p->dispatch_auto], "combine_formats",
            formats_text(p->combine_formats, combine, sizeof(combine)), "combine_auto",
            k3_format_names[p->combine_auto], "header_bytes", (int)p->header_bytes, "meta_bytes",
            (int)p->meta_bytes, "meta_topk_bytes", (int)p->meta_topk_bytes, "combine_meta_bytes",
            (int)p->combine_meta_bytes, "combine_meta_topk_bytes", (int)p->combine_meta_topk_bytes,
            "pad", (int)p->pad, "align", (int)p->align, "combine_slot_extra",
            (int)p->combine_slot_extra, "zero_copy", p->zero_copy));
    json_object_set_new(o, "signals",
                        json_pack("{s:s, s:i, s:s, s:s, s:s, s:s}", "op",
                                  k3_signal_op_name(p->signal_op), "bytes", (int)p->signal_bytes,
                                  "dispatch_when", k3_signal_when_name(p->dispatch_when),
                                  "dispatch_value", k3_signal_value_name(p->dispatch_value),
                                  "combine_when", k3_signal_when_name(p->combine_when),
                                  "combine_value", k3_signal_value_name(p->combine_value)));
    json_object_set_new(o, "two_hops",
                        json_pack("{s:i, s:b, s:i, s:i, s:b, s:i, s:i, s:o}", "chunk_rows",
                                  (int)p->chunk_rows, "end_marker", p->end_marker, "tail_rows",
                                  (int)p->tail_rows, "local_tail_rows", (int)p->local_tail_rows,
                                  "local_barrier", p->local_barrier, "one_node_meta_bytes",
                                  (int)p->one_node_meta_bytes, "one_node_meta_topk_bytes",
                                  (int)p->one_node_meta_topk_bytes, "rings", rings_json(p->rings)));
    json_object_set_new(
        o, "qps",
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:s}", "count", k3_qp_count_name(p->qp_count), "param",
                  (int)p->qp_param, "control", (int)p->qp_control, "channels", (int)p->channels,
                  "active_roce", (int)p->qp_active_roce, "map", k3_qp_map_name(p->qp_map)));
    json_object_set_new(o, "posting",
                        json_pack("{s:i, s:b, s:b}", "doorbell_every", (int)p->doorbell_every,
                                  "doorbell_signal", p->doorbell_signal, "exclusive",
                                  p->exclusive));
    json_object_set_new(o, "completion",
                        json_pack("{s:s, s:s, s:i, s:i}", "rule", k3_completion_name(p->completion),
                                  "weights_at", k3_weights_at_name(p->weights_at),
                                  "combine_roundings", (int)p->combine_roundings, "buffers",
                                  (int)p->buffers));
    json_object_set_new(o, "fault",
                        json_pack("{s:s, s:o, s:f, s:b, s:b}", "action",
                                  k3_fault_action_name(p->fault), "choices", fault_choices(p),
                                  "timeout_s", p->timeout_s, "first_call_unlimited",
                                  p->first_call_unlimited, "mask_at_send", p->mask_at_send));
    json_object_set_new(o, "limits_stock", limits_json(&p->limits));
    return o;
}

static json_t *recipe_json(const k3_recipe_t *recipe)
{
    char    points[K3_RECIPE_POINTS][K3_RECIPE_TEXT];
    json_t *list = json_array();

    k3_recipe_points(recipe, points);
    for (int i = 0; i < K3_RECIPE_POINTS; i++) {
        json_array_append_new(list, json_string(points[i]));
    }
    return json_pack("{s:s, s:s, s:b, s:s, s:s, s:s, s:o}", "name", recipe->name, "input",
                     k3_format_names[recipe->input], "round_gate_up", recipe->round_gate_up,
                     "middle", k3_format_names[recipe->middle], "input_rule",
                     k3_format_rules[recipe->input], "middle_rule", k3_format_rules[recipe->middle],
                     "points", list);
}

/* Profiles that a runner fits, by name. */
static json_t *fitting_json(const k3_runner_t *runner)
{
    json_t *names = json_array();

    for (unsigned i = 0; i < k3_registry_count(); i++) {
        if (k3_runner_fits(runner, k3_registry_at(i))) {
            json_array_append_new(names, json_string(k3_registry_at(i)->name));
        }
    }
    return names;
}

static json_t *runner_list_json(void)
{
    json_t *rows = json_array();

    for (unsigned i = 0; i < k3_runner_count(); i++) {
        const k3_runner_t *r = k3_runner_at(i);

        json_array_append_new(
            rows,
            json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "name", r->name, "what", r->what,
                      "source", r->source, "layouts",
                      names_json(r->accepts, K3_DISPATCH_LAYOUT_COUNT, k3_layout_name_at), "rows",
                      names_json(r->rows, K3_FORMAT_COUNT, k3_format_name_at), "weights",
                      names_json(r->weights, K3_WEIGHT_FORMAT_COUNT, k3_weights_name_at),
                      "backends", fitting_json(r), "recipe", recipe_json(&r->recipe)));
    }
    return rows;
}

static json_t *backends_json(void)
{
    json_t *rows = json_array();

    for (unsigned i = 0; i < k3_registry_count(); i++) {
        json_array_append_new(rows, profile_json(k3_registry_at(i)));
    }
    return json_pack("{s:o, s:o}", "backends", rows, "runners", runner_list_json());
}

static json_t *runners_json(void)
{
    return json_pack("{s:o}", "runners", runner_list_json());
}

/* The tensors that --weights reads for a model; null where its checkpoints have another layout. */
static json_t *checkpoint_json(const k3_model_t *m)
{
    json_t              *tensors = json_array();
    k3_checkpoint_need_t need;

    for (unsigned i = 0; i < K3_CHECKPOINT_NEEDS && m->latent_step; i++) {
        if (k3_checkpoint_need(m, i, &need)) {
            json_t *shape = json_array();

            for (unsigned d = 0; d < need.dims; d++) {
                json_array_append_new(shape, json_integer((json_int_t)need.shape[d]));
            }
            json_array_append_new(tensors,
                                  json_pack("{s:s+, s:s, s:o, s:b, s:s}", "name",
                                            need.of_each_expert ? "experts.M." : "", need.suffix,
                                            "type", need.type, "shape", shape, "of_each_expert",
                                            need.of_each_expert, "what", need.what));
        }
    }
    if (!m->latent_step) {
        json_decref(tensors);
        return json_null();
    }
    return json_pack("{s:s, s:o}", "prefix", K3_CHECKPOINT_LAYERS "N." K3_CHECKPOINT_BLOCK,
                     "tensors", tensors);
}

static json_t *models_json(void)
{
    json_t *rows = json_array();

    for (unsigned i = 0; i < k3_model_count(); i++) {
        const k3_model_t *m = k3_model_at(i);
        json_t *row = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I}", "name",
                                m->name, "hidden", (int)m->hidden, "latent", (int)m->latent,
                                "experts", (int)m->experts, "topk", (int)m->topk, "intermediate",
                                (int)m->intermediate, "shared", (int)m->shared, "expert_bytes",
                                (json_int_t)k3_model_expert_bytes(m), "shared_bytes",
                                (json_int_t)k3_model_shared_bytes(m), "dense_bytes",
                                (json_int_t)k3_model_dense_bytes(m));

        json_object_set_new(row, "checkpoint", checkpoint_json(m));
        json_array_append_new(rows, row);
    }
    return json_pack("{s:o}", "models", rows);
}

static json_t *paths_json(void)
{
    json_t *rows = json_array();

    for (unsigned i = 0; i < k3_path_rule_count(); i++) {
        json_array_append_new(rows, json_pack("{s:s, s:s}", "name", k3_path_rule_at(i)->name,
                                              "what", k3_path_rule_at(i)->what));
    }
    return json_pack("{s:o}", "paths", rows);
}

/* --- text ------------------------------------------------------------------------------------ */

static void backends_text(void)
{
    printf("%-20s %-11s %-6s %-11s %-6s %-15s %-6s %s\n", "backend", "state", "engine", "copy",
           "path", "layout", "QPs", "dispatch formats (auto first)");
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        const k3_profile_t *p = k3_registry_at(i);
        char                qps[16], formats[64];

        printf("%-20s %-11s %-6s %-11s %-6s %-15s %-6s %s; %s\n", p->name, k3_profile_state(p),
               k3_engine_name(p->engine), k3_copy_rule_name(p->copy),
               p->spans_ep ? "fast" : "gather", k3_dispatch_layout_name(p->layout),
               qp_text(p, qps, sizeof(qps)), k3_format_names[p->dispatch_auto],
               formats_text(p->dispatch_formats, formats, sizeof(formats)));
    }
}

static const char *joined(unsigned bits, unsigned count, const char *(*name)(unsigned), char *text,
                          size_t size)
{
    size_t used = 0;

    snprintf(text, size, "%s", bits == 0 ? "(its own kernel)" : "");
    for (unsigned i = 0; i < count; i++) {
        if ((bits & K3_BIT(i)) != 0) {
            used = k3_append(text, size, used, "%s%s", used > 0 ? "," : "", name(i));
        }
    }
    return text;
}

/* A line of what it takes, then its rounding points. */
static void runners_text(void)
{
    printf("%-20s %-11s %-11s %-15s %s\n", "runner", "recipe", "rows as is", "weights",
           "dispatch layouts");
    for (unsigned i = 0; i < k3_runner_count(); i++) {
        const k3_runner_t *r = k3_runner_at(i);
        char               rows[64], weights[64], layouts[128];
        char               points[K3_RECIPE_POINTS][K3_RECIPE_TEXT];

        printf("%-20s %-11s %-11s %-15s %s\n", r->name, r->recipe.name,
               joined(r->rows, K3_FORMAT_COUNT, k3_format_name_at, rows, sizeof(rows)),
               joined(r->weights, K3_WEIGHT_FORMAT_COUNT, k3_weights_name_at, weights,
                      sizeof(weights)),
               joined(r->accepts, K3_DISPATCH_LAYOUT_COUNT, k3_layout_name_at, layouts,
                      sizeof(layouts)));
        k3_recipe_points(&r->recipe, points);
        for (int p = 0; p < K3_RECIPE_POINTS; p++) {
            printf("    %s\n", points[p]);
        }
    }
}

/* One line for each tensor, a column of shapes for each model whose checkpoints are read. */
static void checkpoint_text(void)
{
    char                 text[K3_SAFETENSORS_SHAPE];
    k3_checkpoint_need_t need;

    printf("\nof a layer N, --weights FILE|DIR[:N] reads from safetensors " K3_CHECKPOINT_LAYERS
           "N." K3_CHECKPOINT_BLOCK "\n\n%-36s",
           "tensor (M: each expert)");
    for (unsigned i = 0; i < k3_model_count(); i++) {
        if (k3_model_at(i)->latent_step) {
            printf(" %-17s", k3_model_at(i)->name);
        }
    }
    printf("\n");
    for (unsigned n = 0; n < K3_CHECKPOINT_NEEDS; n++) {
        k3_checkpoint_need(k3_model_at(0), n, &need);
        snprintf(text, sizeof(text), "%s%s", need.of_each_expert ? "experts.M." : "", need.suffix);
        printf("%-36s", text);
        for (unsigned i = 0; i < k3_model_count(); i++) {
            const k3_model_t *m = k3_model_at(i);

            if (m->latent_step && k3_checkpoint_need(m, n, &need)) {
                printf(" %-17s", k3_safetensors_shape(need.type, need.dims, need.shape, text));
            }
        }
        printf("\n");
    }
    printf("\n--weights reads no checkpoints of the other models: theirs have another layout\n");
}

static void models_text(void)
{
    printf("%-17s %6s %6s %5s %4s %6s %6s %12s %12s %12s\n", "model", "H", "L", "E", "K", "I", "S",
           "one expert", "all experts", "shared");
    for (unsigned i = 0; i < k3_model_count(); i++) {
        const k3_model_t *m = k3_model_at(i);
        char              one[32], all[32], shared[32];

        printf("%-17s %6u %6u %5u %4u %6u %6u %12s %12s %12s\n", m->name, m->hidden, m->latent,
               m->experts, m->topk, m->intermediate, m->shared,
               k3_table_bytes((double)k3_model_expert_bytes(m), one, sizeof(one)),
               k3_table_bytes((double)k3_model_expert_bytes(m) * m->experts, all, sizeof(all)),
               k3_table_bytes((double)k3_model_shared_bytes(m), shared, sizeof(shared)));
    }
    checkpoint_text();
}

static void paths_text(void)
{
    for (unsigned i = 0; i < k3_path_rule_count(); i++) {
        printf("%-14s %s\n", k3_path_rule_at(i)->name, k3_path_rule_at(i)->what);
    }
}

enum { TOPICS = 4, WORDS_MAX = 16 };

static const char *const topics[TOPICS + 1] = {"backends", "runners", "models", "paths", NULL};

static bool is_topic(const char *word)
{
    for (int i = 0; i < TOPICS; i++) {
        if (strcmp(word, topics[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* --json alone is --json -: "list backends --json", "list --json backends". */
static void name_the_output(int argc, char **argv, char **words)
{
    static char to_stdout[] = "--json=-";

    for (int i = 0; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        bool        alone = next == NULL || is_topic(next) || (next[0] == '-' && next[1] != '\0');

        words[i] = alone && strcmp(argv[i], "--json") == 0 ? to_stdout : argv[i];
    }
}

static k3_status_t list_topic(const k3_options_t *options, k3_error_t *err)
{
    json_t *(*const make[TOPICS])(void) = {backends_json, runners_json, models_json, paths_json};
    void (*const print[TOPICS])(void) = {backends_text, runners_text, models_text, paths_text};
    const char *path = k3_options_get(options, "json");
    size_t      index = 0;

    if (k3_options_positional_count(options) != 1) {
        return k3_fail(err, K3_ERR_USAGE, "list: name one of backends, runners, models, paths");
    }
    if (k3_parse_name("list", k3_options_positional(options, 0), topics, &index, err) != K3_OK) {
        return err->status;
    }
    if (path == NULL) {
        print[index]();
    } else {
        json_t *document = make[index]();

        k3_document_write(document, path, err);
        json_decref(document);
    }
    return err->status;
}

static int run_list(int argc, char **argv)
{
    k3_error_t    err = K3_ERROR_INIT;
    k3_options_t *options = NULL;
    char         *words[WORDS_MAX];
    int           help = 0;

    if (argc > WORDS_MAX) {
        k3_fail(&err, K3_ERR_USAGE, "list: %d words; name one of backends, runners, models, paths",
                argc);
        return k3_command_end(&err);
    }
    name_the_output(argc, argv, words);
    if (k3_command_options(&k3_command_list, argc, words, &options, &help, &err) == K3_OK &&
        !help) {
        list_topic(options, &err);
        k3_options_free(options);
    }
    return k3_command_end(&err);
}

const k3_command_t k3_command_list = {
    .id = K3_COMMAND_LIST,
    .name = "list",
    .usage = "backends|runners|models|paths [--json [FILE]]",
    .what = "the registry: backends and what they can do, expert runners and where they round, "
            "models, path rules",
    .files = true,
    .run = run_list,
};
