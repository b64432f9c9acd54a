/* What the choices of a cell are called. */
#include "bench/plan/cell_internal.h"

const char *const k3_component_names[] = {"region",  "pair",    "dispatch", "combine",
                                          "experts", "control", "chain",    NULL};

const char *const k3_generation_names[] = {"k3", "stock", NULL};
const char *const k3_fabric_names[] = {"ib", "roce", NULL};
