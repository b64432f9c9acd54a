/* Heat maps of one cell: bytes, time and waits by source, destination and QP. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/report/cellview.h"
#include "bench/report/fields.h"
#include "bench/report/html_internal.h"
#include "harness/base/memory.h"

enum { MAP_LEFT = 52, MAP_TOP = 24, MAP_FOOT = 26, MAP_WIDTH = 360, LEVELS = 12, MOST = 1 << 20 };

typedef enum reduction { SUM, MEAN, MAX } reduction_t;

/* What a map shows; texts of its axes are one word each. */
typedef struct map_kind {
    const char *kind, *title, *row, *column, *unit;
    reduction_t reduction;
} map_kind_t;

typedef struct map {
    const map_kind_t *of;
    int               rows, columns;        /* cells drawn */
    int               row_block, col_block; /* ranks or QPs in each */
    double           *value, *weight;       /* [rows][columns] */
} map_t;

static int blocks(long long n, int side, int *block)
{
    n = n < MOST ? n : MOST;
    *block = (int)((n + side - 1) / side);
    return *block > 0 ? (int)((n + *block - 1) / *block) : 0;
}

static bool open_map(map_t *m, const map_kind_t *of, long long rows, long long columns, int side)
{
    k3_error_t unused = K3_ERROR_INIT;
    uint64_t   n;

    *m = (map_t){.of = of};
    m->rows = blocks(rows, side, &m->row_block);
    m->columns = blocks(columns, side, &m->col_block);
    n = (uint64_t)m->rows * (uint64_t)m->columns;
    return n > 0 && k3_alloc("map", n, sizeof(double), &m->value, &unused) == K3_OK &&
           k3_alloc("map", n, sizeof(double), &m->weight, &unused) == K3_OK;
}

static void close_map(map_t *m)
{
    k3_free(m->weight);
    k3_free(m->value);
}

static void add(map_t *m, long long row, long long column, double value, double weight)
{
    long long r = row / m->row_block, c = column / m->col_block;
    double   *at;

    if (row < 0 || column < 0 || r >= m->rows || c >= m->columns) {
        return;
    }
    at = &m->value[r * m->columns + c];
    *at = m->of->reduction == MAX ? fmax(*at, value) : *at + value;
    m->weight[r * m->columns + c] += weight;
}

