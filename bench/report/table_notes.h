/* What is said about a measured cell below the table. */
#ifndef K3_REPORT_TABLE_NOTES_H
#define K3_REPORT_TABLE_NOTES_H

#include <jansson.h>
#include <stdio.h>

/* Slowest lane, pattern, choices, imbalance, links, transport, limits, doubts; below the cell's name, on as many lines as
 * they need. */
void k3_table_notes(const json_t *cells, const json_t *cell, FILE *out);

#endif
