/* Records as GitHub-flavoured Markdown that fits into one comment. Same input, same bytes. */
#ifndef K3_REPORT_MARKDOWN_H
#define K3_REPORT_MARKDOWN_H

#include <jansson.h>
#include <stdio.h>

/* GitHub takes 65,536 characters. */
enum { K3_MARKDOWN_MOST = 65000 };

/* A table for each record, what was refused, what stands out; phases, lanes, machine and options folded. What
 * does not fit is left out from the end, folded parts first, and the text says so. */
void k3_report_markdown(json_t *const *documents, size_t count, FILE *out);

#endif
