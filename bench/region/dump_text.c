/* What a dump says about itself: README.md for people, dump.json for programs. */
#include <stdio.h>

#include "bench/plan/shared.h"
#include "bench/region/dump_internal.h"
#include "bench/region/oracle_internal.h"
#include "harness/record/document.h"
#include "harness/record/json_values.h"

static const char *const rule_names[] = {
    [K3_RULE_ORIGIN] = "origin", [K3_RULE_SLOTS] = "slots",     [K3_RULE_RANKS] = "ranks",
    [K3_RULE_NODES] = "nodes",   [K3_RULE_NOTHING] = "nothing",
};

static const char *const rule_texts[] = {
    [K3_RULE_ORIGIN] = "bf16 of the sum over k, in f32, of weights[k] * y[k]",
    [K3_RULE_SLOTS] = "the experts multiply the activation by the weight; bf16 of the sum over k",
    [K3_RULE_RANKS] =
        "each rank sums weights[k] * y[k] of its experts in f32 and rounds to bf16; bf16 of the "
        "sum over the ranks in order",
    [K3_RULE_NODES] =
        "each rank sums weights[k] * y[k] of its experts in f32 and rounds to bf16; each node adds "
        "its ranks' in order and rounds; bf16 of the sum over the nodes in order",
    [K3_RULE_NOTHING] = "nothing moves: zeros",
};

static json_t *ranks_json(const k3_cell_t *cell)
{
    const k3_layout_t *l = &cell->layout;
    json_t            *ranks = json_array();

    for (uint32_t r = 0; r < l->tp; r++) {
        uint32_t begin, end;

        k3_layout_expert_slice(l, &cell->model, r, &begin, &end);
        json_array_append_new(
            ranks, json_pack("{s:i, s:i, s:[i, i], s:i, s:I}", "first_expert",
                             (int)k3_layout_first_expert(l, &cell->model, r), "experts",
                             (int)k3_layout_local_experts(l, &cell->model), "slice", (int)begin,
                             (int)end, "node", cell->node_of[r], "rows", (json_int_t)l->rows[r]));
    }
    return ranks;
}

/* The columns that each partial sum of the shared expert covers. */
static json_t *shared_json(const k3_cell_t *cell)
{
    json_t  *slices = json_array();
    uint32_t parts = cell->model.shared > 0 ? k3_shared_parts(cell) : 0, begin, end;

    for (uint32_t p = 0; p < parts; p++) {
        k3_layout_slice(cell->model.shared, 16, parts, p, &begin, &end);
        json_array_append_new(slices, json_pack("[i, i]", (int)begin, (int)end));
    }
    return slices;
}

static json_t *dump_json(const k3_dump_t *d)
{
    const k3_cell_t   *cell = d->region->cell;
    const k3_recipe_t *recipe = &cell->runner->recipe;
    const k3_model_t  *m = &cell->model;

    return json_pack(
        "{s:s, s:s, s:I, s:o, s:o, s:b, s:s, s:s, s:s, s:{s:s, s:b, s:s}, s:s, s:o, s:o}", "schema",
        "k3bench.dump/1", "key", cell->key, "iteration", (json_int_t)d->payload, "model",
        k3_json_string(m->name), "routing", k3_json_string(cell->routing_text), "latent_step",
        m->latent_step, "activation", m->activation == K3_ACT_SITU ? "situ" : "swiglu",
        "dispatch_dtype", k3_format_names[cell->dispatch_format], "combine_dtype",
        k3_format_names[cell->combine_format], "recipe", "input", k3_format_names[recipe->input],
        "round_gate_up", recipe->round_gate_up, "middle", k3_format_names[recipe->middle],
        "combine_rule", rule_names[k3_oracle_combine_rule(cell)], "ranks", ranks_json(cell),
        "shared_slices", shared_json(cell));
}

static void write_rules(const k3_cell_t *cell, FILE *file)
{
    char points[K3_RECIPE_POINTS][K3_RECIPE_TEXT];

    fprintf(file,
            "\nDispatch format %s: %s. Way back %s. Combine: %s.\n\nExperts, where they round:\n\n",
            k3_format_names[cell->dispatch_format],
            cell->dispatch_format == K3_FORMAT_LOGFMT10 ? ""
                                                        : k3_format_rules[cell->dispatch_format],
            k3_format_names[cell->combine_format], rule_texts[k3_oracle_combine_rule(cell)]);
    k3_recipe_points(&cell->runner->recipe, points);
    for (int i = 0; i < K3_RECIPE_POINTS; i++) {
        fprintf(file, "- %s\n", points[i]);
    }
    fprintf(file, "\n%s\n",
            cell->model.activation == K3_ACT_SITU
                ? "Activation: 4 tanh(g / 4) sigmoid(g) * 25 tanh(u / 25); the shared expert "
                  "rounds gate, up "
                  "and its\nactivation to bf16, and each slice of `shared_slices` that is summed."
                : "Activation: g sigmoid(g) * u; the shared expert rounds gate, up and its "
                  "activation to bf16,\n"
                  "and each slice of `shared_slices` that is summed.");
    fprintf(file, "norm(x) = bf16(x / sqrt(mean(x^2) + 1e-5) * latent_norm).\n");
}

static int fill_readme(FILE *file, const void *arg)
{
    const k3_dump_t *d = arg;
    const k3_cell_t *cell = d->region->cell;

    fprintf(file,
            "# Dump of one iteration\n\n%s\n\nIteration %llu, written by k3bench run --dump. Rows "
            "are in rank "
            "order; bf16 stands as uint16 bit\npatterns: `(a.astype('u4') << 16).view('f4')`. "
            "dump.json holds "
            "the choices of the cell.\n`python3 scripts/verify_dump.py FOLDER` recomputes all of "
            "it with "
            "NumPy.\n\n| file | shape | type | what |\n|---|---|---|---|\n",
            cell->key, (unsigned long long)d->payload);
    for (unsigned i = 0; i < d->files; i++) {
        fprintf(file, "%s\n", d->line[i]);
    }
    if (cell->model.weights != K3_WEIGHT_MXFP4 ||
        k3_dump_weight_bytes(cell) > K3_DUMP_WEIGHTS_MAX) {
        fprintf(file,
                "\nThe weights are not here: %llu bytes in the format %s (at most %llu bytes of "
                "mxfp4 are "
                "written).\n",
                (unsigned long long)k3_dump_weight_bytes(cell),
                k3_weight_format_names[cell->model.weights],
                (unsigned long long)K3_DUMP_WEIGHTS_MAX);
    }
    write_rules(cell, file);
    return ferror(file);
}

k3_status_t k3_dump_text(const k3_dump_t *d, k3_error_t *err)
{
    char    path[sizeof(d->folder) + 64];
    json_t *document = dump_json(d);

    snprintf(path, sizeof(path), "%s/README.md", d->folder);
    if (k3_file_write(path, fill_readme, d, err) == K3_OK) {
        snprintf(path, sizeof(path), "%s/dump.json", d->folder);
        k3_document_write(document, path, err);
    }
    json_decref(document);
    return err->status;
}
