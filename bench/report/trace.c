#include "bench/report/trace.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "bench/plan/phase.h"
#include "bench/report/cellview.h"
#include "bench/report/fields.h"
#include "harness/base/memory.h"
#include "harness/record/json_values.h"

enum { RANKS_MAX = 1 << 16, FIRST_LANE = 100 };

typedef struct span {
    double begin, end; /* us; NaN: the phase is not in the timeline */
} span_t;

typedef struct trace {
    FILE     *out;
    bool      any;       /* an event was written */
    long long pid;       /* of rank 0 of the cell; the ranks of all cells count on */
    long long flow;      /* arrows so far */
    long long lanes_out; /* lanes whose ranks are not in the timeline */
    json_t   *missing;   /* cells without a timeline */
} trace_t;

typedef struct cell_trace {
    trace_t      *trace;
    const json_t *cell;
    long long     ranks;
    span_t       *span;  /* [ranks][phases] */
    int          *lanes; /* [ranks] named so far */
    int          *kept;  /* [ranks] its number among those of the timeline; -1: not in it */
    int           count; /* of them */
    double       *wait;  /* [traffic][number of dst][src] mean us; NaN: unknown */
} cell_trace_t;

/* --- events ---------------------------------------------------------------------------------- */

/* Takes the event. */
static void put_event(trace_t *t, json_t *event)
{
    if (event != NULL) {
        fputs(t->any ? ",\n" : "\n", t->out);
        json_dumpf(event, t->out, JSON_COMPACT | JSON_REAL_PRECISION(9));
        t->any = true;
    }
    json_decref(event);
}

static void put_name(trace_t *t, const char *what, long long pid, int tid, const char *name)
{
    put_event(t, json_pack("{s:s, s:s, s:I, s:i, s:{s:s}}", "name", what, "ph", "M", "pid",
                           (json_int_t)pid, "tid", tid, "args", "name", name));
}

static void put_slice(trace_t *t, const char *name, long long pid, int tid, double begin,
                      double end, json_t *args)
{
    put_event(t, json_pack("{s:s, s:s, s:s, s:I, s:i, s:f, s:f, s:o}", "name", name, "cat",
                           tid >= FIRST_LANE ? "lane" : "phase", "ph", "X", "pid", (json_int_t)pid,
                           "tid", tid, "ts", begin, "dur", fmax(end - begin, 0.0), "args", args));
}

/* One end of an arrow. */
static void put_arrow(trace_t *t, const char *end, long long pid, int tid, double at)
{
    json_t *event =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:i, s:f}", "name", "message", "cat", "flow", "ph",
                  end, "id", (json_int_t)t->flow, "pid", (json_int_t)pid, "tid", tid, "ts", at);

    if (end[0] == 'f') {
        json_object_set_new(event, "bp", json_string("e")); /* bound to the slice around it */
    }
    put_event(t, event);
}

/* --- phases ---------------------------------------------------------------------------------- */

static span_t *span_at(const cell_trace_t *c, long long rank, int phase)
{
    return &c->span[rank * K3_PHASE_COUNT + phase];
}

static int index_of(const char *name, const char *const *names)
{
    int i = 0;

    while (names[i] != NULL && strcmp(names[i], name) != 0) {
        i++;
    }
    return names[i] != NULL ? i : -1;
}

static bool is_kept(const cell_trace_t *c, long long rank)
{
    return rank >= 0 && rank < c->ranks && c->kept[rank] >= 0;
}

static void name_rank(const cell_trace_t *c, long long rank)
{
    char label[96], name[128];

    k3_cell_label(c->cell, label, sizeof(label));
    snprintf(name, sizeof(name), "%s rank %lld", label, rank);
    put_name(c->trace, "process_name", c->trace->pid + rank, 0, name);
    put_event(c->trace, json_pack("{s:s, s:s, s:I, s:i, s:{s:I}}", "name", "process_sort_index",
                                  "ph", "M", "pid", (json_int_t)(c->trace->pid + rank), "tid", 0,
                                  "args", "sort_index", (json_int_t)(c->trace->pid + rank)));
}

static void put_phases(const cell_trace_t *c, const json_t *table)
{
    const json_t *rows = json_object_get(table, "rows"), *row;
    int           rank_at = k3_column(table, "rank"), phase_at = k3_column(table, "phase");
    int           own_at = k3_column(table, "own_us");
    size_t        i;

    json_array_foreach(rows, i, row)
    {
        long long rank = k3_field_int(row, rank_at);
        int       phase = index_of(k3_field_text(row, phase_at), k3_phase_names);
        span_t   *s;

        if (rank < 0 || rank >= c->ranks || phase < 0) {
            continue;
        }
        s = span_at(c, rank, phase);
        put_name(c->trace, "thread_name", c->trace->pid + rank, 1 + phase, k3_phase_names[phase]);
        put_slice(c->trace, k3_phase_names[phase], c->trace->pid + rank, 1 + phase, s->begin,
                  s->end, json_pack("{s:f}", "own_us", k3_field_number(row, own_at)));
    }
}

