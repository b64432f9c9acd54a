#include "bench/plan/requests.h"

#include <stdlib.h>
#include <string.h>

#include "harness/base/memory.h"

enum { CELLS_MAX = 100000 };

void k3_split_models(const char *text, k3_list_t *list)
{
    size_t kept = 0;

    k3_list_split(text, ',', list);
    for (size_t i = 0; i < list->count; i++) {
        char *item = list->items[i];

        if (kept > 0 && strchr(item, '=') != NULL && strchr(item, ':') == NULL) {
            size_t before = strlen(list->items[kept - 1]), more = strlen(item);
            char  *joined = realloc(list->items[kept - 1], before + more + 2);

            if (joined == NULL) {
                abort();
            }
            joined[before] = ',';
            memcpy(joined + before + 1, item, more + 1);
            list->items[kept - 1] = joined;
            free(item);
        } else {
            list->items[kept++] = item;
        }
    }
    list->count = kept;
}

/* --- one axis of the product ----------------------------------------------------------------- */

typedef enum axis_kind { TEXT, NUMBER, AUTO_NUMBER } axis_kind_t;

typedef struct axis {
    const char *option;
    axis_kind_t kind;
    size_t      offset; /* of the member in k3_cell_request_t */
    uint64_t    min, max;
} axis_t;

#define MEMBER(m) offsetof(k3_cell_request_t, m)

/* Slowest first. */
static const axis_t axes[] = {
    {"component", TEXT, MEMBER(component), 0, 0},
    {"model", TEXT, MEMBER(model), 0, 0},
    {"generation", TEXT, MEMBER(generation), 0, 0},
    {"tp", NUMBER, MEMBER(tp), 1, 1u << 16},
    {"dp", NUMBER, MEMBER(dp), 1, 1u << 16},
    {"cp", NUMBER, MEMBER(cp), 1, 1u << 16},
    {"ep", NUMBER, MEMBER(ep), 1, 1u << 16},
    {"tokens", NUMBER, MEMBER(tokens), 0, 1u << 24},
    {"routing", TEXT, MEMBER(routing), 0, 0},
    {"path", TEXT, MEMBER(path), 0, 0},
    {"path-rule", TEXT, MEMBER(path_rule), 0, 0},
    {"runner", TEXT, MEMBER(runner), 0, 0},
    {"dispatch-dtype", TEXT, MEMBER(dispatch_dtype), 0, 0},
    {"combine-dtype", TEXT, MEMBER(combine_dtype), 0, 0},
    {"shared", TEXT, MEMBER(shared), 0, 0},
    {"shared-overlap", TEXT, MEMBER(shared_overlap), 0, 0},
    {"signal", TEXT, MEMBER(signal), 0, 0},
    {"zero-copy", TEXT, MEMBER(zero_copy), 0, 0},
    {"qps", AUTO_NUMBER, MEMBER(qps), 1, UINT64_MAX},
    {"backend", TEXT, MEMBER(backend), 0, 0},
};

enum { AXES = sizeof(axes) / sizeof(axes[0]) };

_Static_assert((int)AXES <= (int)K3_AXES_MAX, "a list for each axis");

bool k3_requests_multiply(const char *option)
{
    for (size_t a = 0; a < AXES; a++) {
        if (strcmp(axes[a].option, option) == 0) {
            return true;
        }
    }
    return false;
}

static k3_status_t set_member(const axis_t *axis, const char *text, k3_cell_request_t *item,
                              k3_error_t *err)
{
    void *member = (char *)item + axis->offset;

    if (text[0] == '\0') {
        return k3_fail(err, K3_ERR_USAGE, "%s: an empty item in the list", axis->option);
    }
    if (axis->kind == TEXT) {
        *(const char **)member = text;
        return K3_OK;
    }
    if (axis->kind == AUTO_NUMBER && strcmp(text, "auto") == 0) {
        *(uint64_t *)member = 0;
        return K3_OK;
    }
    return k3_parse_u64(axis->option, text, axis->min, axis->max, member, err);
}

static k3_status_t split_axes(const k3_options_t *options, k3_requests_t *q, size_t *total,
                              k3_error_t *err)
{
    *total = 1;
    for (size_t a = 0; a < AXES; a++) {
        const char *text = k3_options_get(options, axes[a].option);
        k3_list_t  *list = &q->lists[q->list_count++];

        memset(list, 0, sizeof(*list));
        if (text == NULL) {
            continue; /* the default of the cell */
        }
        if (strcmp(axes[a].option, "model") == 0) {
            k3_split_models(text, list);
        } else {
            k3_list_split(text, ',', list);
        }
        *total *= list->count;
        if (*total > CELLS_MAX) {
            return k3_fail(err, K3_ERR_USAGE, "the lists multiply to more than %d cells",
                           CELLS_MAX);
        }
    }
    return K3_OK;
}

/* Single values that are the same for all cells. */
static k3_status_t set_common(const k3_options_t *options, k3_cell_request_t *item, k3_error_t *err)
{
    const char *max_tokens = k3_options_get(options, "max-tokens");
    const char *nodes_as = k3_options_get(options, "nodes-as");

    item->skew = k3_options_get(options, "tokens-skew");
    item->device = k3_options_get(options, "device");
    item->fabric = k3_options_get(options, "fabric");
    item->on_timeout = k3_options_get(options, "on-timeout");
    if ((max_tokens != NULL &&
         k3_parse_u64("max-tokens", max_tokens, 1, 1u << 24, &item->max_tokens, err) != K3_OK) ||
        (nodes_as != NULL &&
         k3_parse_u64("nodes-as", nodes_as, 1, 1u << 16, &item->nodes_as, err) != K3_OK) ||
        k3_parse_u64("seed", k3_options_get(options, "seed"), 0, UINT64_MAX, &item->seed, err) !=
            K3_OK ||
        k3_parse_switch("p2p", k3_options_get(options, "p2p"), &item->p2p, err) != K3_OK) {
        return err->status;
    }
    return K3_OK;
}

k3_status_t k3_requests_create(const k3_options_t *options, const k3_cell_request_t *base,
                               k3_requests_t *q, k3_error_t *err)
{
    size_t            total;
    k3_cell_request_t common = *base;

    memset(q, 0, sizeof(*q));
    if (split_axes(options, q, &total, err) != K3_OK ||
        set_common(options, &common, err) != K3_OK ||
        k3_alloc("cells", total, sizeof(*q->items), &q->items, err) != K3_OK) {
        k3_requests_free(q);
        return err->status;
    }
    for (size_t i = 0; i < total; i++) {
        size_t rest = i;

        q->items[i] = common;
        for (size_t a = AXES; a-- > 0;) {
            const k3_list_t *list = &q->lists[a];

            if (list->count > 0 &&
                set_member(&axes[a], list->items[rest % list->count], &q->items[i], err) != K3_OK) {
                k3_requests_free(q);
                return err->status;
            }
            rest = list->count > 0 ? rest / list->count : rest;
        }
    }
    q->count = total;
    return K3_OK;
}

void k3_requests_free(k3_requests_t *q)
{
    for (size_t i = 0; i < q->list_count; i++) {
        k3_list_free(&q->lists[i]);
    }
    k3_free(q->items);
    memset(q, 0, sizeof(*q));
}
