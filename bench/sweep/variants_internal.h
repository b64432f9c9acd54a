/* From the lists of a section (expand.c) to the variants that come of them (variants.c): the values at hand
 * (section_values.c). */
#ifndef K3_SWEEP_VARIANTS_INTERNAL_H
#define K3_SWEEP_VARIANTS_INTERNAL_H

#include <jansson.h>

#include "bench/plan/requests.h"
#include "bench/sweep/variants.h"

typedef struct expansion {
    const k3_sweep_source_t *source;
    const k3_hosts_t        *hosts;
    k3_variants_t           *variants;
    const char              *section, *launcher;
    uint64_t                 launches;
    uint32_t                 ranks;
    char                   **values;  /* one for each option of the table; NULL: unset */
    uint64_t                 memory;  /* of this host, available */
    const k3_options_t      *options; /* of the section, as given */
    json_t *
        idle; /* "p2p" -> true, or why it has changed nothing in any launch so far; of all sections */
    json_t *marks; /* "backend=mooncake" -> true, or the fault of a cell with it */
} expansion_t;

/* Cells that would share a launch. */
typedef struct candidate {
    k3_options_t *options; /* of `run` */
    k3_requests_t requests;
    char        **faults; /* of each cell; NULL: it can be done */
    k3_list_t     works;  /* of the cells that can be done and move rows */
    size_t        impossible, unsupported;
} candidate_t;

static inline const k3_option_def_t *k3_option_at(const expansion_t *x, size_t i)
{
    return &x->source->table.defs[i];
}

static inline bool k3_option_is_of_run(const expansion_t *x, size_t i)
{
    return (k3_option_at(x, i)->commands & x->source->run) != 0;
}

/* --- section_values.c ------------------------------------------------------------------------ */

/* The items of the list that stands for option i now. */
void k3_values_of(const expansion_t *x, size_t i, k3_list_t *items);

/* The value of an option that has one. */
const char *k3_value_named(const expansion_t *x, const char *name);

/* All items of the lists as they stand now are good for something (NULL), or had this fault. */
void k3_values_mark(expansion_t *x, const char *fault);

/* Notes of each option whether it changes something in these cells. */
void k3_values_act(expansion_t *x, const candidate_t *c);

/* --- variants.c ------------------------------------------------------------------------------ */

/* Makes variants and refusals of the values. */
k3_status_t k3_variant_consider(expansion_t *x, k3_error_t *err);

#endif
