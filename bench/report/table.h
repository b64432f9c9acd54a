/* The table on the terminal, from a record: one line per cell, no wider than 120 columns. */
#ifndef K3_REPORT_TABLE_H
#define K3_REPORT_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Measured cells. `colour`: mark the fastest of its group and failures. */
void k3_table_print(const json_t *document, FILE *out, bool colour);

/* Which launch of several the table below is of. */
void k3_table_head(const json_t *document, FILE *out);

/* Planned cells. */
void k3_table_plan(const json_t *cells, FILE *out);

/* Bytes as "3.34 GB". */
const char *k3_table_bytes(double bytes, char *text, size_t size);

#endif
