#include "bench/report/pattern.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bench/report/cellview.h"
#include "bench/report/fields.h"
#include "bench/report/pattern_links.h"
#include "bench/report/values.h"
#include "harness/base/memory.h"

enum { RANKS_MAX = 1 << 14 };

/* A finding must explain this share of its phase, and stand out from the spread of the others. */
static const double least_share = 0.2, least_ratio = 3.0, least_deviations = 6.0;

typedef struct finding {
    const char *name, *phase;
    int         rank, node, lane[3]; /* -1: does not apply */
    bool        link;                /* all lanes of a node */
    double      excess_us, share;
    char        text[320];
} finding_t;

typedef struct view {
    const json_t *cell;
    k3_lanes_t    lanes;
    k3_waits_t    waits;
    const int    *nodes;
    const char   *phase;
    double        phase_us;
    int           ranks;
    double       *wait;    /* [dst][src] mean us; NaN: unknown */
    double       *scratch; /* [2 ranks + ...] */
    double       *effect;  /* [ranks] */
    double       *load;    /* [ranks] bytes that reach a rank in the dispatch */
} view_t;

/* --- robust numbers -------------------------------------------------------------------------- */

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

static double median(double *values, int n)
{
    if (n == 0) {
        return NAN;
    }
    qsort(values, (size_t)n, sizeof(double), by_value);
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2.0;
}

/* Median of values[n] without entry `skip`, and their standard deviation by the median absolute one. */
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
    center = median(scratch, m);
    for (int i = 0; i < m; i++) {
        scratch[i] = fabs(scratch[i] - center);
    }
    *deviation = 1.4826 * median(scratch, m);
    return center;
}

/* --- waits ----------------------------------------------------------------------------------- */

/* The mean without the longest one: a single hiccup is no pattern. */
static double usual_wait(const k3_waits_t *w, const json_t *row)
{
    double n = k3_field_number(row, w->count), sum = k3_field_number(row, w->sum_us);

    return n > 2.0 ? (sum - k3_field_number(row, w->max_us)) / (n - 1.0) : sum / n;
}

static void read_waits(view_t *v)
{
    const k3_waits_t *w = &v->waits;
    const json_t     *row;
    size_t            i;

    for (int at = 0; at < v->ranks * v->ranks; at++) {
        v->wait[at] = NAN;
    }
    json_array_foreach(w->rows, i, row)
    {
        long long dst = k3_field_int(row, w->dst), src = k3_field_int(row, w->src);

        if (k3_field_is(row, w->phase, v->phase) && dst >= 0 && dst < v->ranks && src >= 0 &&
            src < v->ranks && k3_field_int(row, w->count) > 0) {
            v->wait[dst * v->ranks + src] = usual_wait(w, row);
        }
    }
}

/* Median over the other ranks of the waits for (by_source) or of each rank. The own signals do not
 * count. */