static void read_spans(cell_trace_t *c, const json_t *table)
{
    const json_t *rows = json_object_get(table, "rows"), *row;
    int           rank_at = k3_column(table, "rank"), phase_at = k3_column(table, "phase");
    int           begin_at = k3_column(table, "begin_us"), end_at = k3_column(table, "end_us");
    size_t        i;

    for (long long at = 0; at < c->ranks * K3_PHASE_COUNT; at++) {
        c->span[at] = (span_t){NAN, NAN};
    }
    for (long long rank = 0; rank < c->ranks; rank++) {
        c->kept[rank] = -1;
    }
    json_array_foreach(rows, i, row)
    {
        long long rank = k3_field_int(row, rank_at);
        int       phase = index_of(k3_field_text(row, phase_at), k3_phase_names);

        if (rank >= 0 && rank < c->ranks && phase >= 0) {
            *span_at(c, rank, phase) =
                (span_t){k3_field_number(row, begin_at), k3_field_number(row, end_at)};
            c->kept[rank] = c->kept[rank] < 0 ? c->count++ : c->kept[rank];
        }
    }
}

/* --- lanes ----------------------------------------------------------------------------------- */

/* The first of the phases that the rank has been in; NULL: none. */
static const span_t *first_span(const cell_trace_t *c, long long rank, const int *phases,
                                int *which)
{
    for (int i = 0; i < 2; i++) {
        if (isfinite(span_at(c, rank, phases[i])->begin)) {
            *which = phases[i];
            return span_at(c, rank, phases[i]);
        }
    }
    return NULL;
}

/* A lane's times count from where its phase begins to post; a wait from where it begins to wait. */
static const int posts[K3_TRAFFIC_COUNT][2] = {{K3_PHASE_NOTIFY, K3_PHASE_DISPATCH},
                                               {K3_PHASE_DISPATCH_SEND, K3_PHASE_DISPATCH},
                                               {K3_PHASE_COMBINE_SEND, K3_PHASE_COMBINE}};
static const int waits[K3_TRAFFIC_COUNT][2] = {{K3_PHASE_NOTIFY, K3_PHASE_DISPATCH},
                                               {K3_PHASE_DISPATCH_WAIT, K3_PHASE_DISPATCH},
                                               {K3_PHASE_COMBINE_WAIT, K3_PHASE_COMBINE}};

static double *wait_at(const cell_trace_t *c, int traffic, long long dst, long long src)
{
    return &c->wait[((long long)traffic * c->count + c->kept[dst]) * c->ranks + src];
}

static void read_waits(const cell_trace_t *c)
{
    const json_t *row;
    k3_waits_t    w;
    size_t        i;

    k3_waits_of(c->cell, &w);
    for (long long at = 0; at < (long long)K3_TRAFFIC_COUNT * c->count * c->ranks; at++) {
        c->wait[at] = NAN;
    }
    json_array_foreach(w.rows, i, row)
    {
        long long dst = k3_field_int(row, w.dst), src = k3_field_int(row, w.src);
        int       traffic = index_of(k3_field_text(row, w.phase), k3_traffic_names);
        double    n = k3_field_number(row, w.count);

        if (traffic >= 0 && is_kept(c, dst) && src >= 0 && src < c->ranks && n > 0.0) {
            *wait_at(c, traffic, dst, src) = k3_field_number(row, w.sum_us) / n;
        }
    }
}

/* The arrow ends where the destination sees the source's signal; where that was not measured, with the last
 * completion. */
static void put_flow(const cell_trace_t *c, int traffic, long long src, long long dst, int tid,
                     double begin, double end)
{
    int           phase;
    const span_t *wait = is_kept(c, dst) ? first_span(c, dst, waits[traffic], &phase) : NULL;
    double        us;

    if (wait == NULL) {
        return;
    }
    us = *wait_at(c, traffic, dst, src);
    end = isfinite(us) ? wait->begin + us : end;
    c->trace->flow++;
    put_arrow(c->trace, "s", c->trace->pid + src, tid, begin);
    put_arrow(c->trace, "f", c->trace->pid + dst, 1 + phase,
              fmax(fmin(end, wait->end), wait->begin));
}

