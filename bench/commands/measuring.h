/* How a launch measures: the options that say how often, how long and behind which start. */
#ifndef K3_COMMANDS_MEASURING_H
#define K3_COMMANDS_MEASURING_H

#include "bench/region/measure.h"
#include "bench/report/outputs.h"
#include "harness/base/options.h"

typedef enum k3_start { K3_START_AUTO, K3_START_ROUND, K3_START_BARRIER } k3_start_t;

typedef struct k3_measuring {
    k3_measure_options_t options; /* what these options decide of it */
    k3_start_t           start;
    uint64_t             rotate;  /* cells that are executed after all others */
    double               timeout; /* seconds */
    k3_output_format_t   format;  /* of what is printed */
} k3_measuring_t;

/* K3_ERR_USAGE with value and limit; `sweep` asks before it starts anything. */
k3_status_t k3_measuring_choose(const k3_options_t *options, k3_measuring_t *measuring,
                                k3_error_t *err);

#endif
