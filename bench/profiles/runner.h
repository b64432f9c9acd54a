/* Expert runners as a contract: which dispatch layouts and row formats they take, which weights,
 * and where they round (their recipe). All of it is decided before anything is allocated. */
#ifndef K3_PROFILES_RUNNER_H
#define K3_PROFILES_RUNNER_H

#include "bench/profiles/profile.h"
#include "kernels/kernels.h"

typedef struct k3_runner {
    const char *name;    /* "aiter:a8w4": a variant behind the colon */
    unsigned    accepts; /* bits of k3_dispatch_layout_t; 0: part of a fused kernel, taken only by
                            the profiles that name it */
    unsigned    rows;    /* bits of k3_format_t that it reads as they arrive */
    unsigned    weights; /* bits of k3_weight_format_t */
    k3_recipe_t recipe;
    const char *source;
    const char *what; /* one line for `list` */
} k3_runner_t;

unsigned           k3_runner_count(void);
const k3_runner_t *k3_runner_at(unsigned i);

/* Whether the runner is one for this profile, by layout or because its kernel is the profile's. */
bool k3_runner_fits(const k3_runner_t *runner, const k3_profile_t *profile);

/* "auto": the first runner of the table that fits the profile. K3_ERR_UNSUPPORTED when the named
 * runner does not, naming both and the layouts. */
k3_status_t k3_runner_find(const char *name, const k3_profile_t *profile,
                           const k3_runner_t **runner_p, k3_error_t *err);

/* What is known of the rows and weights when a runner is chosen. */
typedef struct k3_runner_facts {
    k3_format_t        rows; /* as dispatched */
    k3_weight_format_t weights;
    k3_generation_t    generation;
} k3_runner_facts_t;

/* As find, held against the facts. "auto" goes to the first runner that fits, has the weights and
 * reads the rows as they arrive, else to the first that fits and has the weights. Rows in a format
 * that the runner does not read are decoded to bf16 in front of it: an adapter that upstream lacks,
 * so generation stock refuses them. */
k3_status_t k3_runner_choose(const char *name, const k3_profile_t *profile,
                             const k3_runner_facts_t *facts, const k3_runner_t **runner_p,
                             k3_error_t *err);

/* Rows in this format pass by an adapter. */
bool k3_runner_converts(const k3_runner_t *runner, k3_format_t rows);

/* The rounding points of a recipe in the order in which a row meets them, one line each. */
enum { K3_RECIPE_POINTS = 5, K3_RECIPE_TEXT = 160 };
void k3_recipe_points(const k3_recipe_t *recipe, char text[K3_RECIPE_POINTS][K3_RECIPE_TEXT]);

/* Names by number, for lists of bits: k3_dispatch_layout_t, k3_format_t, k3_weight_format_t. */
const char *k3_layout_name_at(unsigned i);
const char *k3_format_name_at(unsigned i);
const char *k3_weights_name_at(unsigned i);

#endif
