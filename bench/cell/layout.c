#include "bench/cell/layout.h"

#include <stdlib.h>
#include <string.h>

#include "harness/base/arith.h"
#include "harness/base/memory.h"
#include "harness/base/options.h"

/* Limits that keep every sum of rows far below 64 bits. */
enum { TP_MAX = 1 << 16, ROWS_MAX = 1 << 24 };

static k3_status_t resolve_attention(const k3_layout_request_t *q, k3_layout_t *l, k3_error_t *err)
{
    uint64_t tp = q->tp != 0 ? q->tp : (q->world != 0 ? q->world : 8);
    uint64_t dp = q->dp != 0 ? q->dp : 1;
    uint64_t cp = q->cp != 0 ? q->cp : 1;

    if (tp > TP_MAX || dp > TP_MAX || cp > TP_MAX) {
        return k3_fail(err, K3_ERR_UNSUPPORTED, "tp %llu, dp %llu, cp %llu: the largest size is %d",
                       (unsigned long long)tp, (unsigned long long)dp, (unsigned long long)cp,
                       TP_MAX);
    }
    if (q->world != 0 && tp != q->world) {
        return k3_fail(
            err, K3_ERR_UNSUPPORTED,
            "tp %llu differs from the %u ranks of the launch (the region spans one pipeline "
            "stage: tp must equal the world)",
            (unsigned long long)tp, q->world);
    }
    if (tp % (dp * cp) != 0) {
        return k3_fail(
            err, K3_ERR_UNSUPPORTED,
            "tp %llu is not divisible by dp * cp = %llu * %llu = %llu (attn_tp = tp / (dp * cp) "
            "must be whole)",
            (unsigned long long)tp, (unsigned long long)dp, (unsigned long long)cp,
            (unsigned long long)(dp * cp));
    }
    l->tp = (uint32_t)tp;
    l->dp = (uint32_t)dp;
    l->cp = (uint32_t)cp;
    l->groups = l->dp * l->cp;
    l->attn_tp = l->tp / l->groups;
    return K3_OK;
}

static k3_status_t resolve_experts(const k3_layout_request_t *q, const k3_model_t *model,
                                   k3_layout_t *l, k3_error_t *err)
{
    uint64_t ep = q->ep != 0 ? q->ep : (q->spans ? l->tp : 1);

    if (ep > l->tp || l->tp % ep != 0) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "ep %llu does not divide tp %u (moe_tp = tp / ep must be whole)",
                       (unsigned long long)ep, l->tp);
    }
    if (q->spans && ep != l->tp) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "ep %llu with tp %u: this backend spans the EP group, ep must equal tp",
                       (unsigned long long)ep, l->tp);
    }
    if (model->experts % ep != 0) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "E %% ep != 0: %u experts do not divide over ep %llu (remainder %u)",
                       model->experts, (unsigned long long)ep, (uint32_t)(model->experts % ep));
    }
    l->ep = (uint32_t)ep;
    l->moe_tp = l->tp / l->ep;
    return K3_OK;
}

/* --- rows per rank --------------------------------------------------------------------------- */

/* Rows of a group over its ranks, the last ranks are filled up with padding. */
static void spread_group(k3_layout_t *l, uint32_t group, uint64_t n)
{
    uint64_t share = k3_ceil_div(n, l->attn_tp);

    for (uint32_t a = 0; a < l->attn_tp; a++) {
        uint64_t begin = a * share < n ? a * share : n;
        uint64_t end = begin + share < n ? begin + share : n;

        l->rows[group * l->attn_tp + a] = end - begin;
        l->padding[group * l->attn_tp + a] = share - (end - begin);
    }
}

static k3_status_t rows_by_list(const char *skew, k3_layout_t *l, k3_error_t *err)
{
    k3_list_t   list;
    k3_status_t status = K3_OK;

    k3_list_split(skew, strchr(skew, ':') != NULL ? ':' : ',', &list);
    if (list.count != l->tp && list.count != l->groups) {
        status = k3_fail(err, K3_ERR_USAGE,
                         "tokens-skew: \"%s\" has %zu numbers where %u (one for each rank) or %u "
                         "(one for each DP group) are needed",
                         skew, list.count, l->tp, l->groups);
    }
    for (size_t i = 0; i < list.count && status == K3_OK; i++) {
        uint64_t n = 0;

        status = k3_parse_u64("tokens-skew", list.items[i], 0, ROWS_MAX, &n, err);
        if (list.count == l->tp) {
            l->rows[i] = n;
        } else {
            spread_group(l, (uint32_t)i, n);
        }
    }
    k3_list_free(&list);
    return status;
}

typedef enum skew { EQUAL, RAGGED, ONE_EMPTY, ALL_BUT_ONE_EMPTY } skew_t;