static void put_lane(const cell_trace_t *c, const k3_lanes_t *l, const json_t *row)
{
    long long     src = k3_field_int(row, l->src), dst = k3_field_int(row, l->dst);
    int           traffic = index_of(k3_field_text(row, l->phase), k3_traffic_names), phase, tid;
    const span_t *base = NULL;
    double        begin, end;
    char          name[64];

    if (traffic >= 0 && dst >= 0 && dst < c->ranks && is_kept(c, src)) {
        base = first_span(c, src, posts[traffic], &phase);
    }
    if (base == NULL) {
        c->trace->lanes_out++;
        return;
    }
    tid = FIRST_LANE + c->lanes[src]++;
    begin = base->begin + k3_field_number(row, l->first_post_us);
    end = base->begin + k3_field_number(row, l->last_done_us);
    snprintf(name, sizeof(name), "%s to %lld QP %lld", k3_traffic_names[traffic], dst,
             k3_field_int(row, l->qp));
    put_name(c->trace, "thread_name", c->trace->pid + src, tid, name);
    put_slice(c->trace, name, c->trace->pid + src, tid, begin, end,
              json_pack("{s:s, s:I, s:I, s:f, s:s}", "lane", k3_field_text(row, l->lane),
                        "messages", (json_int_t)k3_field_int(row, l->messages), "bytes_wire",
                        (json_int_t)k3_field_int(row, l->bytes_wire), "busy_us",
                        k3_field_number(row, l->busy_us), "times", "means over iterations"));
    put_flow(c, traffic, src, dst, tid, begin, end);
}

/* --- cells ----------------------------------------------------------------------------------- */

static void close_cell(cell_trace_t *c)
{
    k3_free(c->wait);
    k3_free(c->kept);
    k3_free(c->lanes);
    k3_free(c->span);
}

/* False: it has no timeline. */
static bool open_cell(cell_trace_t *c)
{
    const json_t *table = json_object_get(c->cell, "timeline");
    k3_error_t    unused = K3_ERROR_INIT;
    uint64_t      n;

    c->ranks = k3_get_int(json_object_get(c->cell, "layout"), "tp");
    n = (uint64_t)c->ranks;
    if (c->ranks < 1 || c->ranks > RANKS_MAX ||
        k3_alloc("spans", n * K3_PHASE_COUNT, sizeof(span_t), &c->span, &unused) != K3_OK ||
        k3_alloc("lanes", n, sizeof(int), &c->lanes, &unused) != K3_OK ||
        k3_alloc("ranks", n, sizeof(int), &c->kept, &unused) != K3_OK) {
        return false;
    }
    read_spans(c, table);
    if (c->count == 0 || k3_alloc("waits", n * (uint64_t)c->count * K3_TRAFFIC_COUNT,
                                  sizeof(double), &c->wait, &unused) != K3_OK) {
        return false;
    }
    read_waits(c);
    return true;
}

static void put_cell(trace_t *t, const json_t *cell)
{
    cell_trace_t  c = {.trace = t, .cell = cell};
    const json_t *row;
    k3_lanes_t    l;
    size_t        i;
    char          label[96];

    if (open_cell(&c)) {
        for (long long rank = 0; rank < c.ranks; rank++) {
            if (is_kept(&c, rank)) {
                name_rank(&c, rank);
            }
        }
        put_phases(&c, json_object_get(cell, "timeline"));
        k3_lanes_of(cell, &l);
        json_array_foreach(l.rows, i, row)
        {
            put_lane(&c, &l, row);
        }
        t->pid += c.ranks;
    } else {
        json_array_append_new(t->missing,
                              k3_json_string(k3_cell_label(cell, label, sizeof(label))));
    }
    close_cell(&c);
}

void k3_report_trace(json_t *const *documents, size_t count, FILE *out)
{
    trace_t t = {.out = out, .pid = 1, .missing = json_array()};
    json_t *runs = json_array(), *other;

    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", out);
    for (size_t d = 0; d < count; d++) {
        const json_t *cells = json_object_get(documents[d], "cells"), *cell;
        size_t        i;

        json_array_append(runs, json_object_get(json_object_get(documents[d], "run"), "id"));
        json_array_foreach(cells, i, cell)
        {
            if (k3_cell_measured(cell)) {
                put_cell(&t, cell);
            }
        }
    }
    other =
        json_pack("{s:o, s:o, s:I, s:I, s:s}", "runs", runs, "cells_without_timeline", t.missing,
                  "lanes_left_out", (json_int_t)t.lanes_out, "arrows", (json_int_t)t.flow, "times",
                  "us; phases of one iteration, lanes and waits are means over all of them");
    fputs("\n],\"otherData\":", out);
    json_dumpf(other, out, JSON_COMPACT);
    fputs("}\n", out);
    json_decref(other);
}
