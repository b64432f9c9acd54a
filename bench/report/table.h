/* The table on the terminal, from a record: one line per cell, no wider than 120 columns. */
#ifndef K3_REPORT_TABLE_H
#define K3_REPORT_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Measured cells. `colour`: mark the fastest of its group and failures. */
void k3_table_print(const json_t *document, FILE *out, bool colour);

/* Planned cells. */
void k3_table_plan(const json_t *cells, FILE *out);

/* "deepep:ll" of a cell; `text` is returned. */
const char *k3_table_backend(const json_t *cell, char *text, size_t size);

/* The phase that a cell is judged by: its component. */
const char *k3_table_headline(const json_t *cell);

/* Median of a phase in us; false when the cell does not have it. */
bool k3_table_median(const json_t *cell, const char *phase, double *us);

/* Bytes as "3.34 GB". */
const char *k3_table_bytes(double bytes, char *text, size_t size);

#endif
