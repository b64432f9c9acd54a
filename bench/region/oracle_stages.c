/* What the stages are called. */
#include "bench/region/oracle.h"

const char *const k3_stage_names[] = {"x",        "logits", "weights", "latent",
                                      "combined", "output", NULL};
