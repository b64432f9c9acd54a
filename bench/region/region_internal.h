/* What the files of the region share: one iteration, cut by what it deals with. */
#ifndef K3_REGION_REGION_INTERNAL_H
#define K3_REGION_REGION_INTERNAL_H

#include "bench/region/region.h"

/* --- region_rows.c: which rows are where ------------------------------------------------------ */

/* Partial attention output to the rows of the router: x. */
void k3_region_attention(k3_region_t *r);

/* On the fallback: partial sums of all rows to the complete rows that this rank keeps. */
void k3_region_reduce(k3_region_t *r);

/* The rows of the attention group from y. */
void k3_region_restore(k3_region_t *r);

/* --- region_shared.c -------------------------------------------------------------------------- */

/* Where the shared expert's output of `rows` rows lies. */
uint16_t *k3_region_shared_out(const k3_region_t *r, uint64_t rows);

void k3_region_shared(k3_region_t *r);

#endif
