#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bench/report/fields.h"
#include "bench/report/html_internal.h"
#include "harness/base/memory.h"

/* Ranks beyond so many are drawn in blocks of neighbours, so that the page stays small. */
enum { SIDE = 64, SLOWEST = 12, MAP_LEFT = 46, MAP_TOP = 24, MAP_WIDTH = 360 };

typedef struct map {
    int     rows, columns;        /* cells drawn */
    int     row_block, col_block; /* ranks or QPs in each */
    double *sum, *weight;         /* [rows][columns]; the value is sum / weight, or sum */
    bool    mean;
} map_t;

static int blocks(int n, int *block)
{
    *block = (n + SIDE - 1) / SIDE;
    *block = *block > 0 ? *block : 1;
    return (n + *block - 1) / *block;
}

static bool open_map(map_t *m, int rows, int columns, bool mean)
{
    k3_error_t err = K3_ERROR_INIT;

    *m = (map_t){.mean = mean};
    m->rows = blocks(rows, &m->row_block);
    m->columns = blocks(columns, &m->col_block);
    return rows > 0 && columns > 0 &&
           k3_alloc("map", (uint64_t)m->rows * (uint64_t)m->columns, sizeof(double), &m->sum,
                    &err) == K3_OK &&
           k3_alloc("map", (uint64_t)m->rows * (uint64_t)m->columns, sizeof(double), &m->weight,
                    &err) == K3_OK;
}

static void close_map(map_t *m)
{
    k3_free(m->weight);
    k3_free(m->sum);
}

static void add(map_t *m, double row, double column, double value, double weight)
{
    int r = (int)row / m->row_block, c = (int)column / m->col_block;

    if (row >= 0 && column >= 0 && r < m->rows && c < m->columns) {
        m->sum[r * m->columns + c] += value;
        m->weight[r * m->columns + c] += weight;
    }
}

static double value_of(const map_t *m, int i)
{
    return m->mean ? (m->weight[i] > 0.0 ? m->sum[i] / m->weight[i] : 0.0) : m->sum[i];
}

static void range_of(const map_t *m, double *low, double *high)
{
    *low = INFINITY;
    *high = 0.0;
    for (int i = 0; i < m->rows * m->columns; i++) {
        double v = value_of(m, i);

        if (v > 0.0) {
            *low = fmin(*low, v);
            *high = fmax(*high, v);
        }
    }
}

static void name_block(int at, int block, char text[32])
{
    if (block == 1) {
        snprintf(text, 32, "%d", at);
    } else {
        snprintf(text, 32, "%d-%d", at * block, at * block + block - 1);
    }
}

static void draw_map(const map_t *m, const char *title, const char *row, const char *column,
                     const char *unit, FILE *out)
{
    double low, high, size = m->columns > 32 || m->rows > 32 ? 10.0 : 22.0;
    int    width, height;

    range_of(m, &low, &high);
    if (high <= 0.0) {
        return;
    }
    width = MAP_LEFT + (int)(size * m->columns) + 10;
    width = width < MAP_WIDTH ? MAP_WIDTH : width; /* room for the words */
    height = MAP_TOP + (int)(size * m->rows) + 26;
    fputs("<div><h3>", out);
    k3_html_text(title, out);
    fprintf(out,
            "</h3>\n<div class=wide><svg viewBox=\"0 0 %d %d\" width=%d height=%d role=img "
            "aria-label=\"",
            width, height, width, height);
    k3_html_text(title, out);
    fprintf(out, "\">\n<text class=soft x=%d y=12>%s across, %s down; %.3g to %.3g %s</text>\n", 0,
            column, row, low, high, unit);
    for (int i = 0; i < m->rows * m->columns; i++) {
        double v = value_of(m, i), share = high > low ? log(v / low) / log(high / low) : 1.0;
        char   r[32], c[32];

        if (v <= 0.0) {
            continue;
        }
        name_block(i / m->columns, m->row_block, r);
        name_block(i % m->columns, m->col_block, c);
        fprintf(out,
                "<rect class=\"bar s0\" fill-opacity=%.2f x=%.0f y=%.0f width=%.0f "
                "height=%.0f><title>%s %s, %s %s: %.4g "
                "%s</title></rect>\n",
                0.08 + 0.92 * share, MAP_LEFT + size * (i % m->columns),
                MAP_TOP + size * (i / m->columns), size - 1.0, size - 1.0, row, r, column, c, v,
                unit);
    }
    for (int i = 0; i<m->rows; i += m->rows> 16 ? 8 : 1) {
        fprintf(out, "<text class=soft x=%d y=%.0f text-anchor=end>%d</text>", MAP_LEFT - 5,
                MAP_TOP + size * (i + 0.75), i * m->row_block);
    }
    for (int i = 0; i<m->columns; i += m->columns> 16 ? 8 : 1) {
        fprintf(out, "<text class=soft x=%.0f y=%d text-anchor=middle>%d</text>",
                MAP_LEFT + size * (i + 0.5), height - 8, i * m->col_block);
    }
    fputs("</svg></div></div>\n", out);
}

static void map_waits(const json_t *cell, const char *phase, int ranks, FILE *out)
{
    const json_t *row;
    char          title[80];
    k3_waits_t    w;
    map_t         m;
    size_t        i;

    k3_waits_of(cell, &w);
    if (open_map(&m, ranks, ranks, true)) {
        json_array_foreach(w.rows, i, row)
        {
            if (k3_field_is(row, w.phase, phase) &&
                k3_field_int(row, w.dst) != k3_field_int(row, w.src)) {
                add(&m, k3_field_number(row, w.dst), k3_field_number(row, w.src),
                    k3_field_number(row, w.sum_us), k3_field_number(row, w.count));
            }
        }
        snprintf(title, sizeof(title), "Waits of the %s: mean for a signal of another rank", phase);
        draw_map(&m, title, "destination", "source", "us", out);
    }
    close_map(&m);
}

