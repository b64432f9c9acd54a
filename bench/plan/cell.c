#include "bench/plan/cell.h"

#include <stdio.h>
#include <string.h>

#include "bench/plan/cell_internal.h"
#include "bench/plan/shared.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"
#include "harness/base/options.h"

enum { DEFAULT_RANKS_PER_NODE = 8 };

/* --- layout, rows, nodes --------------------------------------------------------------------- */

static k3_status_t resolve_layout(const k3_cell_request_t *q, k3_cell_t *cell, k3_error_t *err)
{
    k3_layout_request_t layout = {
        .world = q->world,
        .tp = q->tp,
        .dp = q->dp,
        .cp = q->cp,
        .ep = q->ep,
        .spans = cell->profile->spans_ep,
        .tokens = q->tokens,
        .skew = q->skew,
    };

    return k3_layout_create(&layout, &cell->model, &cell->layout, err);
}

/* The largest and the smallest node; a number that no rank lies on is no node. */
static k3_status_t measure_nodes(k3_cell_t *cell, k3_error_t *err)
{
    uint32_t *ranks = NULL;

    if (k3_alloc("ranks of each node", cell->nodes, sizeof(*ranks), (void **)&ranks, err) !=
        K3_OK) {
        return err->status;
    }
    for (uint32_t r = 0; r < cell->layout.tp; r++) {
        ranks[cell->node_of[r]]++;
    }
    cell->node_least = cell->layout.tp;
    for (uint32_t n = 0; n < cell->nodes; n++) {
        cell->node_most = ranks[n] > cell->node_most ? ranks[n] : cell->node_most;
        cell->node_least =
            ranks[n] > 0 && ranks[n] < cell->node_least ? ranks[n] : cell->node_least;
    }
    k3_free(ranks);
    return K3_OK;
}

/* Who lies where, by node and index among the ranks of the node. */
static k3_status_t place_ranks(k3_cell_t *cell, k3_error_t *err)
{
    uint32_t  tp = cell->layout.tp;
    uint64_t  places = (uint64_t)cell->nodes * cell->node_most;
    uint32_t *used = NULL;

    if (k3_alloc("place of each rank", tp, sizeof(uint32_t), (void **)&cell->place_of, err) !=
            K3_OK ||
        k3_alloc("rank at each place", places, sizeof(uint32_t), (void **)&cell->rank_at, err) !=
            K3_OK ||
        k3_alloc("places used", cell->nodes, sizeof(uint32_t), (void **)&used, err) != K3_OK) {
        return err->status;
    }
    for (uint64_t p = 0; p < places; p++) {
        cell->rank_at[p] = tp;
    }
    for (uint32_t r = 0; r < tp; r++) {
        uint32_t node = (uint32_t)cell->node_of[r];

        cell->place_of[r] = node * cell->node_most + used[node]++;
        cell->rank_at[cell->place_of[r]] = r;
    }
    k3_free(used);
    return K3_OK;
}

static k3_status_t resolve_nodes(const k3_cell_request_t *q, k3_cell_t *cell, k3_error_t *err)
{
    uint32_t tp = cell->layout.tp;
    uint32_t per = q->ranks_per_node != 0 ? q->ranks_per_node : DEFAULT_RANKS_PER_NODE;

    if (k3_alloc("node of each rank", tp, sizeof(int), (void **)&cell->node_of, err) != K3_OK) {
        return err->status;
    }
    if (q->nodes_as != 0) {
        if (q->nodes_as > tp || tp % q->nodes_as != 0) {
            return k3_fail(err, K3_ERR_USAGE, "nodes-as %llu does not divide the %u ranks",
                           (unsigned long long)q->nodes_as, tp);
        }
        per = tp / (uint32_t)q->nodes_as;
        cell->virtual_nodes = true;
    }
    for (uint32_t r = 0; r < tp; r++) {
        cell->node_of[r] = q->node_of != NULL && q->nodes_as == 0 ? q->node_of[r] : (int)(r / per);
        if ((uint32_t)cell->node_of[r] + 1 > cell->nodes) {
            cell->nodes = (uint32_t)cell->node_of[r] + 1;
        }
    }
    return measure_nodes(cell, err) == K3_OK ? place_ranks(cell, err) : err->status;
}

