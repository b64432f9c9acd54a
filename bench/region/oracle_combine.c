#include <stdlib.h>
#include <string.h>

#include "bench/plan/cell_rows.h"
#include "bench/region/oracle_codec.h"
#include "bench/region/oracle_internal.h"
#include "harness/base/memory.h"

typedef struct pair {
    uint32_t expert, row, k;
    float    weight; /* that the expert applies; 1 where the combine does */
} pair_t;

struct k3_oracle_combine {
    const k3_cell_t    *cell;
    bool                stand_in;
    k3_oracle_rule_t    rule;
    uint32_t            slices;
    uint32_t            max_rows;
    k3_oracle_expert_t *expert;
    float              *x;     /* [max_rows][L] as the experts read them */
    uint16_t           *y;     /* [max_rows][K][slices][L] */
    float              *sum;   /* [3][L] */
    pair_t             *pairs; /* [max_rows * K] by expert */
    const float       **inputs;
    float              *weights; /* [max_rows] */
    uint16_t          **outputs;
    bool               *known; /* [max_rows] taken from the cache */
};

k3_oracle_rule_t k3_oracle_combine_rule(const k3_cell_t *cell)
{
    if (cell->profile->engine == K3_ENGINE_NULL) {
        return K3_RULE_NOTHING;
    }
    if (cell->profile->combine_complete && cell->profile->weights_at == K3_WEIGHTS_AT_ORIGIN) {
        return K3_RULE_ORIGIN;
    }
    if (cell->profile->combine_complete && cell->profile->weights_at == K3_WEIGHTS_IN_ACTIVATION) {
        return K3_RULE_SLOTS;
    }
    return cell->profile->combine_roundings > 1 ? K3_RULE_NODES : K3_RULE_RANKS;
}

/* The expert's side adds up its experts' results, and what it sends is that sum. */
static bool sums_at_experts(const k3_oracle_combine_t *c)
{
    return c->rule == K3_RULE_RANKS || c->rule == K3_RULE_NODES;
}

uint32_t k3_oracle_slices(const k3_cell_t *cell)
{
    return k3_oracle_combine_rule(cell) == K3_RULE_RANKS ? cell->layout.moe_tp : 1;
}

static k3_status_t allocate(k3_oracle_combine_t *c, k3_error_t *err)
{
    uint64_t    latent = c->cell->model.latent, rows = c->max_rows;
    uint64_t    pairs = rows * c->cell->model.topk;
    k3_source_t source;

    if (k3_alloc("oracle: rows", rows * latent, sizeof(float), &c->x, err) != K3_OK ||
        k3_alloc("oracle: results", pairs * c->slices, latent * 2, &c->y, err) != K3_OK ||
        k3_alloc("oracle: sums", 3 * latent, sizeof(float), &c->sum, err) != K3_OK ||
        k3_alloc("oracle: pairs", pairs, sizeof(pair_t), &c->pairs, err) != K3_OK ||
        k3_alloc("oracle: inputs", rows, sizeof(float *), &c->inputs, err) != K3_OK ||
        k3_alloc("oracle: weights", rows, sizeof(float), &c->weights, err) != K3_OK ||
        k3_alloc("oracle: outputs", rows, sizeof(uint16_t *), &c->outputs, err) != K3_OK ||
        k3_alloc("oracle: known rows", rows, sizeof(bool), &c->known, err) != K3_OK) {
        return err->status;
    }
    if (c->stand_in || c->rule == K3_RULE_NOTHING) {
        return K3_OK;
    }
    source = k3_cell_source(c->cell);
    return k3_oracle_expert_create(&source, &c->cell->runner->recipe, c->max_rows, &c->expert, err);
}

k3_status_t k3_oracle_combine_create(const k3_cell_t *cell, bool stand_in, uint32_t max_rows,
                                     k3_oracle_combine_t **combine_p, k3_error_t *err)
{
    k3_oracle_combine_t *c;

    *combine_p = NULL;
    if (k3_alloc("oracle: combine", 1, sizeof(*c), &c, err) != K3_OK) {
        return err->status;
    }
    c->cell = cell;
    c->stand_in = stand_in;
    c->rule = k3_oracle_combine_rule(cell);
    c->slices = k3_oracle_slices(cell);
    c->max_rows = max_rows;
    if (allocate(c, err) != K3_OK) {
        k3_oracle_combine_destroy(c);
        return err->status;
    }
    *combine_p = c;
    return K3_OK;
}

void k3_oracle_combine_destroy(k3_oracle_combine_t *c)
{
    if (c == NULL) {
        return;
    }
    k3_oracle_expert_destroy(c->expert);
    k3_free(c->known);
    k3_free(c->outputs);
    k3_free(c->weights);
    k3_free(c->inputs);
    k3_free(c->pairs);
    k3_free(c->sum);
    k3_free(c->y);
    k3_free(c->x);
    k3_free(c);
}

