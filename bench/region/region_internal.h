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

/* --- region_device.c -------------------------------------------------------------------------- */

/* Where the host writes what a buffer is to hold, and the end of it. */
void *k3_region_host_of(k3_region_t *r, k3_buffer_t buffer);
void  k3_region_written(k3_region_t *r, k3_buffer_t buffer);

/* --- region_events.c: phases in the device's own time ------------------------------------------- */

k3_status_t k3_region_events_create(k3_region_t *r, k3_error_t *err);
void        k3_region_events_destroy(k3_region_t *r);
void        k3_region_events_begin(k3_region_t *r);
void k3_region_events_end(k3_region_t *r); /* their times replace those of the host's clock */

/* --- region_shared.c -------------------------------------------------------------------------- */

/* Where the shared expert's output of `rows` rows lies. */
uint16_t *k3_region_shared_out(const k3_region_t *r, uint64_t rows);

void k3_region_shared(k3_region_t *r);

#endif
