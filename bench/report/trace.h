/* The timeline of each cell in the trace format that Perfetto and Chrome read: every rank that the record
 * keeps is a process, its phases and lanes are tracks, and an arrow goes from a lane's first post to its
 * arrival. Same input, same bytes. */
#ifndef K3_REPORT_TRACE_H
#define K3_REPORT_TRACE_H

#include <jansson.h>
#include <stdio.h>

/* Phases are those of the one iteration that the record keeps; a lane's first post, its last completion and
 * the wait for it are means over all iterations, set into that one. All cells begin at 0. Cells without a
 * timeline are named in otherData. */
void k3_report_trace(json_t *const *documents, size_t count, FILE *out);

#endif
