/* How a cell was sampled, and what that does to its numbers. */
#ifndef K3_REPORT_SAMPLING_H
#define K3_REPORT_SAMPLING_H

#include <jansson.h>

#include "bench/region/measure.h"

/* Adds warmup, sync, trend, idle and instrument. */
void k3_record_sampling(json_t *object, const k3_measurement_t *m,
                        const k3_measure_options_t *options);

#endif
