/* What a sweep is going to do, for people. */
#ifndef K3_SWEEP_OVERVIEW_H
#define K3_SWEEP_OVERVIEW_H

#include <stdio.h>

#include "bench/sweep/execute.h"

/* Variants, what is refused and why, how long it should take, which verdicts the launches can reach.
 * `commands`: also what is typed for each variant. */
k3_status_t k3_sweep_overview(const k3_sweep_t *sweep, bool commands, FILE *out, k3_error_t *err);

#endif
