/* The record of a launch (schema k3bench.result/1, results/schema/): results to JSON. */
#ifndef K3_REPORT_RECORD_H
#define K3_REPORT_RECORD_H

#include <jansson.h>

#include "bench/plan/buffers.h"
#include "bench/plan/traffic.h"
#include "bench/region/measure.h"

#define K3_SCHEMA "k3bench.result/1"

/* Lanes kept in a record; of a larger world the slowest ones and sums for each rank are kept. */
enum { K3_LANES_KEPT = 16384, K3_LANES_SLOWEST = 256 };

/* A cell as resolved, before anything was measured: what `plan` writes; status "planned". */
json_t *k3_record_plan(const k3_cell_t *cell, const k3_work_t *work, const k3_memory_t *memory);

/* Adds what was measured. */
void k3_record_measured(json_t *object, const k3_cell_t *cell, const k3_work_t *work,
                        const k3_measurement_t *m, const k3_measure_options_t *options);

/* What leaves and enters each node in dispatch and combine, and the rates; NULL for one node. */
json_t *k3_record_links(const k3_cell_t *cell, const k3_measurement_t *m);

/* "ok", "degraded", "failed", "unsupported", "skipped"; reason may be NULL. */
void k3_record_status(json_t *object, const char *status, const char *reason);

/* Right as far as it goes: ranks were masked, and the reason says which. */
void k3_record_degraded(json_t *object, const k3_measurement_t *m, int ranks);
/* The limit in force, the fault that was asked for ("none": none) and all masks. */
void k3_record_faults(json_t *object, const k3_cell_t *cell, const k3_measurement_t *m,
                      const char *injected);

/* `status` with the reason when all of the cells were refused for one and the same reason, which says all there
 * is to say; K3_OK otherwise, and for no cells. Keeps an earlier fault. */
k3_status_t k3_record_refuse_all(const json_t *cells, k3_status_t status, k3_error_t *err);
/* The same when their reasons differ: for after they have been shown. */
k3_status_t k3_record_refuse_each(const json_t *cells, k3_status_t status, k3_error_t *err);

/* A cell that could not be resolved: what was asked for, status and reason. */
json_t *k3_record_refused(const k3_cell_request_t *request, const k3_error_t *err);

#endif