/* The selections whose results are in the sum; the weights of the others are not spread over them. */
static const int32_t *served(const k3_measured_row_t *row)
{
    return row->served != NULL ? row->served : row->ids;
}

/* --- the key of a wanted row ----------------------------------------------------------------- */

static k3_oracle_key_t key_of(const k3_oracle_combine_t *c, const k3_measured_row_t *row)
{
    const k3_cell_t   *cell = c->cell;
    const k3_model_t  *m = &cell->model;
    const k3_recipe_t *recipe = &cell->runner->recipe;
    bool               ranks = sums_at_experts(c);
    const uint64_t     words[] = {
            cell->seed,
        cell->checkpoint != NULL ? k3_checkpoint_identity(cell->checkpoint) : 0,
            m->latent,
            m->experts,
            m->topk,
            m->intermediate,
            m->activation,
            m->weights,
            c->stand_in,
        c->stand_in ? 0 : recipe->input,
        c->stand_in ? 0 : recipe->round_gate_up,
        c->stand_in ? 0 : recipe->middle,
            cell->dispatch_format,
            cell->combine_format,
            c->rule,
        ranks ? cell->layout.ep : 0,
        ranks ? cell->layout.moe_tp : 0,
        ranks ? cell->layout.cp : 0,
        ranks ? cell->layout.attn_tp : 0,
    };
    k3_oracle_key_t key = {0, 0};

    k3_oracle_key_add(&key, words, sizeof(words));
    if (c->rule == K3_RULE_NODES) {
        k3_oracle_key_add(&key, cell->node_of, cell->layout.tp * sizeof(*cell->node_of));
    }
    k3_oracle_key_add(&key, served(row), m->topk * sizeof(int32_t));
    k3_oracle_key_add(&key, row->weights, m->topk * sizeof(*row->weights));
    k3_oracle_key_add(&key, row->latent, m->latent * sizeof(*row->latent));
    return key;
}

/* --- expert results -------------------------------------------------------------------------- */

static uint16_t *result(const k3_oracle_combine_t *c, size_t row, uint32_t k, uint32_t slice)
{
    size_t latent = c->cell->model.latent, topk = c->cell->model.topk;

    return c->y + ((row * topk + k) * c->slices + slice) * latent;
}

static void round_row(size_t n, float *row)
{
    for (size_t i = 0; i < n; i++) {
        row[i] = (float)k3_oracle_round_bf16((double)row[i]);
    }
}

/* A latent row through the dispatch format and, for real experts, the recipe's input rounding: rows
 * that arrive in its format are used as they are. */
static void make_input(const k3_oracle_combine_t *c, const uint16_t *latent, float *x)
{
    size_t      n = c->cell->model.latent;
    k3_format_t arrives = c->cell->dispatch_format, input = c->cell->runner->recipe.input;

    k3_oracle_bf16_row(latent, n, x);
    k3_oracle_quantise(arrives, n, x);
    if (!c->stand_in && arrives != input) {
        round_row(n, x);
        k3_oracle_quantise(input, n, x);
    }
}

static int by_expert(const void *a, const void *b)
{
    const pair_t *p = a, *q = b;

    if (p->expert != q->expert) {
        return p->expert < q->expert ? -1 : 1;
    }
    return p->row < q->row ? -1 : (p->row > q->row ? 1 : (p->k < q->k ? -1 : p->k > q->k));
}

static bool is_expert(const k3_oracle_combine_t *c, int32_t id)
{
    return id >= 0 && (uint32_t)id < c->cell->model.experts;
}

/* The (row, expert) pairs of the rows that are not known, those of an expert together. */
static size_t collect_pairs(k3_oracle_combine_t *c, const k3_measured_row_t *const *rows, size_t n)
{
    bool   weighted = c->rule == K3_RULE_SLOTS;
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < c->cell->model.topk && !c->known[i]; k++) {
            int32_t id = served(rows[i])[k];

            if (is_expert(c, id)) {
                c->pairs[count++] =
                    (pair_t){(uint32_t)id, (uint32_t)i, k, weighted ? rows[i]->weights[k] : 1.0f};
            }
        }
    }
    qsort(c->pairs, count, sizeof(pair_t), by_expert);
    return count;
}