static void wait_effects(view_t *v, bool by_source)
{
    for (int r = 0; r < v->ranks; r++) {
        int m = 0;

        for (int other = 0; other < v->ranks; other++) {
            double w = by_source ? v->wait[other * v->ranks + r] : v->wait[r * v->ranks + other];

            if (other != r && isfinite(w)) {
                v->scratch[m++] = w;
            }
        }
        v->effect[r] = median(v->scratch, m);
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
static bool stands_out(const view_t *v, int at, double *excess)
{
    double deviation, center;

    center = middle_of_others(v->effect, v->ranks, at, v->scratch, &deviation);
    *excess = v->effect[at] - center;
    return isfinite(*excess) && *excess >= least_share * v->phase_us &&
           *excess >= least_deviations * deviation;
}

/* A lane apart from all others of its kind is a cause, and so is a node whose lanes are; ranks that are late because
 * of them are their consequence, and their waits add up to more than the lanes' own time. */
static double weight(const finding_t *f)
{
    return f->link ? INFINITY : f->lane[0] >= 0 ? 10.0 * f->excess_us : f->excess_us;
}

static void keep(finding_t *best, const finding_t *f)
{
    if (best->name == NULL || weight(f) > weight(best)) {
        *best = *f;
    }
}

/* Three digits, or whole microseconds. */
static const char *us_text(double us, char text[32])
{
    snprintf(text, 32, us >= 100.0 ? "%.0f" : "%.3g", us);
    return text;
}

static finding_t finding(const view_t *v, const char *name, double excess)
{
    return (finding_t){.name = name,
                       .phase = v->phase,
                       .rank = -1,
                       .node = -1,
                       .lane = {-1, -1, -1},
                       .excess_us = excess,
                       .share = excess / v->phase_us};
}

/* --- slow node ------------------------------------------------------------------------------- */

/* Every rank of the node is later than every other one: by most of the distance between the means of the
 * two, *excess. */
static bool node_is_late(const view_t *v, int node, double *excess)
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
    return *excess >= least_share * v->phase_us && least - most >= 0.5 * *excess;
}

static bool find_link(const view_t *v, finding_t *best)
{
    double    excess = 0.0;
    int       node = v->nodes != NULL ? k3_slow_link(v->wait, v->ranks, v->nodes, &excess) : -1;
    finding_t f = finding(v, "slow node", excess);
    char      a[32];

    if (node < 0 || f.share < least_share) {
        return false;
    }
    f.node = node;
    snprintf(f.text, sizeof(f.text),
             "slow node: node %d; the %s signals to and from it take %s us longer than those among "
             "the other nodes (%.0f %% of the phase)",
             node, v->phase, us_text(excess, a), 100.0 * f.share);
    keep(best, &f);
    return true;
}

static bool find_node(view_t *v, finding_t *best)
{
    int       top = largest(v->effect, v->ranks);
    double    excess;
    finding_t f;
    char      a[32];

    if (v->nodes == NULL || top < 0 || !node_is_late(v, v->nodes[top], &excess)) {
        return false;
    }
    f = finding(v, "slow node", excess);
    f.node = v->nodes[top];
    snprintf(f.text, sizeof(f.text),
             "slow node: node %d; the %s signals of all its ranks come %s us after those of the "
             "others (%.0f %% of the phase)",
             f.node, v->phase, us_text(excess, a), 100.0 * f.share);
    keep(best, &f);
    return true;
}

static bool is_lane(const view_t *v, const json_t *row, const char *kind)
{
    return k3_field_is(row, v->lanes.phase, v->phase) && k3_field_is(row, v->lanes.lane, kind) &&
           json_is_number(k3_field(row, v->lanes.p50_us));
}

/* Median time of a message on the queue pairs that leave `node`, or (other) the other nodes. */
static double lanes_leaving(const view_t *v, int node, bool other, double *p50, int *count)
{
    const json_t *row;
    size_t        i;

    *count = 0;
    json_array_foreach(v->lanes.rows, i, row)
    {
        long long src = k3_field_int(row, v->lanes.src), dst = k3_field_int(row, v->lanes.dst);

        if (is_lane(v, row, "qp") && src >= 0 && src < v->ranks && dst >= 0 && dst < v->ranks &&
            v->nodes[src] != v->nodes[dst] && (v->nodes[src] == node) != other) {
            p50[(*count)++] = k3_field_number(row, v->lanes.p50_us);
        }
    }
    return median(p50, *count);
}

static bool is_first_of_node(const view_t *v, int rank)
{
    for (int r = 0; r < rank; r++) {
        if (v->nodes[r] == v->nodes[rank]) {
            return false;
        }
    }
    return true;
}

/* Most lanes that leave one node are slower than those that leave the others: its link. */
static bool find_link_by_lanes(view_t *v, double *p50, finding_t *best)
{
    int  count, others;
    char a[32], b[32];

    for (int r = 0; r < v->ranks; r++) {
        int       node = v->nodes[r];
        double    usual, slow;
        finding_t f;

        if (!is_first_of_node(v, r)) {
            continue;
        }
        usual = lanes_leaving(v, node, true, p50, &others);
        slow = lanes_leaving(v, node, false, p50, &count);

        /* A quarter of them is as fast as the others at most. */
        if (count < 4 || others < 4 || !(slow >= least_ratio * usual) ||
            p50[count / 4] < 2.0 * usual || slow - usual < 0.001 * v->phase_us) {
            continue;
        }
        f = finding(v, "slow node", slow - usual);
        f.node = node;
        f.link = true;
        snprintf(f.text, sizeof(f.text),
                 "slow node: node %d; a message of the %s takes %s us on the lanes that leave it "
                 "(median of %d), %s us on those that leave the others",
                 node, v->phase, us_text(slow, a), count, us_text(usual, b));
        keep(best, &f);
        return true;
    }
    return false;
}

/* --- late rank, slow receiver ---------------------------------------------------------------- */

/* Load of a rank over the mean of all. */
static double relative_load(const view_t *v, int rank)
{
    double sum = 0.0;

    for (int r = 0; r < v->ranks; r++) {
        sum += v->load[r];
    }
    return sum > 0.0 ? v->load[rank] * v->ranks / sum : 1.0;
}

static void find_late_rank(view_t *v, finding_t *best)
{
    int       top = largest(v->effect, v->ranks);
    double    excess, load;
    finding_t f;
    char      a[32], b[32];

    if (top < 0 || !stands_out(v, top, &excess)) {
        return;
    }
    load = relative_load(v, top);
    f = finding(v, load >= 1.5 ? "skewed routing" : "late rank", excess);
    f.rank = top;
    snprintf(f.text, sizeof(f.text),
             "%s: rank %d; the others wait %s us for its %s signals, %s us longer than for the rest"
             " (%.0f %% of the phase); it receives %.2f times the mean bytes",
             f.name, top, us_text(v->effect[top], a), v->phase, us_text(excess, b), 100.0 * f.share,
             load);
    keep(best, &f);
}

static void find_receiver(view_t *v, finding_t *best)
{
    int       top;
    double    excess;
    finding_t f;
    char      a[32], b[32];

    wait_effects(v, false);
    top = largest(v->effect, v->ranks);
    if (top < 0 || !stands_out(v, top, &excess)) {
        return;
    }
    f = finding(v, "slow receiver", excess);
    f.rank = top;
    snprintf(f.text, sizeof(f.text),
             "slow receiver: rank %d; it waits %s us for the %s signals of every source, %s us "
             "longer than the others do (%.0f %% of the phase)",
             top, us_text(v->effect[top], a), v->phase, us_text(excess, b), 100.0 * f.share);
    keep(best, &f);
}

/* --- slow lane ------------------------------------------------------------------------------- */

typedef struct times {
    double *p50; /* of the lanes of one kind in the phase */
    int     count;
} times_t;

static void find_lane_of_kind(view_t *v, const char *kind, times_t *l, finding_t *best)
{
    const json_t *row, *worst = NULL;
    double        most = 0.0, usual, excess;
    size_t        i;
    finding_t     f;
    char          a[32], b[32];

    l->count = 0;
    json_array_foreach(v->lanes.rows, i, row)
    {
        if (is_lane(v, row, kind)) {
            double p50 = k3_field_number(row, v->lanes.p50_us);

            l->p50[l->count++] = p50;
            if (worst == NULL || p50 > most) {
                most = p50;
                worst = row;
            }
        }
    }
    usual = median(l->p50, l->count);
    excess = worst != NULL ? (most - usual) * k3_field_number(worst, v->lanes.messages) : 0.0;
    /* The second slowest must not be like it: that would be no single lane. */
    if (l->count < 4 || most < least_ratio * usual || most < 2.0 * l->p50[l->count - 2] ||
        excess < 0.02 * v->phase_us) {
        return;
    }
    f = finding(v, "slow lane", excess);
    f.lane[0] = (int)k3_field_int(worst, v->lanes.src);
    f.lane[1] = (int)k3_field_int(worst, v->lanes.dst);
    f.lane[2] = (int)k3_field_int(worst, v->lanes.qp);
    snprintf(f.text, sizeof(f.text),
             "slow lane: %s %d->%d QP %d; a message takes %s us there (median), %s us on the other "
             "%s lanes (%.0f %% of the phase)",
             v->phase, f.lane[0], f.lane[1], f.lane[2], us_text(most, a), us_text(usual, b), kind,
             100.0 * f.share);
    keep(best, &f);
}

static void find_lanes(view_t *v, finding_t *best)
{
    static const char *const kinds[] = {"self", "p2p", "qp"};
    k3_error_t               err = K3_ERROR_INIT;
    times_t                  l = {0};
    size_t                   n = json_array_size(v->lanes.rows);

    if (n > 0 && k3_alloc("lanes", n, sizeof(double), &l.p50, &err) == K3_OK) {
        bool link = v->nodes != NULL && find_link_by_lanes(v, l.p50, best);

        for (int k = 0; k < 3 && !link; k++) {
            find_lane_of_kind(v, kinds[k], &l, best);
        }
        k3_free(l.p50);
    }
}

/* --- all ------------------------------------------------------------------------------------- */

static void read_load(view_t *v)
{
    const k3_lanes_t *l = &v->lanes;
    const json_t     *row;
    size_t            i;

    json_array_foreach(l->rows, i, row)
    {
        long long dst = k3_field_int(row, l->dst);

        if (k3_field_is(row, l->phase, "dispatch") && dst >= 0 && dst < v->ranks) {
            v->load[dst] += k3_field_number(row, l->bytes_wire);
        }
    }
}

static json_t *finding_json(const finding_t *f)
{
    json_t *o = json_object();

    k3_set_text(o, "name", f->name != NULL ? f->name : "none");
    if (f->name == NULL) {
        k3_set_text(o, "text", "no rank, node or lane stands out");
        return o;
    }
    k3_set_text(o, "phase", f->phase);
    if (f->rank >= 0) {
        k3_set_count(o, "rank", (uint64_t)f->rank);
    }
    if (f->node >= 0) {
        k3_set_count(o, "node", (uint64_t)f->node);
    }
    if (f->lane[0] >= 0) {
        json_object_set_new(o, "lane", json_pack("[i, i, i]", f->lane[0], f->lane[1], f->lane[2]));
    }
    k3_set_number(o, "excess_us", f->excess_us);
    k3_set_number(o, "share", f->share);
    k3_set_text(o, "text", f->text);
    return o;
}

static k3_status_t open_view(view_t *v, k3_error_t *err)
{
    uint64_t n = (uint64_t)v->ranks;

    k3_alloc("wait matrix", n * n, sizeof(double), &v->wait, err);
    if (err->status == K3_OK) {
        k3_alloc("waits", n, sizeof(double), &v->scratch, err);
    }
    if (err->status == K3_OK) {
        k3_alloc("waits", n, sizeof(double), &v->effect, err);
    }
    if (err->status == K3_OK) {
        k3_alloc("loads", n, sizeof(double), &v->load, err);
    }
    return err->status;
}

static void close_view(view_t *v)
{
    k3_free(v->load);
    k3_free(v->effect);
    k3_free(v->scratch);
    k3_free(v->wait);
}

static void look_at_phase(view_t *v, const char *phase, finding_t *best)
{
    v->phase = phase;
    if (!k3_cell_median(v->cell, phase, &v->phase_us) || v->phase_us <= 0.0) {
        return;
    }
    read_waits(v);
    wait_effects(v, true);
    /* A rank behind a slow link is late and waits long, whatever it does itself. */
    if (!find_link(v, best)) {
        if (!find_node(v, best)) {
            find_late_rank(v, best);
        }
        find_receiver(v, best);
    }
    find_lanes(v, best);
}

json_t *k3_pattern_of(const json_t *cell, const int *nodes)
{
    const json_t *layout = json_object_get(cell, "layout");
    finding_t     best = {0};
    k3_error_t    err = K3_ERROR_INIT;
    view_t        v = {.cell = cell, .nodes = nodes};
    json_int_t    ranks = json_integer_value(json_object_get(layout, "tp"));
    json_t       *result = NULL;

    k3_lanes_of(cell, &v.lanes);
    k3_waits_of(cell, &v.waits);
    if (ranks < 1 || ranks > RANKS_MAX || (v.waits.rows == NULL && v.lanes.rows == NULL)) {
        return NULL;
    }
    v.ranks = (int)ranks;
    if (open_view(&v, &err) == K3_OK) {
        read_load(&v);
        look_at_phase(&v, "dispatch", &best);
        look_at_phase(&v, "combine", &best);
        result = finding_json(&best);
    }
    close_view(&v);
    return result;
}