/* Lanes by destination (value column per source and destination) or by QP. */
static void map_lanes(const json_t *cell, const char *phase, int ranks, int columns, bool by_qp,
                      bool bytes, FILE *out)
{
    const json_t *row;
    char          title[96];
    k3_lanes_t    l;
    map_t         m;
    size_t        i;

    k3_lanes_of(cell, &l);
    if (open_map(&m, ranks, columns, false)) {
        json_array_foreach(l.rows, i, row)
        {
            if (k3_field_is(row, l.phase, phase)) {
                add(&m, k3_field_number(row, l.src), k3_field_number(row, by_qp ? l.qp : l.dst),
                    k3_field_number(row, bytes ? l.bytes_wire : l.busy_us), 1.0);
            }
        }
        snprintf(title, sizeof(title), "Lanes of the %s: %s by source and %s", phase,
                 bytes ? "bytes on the wire" : "time with work in flight",
                 by_qp ? "QP" : "destination");
        draw_map(&m, title, "source", by_qp ? "QP" : "destination", bytes ? "B" : "us", out);
    }
    close_map(&m);
}

/* --- the slowest lanes ----------------------------------------------------------------------- */

typedef struct lane {
    const json_t *row;
    double        busy_us;
} lane_t;

static int by_busy(const void *x, const void *y)
{
    double p = ((const lane_t *)x)->busy_us, q = ((const lane_t *)y)->busy_us;

    return (p < q) - (p > q);
}

static void print_lane(const k3_lanes_t *l, const json_t *row, FILE *out)
{
    const int percentiles[] = {l->p50_us, l->p99_us};

    fputs("<tr><td class=t>", out);
    k3_html_text(k3_field_text(row, l->phase), out);
    fprintf(out, "</td><td>%lld</td><td>%lld</td><td>%lld</td><td class=t>",
            k3_field_int(row, l->src), k3_field_int(row, l->dst), k3_field_int(row, l->qp));
    k3_html_text(k3_field_text(row, l->lane), out);
    fprintf(out, "</td><td>%lld</td><td>%lld</td><td>%.2f</td>", k3_field_int(row, l->messages),
            k3_field_int(row, l->bytes_wire), k3_field_number(row, l->busy_us));
    for (int i = 0; i < 2; i++) {
        if (json_is_number(k3_field(row, percentiles[i]))) {
            fprintf(out, "<td>%.2f</td>", k3_field_number(row, percentiles[i]));
        } else {
            fputs("<td></td>", out);
        }
    }
    fputs("</tr>\n", out);
}

static void list_lanes(const json_t *cell, FILE *out)
{
    lane_t    *sorted = NULL;
    k3_lanes_t l;
    size_t     n;
    k3_error_t err = K3_ERROR_INIT;

    k3_lanes_of(cell, &l);
    n = json_array_size(l.rows);
    if (n == 0 || k3_alloc("lanes", n, sizeof(*sorted), &sorted, &err) != K3_OK) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        sorted[i].row = json_array_get(l.rows, i);
        sorted[i].busy_us = k3_field_number(sorted[i].row, l.busy_us);
    }
    qsort(sorted, n, sizeof(*sorted), by_busy);
    fputs("<h3>Slowest lanes</h3>\n<div class=wide><table class=sort><thead><tr>", out);
    for (size_t i = 0; i < 10; i++) {
        static const char *const heads[] = {"phase",  "source",   "destination", "QP",
                                            "lane",   "messages", "wire B",      "busy us",
                                            "p50 us", "p99 us"};

        fprintf(out, "<th%s><button>%s</button></th>", i == 0 || i == 4 ? " class=t" : "",
                heads[i]);
    }
    fputs("</tr></thead><tbody>\n", out);
    for (size_t i = 0; i < n && i < SLOWEST; i++) {
        print_lane(&l, sorted[i].row, out);
    }
    fprintf(out,
            "</tbody></table></div>\n<p class=soft>%d of %zu lanes, by the time with work in "
            "flight in one iteration "
            "(mean); p50 and p99 from post to completion of a message.</p>\n",
            n < SLOWEST ? (int)n : SLOWEST, n);
    k3_free(sorted);
}

void k3_html_maps(const json_t *cell, FILE *out)
{
    const json_t *layout = json_object_get(cell, "layout"),
                 *choices = json_object_get(cell, "choices");
    int  ranks = (int)json_integer_value(json_object_get(layout, "tp"));
    int  qps = (int)json_integer_value(json_object_get(choices, "qps_per_peer"));
    char label[96];

    k3_lanes_t lanes;
    k3_waits_t waits;

    k3_lanes_of(cell, &lanes);
    k3_waits_of(cell, &waits);
    if (ranks < 1 || (lanes.rows == NULL && waits.rows == NULL)) {
        return;
    }
    fputs("<h2>Queue pairs and waits of ", out);
    k3_html_text(k3_html_label(cell, label, sizeof(label)), out);
    fputs("</h2>\n<details open><summary>Heat maps (logarithmic) and the slowest lanes</summary>\n",
          out);
    for (int back = 0; back < 2; back++) {
        const char *phase = back == 0 ? "dispatch" : "combine";

        fputs("<div class=maps>\n", out);
        map_waits(cell, phase, ranks, out);
        map_lanes(cell, phase, ranks, ranks, false, true, out);
        map_lanes(cell, phase, ranks, ranks, false, false, out);
        map_lanes(cell, phase, ranks, qps, true, false, out);
        fputs("</div>\n", out);
    }
    list_lanes(cell, out);
    fputs("</details>\n", out);
}
