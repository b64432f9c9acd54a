/* Expert runners: which dispatch layouts they accept and where they round (their recipe). */
#ifndef K3_PROFILES_RUNNER_H
#define K3_PROFILES_RUNNER_H

#include "bench/profiles/profile.h"
#include "kernels/kernels.h"

typedef struct k3_runner {
    const char *name;
    unsigned    accepts; /* bits of k3_dispatch_layout_t; 0: only profiles that name it */
    k3_recipe_t recipe;
    const char *what; /* one line for `list` */
} k3_runner_t;

unsigned           k3_runner_count(void);
const k3_runner_t *k3_runner_at(unsigned i);

/* "auto": the first runner of the table that accepts the profile's layout. K3_ERR_UNSUPPORTED when
 * the named runner does not accept it, naming both. */
k3_status_t k3_runner_find(const char *name, const k3_profile_t *profile,
                           const k3_runner_t **runner_p, k3_error_t *err);

#endif
