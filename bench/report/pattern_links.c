#include "bench/report/pattern_links.h"

#include <math.h>

#include "harness/base/memory.h"

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
