/* Records as one self-contained page: no network, no other file, readable without scripts and on
 * paper. Same input, same bytes. */
#ifndef K3_REPORT_HTML_H
#define K3_REPORT_HTML_H

#include <jansson.h>
#include <stdio.h>

/* The first `first` records are the base of a comparison; first == count: backend against backend. */
void k3_report_html(json_t *const *documents, size_t count, size_t first, FILE *out);

#endif