/* The stand-in is whole on the first rank of those that share an expert. */
static void run_stand_in(const k3_oracle_combine_t *c, const pair_t *pair, uint32_t slice)
{
    size_t       n = c->cell->model.latent;
    float        factor = k3_stand_in_factor(pair->expert);
    const float *x = c->x + pair->row * n;
    uint16_t    *y = result(c, pair->row, pair->k, slice);

    for (size_t i = 0; i < n; i++) {
        float product = x[i] * factor;
        float weighted = (float)((double)product * (double)pair->weight);

        y[i] = slice == 0 ? k3_oracle_bf16_bits((double)weighted) : 0;
    }
}

/* Results of `n` pairs of one expert, at most max_rows, for one slice of it. */
static void run_pairs(k3_oracle_combine_t *c, const pair_t *pairs, size_t n, uint32_t slice)
{
    uint32_t begin, end;

    k3_layout_expert_slice(&c->cell->layout, &c->cell->model, slice, &begin, &end);
    if (c->slices == 1) {
        begin = 0;
        end = c->cell->model.intermediate;
    }
    for (size_t i = 0; i < n; i++) {
        c->inputs[i] = c->x + (size_t)pairs[i].row * c->cell->model.latent;
        c->outputs[i] = result(c, pairs[i].row, pairs[i].k, slice);
        c->weights[i] = pairs[i].weight;
        if (c->stand_in) {
            run_stand_in(c, &pairs[i], slice);
        }
    }
    if (!c->stand_in) {
        k3_oracle_expert_run(c->expert, pairs[0].expert, begin, end, n, c->inputs, c->weights,
                             c->outputs);
    }
}

/* The way back in a format other than bf16. */
static void quantise_back(const k3_oracle_combine_t *c, float *row)
{
    if (c->cell->combine_format != K3_FORMAT_BF16) {
        k3_oracle_quantise(c->cell->combine_format, c->cell->model.latent, row);
        round_row(c->cell->model.latent, row);
    }
}

static void send_back(const k3_oracle_combine_t *c, uint16_t *y)
{
    size_t n = c->cell->model.latent;

    if (c->cell->combine_format != K3_FORMAT_BF16) {
        k3_oracle_bf16_row(y, n, c->sum);
        quantise_back(c, c->sum);
        for (size_t i = 0; i < n; i++) {
            y[i] = k3_oracle_bf16_bits((double)c->sum[i]);
        }
    }
}

static void run_experts(k3_oracle_combine_t *c, size_t pairs)
{
    for (size_t at = 0, n; at < pairs; at += n) {
        for (n = 1;
             at + n < pairs && n < c->max_rows && c->pairs[at + n].expert == c->pairs[at].expert;) {
            n++;
        }
        for (uint32_t s = 0; s < c->slices; s++) {
            run_pairs(c, c->pairs + at, n, s);
            for (size_t i = 0; i < n && !sums_at_experts(c); i++) {
                send_back(c, result(c, c->pairs[at + i].row, c->pairs[at + i].k, s));
            }
        }
    }
}

static void sum_over_context(const k3_oracle_combine_t *c, const k3_measured_row_t *row, size_t i,
                             float *sum);

/* --- the sums -------------------------------------------------------------------------------- */

/* sum += weight * y, product and sum rounded to f32 each. By way of f64, which changes neither and
 * keeps a compiler from fusing them. */
static void add_weighted(size_t n, float weight, const uint16_t *y, float *sum)
{
    for (size_t i = 0; i < n; i++) {
        float product = (float)((double)weight * (double)k3_oracle_bf16_value(y[i]));

        sum[i] = (float)((double)sum[i] + (double)product);
    }
}

/* What the sum over k multiplies a result by. */
static float weight_of(const k3_oracle_combine_t *c, const k3_measured_row_t *row, uint32_t k)
{
    return c->rule == K3_RULE_SLOTS ? 1.0f : row->weights[k];
}

static void sum_at_origin(const k3_oracle_combine_t *c, const k3_measured_row_t *row, size_t i,
                          float *sum)
{
    size_t n = c->cell->model.latent;

    memset(sum, 0, n * sizeof(float));
    for (uint32_t k = 0; k < c->cell->model.topk; k++) {
        if (is_expert(c, served(row)[k])) {
            add_weighted(n, weight_of(c, row, k), result(c, i, k, 0), sum);
        }
    }
}

/* What one rank adds up of a row, rounded to bf16. */
static void sum_of_rank(const k3_oracle_combine_t *c, const k3_measured_row_t *row, size_t i,
                        uint32_t rank, float *sum)
{
    size_t   n = c->cell->model.latent;
    uint32_t local = k3_layout_local_experts(&c->cell->layout, &c->cell->model);
    uint32_t first = k3_layout_first_expert(&c->cell->layout, &c->cell->model, rank);

    memset(sum, 0, n * sizeof(float));
    for (uint32_t k = 0; k < c->cell->model.topk; k++) {
        int32_t id = served(row)[k];

        if (is_expert(c, id) && (uint32_t)id >= first && (uint32_t)id - first < local) {
            add_weighted(n, row->weights[k], result(c, i, k, rank % c->slices), sum);
        }
    }
    round_row(n, sum);
    quantise_back(c, sum);
}

