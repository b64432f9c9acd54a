/* A slow link of a node: all that goes over it is late, in whatever rank or lane it is seen. */
#include <math.h>
#include <stdio.h>

#include "bench/report/pattern_internal.h"
#include "harness/base/memory.h"

/* --- by waits --------------------------------------------------------------------------------- */

typedef struct pairs {
    int     count; /* nodes */
    double *sum;   /* [count * count], by destination and source */
    double *n;
} pairs_t;

static void add_waits(pairs_t *p, const double *wait, int ranks, const int *nodes)
{
    for (int dst = 0; dst < ranks; dst++) {
        for (int src = 0; src < ranks; src++) {
            double w = wait[dst * ranks + src];

            if (nodes[dst] != nodes[src] && isfinite(w)) {
                p->sum[nodes[dst] * p->count + nodes[src]] += w;
                p->n[nodes[dst] * p->count + nodes[src]] += 1.0;
            }
        }
    }
}

/* Pairs with the node against pairs without it. */
static bool stands_apart(const pairs_t *p, int node, double *excess)
{
    double least = INFINITY, most = -INFINITY, in = 0.0, out = 0.0;
    int    inside = 0, outside = 0;

    for (int dst = 0; dst < p->count; dst++) {
        for (int src = 0; src < p->count; src++) {
            int    at = dst * p->count + src;
            double mean = p->sum[at] / p->n[at];

            if (p->n[at] <= 0.0) {
                continue;
            }
            if (dst == node || src == node) {
                least = fmin(least, mean);
                in += mean;
                inside++;
            } else {
                most = fmax(most, mean);
                out += mean;
                outside++;
            }
        }
    }
    *excess = inside > 0 && outside > 0 ? in / inside - out / outside : 0.0;
    return *excess > 0.0 && least - most >= 0.5 * *excess;
}

int k3_slow_link(const double *wait, int ranks, const int *nodes, double *excess)
{
    k3_error_t err = K3_ERROR_INIT;
    pairs_t    p = {0};
    int        found = -1;

    for (int r = 0; r < ranks; r++) {
        p.count = nodes[r] + 1 > p.count ? nodes[r] + 1 : p.count;
    }
    if (p.count >= 3 &&
        k3_alloc("waits between nodes", (uint64_t)p.count * (uint64_t)p.count, sizeof(double),
                 &p.sum, &err) == K3_OK &&
        k3_alloc("waits between nodes", (uint64_t)p.count * (uint64_t)p.count, sizeof(double), &p.n,
                 &err) == K3_OK) {
        add_waits(&p, wait, ranks, nodes);
        for (int node = 0; node < p.count && found < 0; node++) {
            found = stands_apart(&p, node, excess) ? node : -1;
        }
    }
    k3_free(p.n);
    k3_free(p.sum);
    return found;
}

static int link_by_waits(const k3_pattern_view_t *v, double *excess, char *evidence, size_t size)
{
    int  node = k3_slow_link(v->wait, v->ranks, v->nodes, excess);
    char a[32];

    if (node < 0 || *excess < K3_PATTERN_SHARE * v->phase_us) {
        return -1;
    }
    snprintf(evidence, size,
             "the %s signals to and from it take %s us longer than those among the other nodes "
             "(%.0f %% of the phase)",
             v->phase, k3_pattern_us(*excess, a), 100.0 * *excess / v->phase_us);
    return node;
}

/* --- by lanes --------------------------------------------------------------------------------- */

/* Median time of a message on the queue pairs that leave `node`, or (other) the other nodes. */
static double lanes_leaving(k3_pattern_view_t *v, int node, bool other, int *count)
{
    const json_t *row;
    size_t        i;

    *count = 0;
    json_array_foreach(v->lanes.rows, i, row)
    {
        long long src = k3_field_int(row, v->lanes.src), dst = k3_field_int(row, v->lanes.dst);

        if (k3_pattern_is_lane(v, row, "qp") && src >= 0 && src < v->ranks && dst >= 0 &&
            dst < v->ranks && v->nodes[src] != v->nodes[dst] && (v->nodes[src] == node) != other) {
            v->times[(*count)++] = k3_field_number(row, v->lanes.p50_us);
        }
    }
    return k3_pattern_median(v->times, *count);
}

static bool is_first_of_node(const k3_pattern_view_t *v, int rank)
{
    for (int r = 0; r < rank; r++) {
        if (v->nodes[r] == v->nodes[rank]) {
            return false;
        }
    }
    return true;
}

/* Most lanes that leave one node are slower than those that leave the others. A lane that ends where the data are
 * buffered shows nothing; then the waits do. */
static int link_by_lanes(k3_pattern_view_t *v, double *excess, char *evidence, size_t size)
{
    char a[32], b[32];

    for (int r = 0; r < v->ranks; r++) {
        int    node = v->nodes[r], count, others;
        double usual, slow;

        if (!is_first_of_node(v, r)) {
            continue;
        }
        usual = lanes_leaving(v, node, true, &others);
        slow = lanes_leaving(v, node, false, &count);
        /* A quarter of them is as fast as the others at most. */
        if (count < 4 || others < 4 || !(slow >= K3_PATTERN_RATIO * usual) ||
            v->times[count / 4] < 2.0 * usual || slow - usual < 0.001 * v->phase_us) {
            continue;
        }
        *excess = slow - usual;
        snprintf(evidence, size,
                 "a message of the %s takes %s us on the lanes that leave it (median of %d), %s us "
                 "on those that leave the others",
                 v->phase, k3_pattern_us(slow, a), count, k3_pattern_us(usual, b));
        return node;
    }
    return -1;
}

bool k3_pattern_link(k3_pattern_view_t *v, k3_finding_t *best)
{
    char         evidence[256];
    double       excess = 0.0;
    int          node = -1;
    k3_finding_t f;

    if (v->nodes != NULL) {
        node = link_by_lanes(v, &excess, evidence, sizeof(evidence));
        node = node >= 0 ? node : link_by_waits(v, &excess, evidence, sizeof(evidence));
    }
    if (node < 0) {
        return false;
    }
    f = k3_pattern_finding(v, "slow node", excess);
    f.node = node;
    f.link = true;
    snprintf(f.text, sizeof(f.text), "slow node: node %d; %s", node, evidence);
    k3_pattern_keep(best, &f);
    return true;
}
