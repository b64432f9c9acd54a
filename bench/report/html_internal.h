/* What the files of the HTML report share. */
#ifndef K3_REPORT_HTML_INTERNAL_H
#define K3_REPORT_HTML_INTERNAL_H

#include <jansson.h>
#include <stdio.h>

/* Text of a record in an element or a quoted attribute: it may hold markup. */
void k3_html_text(const char *text, FILE *out);

/* printf into text: what is formatted is escaped as a whole. */
__attribute__((format(printf, 2, 3))) void k3_html_format(FILE *out, const char *format, ...);

/* Microseconds with the digits that matter, without a unit: "4.13", "1371", "1.2e+07". */
const char *k3_html_us(double us, char text[32]);

/* "BACKEND tp8 dp2 T16": how a cell is called where it stands beside others of its record. */
const char *k3_html_label(const json_t *cell, char *text, size_t size);

/* --- html_charts.c: pictures, each followed by its numbers where they stand nowhere else ------ */

void k3_html_phases(const json_t *cells, FILE *out);  /* medians of the parts, one bar a cell */
void k3_html_samples(const json_t *cells, FILE *out); /* every iteration and the interval */
void k3_html_curves(const json_t *cells, FILE *out);  /* time over rows, where there are several */

/* --- html_maps.c: heat maps of one cell ------------------------------------------------------- */

void k3_html_maps(const json_t *cell, FILE *out);

#endif