/* Rows of one rank that buffers must hold: as asked, or the largest of the skew. */
static uint64_t rank_bound(const k3_cell_request_t *q, const k3_layout_t *l)
{
    uint64_t bound = l->rows_max > l->tokens ? l->rows_max : l->tokens;

    if (q->max_tokens != 0) {
        return q->max_tokens;
    }
    return bound == 0 ? 1 : bound;
}

/* The bound must hold whatever the path: on the fallback a spanning backend dispatches all rows. */
static k3_status_t resolve_bound(const k3_cell_request_t *q, k3_cell_t *cell, k3_error_t *err)
{
    const k3_layout_t *l = &cell->layout;
    uint64_t           bound = rank_bound(q, l);

    for (uint32_t r = 0; r < l->tp && q->max_tokens != 0; r++) {
        if (l->rows[r] > q->max_tokens) {
            return k3_fail(err, K3_ERR_USAGE, "rank %u holds %llu rows, max-tokens is %llu", r,
                           (unsigned long long)l->rows[r], (unsigned long long)q->max_tokens);
        }
    }
    cell->max_tokens = cell->path.all_rows ? k3_mul(bound, l->tp) : bound;
    return K3_OK;
}

/* --- formats and runner ---------------------------------------------------------------------- */

static k3_status_t resolve_format(const char *option, const char *text, unsigned allowed,
                                  k3_format_t fallback, uint32_t width, const k3_profile_t *profile,
                                  k3_format_t *format, k3_error_t *err)
{
    size_t index = fallback;

    if (text != NULL && strcmp(text, "auto") != 0 &&
        k3_parse_name(option, text, k3_format_names, &index, err) != K3_OK) {
        return err->status;
    }
    *format = (k3_format_t)index;
    if ((allowed & K3_BIT(index)) == 0) {
        char   list[64] = "";
        size_t used = 0;

        for (unsigned f = 0; f < K3_FORMAT_COUNT; f++) {
            if ((allowed & K3_BIT(f)) != 0) {
                used +=
                    (size_t)snprintf(list + used, sizeof(list) - used, " %s", k3_format_names[f]);
            }
        }
        return k3_fail(err, K3_ERR_UNSUPPORTED, "%s: %s %s is not one of its formats:%s",
                       profile->name, option, k3_format_names[index], list);
    }
    if (width % k3_format_group(*format) != 0) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s: width %u is not a multiple of the %zu values that share a scale in %s",
                       profile->name, width, k3_format_group(*format), k3_format_names[index]);
    }
    return K3_OK;
}

static k3_status_t resolve_formats(const k3_cell_request_t *q, k3_cell_t *cell, k3_error_t *err)
{
    const k3_profile_t *p = cell->profile;

    if (resolve_format("dispatch-dtype", q->dispatch_dtype, p->dispatch_formats, p->dispatch_auto,
                       cell->model.latent, p, &cell->dispatch_format, err) != K3_OK ||
        resolve_format("combine-dtype", q->combine_dtype, p->combine_formats, p->combine_auto,
                       cell->model.latent, p, &cell->combine_format, err) != K3_OK) {
        return err->status;
    }

    k3_runner_facts_t facts = {cell->dispatch_format, cell->model.weights, cell->generation};

    return k3_runner_choose(k3_text_or(q->runner, "auto"), p, &facts, &cell->runner, err);
}

/* --- path, queue pairs, limits --------------------------------------------------------------- */

static k3_status_t resolve_path(const k3_cell_request_t *q, k3_cell_t *cell, k3_error_t *err)
{
    const k3_path_rule_t *rule;
    size_t                choice;

    if (k3_path_rule_find(k3_text_or(q->path_rule, "registry"), &rule, err) != K3_OK ||
        k3_parse_name("path", k3_text_or(q->path, "auto"), k3_path_choice_names, &choice, err) !=
            K3_OK) {
        return err->status;
    }
    return k3_path_resolve(cell->profile, rule, (k3_path_choice_t)choice, cell->layout.attn_tp,
                           &cell->path, err);
}

