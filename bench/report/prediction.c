#include "bench/report/prediction.h"

#include <string.h>

#include "bench/report/cellview.h"
#include "bench/report/table.h"
#include "bench/report/values.h"
#include "harness/base/arith.h"

/* --- the record -------------------------------------------------------------------------------- */

static json_t *phase_json(const k3_prediction_phase_t *p, const char *name)
{
    json_t *o = json_object(), *terms = json_object();

    k3_set_text(o, "name", name);
    k3_set_number(o, "us", p->us);
    k3_set_number(o, "low", p->low);
    k3_set_number(o, "high", p->high);
    k3_set_text(o, "bound_by", k3_term_names[p->bound]);
    k3_set_number(o, "limit_us", p->limit_us);
    k3_set_text(o, "limited_by", k3_term_names[p->limit_by]);
    for (int t = 0; t < K3_TERM_COUNT; t++) {
        if (p->term[t] > 0) {
            k3_set_number(terms, k3_term_names[t], p->term[t]);
        }
    }
    json_object_set_new(o, "terms", terms);
    return o;
}

/* Costs and shares in use, the machine's or the model's. */
static json_t *constants_json(const k3_machine_file_t *machine)
{
    json_t *o = json_object();

    for (int i = K3_FIG_SCALEUP_LATENCY_US; i < K3_FIG_COUNT; i++) {
        double value = k3_predict_figure(machine, (k3_figure_t)i);

        if (value > 0) {
            k3_set_number(o, k3_figure_name((k3_figure_t)i), value);
        }
    }
    return o;
}

json_t *k3_record_prediction(const k3_cell_t *cell, const k3_machine_file_t *machine,
                             const k3_prediction_t *prediction)
{
    json_t *o = json_object(), *phases = json_array();

    k3_set_text(o, "machine", machine->name);
    k3_set_text(o, "counting", cell->expected ? "expected" : "exact");
    for (int i = 0; i < K3_PREDICT_COUNT; i++) {
        if (prediction->phase[i].known) {
            json_array_append_new(phases, phase_json(&prediction->phase[i], k3_predicted_names[i]));
        }
    }
    json_object_set_new(o, "constants", constants_json(machine));
    if (prediction->missing[0] != '\0') {
        char reason[240];

        snprintf(reason, sizeof(reason), "the machine file does not know %s", prediction->missing);
        k3_set_text(o, "reason", reason);
    }
    json_object_set_new(o, "phases", phases);
    return o;
}

static json_t *simulated_json(const k3_simulated_phase_t *p, const char *name)
{
    json_t *o = json_object();

    k3_set_text(o, "name", name);
    k3_set_number(o, "us", p->us);
    k3_set_number(o, "mean_us", p->mean_us);
    k3_set_count(o, "slowest_rank", p->slowest_rank);
    k3_set_number(o, "queued_us", p->queued_us);
    return o;
}

json_t *k3_record_simulation(const k3_simulation_t *s)
{
    json_t *list = json_array();

    if (s->fused) {
        json_array_append_new(list, simulated_json(&s->moe, "moe"));
    } else {
        json_array_append_new(list, simulated_json(&s->dispatch, "dispatch"));
        json_array_append_new(list, simulated_json(&s->combine, "combine"));
    }
    return list;
}

json_t *k3_record_device(const k3_cell_t *cell, const k3_memory_t *m,
                         const k3_machine_file_t *machine)
{
    uint64_t layer = k3_add(m->expert_weights, k3_add(m->shared_expert, m->dense_weights));
    uint64_t weights = k3_mul(layer, cell->model.moe_layers);
    uint64_t buffers = m->total == K3_TOO_BIG ? K3_TOO_BIG : m->total - layer;
    uint64_t device = (uint64_t)(k3_figure(machine, K3_FIG_MEMORY_GB, 0) * 1e9);
    uint64_t needed = k3_add(weights, buffers);
    json_t  *o = json_object();

    k3_set_count(o, "weights_bytes", weights);
    k3_set_count(o, "buffers_bytes", buffers);
    k3_set_count(o, "device_bytes", device);
    if (needed <= device) {
        k3_set_count(o, "left_bytes", device - needed);
    } else {
        k3_set_null(o, "left_bytes", "more is needed than there is");
    }
    k3_set_bool(o, "fits", needed <= device);
    return o;
}

/* --- the table --------------------------------------------------------------------------------- */

static const json_t *find_phase(const json_t *prediction, const char *name)
{
    const json_t *phases = json_object_get(prediction, "phases");

    for (size_t i = 0; i < json_array_size(phases); i++) {
        const json_t *phase = json_array_get(phases, i);

        if (strcmp(json_string_value(json_object_get(phase, "name")), name) == 0) {
            return phase;
        }
    }
    return NULL;
}

