/* Records as files for people and spreadsheets. Same input, same bytes. */
#ifndef K3_REPORT_FILES_H
#define K3_REPORT_FILES_H

#include <jansson.h>
#include <stdio.h>

/* One flat row per cell: all independent variables, the medians with their intervals, the check. */
void k3_report_csv(json_t *const *documents, size_t count, FILE *out);

/* GitHub-flavoured: a table per record, what was refused, how it was measured. */
void k3_report_markdown(json_t *const *documents, size_t count, FILE *out);

#endif
