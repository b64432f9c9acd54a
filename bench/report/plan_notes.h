/* What a reader of plan's tables must not miss: cells that nothing here can hold, and times that the model cannot
 * tell apart. */
#ifndef K3_REPORT_PLAN_NOTES_H
#define K3_REPORT_PLAN_NOTES_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/* A line for each planned cell of which a rank needs more than a device of `machine` has; without a machine ranks are
 * processes of this host: for each whose ranks of one node need more than the `available` bytes. */
void k3_plan_note_memory(const json_t *cells, const char *machine, uint64_t available, FILE *out);

/* For each work, the cells whose predicted region is not longer than the range of the fastest one. */
void k3_plan_note_ties(const json_t *cells, FILE *out);

#endif