static void add_row(size_t n, const float *part, float *sum)
{
    for (size_t j = 0; j < n; j++) {
        sum[j] += part[j];
    }
}

static void sum_over_nodes(const k3_oracle_combine_t *c, const k3_measured_row_t *row, size_t i,
                           float *sum)
{
    size_t n = c->cell->model.latent;
    float *node = sum + n, *part = node + n;

    memset(sum, 0, n * sizeof(float));
    for (uint32_t at = 0; at < c->cell->nodes; at++) {
        memset(node, 0, n * sizeof(float));
        for (uint32_t rank = 0; rank < c->cell->layout.tp; rank++) {
            if (c->cell->node_of[rank] == (int)at) {
                sum_of_rank(c, row, i, rank, part);
                add_row(n, part, node);
            }
        }
        round_row(n, node);
        quantise_back(c, node);
        add_row(n, node, sum);
    }
}

static void sum_over_ranks(const k3_oracle_combine_t *c, const k3_measured_row_t *row, size_t i,
                           float *sum)
{
    size_t n = c->cell->model.latent;
    float *part = sum + n;

    if (k3_splits_context(c->cell)) {
        sum_over_context(c, row, i, sum);
        return;
    }
    memset(sum, 0, n * sizeof(float));
    for (uint32_t rank = 0; rank < c->cell->layout.tp; rank++) {
        sum_of_rank(c, row, i, rank, part);
        add_row(n, part, sum);
    }
}

static void combine_row(k3_oracle_combine_t *c, const k3_measured_row_t *row, size_t i,
                        uint16_t *want)
{
    size_t n = c->cell->model.latent;

    if (c->rule == K3_RULE_RANKS) {
        sum_over_ranks(c, row, i, c->sum);
    } else if (c->rule == K3_RULE_NODES) {
        sum_over_nodes(c, row, i, c->sum);
    } else {
        sum_at_origin(c, row, i, c->sum);
    }
    for (size_t j = 0; j < n; j++) {
        want[j] = k3_oracle_bf16_bits((double)c->sum[j]);
    }
}

void k3_oracle_combine_run(k3_oracle_combine_t *c, const k3_measured_row_t *const *rows, size_t n,
                           uint16_t *want)
{
    size_t latent = c->cell->model.latent;

    if (c->rule == K3_RULE_NOTHING) {
        memset(want, 0, n * latent * sizeof(*want));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        c->known[i] = k3_oracle_cache_get(key_of(c, rows[i]), latent, want + i * latent);
        if (!c->known[i]) {
            make_input(c, rows[i]->latent, c->x + i * latent);
        }
    }
    run_experts(c, collect_pairs(c, rows, n));
    for (size_t i = 0; i < n; i++) {
        if (!c->known[i]) {
            combine_row(c, rows[i], i, want + i * latent);
            k3_oracle_cache_put(key_of(c, rows[i]), latent, want + i * latent);
        }
    }
}

/* The ranks of a cp group are added and rounded first, then the cp groups in their order. */
static void sum_over_context(const k3_oracle_combine_t *c, const k3_measured_row_t *row, size_t i,
                             float *sum)
{
    const k3_layout_t *l = &c->cell->layout;
    size_t             n = c->cell->model.latent;
    float             *part = sum + n, *inner = part + n;

    memset(sum, 0, n * sizeof(float));
    for (uint32_t outer = 0; outer < l->dp * l->attn_tp; outer++) {
        uint32_t first = outer / l->attn_tp * l->cp * l->attn_tp + outer % l->attn_tp;

        memset(inner, 0, n * sizeof(float));
        for (uint32_t cp = 0; cp < l->cp; cp++) {
            sum_of_rank(c, row, i, first + cp * l->attn_tp, part);
            for (size_t j = 0; j < n; j++) {
                inner[j] += part[j];
            }
        }
        round_row(n, inner);
        for (size_t j = 0; j < n; j++) {
            sum[j] += inner[j];
        }
    }
}

bool k3_oracle_combine_term(const k3_oracle_combine_t *c, const k3_measured_row_t *row, size_t i,
                            uint32_t k, float *term)
{
    size_t n = c->cell->model.latent;

    if (sums_at_experts(c) || c->rule == K3_RULE_NOTHING || c->known[i] ||
        !is_expert(c, served(row)[k])) {
        return false;
    }
    memset(term, 0, n * sizeof(float));
    add_weighted(n, weight_of(c, row, k), result(c, i, k, 0), term);
    return true;
}
