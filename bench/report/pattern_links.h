/* A slow link of a node, out of the waits of its ranks. */
#ifndef K3_REPORT_PATTERN_LINKS_H
#define K3_REPORT_PATTERN_LINKS_H

#include <stdbool.h>

/* wait[dst * ranks + src]: usual wait, NaN where unknown; nodes[rank]. The node for which the waits between
 * it and every other node, in both directions, are longer than all those among the other nodes: the smallest
 * above the largest by half the distance of the means, *excess. Means over the ranks of a pair of nodes.
 * It takes three nodes: with two, nothing tells which end of the one path is slow. -1: none. */
int k3_slow_link(const double *wait, int ranks, const int *nodes, double *excess);

#endif
