/* What the files that look for patterns share: a cell's waits and lanes in one phase, and what was found. */
#ifndef K3_REPORT_PATTERN_INTERNAL_H
#define K3_REPORT_PATTERN_INTERNAL_H

#include <stdbool.h>

#include "bench/report/fields.h"

/* A finding must explain this share of its phase, and stand out from the spread of the others. Ranks that share a
 * core are let in one after the other, in an order that a launch may keep: there lateness must be larger. */
#define K3_PATTERN_SHARE      0.2
#define K3_PATTERN_SHARE_CORE 0.5
#define K3_PATTERN_RATIO      3.0
#define K3_PATTERN_DEVIATIONS 6.0

typedef struct k3_finding {
    const char *name, *phase;
    int         rank, node, lane[3]; /* -1: does not apply */
    bool        link;                /* all lanes of a node */
    double      excess_us, share;
    char        text[320];
} k3_finding_t;

typedef struct k3_pattern_view {
    const json_t *cell;
    k3_lanes_t    lanes;
    k3_waits_t    waits;
    const int    *nodes; /* of each rank; NULL: not known */
    const char   *phase;
    double        phase_us; /* its mean, as waits are means */
    double        share;    /* of the phase, for lateness */
    int           ranks;
    double       *wait;    /* [dst][src] mean us; NaN: unknown */
    double       *scratch; /* [ranks] */
    double       *effect;  /* [ranks] */
    double       *load;    /* [ranks] bytes that reach a rank in the dispatch */
    double       *times;   /* [lanes] */
} k3_pattern_view_t;

/* Median of values[n], which are sorted; NaN when n is 0. */
double k3_pattern_median(double *values, int n);

/* Three digits, or whole microseconds; `text` is returned. */
const char *k3_pattern_us(double us, char text[32]);

k3_finding_t k3_pattern_finding(const k3_pattern_view_t *v, const char *name, double excess);

/* Keeps the finding when it weighs more than the one before. */
void k3_pattern_keep(k3_finding_t *best, const k3_finding_t *f);

/* A lane of this kind ("self", "p2p", "qp") in the phase, with a time. */
bool k3_pattern_is_lane(const k3_pattern_view_t *v, const json_t *row, const char *kind);

/* --- the patterns, each in its phase ---------------------------------------------------------- */

/* A node's link is slow; then ranks and lanes of that node are late because of it, and nothing else need be asked. */
bool k3_pattern_link(k3_pattern_view_t *v, k3_finding_t *best);

/* Slow node, late rank or skewed routing, slow receiver: out of the waits. */
void k3_pattern_waits(k3_pattern_view_t *v, k3_finding_t *best);

/* One lane apart from all others of its kind. */
void k3_pattern_lanes(k3_pattern_view_t *v, k3_finding_t *best);

/* wait[dst * ranks + src]: usual wait, NaN where unknown; nodes[rank]. The node for which the waits between
 * it and every other node, in both directions, are longer than all those among the other nodes: the smallest
 * above the largest by half the distance of the means, *excess. Means over the ranks of a pair of nodes.
 * It takes three nodes: with two, nothing tells which end of the one path is slow. -1: none. */
int k3_slow_link(const double *wait, int ranks, const int *nodes, double *excess);

#endif
