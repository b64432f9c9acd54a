/* What a plan says about a machine: predicted times with their largest terms, and device memory. */
#ifndef K3_REPORT_PREDICTION_H
#define K3_REPORT_PREDICTION_H

#include <jansson.h>
#include <stdio.h>

#include "bench/plan/buffers.h"
#include "bench/plan/predict.h"
#include "bench/plan/simulate.h"

/* {machine, counting, phases[{name, us, low, high, bound_by, limit_us, limited_by, terms{}}]} */
json_t *k3_record_prediction(const k3_cell_t *cell, const k3_machine_file_t *machine,
                             const k3_prediction_t *prediction);

/* [{name, us, mean_us, slowest_rank, queued_us}] */
json_t *k3_record_simulation(const k3_simulation_t *simulation);

/* {weights_bytes, buffers_bytes, device_bytes, left_bytes, fits}: weights of all MoE layers of the model,
 * buffers once. */
json_t *k3_record_device(const k3_cell_t *cell, const k3_memory_t *memory,
                         const k3_machine_file_t *machine);

/* Below the table of planned cells: a line for each cell that has a prediction. */
void k3_table_prediction(const json_t *cells, FILE *out);

#endif
