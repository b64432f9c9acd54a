/* The rules that plan --what-if turns: one table, which parses them and explains them. */
#ifndef K3_COMMANDS_PLAN_RULES_H
#define K3_COMMANDS_PLAN_RULES_H

#include <stdio.h>

#include "bench/plan/cell.h"
#include "bench/plan/machine.h"

enum { K3_WHATIF_RULES = 32 };

/* A cell with some of its rules turned. */
typedef struct k3_variant {
    k3_cell_request_t   request;
    k3_machine_file_t   machine;
    uint32_t            doorbell_every; /* of the profile; 0: as it is */
    bool                doorbell_batch;
    const k3_profile_t *as;           /* whose rules the profile takes over; NULL: none */
    unsigned            as_rules;     /* bits of k3_rule_t */
    bool                machine_only; /* the cell, and so its loads, are as they were */
    char                texts[K3_WHATIF_RULES][64];
} k3_variant_t;

/* Turns the rule "NAME=VALUE"; `index` counts the rules of the variant, which keeps the text. */
k3_status_t k3_rule_add(const char *text, unsigned index, k3_variant_t *v, k3_error_t *err);

/* Every rule with a line on what it is. */
void k3_help_whatif(FILE *out);

#endif
