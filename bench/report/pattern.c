#include "bench/report/pattern.h"

#include <math.h>

#include "bench/report/cellview.h"
#include "bench/report/pattern_internal.h"
#include "bench/report/values.h"
#include "harness/base/memory.h"

enum { RANKS_MAX = 1 << 14 };

/* --- reading ---------------------------------------------------------------------------------- */

/* The mean without the longest one: a single hiccup is no pattern. */
static double usual_wait(const k3_waits_t *w, const json_t *row)
{
    double n = k3_field_number(row, w->count), sum = k3_field_number(row, w->sum_us);

    return n > 2.0 ? (sum - k3_field_number(row, w->max_us)) / (n - 1.0) : sum / n;
}

static void read_waits(k3_pattern_view_t *v)
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

static void read_load(k3_pattern_view_t *v)
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

static json_t *finding_json(const k3_finding_t *f)
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

static k3_status_t open_view(k3_pattern_view_t *v, k3_error_t *err)
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
    if (err->status == K3_OK) {
        k3_alloc("lanes", json_array_size(v->lanes.rows), sizeof(double), &v->times, err);
    }
    return err->status;
}

static void close_view(k3_pattern_view_t *v)
{
    k3_free(v->times);
    k3_free(v->load);
    k3_free(v->effect);
    k3_free(v->scratch);
    k3_free(v->wait);
}

/* The mean, which a few long iterations raise as they raise the waits in them; the median of a record without. */
static bool phase_time(const json_t *cell, const char *phase, double *us)
{
    const json_t *mean = json_object_get(k3_cell_phase(cell, phase), "mean");

    if (!json_is_number(mean)) {
        return k3_cell_median(cell, phase, us);
    }
    *us = json_number_value(mean);
    return true;
}

static void look_at_phase(k3_pattern_view_t *v, const char *phase, k3_finding_t *best)
{
    v->phase = phase;
    if (!phase_time(v->cell, phase, &v->phase_us) || v->phase_us <= 0.0) {
        return;
    }
    read_waits(v);
    if (!k3_pattern_link(v, best)) {
        k3_pattern_waits(v, best);
        k3_pattern_lanes(v, best);
    }
}

json_t *k3_pattern_of(const json_t *cell, const int *nodes, bool share_cores)
{
    const json_t     *layout = json_object_get(cell, "layout");
    k3_finding_t      best = {0};
    k3_error_t        err = K3_ERROR_INIT;
    k3_pattern_view_t v = {.cell = cell,
                           .nodes = nodes,
                           .share = share_cores ? K3_PATTERN_SHARE_CORE : K3_PATTERN_SHARE};
    json_int_t        ranks = json_integer_value(json_object_get(layout, "tp"));
    json_t           *result = NULL;

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
