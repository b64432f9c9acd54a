/* The text of --fault. */
#ifndef K3_COMMANDS_FAULT_H
#define K3_COMMANDS_FAULT_H

#include "bench/region/region.h"

/* none, stall:RANK:PHASE:MS[:ITERATION or :/EVERY], dead:RANK[+RANK...]:PHASE[:ITERATION],
 * slow-qp:SRC:DST:QP:FACTOR, corrupt:RANK:ROW; ranks below `world`, iterations from 1. */
k3_status_t k3_fault_parse(const char *text, uint32_t world, k3_fault_t *fault, k3_error_t *err);

#endif