static uint64_t skewed_rows(skew_t skew, uint64_t tokens, uint32_t rank, uint32_t tp)
{
    switch (skew) {
    case RAGGED:
        return tokens - rank % (tokens / 2 + 1);
    case ONE_EMPTY:
        return rank == 0 ? 0 : tokens;
    case ALL_BUT_ONE_EMPTY:
        return rank == tp - 1 ? tokens : 0;
    case EQUAL:
        break;
    }
    return tokens;
}

static k3_status_t spread_rows(const k3_layout_request_t *q, k3_layout_t *l, k3_error_t *err)
{
    static const char *const names[] = {"equal", "ragged", "one-empty", "all-but-one-empty", NULL};
    const char              *skew = q->skew != NULL ? q->skew : "equal";
    size_t                   index = EQUAL;
    k3_status_t              status;

    if (skew[0] >= '0' && skew[0] <= '9') {
        return rows_by_list(skew, l, err);
    }
    if (q->tokens > ROWS_MAX) {
        return k3_fail(err, K3_ERR_USAGE, "tokens: %llu rows a rank (at most %d)",
                       (unsigned long long)q->tokens, ROWS_MAX);
    }
    status = k3_parse_name("tokens-skew", skew, names, &index, err);
    for (uint32_t r = 0; r < l->tp && status == K3_OK; r++) {
        l->rows[r] = skewed_rows((skew_t)index, q->tokens, r, l->tp);
    }
    return status;
}

static void sum_rows(k3_layout_t *l)
{
    for (uint32_t r = 0; r < l->tp; r++) {
        uint64_t slots = l->rows[r] + l->padding[r];

        l->first_row[r + 1] = l->first_row[r] + l->rows[r];
        l->rows_padding += l->padding[r];
        l->rows_max = slots > l->rows_max ? slots : l->rows_max;
    }
    l->rows_global = l->first_row[l->tp];
}

k3_status_t k3_layout_create(const k3_layout_request_t *request, const k3_model_t *model,
                             k3_layout_t *layout, k3_error_t *err)
{
    memset(layout, 0, sizeof(*layout));
    layout->tokens = request->tokens;
    if (resolve_attention(request, layout, err) != K3_OK ||
        resolve_experts(request, model, layout, err) != K3_OK ||
        k3_alloc("rows of the ranks", layout->tp, sizeof(uint64_t), &layout->rows, err) != K3_OK ||
        k3_alloc("padding of the ranks", layout->tp, sizeof(uint64_t), &layout->padding, err) !=
            K3_OK ||
        k3_alloc("first rows", (uint64_t)layout->tp + 1, sizeof(uint64_t), &layout->first_row,
                 err) != K3_OK ||
        spread_rows(request, layout, err) != K3_OK) {
        k3_layout_destroy(layout);
        return err->status;
    }
    sum_rows(layout);
    return K3_OK;
}

void k3_layout_destroy(k3_layout_t *layout)
{
    k3_free(layout->first_row);
    k3_free(layout->padding);
    k3_free(layout->rows);
    layout->first_row = layout->padding = layout->rows = NULL;
}

uint64_t k3_layout_group_rows(const k3_layout_t *layout, uint32_t rank)
{
    uint32_t first = k3_layout_group_first(layout, rank);

    return layout->first_row[first + layout->attn_tp] - layout->first_row[first];
}

static uint64_t cp_rows_below(const k3_layout_t *layout, uint32_t cp_rank, uint32_t dp_end)
{
    uint64_t rows = 0;

    for (uint32_t dp = 0; dp < dp_end; dp++) {
        rows += k3_layout_group_rows(layout, (dp * layout->cp + cp_rank) * layout->attn_tp);
    }
    return rows;
}

uint64_t k3_layout_cp_rows(const k3_layout_t *layout, uint32_t cp_rank)
{
    return cp_rows_below(layout, cp_rank, layout->dp);
}

uint64_t k3_layout_cp_first(const k3_layout_t *layout, uint32_t rank)
{
    return cp_rows_below(layout, k3_layout_cp_rank(layout, rank), k3_layout_dp_rank(layout, rank));
}

void k3_layout_slice(uint32_t size, uint32_t unit, uint32_t parts, uint32_t part, uint32_t *begin,
                     uint32_t *end)
{
    uint32_t units = size / unit;
    uint32_t whole = units / parts, rest = units % parts;

    *begin = unit * (part * whole + (part < rest ? part : rest));
    *end = *begin + unit * (whole + (part < rest ? 1 : 0));
}

void k3_layout_expert_slice(const k3_layout_t *layout, const k3_model_t *model, uint32_t rank,
                            uint32_t *begin, uint32_t *end)
{
    uint32_t unit = model->weights == K3_WEIGHT_FP8_B128 ? 128 : 32;

    k3_layout_slice(model->intermediate, unit, layout->moe_tp, rank % layout->moe_tp, begin, end);
}