static void print_time(const json_t *prediction, const char *name, FILE *out)
{
    const json_t *phase = find_phase(prediction, name);

    if (phase == NULL) {
        fprintf(out, " %8s", "-");
    } else {
        fprintf(out, " %8.1f", json_number_value(json_object_get(phase, "us")));
    }
}

static void print_bytes(const json_t *object, const char *name, FILE *out)
{
    const json_t *value = json_object_get(object, name);
    char          text[32];

    fprintf(out, " %9s",
            json_is_integer(value) ? k3_table_bytes(json_number_value(value), text, sizeof(text))
                                   : "none");
}

/* More are a table to compare, and too long to read. */
enum { BOUNDS_OF_CELLS = 4 };

static void print_bounds(const json_t *prediction, FILE *out)
{
    const json_t *phases = json_object_get(prediction, "phases");

    for (size_t i = 0; i < json_array_size(phases); i++) {
        const json_t *p = json_array_get(phases, i);

        double limit = json_number_value(json_object_get(p, "limit_us"));

        fprintf(out, "  %-11s %10.1f us (%.1f to %.1f), bound by: %s; ",
                json_string_value(json_object_get(p, "name")),
                json_number_value(json_object_get(p, "us")),
                json_number_value(json_object_get(p, "low")),
                json_number_value(json_object_get(p, "high")),
                json_string_value(json_object_get(p, "bound_by")));
        if (limit > 0) {
            fprintf(out, "limit %.1f us by %s\n", limit,
                    json_string_value(json_object_get(p, "limited_by")));
        } else {
            fprintf(out, "no limit is known\n");
        }
    }
}

static void print_cell(const json_t *cell, const json_t *prediction, FILE *out)
{
    const json_t *layout = json_object_get(cell, "layout");
    const json_t *device = json_object_get(json_object_get(cell, "memory"), "device");
    char          backend[32], text[48];

    snprintf(text, sizeof(text), "%d/%d/%d", (int)json_integer_value(json_object_get(layout, "tp")),
             (int)json_integer_value(json_object_get(layout, "dp")),
             (int)json_integer_value(json_object_get(layout, "ep")));
    fprintf(out, "%-19s %-12s %6d", k3_cell_backend(cell, backend, sizeof(backend)), text,
            (int)json_integer_value(json_object_get(json_object_get(cell, "tokens"), "asked")));
    print_time(prediction, "dispatch", out);
    print_time(prediction, "expert_mlp", out);
    print_time(prediction, "combine", out);
    print_time(prediction, "dense", out);
    print_time(prediction, "exchange", out);
    print_time(prediction, "region", out);
    print_bytes(device, "weights_bytes", out);
    print_bytes(device, "buffers_bytes", out);
    print_bytes(device, "left_bytes", out);
    fprintf(out, "%s\n", json_is_true(json_object_get(device, "fits")) ? "" : " !");
}

static void print_simulation(const json_t *list, FILE *out)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *p = json_array_get(list, i);

        fprintf(
            out,
            "  simulated %s: %.1f us, mean of ranks %.1f, last: rank %lld, longest queue %.1f us\n",
            json_string_value(json_object_get(p, "name")),
            json_number_value(json_object_get(p, "us")),
            json_number_value(json_object_get(p, "mean_us")),
            (long long)json_integer_value(json_object_get(p, "slowest_rank")),
            json_number_value(json_object_get(p, "queued_us")));
    }
}

void k3_table_prediction(const json_t *cells, FILE *out)
{
    size_t shown = 0;

    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *cell = json_array_get(cells, i);
        const json_t *prediction = json_object_get(cell, "prediction");

        if (!json_is_object(prediction)) {
            continue;
        }
        if (shown++ == 0) {
            fprintf(out,
                    "\non %s, predicted us, one MoE layer; weights of all its layers, GB of a "
                    "rank\n%-19s %-12s %6s %8s %8s %8s %8s %8s %8s %9s %9s %9s\n",
                    json_string_value(json_object_get(prediction, "machine")), "backend",
                    "tp/dp/ep", "tokens", "dispatch", "experts", "combine", "dense", "exchange",
                    "region", "weights", "buffers", "left");
        }
        print_cell(cell, prediction, out);
        print_simulation(json_object_get(cell, "simulation"), out);
        if (json_is_string(json_object_get(prediction, "reason"))) {
            fprintf(out, "  no times: %s\n",
                    json_string_value(json_object_get(prediction, "reason")));
        }
        if (json_array_size(cells) <= BOUNDS_OF_CELLS) {
            print_bounds(prediction, out);
        }
    }
    if (json_array_size(cells) > BOUNDS_OF_CELLS && shown > 0) {
        fprintf(out, "terms and limits of each phase: with %d cells at most, or in --json FILE\n",
                BOUNDS_OF_CELLS);
    }
    if (shown > 0) {
        fprintf(out,
                "dense: router, latent projections, shared expert; exchange: collectives around "
                "the region; !: does not fit; left: for KV cache and attention\n");
    }
}
