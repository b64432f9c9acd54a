/* Records for spreadsheets and programs (RFC 4180). Same input, same bytes. */
#ifndef K3_REPORT_CSV_H
#define K3_REPORT_CSV_H

#include <jansson.h>
#include <stdio.h>

/* One flat row for each cell and phase: all independent variables, the times with their interval, the
 * check. A cell that was not measured is one row without a phase. Null is an empty field. A text that a
 * spreadsheet would take for a formula gets a ' in front. */
void k3_report_csv(json_t *const *documents, size_t count, FILE *out);

/* One row for each lane that the records keep, with the same variables. */
void k3_report_csv_lanes(json_t *const *documents, size_t count, FILE *out);

#endif