static double value_of(const map_t *m, int i)
{
    if (m->of->reduction == MEAN) {
        return m->weight[i] > 0.0 ? m->value[i] / m->weight[i] : 0.0;
    }
    return m->value[i];
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

/* --- drawing --------------------------------------------------------------------------------- */

/* 0: nothing to show; 1 to LEVELS on a logarithmic scale. */
static int level_of(double value, double low, double high)
{
    if (!(value > 0.0)) {
        return 0;
    }
    return high > low ? 1 + (int)round((LEVELS - 1) * log(value / low) / log(high / low)) : LEVELS;
}

/* One path for each level: neighbours of a row with the same level are one stroke. */
static void draw_levels(const map_t *m, double low, double high, int size, FILE *out)
{
    for (int level = 1; level <= LEVELS; level++) {
        bool any = false;

        for (int i = 0; i < m->rows * m->columns; i++) {
            int c = i % m->columns, run = 1;

            if (level_of(value_of(m, i), low, high) != level) {
                continue;
            }
            while (c + run < m->columns && level_of(value_of(m, i + run), low, high) == level) {
                run++;
            }
            if (!any) {
                fprintf(out,
                        "<path class=\"heat\" stroke-width=\"%d\" stroke-opacity=\"%.2f\" d=\"",
                        size - 1, 0.06 + 0.94 * level / LEVELS);
            }
            any = true;
            fprintf(out, "M%d %dh%d", MAP_LEFT + size * c,
                    MAP_TOP + size * (i / m->columns) + size / 2, size * run - 1);
            i += run - 1;
        }
        fputs(any ? "\" />\n" : "", out);
    }
}

static void name_block(int at, int block, FILE *out)
{
    if (block == 1) {
        fprintf(out, "%d", at);
    } else {
        fprintf(out, "%d-%d", at * block, at * block + block - 1);
    }
}

static void draw_ticks(const map_t *m, int size, int height, FILE *out)
{
    int each = 1;

    while (m->rows / each > 16 || m->columns / each > 16) {
        each *= 2;
    }
    for (int i = 0; i < m->rows; i += each) {
        fprintf(out, "<text class=\"soft\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d</text>",
                MAP_LEFT - 5, MAP_TOP + size * (i + 0.5) + 4.0, i * m->row_block);
    }
    for (int i = 0; i < m->columns; i += each) {
        fprintf(out, "<text class=\"soft\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>",
                MAP_LEFT + size * (i + 0.5), height - 8, i * m->col_block);
    }
}

static void number_rows(const map_t *m, FILE *out)
{
    fprintf(out, "%s \\ %s, %s", m->of->row, m->of->column, m->of->unit);
    for (int c = 0; c < m->columns; c++) {
        fputc('\t', out);
        name_block(c, m->col_block, out);
    }
    for (int i = 0; i < m->rows * m->columns; i++) {
        double v = value_of(m, i);

        if (i % m->columns == 0) {
            fputc('\n', out);
            name_block(i / m->columns, m->row_block, out);
        }
        fputc('\t', out);
        if (v > 0.0) {
            fprintf(out, "%.*g", m->of->unit[0] == 'B' ? 15 : 6, v);
        }
    }
    fputc('\n', out);
}

static void draw_map(const map_t *m, const char *phase, FILE *out)
{
    double low, high;
    int    size = m->columns > 32 || m->rows > 32 ? 10 : 22, width, height;
    char   title[128], a[32], b[32];

    range_of(m, &low, &high);
    if (high <= 0.0) {
        return;
    }
    snprintf(title, sizeof(title), "%s: %s", phase, m->of->title);
    width = MAP_LEFT + size * m->columns + 10;
    width = width < MAP_WIDTH ? MAP_WIDTH : width; /* room for the words */
    height = MAP_TOP + size * m->rows + MAP_FOOT;
    fprintf(out,
            "<div class=map data-size=\"%d\" data-left=\"%d\" data-top=\"%d\" data-rows=\"%s\" "
            "data-columns=\"%s\" data-unit=\"%s\">\n<h4>%s</h4>\n",
            size, MAP_LEFT, MAP_TOP, m->of->row, m->of->column, m->of->unit, title);
    k3_picture_open(m->of->kind, width, height, title, out);
    fprintf(out, "<text class=\"soft\" x=\"0\" y=\"12\">%s across, %s down; %s to %s %s</text>\n",
            m->of->column, m->of->row, k3_html_us(low, a), k3_html_us(high, b), m->of->unit);
    draw_levels(m, low, high, size, out);
    draw_ticks(m, size, height, out);
    k3_picture_numbers(out);
    number_rows(m, out);
    k3_picture_close(out);
    fputs("</div>\n", out);
}

/* --- maps of a cell -------------------------------------------------------------------------- */

static void map_waits(const k3_waits_t *w, const char *phase, long long ranks, int side, FILE *out)
{
    static const map_kind_t kind = {
        "waits", "mean wait for a signal of another rank", "destination", "source", "us", MEAN};
    const json_t *row;
    map_t         m;
    size_t        i;

    if (open_map(&m, &kind, ranks, ranks, side)) {
        json_array_foreach(w->rows, i, row)
        {
            if (k3_field_is(row, w->phase, phase) &&
                k3_field_int(row, w->dst) != k3_field_int(row, w->src)) {
                add(&m, k3_field_int(row, w->dst), k3_field_int(row, w->src),
                    k3_field_number(row, w->sum_us), k3_field_number(row, w->count));
            }
        }
        draw_map(&m, phase, out);
    }
    close_map(&m);
}

/* `columns`: destinations, or QPs. */
static void map_lanes(const k3_lanes_t *l, const map_kind_t *kind, const char *phase,
                      long long ranks, long long columns, int side, FILE *out)
{
    bool          by_qp = strcmp(kind->column, "QP") == 0, bytes = kind->unit[0] == 'B';
    const json_t *row;
    map_t         m;
    size_t        i;

    if (open_map(&m, kind, ranks, columns, side)) {
        json_array_foreach(l->rows, i, row)
        {
            if (k3_field_is(row, l->phase, phase)) {
                add(&m, k3_field_int(row, l->src), k3_field_int(row, by_qp ? l->qp : l->dst),
                    k3_field_number(row, bytes ? l->bytes_wire : l->busy_us), 1.0);
            }
        }
        draw_map(&m, phase, out);
    }
    close_map(&m);
}

/* QPs in use: many exist that a cell does not need. */
static long long count_qps(const k3_lanes_t *l)
{
    const json_t *row;
    long long     most = -1;
    size_t        i;

    json_array_foreach(l->rows, i, row)
    {
        most = k3_field_int(row, l->qp) > most ? k3_field_int(row, l->qp) : most;
    }
    return most < MOST ? most + 1 : MOST;
}

static void maps_of_phase(const json_t *cell, const char *phase, int side, FILE *out)
{
    static const map_kind_t kinds[] = {
        {"bytes", "bytes on the wire", "source", "destination", "B", SUM},
        {"busy", "longest time that a lane had work in flight", "source", "destination", "us", MAX},
        {"qp-bytes", "bytes on the wire", "source", "QP", "B", SUM},
        {"qp-busy", "longest time that a lane had work in flight", "source", "QP", "us", MAX},
    };
    long long  ranks = k3_get_int(json_object_get(cell, "layout"), "tp");
    k3_lanes_t lanes;
    k3_waits_t waits;

    k3_lanes_of(cell, &lanes);
    k3_waits_of(cell, &waits);
    fputs("<div class=maps>\n", out);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        map_lanes(&lanes, &kinds[k], phase, ranks, k < 2 ? ranks : count_qps(&lanes), side, out);
    }
    map_waits(&waits, phase, ranks, side, out);
    fputs("</div>\n", out);
}

static void say_what_is_kept(const json_t *cell, FILE *out)
{
    const json_t *qps = json_object_get(cell, "qps");
    long long     kept = k3_get_int(qps, "lanes_kept"), total = k3_get_int(qps, "lanes_total");

    if (kept < total) {
        fprintf(out,
                "<p class=warn>The record keeps the %lld slowest of %lld lanes; the maps show no "
                "others.</p>\n",
                kept, total);
    }
}

void k3_html_maps(const json_t *cell, int side, FILE *out)
{
    char       label[96];
    k3_lanes_t lanes;
    k3_waits_t waits;

    k3_lanes_of(cell, &lanes);
    k3_waits_of(cell, &waits);
    if (lanes.rows == NULL && waits.rows == NULL) {
        return;
    }
    fputs("<h3>Queue pairs and waits of ", out);
    k3_html_text(k3_cell_label(cell, label, sizeof(label)), out);
    fputs("</h3>\n<details open><summary>Heat maps (logarithmic scale) and the slowest "
          "lanes</summary>\n",
          out);
    say_what_is_kept(cell, out);
    maps_of_phase(cell, "dispatch", side, out);
    maps_of_phase(cell, "combine", side, out);
    k3_html_lanes(cell, out);
    fputs("</details>\n", out);
}