/* What needs the same number of ranks on each node cannot be held against one number. */
static k3_status_t refuse_uneven(const k3_cell_t *cell, k3_error_t *err)
{
    const k3_profile_t *p = cell->profile;
    bool                two_hops = p->copy == K3_COPY_PER_NODE || p->copy == K3_COPY_CHUNK;
    bool                lifted =
        cell->generation == K3_GENERATION_K3 && (p->limits.lifted & K3_LIFT_NODE_SHAPE) != 0;

    if (two_hops && (uint64_t)cell->nodes * cell->node_most != cell->layout.tp &&
        cell->node_most == cell->node_least) {
        return k3_fail(
            err, K3_ERR_UNSUPPORTED,
            "%s: %u nodes of %u ranks do not hold the %u ranks, two hops need a rank with "
            "the same local index on each node",
            p->name, cell->nodes, cell->node_most, cell->layout.tp);
    }
    if (cell->node_most == cell->node_least) {
        return K3_OK;
    }
    if (two_hops) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s: the nodes hold %u to %u ranks, two hops by the same local rank need "
                       "the same number on each",
                       p->name, cell->node_least, cell->node_most);
    }
    if (p->limits.ranks_per_node != 0 && !lifted) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s: the nodes hold %u to %u ranks, upstream's rule is %u on each", p->name,
                       cell->node_least, cell->node_most, p->limits.ranks_per_node);
    }
    return K3_OK;
}

/* On the fallback the limits are held against a bound that nobody typed: where it is the reason of
 * a refusal (no rows at all would be taken), say where it comes from. */
static void explain_bound(const k3_cell_request_t *q, const k3_cell_t *cell, k3_limit_facts_t facts,
                          k3_error_t *err)
{
    k3_error_t unused = K3_ERROR_INIT;
    size_t     used = strlen(err->text);

    facts.max_tokens = 0;
    if (cell->path.all_rows && k3_profile_check(cell->profile, &facts, &unused) == K3_OK) {
        snprintf(err->text + used, sizeof(err->text) - used,
                 " (%llu rows x %u ranks, all ranks dispatch all rows on the fallback)",
                 (unsigned long long)rank_bound(q, &cell->layout), cell->layout.tp);
    }
}

static k3_status_t resolve_limits(const k3_cell_request_t *q, k3_cell_t *cell, k3_error_t *err)
{
    uint32_t         tp = cell->layout.tp;
    k3_limit_facts_t facts = {
        .model = cell->model.name,
        .topk = cell->model.topk,
        .width = cell->model.latent,
        .experts = cell->model.experts,
        .ranks = tp,
        .ranks_per_node = cell->node_most,
        .nodes = cell->nodes,
        .dp = cell->layout.dp,
        .intermediate = cell->model.intermediate,
        .max_tokens = cell->max_tokens,
        .dispatch_format = cell->dispatch_format,
        .combine_format = cell->combine_format,
        .weights = cell->model.weights,
        .p2p = cell->p2p,
        .on_device = cell->on_device,
        .generation = cell->generation,
    };

    if (refuse_uneven(cell, err) != K3_OK) {
        return err->status;
    }
    if (k3_profile_check(cell->profile, &facts, err) != K3_OK) {
        explain_bound(q, cell, facts, err);
        return err->status;
    }
    return k3_profile_qps(cell->profile, tp, cell->model.experts, cell->fabric, q->qps, &cell->qps,
                          err);
}

static k3_status_t refuse_cp(const k3_cell_t *cell, k3_error_t *err)
{
    if (cell->layout.cp == 1) {
        return K3_OK;
    }
    if (cell->model.latent_step) {
        return k3_fail(
            err, K3_ERR_UNSUPPORTED,
            "cp %u with model %s: upstream has no path in which context parallelism changes "
            "the dispatch of a Kimi-K3 model (cp must be 1)",
            cell->layout.cp, cell->model.name);
    }
    if (!cell->profile->context_parallel) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s: cp %u is not allowed by upstream (cp must be 1)", cell->profile->name,
                       cell->layout.cp);
    }
    return K3_OK;
}

/* --- names ----------------------------------------------------------------------------------- */

