/* What the launches of a sweep can decide, by the tests that `compare` will apply to its records. */
#ifndef K3_SWEEP_POWER_H
#define K3_SWEEP_POWER_H

#include <stdio.h>

#include "bench/sweep/variants.h"

typedef struct k3_power {
    const char *section;
    uint64_t    launches; /* of the variant that has fewest */
    size_t      cells;    /* that are rivals: they move rows */
    size_t      within;   /* comparisons of backends in the same launches: signed ranks */
    size_t      between;  /* of backends in launches of their own: Mann-Whitney */
} k3_power_t;

/* Of the section of a variant. */
k3_power_t k3_power_of(const k3_variants_t *variants, const char *section);

/* Lines for people: backends of one section, and two sections or sweeps. */
void k3_power_print(const k3_variants_t *variants, FILE *out);

#endif
