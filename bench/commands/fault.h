/* The text of --fault. */
#ifndef K3_COMMANDS_FAULT_H
#define K3_COMMANDS_FAULT_H

#include "bench/region/region.h"

/* none, stall:RANK:PHASE:MS[:ITERATION or :/EVERY], dead:RANK[+RANK...]:PHASE[:ITERATION],
 * slow-qp:SRC:DST:QP:FACTOR, corrupt:RANK:ROW; ranks below `world`, iterations from 1. */
k3_status_t k3_fault_parse(const char *text, uint32_t world, k3_fault_t *fault, k3_error_t *err);

/* K3_ERR_USAGE for a fault that this cell cannot have, K3_ERR_UNSUPPORTED where the
 * backend has no place for it. */
k3_status_t k3_fault_check(const k3_fault_t *fault, const k3_cell_t *cell, k3_error_t *err);

/* On how many ranks the fault comes about that strike at a moment; 0: none does. */
int k3_fault_ranks(const k3_fault_t *fault);
/* Why one of them did not. */
void k3_fault_missed(const k3_fault_t *fault, char *text, size_t size);

#endif
