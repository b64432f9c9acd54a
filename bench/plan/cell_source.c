/* Where a cell's weights and rows come from, and the routing that may follow from them. */
#include <stdio.h>
#include <string.h>

#include "bench/cell/gate.h"
#include "bench/plan/cell_internal.h"
#include "bench/plan/cell_rows.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"

static bool is_gate(const k3_cell_t *cell)
{
    return strcmp(cell->routing_text, "gate") == 0;
}

/* An option that changes nothing is refused, not passed over. */
static k3_status_t refuse_no_effect(const k3_cell_t *cell, k3_error_t *err)
{
    const char *component = k3_component_names[cell->component];

    if (is_gate(cell) && cell->hidden == NULL) {
        return k3_fail(err, K3_ERR_USAGE,
                       "routing gate: needs --hidden FILE.npy, the rows that the gate chooses by");
    }
    if (cell->checkpoint != NULL && !is_gate(cell) && !k3_needs_experts(cell) &&
        !k3_needs_dense(cell)) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "component %s reads no weights: --weights would have no effect", component);
    }
    if (cell->hidden != NULL && !is_gate(cell) && cell->component != K3_COMPONENT_REGION) {
        return k3_fail(
            err, K3_ERR_UNSUPPORTED,
            "component %s makes its own rows: --hidden has an effect with --routing gate only",
            component);
    }
    return K3_OK;
}

static k3_status_t resolve_source(const k3_cell_request_t *q, k3_cell_t *cell, k3_error_t *err)
{
    const char *routing = q->routing != NULL ? q->routing : q->hidden != NULL ? "gate" : "uniform";

    if (strlen(routing) >= sizeof(cell->routing_text)) {
        return k3_fail(err, K3_ERR_USAGE, "routing: the text is longer than %zu characters",
                       sizeof(cell->routing_text) - 1);
    }
    snprintf(cell->routing_text, sizeof(cell->routing_text), "%s", routing);
    cell->checkpoint = q->checkpoint;
    cell->hidden = q->hidden;
    if (refuse_no_effect(cell, err) != K3_OK ||
        (cell->checkpoint != NULL &&
         k3_checkpoint_match(cell->checkpoint, &cell->model, err) != K3_OK) ||
        (cell->hidden != NULL &&
         k3_hidden_match(cell->hidden, &cell->model, cell->layout.rows_global, err) != K3_OK)) {
        return err->status;
    }
    return K3_OK;
}

static k3_status_t resolve_routing(const k3_cell_request_t *q, k3_cell_t *cell, k3_error_t *err)
{
    k3_source_t          source = k3_cell_source(cell);
    uint64_t             rows = cell->layout.rows_global;
    int32_t             *chosen = NULL;
    k3_routing_request_t routing = {
        .text = cell->routing_text,
        .seed = q->seed,
        .experts = cell->model.experts,
        .topk = cell->model.topk,
        .ranks = cell->layout.tp,
        .rows = rows,
    };

    if (is_gate(cell) && (k3_alloc("ids of the gate", rows, cell->model.topk * sizeof(*chosen),
                                   &chosen, err) != K3_OK ||
                          k3_gate_choose(&source, rows, chosen, err) != K3_OK)) {
        k3_free(chosen);
        return err->status;
    }
    routing.chosen = chosen;
    k3_routing_create(&routing, &cell->routing, err);
    k3_free(chosen);
    /* A plan for no world asks for the rows of all ranks, several times. */
    if (err->status == K3_OK && q->node_of == NULL && !q->expected) {
        k3_routing_remember(cell->routing);
    }
    if (err->status == K3_OK && cell->component == K3_COMPONENT_CONTROL &&
        k3_routing_steps(cell->routing) > 1) {
        return k3_fail(
            err, K3_ERR_UNSUPPORTED,
            "component control repeats the posts of one iteration, the trace has %llu steps "
            "(a trace of one is needed)",
            (unsigned long long)k3_routing_steps(cell->routing));
    }
    return err->status;
}

/* From some rows, evenly spread, for all. */
static void expect_arriving(k3_cell_t *cell)
{
    const k3_layout_t *l = &cell->layout;
    uint32_t           local = k3_layout_local_experts(l, &cell->model);
    uint64_t           step = l->rows_global / K3_EXPECTED_ROWS + 1, seen = 0;
    int32_t            ids[K3_TOPK_MAX];

    if (k3_routing_is_uniform(cell->routing)) {
        for (uint32_t i = 0; i < l->ep; i++) {
            cell->arriving[i] = k3_ceil_div(k3_mul(l->rows_global, cell->model.topk), l->ep);
        }
        return;
    }
    for (uint64_t row = 0; row < l->rows_global; row += step, seen++) {
        k3_routing_row(cell->routing, row, ids);
        for (uint32_t k = 0; k < cell->model.topk; k++) {
            cell->arriving[(uint32_t)ids[k] / local]++;
        }
    }
    for (uint32_t i = 0; i < l->ep && seen > 0; i++) {
        cell->arriving[i] =
            (uint64_t)((double)cell->arriving[i] * (double)l->rows_global / (double)seen);
    }
}

