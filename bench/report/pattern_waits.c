/* Who is waited for, and who waits: nodes and ranks. */
#include <math.h>
#include <stdio.h>

#include "bench/report/pattern_internal.h"

/* --- effects ---------------------------------------------------------------------------------- */

/* Median of values[n] without entry `skip`, and their standard deviation by the median absolute one. A
 * single other one (two ranks) shows no spread; it may be off by as much as it is. */
static double middle_of_others(const double *values, int n, int skip, double *scratch,
                               double *deviation)
{
    double center;
    int    m = 0;

    for (int i = 0; i < n; i++) {
        if (i != skip && isfinite(values[i])) {
            scratch[m++] = values[i];
        }
    }
    center = k3_pattern_median(scratch, m);
    for (int i = 0; i < m; i++) {
        scratch[i] = fabs(scratch[i] - center);
    }
    *deviation = m > 1 ? 1.4826 * k3_pattern_median(scratch, m) : fabs(center);
    return center;
}

/* Median over the other ranks of the waits for (by_source) or of each rank. The own signals do not
 * count. */
static void wait_effects(k3_pattern_view_t *v, bool by_source)
{
    for (int r = 0; r < v->ranks; r++) {
        int m = 0;

        for (int other = 0; other < v->ranks; other++) {
            double w = by_source ? v->wait[other * v->ranks + r] : v->wait[r * v->ranks + other];

            if (other != r && isfinite(w)) {
                v->scratch[m++] = w;
            }
        }
        v->effect[r] = k3_pattern_median(v->scratch, m);
    }
}

static int largest(const double *values, int n)
{
    int best = -1;

    for (int i = 0; i < n; i++) {
        if (isfinite(values[i]) && (best < 0 || values[i] > values[best])) {
            best = i;
        }
    }
    return best;
}

/* Whether entry `at` stands out; *excess: by how much above the others' median. */
static bool stands_out(const k3_pattern_view_t *v, int at, double *excess)
{
    double deviation, center;

    center = middle_of_others(v->effect, v->ranks, at, v->scratch, &deviation);
    *excess = v->effect[at] - center;
    return isfinite(*excess) && *excess >= v->share * v->phase_us &&
           *excess >= K3_PATTERN_DEVIATIONS * deviation;
}

/* --- slow node ------------------------------------------------------------------------------- */

/* Every rank of the node is later than every other one: by most of the distance between the means of the
 * two, *excess. */
static bool node_is_late(const k3_pattern_view_t *v, int node, double *excess)
{
    double least = INFINITY, most = -INFINITY, in = 0.0, out = 0.0;
    int    inside = 0, outside = 0;

    for (int r = 0; r < v->ranks; r++) {
        if (!isfinite(v->effect[r])) {
            continue;
        }
        if (v->nodes[r] == node) {
            least = fmin(least, v->effect[r]);
            in += v->effect[r];
            inside++;
        } else {
            most = fmax(most, v->effect[r]);
            out += v->effect[r];
            outside++;
        }
    }
    *excess = inside > 1 && outside > 1 ? in / inside - out / outside : 0.0;
    return *excess >= v->share * v->phase_us && least - most >= 0.5 * *excess;
}

static bool find_node(k3_pattern_view_t *v, k3_finding_t *best)
{
    int          top = largest(v->effect, v->ranks);
    double       excess;
    k3_finding_t f;
    char         a[32];

    if (v->nodes == NULL || top < 0 || !node_is_late(v, v->nodes[top], &excess)) {
        return false;
    }
    f = k3_pattern_finding(v, "slow node", excess);
    f.node = v->nodes[top];
    snprintf(f.text, sizeof(f.text),
             "slow node: node %d; the %s signals of all its ranks come %s us after those of the "
             "others (%.0f %% of the phase)",
             f.node, v->phase, k3_pattern_us(excess, a), 100.0 * f.share);
    k3_pattern_keep(best, &f);
    return true;
}

/* --- late rank, slow receiver ---------------------------------------------------------------- */

/* Load of a rank over the mean of all. */
static double relative_load(const k3_pattern_view_t *v, int rank)
{
    double sum = 0.0;

    for (int r = 0; r < v->ranks; r++) {
        sum += v->load[r];
    }
    return sum > 0.0 ? v->load[rank] * v->ranks / sum : 1.0;
}

static void find_late_rank(k3_pattern_view_t *v, k3_finding_t *best)
{
    int          top = largest(v->effect, v->ranks);
    double       excess, load;
    k3_finding_t f;
    char         a[32], b[32];

    if (top < 0 || !stands_out(v, top, &excess)) {
        return;
    }
    load = relative_load(v, top);
    f = k3_pattern_finding(v, load >= 1.5 ? "skewed routing" : "late rank", excess);
    f.rank = top;
    snprintf(f.text, sizeof(f.text),
             "%s: rank %d; the others wait %s us for its %s signals, %s us longer than for the rest"
             " (%.0f %% of the phase); it receives %.2f times the mean bytes",
             f.name, top, k3_pattern_us(v->effect[top], a), v->phase, k3_pattern_us(excess, b),
             100.0 * f.share, load);
    k3_pattern_keep(best, &f);
}

static void find_receiver(k3_pattern_view_t *v, k3_finding_t *best)
{
    int          top;
    double       excess;
    k3_finding_t f;
    char         a[32], b[32];

    wait_effects(v, false);
    top = largest(v->effect, v->ranks);
    if (top < 0 || !stands_out(v, top, &excess)) {
        return;
    }
    f = k3_pattern_finding(v, "slow receiver", excess);
    f.rank = top;
    snprintf(f.text, sizeof(f.text),
             "slow receiver: rank %d; it waits %s us for the %s signals of every source, %s us "
             "longer than the others do (%.0f %% of the phase)",
             top, k3_pattern_us(v->effect[top], a), v->phase, k3_pattern_us(excess, b),
             100.0 * f.share);
    k3_pattern_keep(best, &f);
}

void k3_pattern_waits(k3_pattern_view_t *v, k3_finding_t *best)
{
    wait_effects(v, true);
    if (!find_node(v, best)) {
        find_late_rank(v, best);
    }
    find_receiver(v, best);
}
