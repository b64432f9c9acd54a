/* Time over rows, over EP size and over launches: one curve for what is equal in all else. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/report/cellview.h"
#include "bench/report/fields.h"
#include "bench/report/html_internal.h"
#include "harness/base/memory.h"

enum { LEFT = 96, TOP = 8, HEIGHT = 320, SERIES = 64, PATH_TEXTS = 3 };

typedef enum over { ROWS, EP, LAUNCHES } over_t;

/* What must be equal for two cells to lie on one curve. */
static const char *const same_rows[][PATH_TEXTS] = {
    {"backend"},
    {"mode"},
    {"generation"},
    {"component"},
    {"layout"},
    {"path", "fast"},
    {"model", "name"},
    {"choices", "dispatch_dtype"},
    {"choices", "qps_per_peer"},
    {"choices", "routing"},
    {NULL},
};
static const char *const same_ep[][PATH_TEXTS] = {
    {"backend"},
    {"mode"},
    {"generation"},
    {"component"},
    {"path", "fast"},
    {"model", "name"},
    {"tokens", "asked"},
    {"choices", "dispatch_dtype"},
    {"choices", "routing"},
    {NULL},
};
static const char *const same_launches[][PATH_TEXTS] = {{"key"}, {NULL}};

static const struct kind {
    const char *name, *title, *unit, *what;
    const char *const (*same)[PATH_TEXTS];
} kinds[] = {
    {"rows", "Time over rows", "rows a rank", "both axes logarithmic", same_rows},
    {"ep", "Time over EP size", "expert-parallel ranks",
     "rows a rank stay the same; both axes logarithmic", same_ep},
    {"launches", "History", "launch, in order of start", "time logarithmic", same_launches},
};

typedef struct point {
    const json_t *cell, *run;
    double        x, us, low, high; /* low: NaN without an interval */
    int           series;
} point_t;

typedef struct curves {
    over_t   over;
    point_t *point;
    size_t   count;
    int      series;        /* curves; others are left out */
    bool     drawn[SERIES]; /* it has two places */
    double   low_x, high_x, low_y, high_y;
} curves_t;

/* --- points ---------------------------------------------------------------------------------- */

static const json_t *member_at(const json_t *cell, const char *const path[PATH_TEXTS])
{
    for (int i = 0; i < PATH_TEXTS && path[i] != NULL; i++) {
        cell = json_object_get(cell, path[i]);
    }
    return cell;
}

static bool same_series(over_t over, const json_t *a, const json_t *b)
{
    for (int i = 0; kinds[over].same[i][0] != NULL; i++) {
        const json_t *x = member_at(a, kinds[over].same[i]), *y = member_at(b, kinds[over].same[i]);

        if (x != y && !json_equal(x, y)) {
            return false;
        }
    }
    return true;
}

static double place_of(over_t over, const json_t *cell, double launch)
{
    switch (over) {
    case ROWS:
        return k3_get_number(json_object_get(cell, "tokens"), "asked");
    case EP:
        return k3_get_number(json_object_get(cell, "layout"), "ep");
    default:
        return launch;
    }
}

static bool read_point(over_t over, const json_t *cell, double launch, point_t *p)
{
    *p = (point_t){.cell = cell, .low = NAN, .high = NAN, .series = -1};
    p->x = place_of(over, cell, launch);
    if (!k3_cell_median(cell, k3_cell_headline(cell), &p->us) || p->us <= 0.0 || p->x <= 0.0) {
        return false;
    }
    if (!k3_cell_interval(cell, &p->low, &p->high) || p->low <= 0.0) {
        p->low = NAN;
    }
    return true;
}

static k3_status_t read_points(curves_t *c, json_t *const *documents, size_t count, k3_error_t *err)
{
    size_t most = 0;

    for (size_t d = 0; d < count; d++) {
        most += json_array_size(json_object_get(documents[d], "cells"));
    }
    if (k3_alloc("points", most, sizeof(point_t), &c->point, err) != K3_OK) {
        return err->status;
    }
    for (size_t d = 0; d < count; d++) {
        const json_t *cells = json_object_get(documents[d], "cells"), *cell;
        double        launch = (double)k3_launch_number(documents, count, d);
        size_t        i;

        json_array_foreach(cells, i, cell)
        {
            if (read_point(c->over, cell, launch, &c->point[c->count])) {
                c->point[c->count++].run = json_object_get(documents[d], "run");
            }
        }
    }
    return K3_OK;
}

