/* Records as OpenMetrics text that the textfile collector of a node exporter reads too: gauges alone, no
 * timestamps, base units. Same input, same bytes. */
#ifndef K3_REPORT_METRICS_H
#define K3_REPORT_METRICS_H

#include <jansson.h>
#include <stdio.h>

/* Labels of a sample: launch (a number, by order of start), and of a cell: cell (its key), backend, model,
 * component, tp, dp, cp, ep, tokens, and attempt where a launch has a cell several times. */
void k3_report_metrics(json_t *const *documents, size_t count, FILE *out);

#endif
