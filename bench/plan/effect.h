/* Options that are given and could change nothing: who gives one believes that it acts, so it is refused. Where it
 * acts on some of the cells, it is for these. What a single cell cannot have is refused by the cell itself. */
#ifndef K3_PLAN_EFFECT_H
#define K3_PLAN_EFFECT_H

#include <stdbool.h>

#include "bench/plan/requests.h"

/* True: the option changes none of the cells, and *why says what rules it out. */
bool k3_effect_none(const k3_options_t *options, const char *option, const k3_requests_t *requests,
                    k3_error_t *why);

/* K3_ERR_USAGE for the first option that was given on the command line and changes none of the cells. */
k3_status_t k3_effect_check(const k3_options_t *options, const k3_requests_t *requests,
                            k3_error_t *err);

#endif