static k3_status_t resolve_choices(const k3_cell_request_t *q, k3_cell_t *cell, k3_error_t *err)
{
    size_t generation, fabric, component;

    if (k3_model_parse(k3_text_or(q->model, "tiny"), &cell->model, err) != K3_OK ||
        k3_registry_find(k3_text_or(q->backend, "none"), &cell->profile, err) != K3_OK ||
        k3_parse_name("fabric", k3_text_or(q->fabric, "ib"), k3_fabric_names, &fabric, err) !=
            K3_OK ||
        k3_parse_name("component", k3_text_or(q->component, "region"), k3_component_names,
                      &component, err) != K3_OK) {
        return err->status;
    }
    generation = cell->model.wide_limits ? K3_GENERATION_K3 : K3_GENERATION_STOCK;
    if (q->generation != NULL && strcmp(q->generation, "auto") != 0 &&
        k3_parse_name("generation", q->generation, k3_generation_names, &generation, err) !=
            K3_OK) {
        return err->status;
    }
    cell->generation = (k3_generation_t)generation;
    cell->fabric = (k3_fabric_type_t)fabric;
    cell->component = (k3_component_t)component;
    snprintf(cell->device, sizeof(cell->device), "%s", k3_text_or(q->device, K3_DEVICE_CPU));
    cell->on_device = strcmp(cell->device, K3_DEVICE_CPU) != 0;
    cell->p2p = q->p2p && !cell->on_device;
    cell->expected = q->expected;
    cell->seed = q->seed;
    return K3_OK;
}

/* Posts on queue pairs, in a dispatch of its own. */
static bool has_dispatch_lanes(const k3_profile_t *p)
{
    return k3_profile_has_lanes(p) && p->engine != K3_ENGINE_FUSED;
}

/* What the engines cannot do. */
static k3_status_t refuse_engine(const k3_cell_t *cell, k3_error_t *err)
{
    const k3_profile_t *p = cell->profile;

    if (p->refused != NULL) {
        return k3_fail(err, K3_ERR_UNSUPPORTED, "%s: %s", p->name, p->refused);
    }
    if (p->copy == K3_COPY_REPLICATE && cell->component != K3_COMPONENT_REGION &&
        cell->component != K3_COMPONENT_EXPERTS) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s: component %s needs a dispatch, and every rank has all rows", p->name,
                       k3_component_names[cell->component]);
    }
    if (p->engine == K3_ENGINE_FUSED &&
        (cell->component == K3_COMPONENT_DISPATCH || cell->component == K3_COMPONENT_COMBINE)) {
        return k3_fail(
            err, K3_ERR_UNSUPPORTED,
            "%s: dispatch, experts and combine overlap, so there is no component %s alone", p->name,
            k3_component_names[cell->component]);
    }
    if (!has_dispatch_lanes(p) && cell->component == K3_COMPONENT_CONTROL) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s: component control repeats the posts of queue pairs, engine %s has none",
                       p->name, k3_engine_name(p->engine));
    }
    return K3_OK;
}

/* --- all ------------------------------------------------------------------------------------- */

k3_status_t k3_cell_create(const k3_cell_request_t *request, k3_cell_t *cell, k3_error_t *err)
{
    memset(cell, 0, sizeof(*cell));
    if (resolve_choices(request, cell, err) != K3_OK ||
        resolve_layout(request, cell, err) != K3_OK || refuse_cp(cell, err) != K3_OK ||
        resolve_nodes(request, cell, err) != K3_OK || resolve_path(request, cell, err) != K3_OK ||
        resolve_bound(request, cell, err) != K3_OK ||
        resolve_formats(request, cell, err) != K3_OK ||
        resolve_limits(request, cell, err) != K3_OK || refuse_engine(cell, err) != K3_OK ||
        k3_shared_resolve(request, cell, err) != K3_OK ||
        k3_cell_resolve_transfer(request, cell, err) != K3_OK ||
        k3_cell_resolve_source(request, cell, err) != K3_OK) {
        k3_cell_destroy(cell);
        return err->status;
    }
    k3_cell_write_key(request, cell);
    return K3_OK;
}

void k3_cell_destroy(k3_cell_t *cell)
{
    k3_routing_destroy(cell->routing);
    k3_free(cell->rank_at);
    k3_free(cell->place_of);
    k3_free(cell->arriving);
    k3_free(cell->node_of);
    k3_layout_destroy(&cell->layout);
    cell->routing = NULL;
    cell->arriving = NULL;
    cell->node_of = NULL;
    cell->place_of = NULL;
    cell->rank_at = NULL;
}