/* --- series ---------------------------------------------------------------------------------- */

static const point_t *first_of(const curves_t *c, int series)
{
    size_t i = 0;

    while (c->point[i].series != series) {
        i++;
    }
    return &c->point[i];
}

static int by_series_and_place(const void *x, const void *y)
{
    const point_t *a = x, *b = y;
    int            order = (a->series > b->series) - (a->series < b->series);

    order = order != 0 ? order : (a->x > b->x) - (a->x < b->x);
    return order != 0 ? order : (a->us > b->us) - (a->us < b->us);
}

static void find_series(curves_t *c)
{
    for (size_t i = 0; i < c->count; i++) {
        point_t *p = &c->point[i];

        for (int s = 0; s < c->series && p->series < 0; s++) {
            const point_t *first = first_of(c, s);

            if (same_series(c->over, first->cell, p->cell)) {
                p->series = s;
                c->drawn[s] = c->drawn[s] || first->x != p->x;
            }
        }
        if (p->series < 0 && c->series < SERIES) {
            p->series = c->series++;
        }
    }
    qsort(c->point, c->count, sizeof(point_t), by_series_and_place);
}

static bool is_drawn(const curves_t *c, const point_t *p)
{
    return p->series >= 0 && c->drawn[p->series];
}

static bool find_range(curves_t *c)
{
    c->low_x = c->low_y = INFINITY;
    for (size_t i = 0; i < c->count; i++) {
        const point_t *p = &c->point[i];

        if (is_drawn(c, p)) {
            c->low_x = fmin(c->low_x, p->x);
            c->high_x = fmax(c->high_x, p->x);
            c->low_y = fmin(c->low_y, fmin(p->us, p->low));
            c->high_y = fmax(c->high_y, fmax(p->us, p->high));
        }
    }
    return c->high_x > c->low_x;
}

static void series_name(const curves_t *c, int series, FILE *out)
{
    const json_t *cell = first_of(c, series)->cell, *layout = json_object_get(cell, "layout");
    char          text[96];

    if (c->over == LAUNCHES) {
        k3_html_text(k3_cell_label(cell, text, sizeof(text)), out);
        return;
    }
    k3_html_text(k3_cell_backend(cell, text, sizeof(text)), out);
    if (c->over == ROWS) {
        fprintf(out, " tp%lld dp%lld", k3_get_int(layout, "tp"), k3_get_int(layout, "dp"));
    } else {
        fprintf(out, " T%lld", k3_get_int(json_object_get(cell, "tokens"), "asked"));
    }
    fputc(' ', out);
    k3_html_text(k3_get_text(json_object_get(cell, "model"), "name"), out);
    if (strcmp(k3_get_text(cell, "component"), "region") != 0) {
        fputc(' ', out);
        k3_html_text(k3_get_text(cell, "component"), out);
    }
}

/* --- drawing --------------------------------------------------------------------------------- */

/* Colours repeat after eight, dashes tell those apart. */
static void draw_curve(const curves_t *c, int series, const k3_axis_t *x, const k3_axis_t *y,
                       FILE *out)
{
    fprintf(out, "<polyline class=\"curve k%d d%d\" points=\"", series % 8, series / 8 % 4);
    for (size_t i = 0; i < c->count;) {
        const point_t *p = &c->point[i];
        size_t         n = 1;

        while (i + n < c->count && p[n].series == p->series && p[n].x == p->x) {
            n++;
        }
        if (p->series == series) { /* sorted by time: the middle one is the median */
            double us = n % 2 == 1 ? p[n / 2].us : (p[n / 2 - 1].us + p[n / 2].us) / 2.0;

            fprintf(out, "%.1f,%.1f ", k3_axis_at(x, p->x), k3_axis_at(y, us));
        }
        i += n;
    }
    fputs("\" />\n", out);
}