/* A plan for no world draws the rows of all ranks, or of those that stand for all: some 20 s at the limit. */
#define PAIRS_MOST (UINT64_C(1) << 28)

static k3_status_t check_drawn(const k3_cell_request_t *q, const k3_cell_t *cell, k3_error_t *err)
{
    const k3_layout_t *l = &cell->layout;
    uint64_t           origins = cell->expected ? k3_expected_origins(cell) : l->tp;
    uint64_t           rows = l->rows_global / l->tp + 1;
    uint64_t           pairs = k3_mul(k3_mul(rows, origins), cell->model.topk);

    if (q->node_of != NULL || pairs <= PAIRS_MOST) {
        return K3_OK;
    }
    return k3_fail(err, K3_ERR_UNSUPPORTED,
                   "plan: %llu rows on each of %llu ranks with top-%u are %llu draws, the limit is "
                   "%llu: fewer --tokens, times grow in proportion%s",
                   (unsigned long long)rows - 1, (unsigned long long)origins, cell->model.topk,
                   (unsigned long long)pairs, (unsigned long long)PAIRS_MOST,
                   cell->expected ? "" : ", or --counting expected");
}

/* What packed buffers must hold: the most of any step, counted for all ranks in one pass over the rows. */
static k3_status_t count_arriving(const k3_cell_request_t *q, k3_cell_t *cell, k3_error_t *err)
{
    uint32_t  local = k3_layout_local_experts(&cell->layout, &cell->model), ep = cell->layout.ep;
    int32_t   ids[K3_TOPK_MAX];
    uint64_t *step = NULL;

    if (k3_alloc("rows that arrive", ep, sizeof(uint64_t), (void **)&cell->arriving, err) !=
            K3_OK ||
        k3_alloc("rows that arrive in a step", ep, sizeof(uint64_t), (void **)&step, err) !=
            K3_OK) {
        return err->status;
    }
    /* Where the first rank of a DP group tells what all of it sends, none stands for another. */
    cell->expected = cell->expected && !(cell->profile->engine == K3_ENGINE_SLAB &&
                                         cell->profile->completion == K3_DONE_COUNTING &&
                                         cell->layout.groups < cell->layout.tp);
    if (check_drawn(q, cell, err) == K3_OK && cell->expected) {
        expect_arriving(cell);
    }
    if (err->status != K3_OK || cell->expected) {
        k3_free(step);
        return err->status;
    }
    for (uint64_t s = 0; s < k3_routing_steps(cell->routing); s++) {
        k3_routing_select(cell->routing, s);
        memset(step, 0, ep * sizeof(*step));
        for (uint64_t row = 0; row < cell->layout.rows_global; row++) {
            k3_routing_row(cell->routing, row, ids);
            for (uint32_t k = 0; k < cell->model.topk; k++) {
                if (ids[k] >= 0) {
                    step[(uint32_t)ids[k] / local]++;
                }
            }
        }
        for (uint32_t e = 0; e < ep; e++) {
            cell->arriving[e] = step[e] > cell->arriving[e] ? step[e] : cell->arriving[e];
        }
    }
    k3_routing_select(cell->routing, 0);
    k3_free(step);
    return K3_OK;
}

k3_status_t k3_cell_resolve_source(const k3_cell_request_t *q, k3_cell_t *cell, k3_error_t *err)
{
    if (resolve_source(q, cell, err) != K3_OK || resolve_routing(q, cell, err) != K3_OK) {
        return err->status;
    }
    return count_arriving(q, cell, err);
}

/* --- in the key ------------------------------------------------------------------------------ */

/* What a generator draws follows from its text and the seed; what a file holds does not. */
const char *k3_cell_trace_text(const k3_cell_t *cell, char text[24])
{
    text[0] = '\0';
    if (k3_routing_is_given(cell->routing)) {
        text[0] = '#';
        k3_routing_hash(cell->routing, text + 1);
    }
    return text;
}

/* Weights and rows that come from files are told by what they hold. */
const char *k3_cell_source_text(const k3_cell_t *cell, char text[K3_SHORT_TEXT_MAX])
{
    int used = 0;

    text[0] = '\0';
    if (cell->checkpoint != NULL) {
        used = snprintf(text, K3_SHORT_TEXT_MAX, "/weights#%016llx",
                        (unsigned long long)k3_checkpoint_identity(cell->checkpoint));
    }
    if (cell->hidden != NULL) {
        snprintf(text + used, K3_SHORT_TEXT_MAX - (size_t)used, "/hidden#%016llx",
                 (unsigned long long)k3_hidden_identity(cell->hidden, cell->layout.rows_global));
    }
    return text;
}
