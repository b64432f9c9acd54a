/* The cell key: the string that makes two cells the same work. */
#include <stdio.h>
#include <string.h>

#include "bench/plan/cell_internal.h"
#include "harness/base/keyed.h"

const char *k3_short_text(const char *text, char *space)
{
    uint64_t hash = 0;

    if (strlen(text) < K3_SHORT_TEXT_MAX) {
        return text;
    }
    for (const char *c = text; *c != '\0'; c++) {
        hash = k3_mix(hash ^ (unsigned char)*c);
    }
    snprintf(space, K3_SHORT_TEXT_MAX, "%.16s#%016llx", text, (unsigned long long)hash);
    return space;
}

/* "" where the nodes are equal blocks of ranks, which their number says; else their sizes and a hash
 * of who lies where. */
static const char *nodes_text(const k3_cell_t *cell, char text[K3_SHORT_TEXT_MAX])
{
    bool     blocks = cell->node_most == cell->node_least;
    uint64_t hash = 0;

    for (uint32_t r = 0; r < cell->layout.tp; r++) {
        blocks = blocks && (uint32_t)cell->node_of[r] == r / cell->node_most;
        hash = k3_mix(hash ^ (uint32_t)cell->node_of[r]);
    }
    text[0] = '\0';
    if (!blocks) {
        snprintf(text, K3_SHORT_TEXT_MAX, "of%u-%u#%016llx", cell->node_least, cell->node_most,
                 (unsigned long long)hash);
    }
    return text;
}

/* Only what differs from the path's own variant: equal work keeps equal keys. */
static const char *shared_text(const k3_cell_t *cell)
{
    if (cell->shared == K3_SHARED_SHARDED) {
        return cell->shared_overlap ? "/shared-sharded.overlap" : "/shared-sharded";
    }
    return cell->shared_overlap ? "/shared-overlap" : "";
}

void k3_cell_write_key(const k3_cell_request_t *q, k3_cell_t *cell)
{
    const k3_layout_t *l = &cell->layout;
    char               space[K3_SHORT_TEXT_MAX], nodes[K3_SHORT_TEXT_MAX], trace[24];
    char               source[K3_SHORT_TEXT_MAX];

    snprintf(cell->skew_text, sizeof(cell->skew_text), "%s",
             k3_short_text(k3_text_or(q->skew, "equal"), space));
    snprintf(cell->key, sizeof(cell->key),
             "%s/%s/%s/tp%u.dp%u.cp%u.ep%u.n%u%s/t%llu.m%llu.%s/%s%s.s%llu/%s.%s/%s.%s.%s/"
             "q%u.%s.%s%s%s/%s%s%s%s%s",
             cell->profile->name, k3_generation_names[cell->generation], cell->model.name, l->tp,
             l->dp, l->cp, l->ep, cell->nodes, nodes_text(cell, nodes),
             (unsigned long long)l->tokens, (unsigned long long)cell->max_tokens, cell->skew_text,
             k3_short_text(cell->routing_text, space), k3_cell_trace_text(cell, trace),
             (unsigned long long)cell->seed, cell->path.rule->name,
             cell->path.fast ? "fast" : "fallback", cell->runner->name,
             k3_format_names[cell->dispatch_format], k3_format_names[cell->combine_format],
             cell->qps.active, k3_fabric_names[cell->fabric], cell->p2p ? "p2p" : "nop2p",
             cell->signal_op == cell->profile->signal_op ? ""
             : cell->signal_op == K3_SIGNAL_WRITE        ? ".write"
                                                         : ".add",
             cell->zero_copy ? ".zerocopy" : "", k3_component_names[cell->component],
             shared_text(cell), k3_cell_source_text(cell, source), cell->on_device ? "/" : "",
             cell->on_device ? cell->device : "");
}
