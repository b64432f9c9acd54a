/* k3bench list backends|models|paths [--json]: the registry, for people and for programs. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "bench/cell/model.h"
#include "bench/commands/command.h"
#include "bench/profiles/path.h"
#include "bench/profiles/profile.h"
#include "bench/profiles/runner.h"
#include "bench/report/table.h"

static const char *formats_text(unsigned formats, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (unsigned f = 0; f < K3_FORMAT_COUNT; f++) {
        if ((formats & K3_BIT(f)) != 0) {
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? "," : "",
                                     k3_format_names[f]);
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

static json_t *limits_json(const k3_limits_t *l)
{
    json_t *widths = json_array();

    for (int i = 0; i < K3_WIDTHS_MAX && l->widths[i] != 0; i++) {
        json_array_append_new(widths, json_integer(l->widths[i]));
    }
    return json_pack("{s:i, s:o, s:i, s:I, s:b, s:b}", "topk", (int)l->topk, "widths", widths,
                     "ranks", (int)l->ranks, "tokens", (json_int_t)l->tokens, "experts_divide",
                     l->experts_divide, "one_node", l->one_node);
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
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "name", p->name, "backend", p->backend,
                  "mode", p->mode, "state", p->planned ? "planned" : "available", "engine",
                  k3_engine_name(p->engine), "source", p->source, "notes", p->notes);

    json_object_set_new(o, "reliance",
                        json_pack("{s:b, s:b, s:s, s:b}", "spans_ep", p->spans_ep,
                                  "combine_complete", p->combine_complete, "layout",
                                  k3_dispatch_layout_name(p->layout), "context_parallel",
                                  p->context_parallel));
    json_object_set_new(
        o, "rows",
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:b}", "copy",
                  k3_copy_rule_name(p->copy), "dispatch_formats",
                  formats_text(p->dispatch_formats, dispatch, sizeof(dispatch)), "dispatch_auto",
                  k3_format_names[p->dispatch_auto], "combine_formats",
                  formats_text(p->combine_formats, combine, sizeof(combine)), "combine_auto",
                  k3_format_names[p->combine_auto], "header_bytes", (int)p->header_bytes,
                  "meta_bytes", (int)p->meta_bytes, "meta_topk_bytes", (int)p->meta_topk_bytes,
                  "pad", (int)p->pad, "combine_slot_extra", (int)p->combine_slot_extra, "zero_copy",
                  p->zero_copy));
    json_object_set_new(o, "signals",
                        json_pack("{s:s, s:i, s:s, s:s, s:s, s:s}", "op",
                                  k3_signal_op_name(p->signal_op), "bytes", (int)p->signal_bytes,
                                  "dispatch_when", k3_signal_when_name(p->dispatch_when),
                                  "dispatch_value", k3_signal_value_name(p->dispatch_value),
                                  "combine_when", k3_signal_when_name(p->combine_when),
                                  "combine_value", k3_signal_value_name(p->combine_value)));
    json_object_set_new(o, "qps",
                        json_pack("{s:s, s:i, s:i, s:i, s:s}", "count",
                                  k3_qp_count_name(p->qp_count), "param", (int)p->qp_param,
                                  "channels", (int)p->channels, "active_roce",
                                  (int)p->qp_active_roce, "map", k3_qp_map_name(p->qp_map)));
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

static json_t *backends_json(void)
{
    json_t *rows = json_array(), *runners = json_array();

    for (unsigned i = 0; i < k3_registry_count(); i++) {
        json_array_append_new(rows, profile_json(k3_registry_at(i)));
    }
    for (unsigned i = 0; i < k3_runner_count(); i++) {
        const k3_runner_t *r = k3_runner_at(i);

        json_array_append_new(runners, json_pack("{s:s, s:s, s:{s:s, s:b, s:s}}", "name", r->name,
                                                 "what", r->what, "recipe", "input",
                                                 k3_format_names[r->recipe.input], "round_gate_up",
                                                 r->recipe.round_gate_up, "middle",
                                                 k3_format_names[r->recipe.middle]));
    }
    return json_pack("{s:o, s:o}", "backends", rows, "runners", runners);
}

static json_t *models_json(void)
{
    json_t *rows = json_array();

    for (unsigned i = 0; i < k3_model_count(); i++) {
        const k3_model_t *m = k3_model_at(i);

        json_array_append_new(rows, json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I}",
                                              "name", m->name, "hidden", (int)m->hidden, "latent",
                                              (int)m->latent, "experts", (int)m->experts, "topk",
                                              (int)m->topk, "intermediate", (int)m->intermediate,
                                              "shared", (int)m->shared, "expert_bytes",
                                              (json_int_t)k3_model_expert_bytes(m), "shared_bytes",
                                              (json_int_t)k3_model_shared_bytes(m), "dense_bytes",
                                              (json_int_t)k3_model_dense_bytes(m)));
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
    printf("%-20s %-9s %-6s %-11s %-6s %-15s %-6s %s\n", "backend", "state", "engine", "copy",
           "path", "layout", "QPs", "dispatch formats (auto first)");
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        const k3_profile_t *p = k3_registry_at(i);
        char                qps[16], formats[64];

        printf("%-20s %-9s %-6s %-11s %-6s %-15s %-6s %s; %s\n", p->name,
               p->planned ? "planned" : "available", k3_engine_name(p->engine),
               k3_copy_rule_name(p->copy), p->spans_ep ? "fast" : "gather",
               k3_dispatch_layout_name(p->layout), qp_text(p, qps, sizeof(qps)),
               k3_format_names[p->dispatch_auto],
               formats_text(p->dispatch_formats, formats, sizeof(formats)));
    }
}

static void models_text(void)
{
    printf("%-14s %6s %6s %5s %4s %6s %6s %12s %12s %12s\n", "model", "H", "L", "E", "K", "I", "S",
           "one expert", "all experts", "shared");
    for (unsigned i = 0; i < k3_model_count(); i++) {
        const k3_model_t *m = k3_model_at(i);
        char              one[32], all[32], shared[32];

        printf("%-14s %6u %6u %5u %4u %6u %6u %12s %12s %12s\n", m->name, m->hidden, m->latent,
               m->experts, m->topk, m->intermediate, m->shared,
               k3_table_bytes((double)k3_model_expert_bytes(m), one, sizeof(one)),
               k3_table_bytes((double)k3_model_expert_bytes(m) * m->experts, all, sizeof(all)),
               k3_table_bytes((double)k3_model_shared_bytes(m), shared, sizeof(shared)));
    }
}

static void paths_text(void)
{
    for (unsigned i = 0; i < k3_path_rule_count(); i++) {
        printf("%-14s %s\n", k3_path_rule_at(i)->name, k3_path_rule_at(i)->what);
    }
}

static int run_list(int argc, char **argv)
{
    static const char *const topics[] = {"backends", "models", "paths", NULL};
    k3_error_t               err = K3_ERROR_INIT;
    bool                     json = false;
    const char              *topic = NULL;
    size_t                   index = 0;

    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            printf("usage: k3bench list %s\n\n%s\n", k3_command_list.usage, k3_command_list.what);
            return 0;
        } else if (topic == NULL && argv[i][0] != '-') {
            topic = argv[i];
        } else {
            k3_fail(&err, K3_ERR_USAGE,
                    "list: \"%s\" is unknown; it takes backends, models or paths, and --json",
                    argv[i]);
            return k3_command_end(&err);
        }
    }
    if (topic == NULL) {
        k3_fail(&err, K3_ERR_USAGE, "list: name one of backends, models, paths");
    } else if (k3_parse_name("list", topic, topics, &index, &err) == K3_OK && json) {
        json_t *(*const make[])(void) = {backends_json, models_json, paths_json};
        json_t *document = make[index]();

        json_dumpf(document, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        printf("\n");
        json_decref(document);
    } else if (err.status == K3_OK) {
        void (*const print[])(void) = {backends_text, models_text, paths_text};

        print[index]();
    }
    return k3_command_end(&err);
}

const k3_command_t k3_command_list = {
    .id = K3_COMMAND_LIST,
    .name = "list",
    .usage = "backends|models|paths [--json]",
    .what = "the registry: backends and what they can do, models, path rules",
    .run = run_list,
};
