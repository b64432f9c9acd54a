/* The baseline: what people have declared to be the state that later launches are held against. A document
 * "k3bench.baseline/1" with every promotion that ever was, the last one at the end; of each machine the
 * last one counts. Nothing is promoted but by the command. */
#ifndef K3_REPORT_BASELINE_H
#define K3_REPORT_BASELINE_H

#include <jansson.h>

#include "bench/report/launches.h"

#define K3_BASELINE_SCHEMA "k3bench.baseline/1"

/* A file that is not there is K3_OK and NULL. */
k3_status_t k3_baseline_read(const char *path, json_t **baseline_p, k3_error_t *err);

/* The promotion that counts for a machine; NULL when there is none. Borrowed. */
const json_t *k3_baseline_find(const json_t *baseline, const char *machine);

typedef struct k3_promotion {
    const char *who, *when, *why;
} k3_promotion_t;

/* Puts the launches at the end of *baseline_p, which may be NULL: a promotion for each number of ranks and nodes that they
 * take of their machine. Refused when a cell is broken in one of them. The promotion names the cells that come and go
 * against the one before. */
k3_status_t k3_baseline_promote(json_t **baseline_p, const k3_launches_t *launches,
                                const k3_promotion_t *promotion, k3_error_t *err);

#endif
