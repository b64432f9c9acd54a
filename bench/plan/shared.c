#include "bench/plan/shared.h"

#include <stddef.h>

#include "bench/plan/cell_rows.h"
#include "harness/base/options.h"

enum { SLICE_UNIT = 16 }; /* values that are never cut: rows move in pieces of 32 bytes */

const char *const k3_shared_names[] = {"none", "replicated", "sharded", "tp", NULL};

/* Engines whose dispatch returns to the region between its last send and its wait. */
static bool sends_apart(k3_engine_id_t engine)
{
    return engine == K3_ENGINE_SLAB;
}

static k3_status_t refuse_nothing_shared(const k3_cell_t *cell, const char *option,
                                         const char *value, k3_error_t *err)
{
    if (cell->component != K3_COMPONENT_REGION) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s %s has no effect: component %s leaves the shared expert out", option,
                       value, k3_component_names[cell->component]);
    }
    if (cell->model.shared == 0) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s %s has no effect: model %s has no shared expert (S = 0)", option, value,
                       cell->model.name);
    }
    return K3_OK;
}

static k3_status_t check_path(const k3_cell_t *cell, k3_error_t *err)
{
    const char *name = k3_shared_names[cell->shared];

    if (cell->path.fast && cell->shared == K3_SHARED_TP) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s: shared %s needs the same rows on all ranks, on the fast path each rank "
                       "has its own (replicated or sharded)",
                       cell->profile->name, name);
    }
    if (!cell->path.fast && cell->shared != K3_SHARED_TP) {
        return k3_fail(
            err, K3_ERR_UNSUPPORTED,
            "%s: shared %s needs the fast path of an EP all-to-all, the fallback reduces "
            "the shared expert over tp together with the routed rows (tp)",
            cell->profile->name, name);
    }
    return K3_OK;
}

static k3_status_t check_shards(const k3_cell_t *cell, k3_error_t *err)
{
    uint32_t ranks = cell->layout.attn_tp, width = cell->model.shared;

    if (ranks == 1) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "shared sharded has no effect: the attention group is one rank (attn_tp 1)");
    }
    if (width % (ranks * SLICE_UNIT) != 0) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "shared sharded: S %u of model %s does not divide over the %u ranks of the "
                       "attention group in slices of a multiple of %d",
                       width, cell->model.name, ranks, SLICE_UNIT);
    }
    return K3_OK;
}

static k3_status_t resolve_variant(const char *text, k3_cell_t *cell, k3_error_t *err)
{
    static const char *const names[] = {"auto", "replicated", "sharded", "tp", NULL};
    bool                     any = cell->component == K3_COMPONENT_REGION && cell->model.shared > 0;
    size_t                   index = 0;

    if (text != NULL && k3_parse_name("shared", text, names, &index, err) != K3_OK) {
        return err->status;
    }
    if (index == 0) {
        cell->shared =
            !any ? K3_SHARED_NONE : (cell->path.fast ? K3_SHARED_REPLICATED : K3_SHARED_TP);
        return K3_OK;
    }
    cell->shared = (k3_shared_t)index; /* the names follow each other as in the type */
    if (refuse_nothing_shared(cell, "shared", text, err) != K3_OK ||
        check_path(cell, err) != K3_OK) {
        return err->status;
    }
    return cell->shared == K3_SHARED_SHARDED ? check_shards(cell, err) : K3_OK;
}

static k3_status_t resolve_overlap(const char *text, k3_cell_t *cell, k3_error_t *err)
{
    cell->shared_overlap = false;
    if (text != NULL &&
        k3_parse_switch("shared-overlap", text, &cell->shared_overlap, err) != K3_OK) {
        return err->status;
    }
    if (!cell->shared_overlap) {
        return K3_OK;
    }
    if (refuse_nothing_shared(cell, "shared-overlap", text, err) != K3_OK) {
        return err->status;
    }
    if (!sends_apart(cell->profile->engine)) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s: shared-overlap on needs a dispatch that sends and waits apart, that of "
                       "engine %s does not",
                       cell->profile->name, k3_engine_name(cell->profile->engine));
    }
    return K3_OK;
}

k3_status_t k3_shared_resolve(const k3_cell_request_t *request, k3_cell_t *cell, k3_error_t *err)
{
    if (resolve_variant(request->shared, cell, err) != K3_OK) {
        return err->status;
    }
    return resolve_overlap(request->shared_overlap, cell, err);
}

uint32_t k3_shared_parts(const k3_cell_t *cell)
{
    switch (cell->shared) {
    case K3_SHARED_SHARDED:
        return cell->layout.attn_tp;
    case K3_SHARED_TP:
        return cell->layout.tp;
    default:
        return 1;
    }
}

void k3_shared_slice(const k3_cell_t *cell, uint32_t rank, uint32_t *begin, uint32_t *end)
{
    uint32_t parts = k3_shared_parts(cell);

    *begin = *end = 0;
    if (cell->shared != K3_SHARED_NONE) {
        k3_layout_slice(cell->model.shared, SLICE_UNIT, parts, rank % parts, begin, end);
    }
}

uint64_t k3_shared_rows(const k3_cell_t *cell, uint32_t rank)
{
    return cell->shared == K3_SHARED_SHARDED ? k3_group_slots(cell, rank)
                                             : k3_front_rows(cell, rank);
}
