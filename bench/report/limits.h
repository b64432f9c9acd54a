/* Measured phases beside what the machine allows: the share of the limit that a cell reaches, and rates above
 * it, which tell that the measurement is wrong, or the machine file. */
#ifndef K3_REPORT_LIMITS_H
#define K3_REPORT_LIMITS_H

#include <jansson.h>

#include "bench/plan/predict.h"

/* Adds the member "limits" to a measured cell: {machine, phases[{name, measured_us, predicted_us, limit_us,
 * limited_by, efficiency, above_limit}]}. Phases without a limit are left out. */
void k3_record_limits(json_t *cell, const k3_machine_file_t *machine,
                      const k3_prediction_t *prediction);

/* The limit of a phase by its name: an element of `limits.phases`; NULL: it has none. */
const json_t *k3_limits_of(const json_t *cell, const char *phase);

/* One line for each phase that reaches 1 % of its limit: "dispatch at 41 % of the limit of h200 (60.6 us, NIC wire)".
 * False: no more. */
bool k3_limits_text(const json_t *cell, size_t index, char *text, size_t size);

#endif