static void draw_point(const point_t *p, const k3_axis_t *x, const k3_axis_t *y, FILE *out)
{
    double at = k3_axis_at(x, p->x);
    char   label[96], a[32], b[32], d[32];

    if (isfinite(p->low)) {
        fprintf(out, "<line class=\"curve k%d\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" />",
                p->series % 8, at, at, k3_axis_at(y, p->low), k3_axis_at(y, p->high));
    }
    fprintf(out, "<circle class=\"s%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\" data-tip=\"", p->series % 8,
            at, k3_axis_at(y, p->us));
    k3_html_format(out, "%s: %s us", k3_cell_label(p->cell, label, sizeof(label)),
                   k3_html_us(p->us, a));
    if (isfinite(p->low)) {
        k3_html_format(out, " (95 %% interval %s to %s)", k3_html_us(p->low, b),
                       k3_html_us(p->high, d));
    }
    k3_html_format(out, ", run %s", k3_get_text(p->run, "id"));
    fputs("\" />\n", out);
}

static void number_rows(const curves_t *c, FILE *out)
{
    fprintf(out, "curve\t%s\tmedian us\t95 %% low us\t95 %% high us\trun\tstarted\n",
            kinds[c->over].unit);
    for (size_t i = 0; i < c->count; i++) {
        const point_t *p = &c->point[i];

        if (!is_drawn(c, p)) {
            continue;
        }
        series_name(c, p->series, out);
        fprintf(out, "\t%.9g\t", p->x);
        k3_html_real(p->us, out);
        fputc('\t', out);
        if (isfinite(p->low)) {
            k3_html_real(p->low, out);
        }
        fputc('\t', out);
        if (isfinite(p->low)) {
            k3_html_real(p->high, out);
        }
        fputc('\t', out);
        k3_html_text(k3_get_text(p->run, "id"), out);
        fputc('\t', out);
        k3_html_text(k3_get_text(p->run, "started_utc"), out);
        fputc('\n', out);
    }
}

static void draw(const curves_t *c, FILE *out)
{
    const struct kind *kind = &kinds[c->over];
    double             right = K3_PICTURE_WIDTH - K3_PICTURE_RIGHT, bottom = TOP + HEIGHT;
    k3_axis_t          y = k3_axis_log(c->low_y, c->high_y, bottom, TOP);
    k3_axis_t          x = c->over == LAUNCHES ? k3_axis_linear(c->high_x, LEFT, right)
                                               : k3_axis_log(c->low_x, c->high_x, LEFT, right);

    x.whole = c->over == LAUNCHES;
    fprintf(out,
            "<h2>%s</h2>\n<p class=soft>Medians of the total with their 95 %% intervals; %s. Where "
            "several launches have a cell, the curve goes through the median of them.</p>\n<p "
            "class=keys>",
            kind->title, kind->what);
    for (int s = 0; s < c->series; s++) {
        if (c->drawn[s]) {
            fprintf(out, "<span><i class=\"key k%d\"></i>", s % 8);
            series_name(c, s, out);
            fputs("</span> ", out);
        }
    }
    fputs("</p>\n", out);
    k3_picture_open(kind->name, K3_PICTURE_WIDTH, bottom + K3_PICTURE_FOOT, kind->title, out);
    k3_axis_left(&y, LEFT, right, "us", out);
    k3_axis_bottom(&x, TOP, bottom, kind->unit, out);
    for (int s = 0; s < c->series; s++) {
        if (c->drawn[s]) {
            draw_curve(c, s, &x, &y, out);
        }
    }
    for (size_t i = 0; i < c->count; i++) {
        if (is_drawn(c, &c->point[i])) {
            draw_point(&c->point[i], &x, &y, out);
        }
    }
    k3_picture_numbers(out);
    number_rows(c, out);
    k3_picture_close(out);
}

static void draw_over(over_t over, json_t *const *documents, size_t count, FILE *out)
{
    curves_t   c = {.over = over};
    k3_error_t unused = K3_ERROR_INIT;

    if (read_points(&c, documents, count, &unused) == K3_OK) {
        find_series(&c);
        if (find_range(&c)) {
            draw(&c, out);
        }
    }
    k3_free(c.point);
}

void k3_html_curves(json_t *const *documents, size_t count, FILE *out)
{
    draw_over(ROWS, documents, count, out);
    draw_over(EP, documents, count, out);
}

void k3_html_history(json_t *const *documents, size_t count, FILE *out)
{
    draw_over(LAUNCHES, documents, count, out);
}
