/* Who holds a cell back: the pattern in its lanes and waits, named with its culprit and the evidence.
 *
 * The wait matrix W[dst][src] (mean wait of dst for the signals of src) and the lanes (median time of
 * a message) are looked at for
 *
 *   late rank       everybody waits longer for one source than for the others
 *   slow node       ... for all ranks of one node
 *   slow receiver   one destination waits longer than the others, whatever the source
 *   slow lane       messages of one lane take longer than those of its kind
 *   skewed routing  a late rank that received far more rows than the others
 *
 * and the one that explains most time is told, when it explains a fifth of its phase (where ranks share cores
 * half of it; a lane apart from all others: a fiftieth). */
#ifndef K3_REPORT_PATTERN_H
#define K3_REPORT_PATTERN_H

#include <jansson.h>
#include <stdbool.h>

/* From a measured cell of a record: {"name", "phase", "rank", "node", "lane": [src, dst, qp],
 * "excess_us", "share", "text"}; what does not apply is absent. `nodes`: node of each rank (the record's
 * topology, or the cell's virtual nodes), may be NULL. `share_cores`: more ranks than cores. name "none" when
 * nothing stands out; NULL when the cell has neither lanes nor waits. */
json_t *k3_pattern_of(const json_t *cell, const int *nodes, bool share_cores);

#endif
