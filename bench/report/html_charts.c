#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "bench/plan/phase.h"
#include "bench/report/cellview.h"
#include "bench/report/html_internal.h"

enum {
    LEFT = 230,
    RIGHT = 20,
    WIDTH = 1000,
    ROW = 26,
    HEAD = 8,
    FOOT = 34,
    DOTS = 300,
    SERIES = 64
};

static const double plot = WIDTH - LEFT - RIGHT;

static size_t measured(const json_t *cells)
{
    const json_t *cell;
    size_t        i, n = 0;

    json_array_foreach(cells, i, cell)
    {
        n += k3_cell_measured(cell);
    }
    return n;
}

static void open_picture(double height, const char *name, FILE *out)
{
    fprintf(
        out,
        "<div class=wide><svg viewBox=\"0 0 %d %.0f\" width=%d height=%.0f role=img aria-label=\"",
        WIDTH, height, WIDTH, height);
    k3_html_text(name, out);
    fputs("\">\n", out);
}

static void close_picture(FILE *out)
{
    fputs("</svg></div>\n", out);
}

static void label_row(const json_t *cell, double y, FILE *out)
{
    char label[96];

    fprintf(out, "<text x=%d y=%.1f text-anchor=end>", LEFT - 8, y);
    k3_html_text(k3_html_label(cell, label, sizeof(label)), out);
    fputs("</text>", out);
}

/* --- axes ------------------------------------------------------------------------------------ */

typedef struct axis {
    double low, high; /* of the data, widened to ticks */
    bool   log;
} axis_t;

static double place(const axis_t *a, double value)
{
    double share = a->log ? log(value / a->low) / log(a->high / a->low)
                          : (value - a->low) / (a->high - a->low);

    return LEFT + plot * share;
}

/* 1, 2, 5 times a power of ten, not below `value`. */
static double round_up(double value)
{
    double unit = pow(10.0, floor(log10(value)));

    return value <= unit         ? unit
           : value <= 2.0 * unit ? 2.0 * unit
           : value <= 5.0 * unit ? 5.0 * unit
                                 : 10.0 * unit;
}

static double round_down(double value)
{
    double unit = pow(10.0, floor(log10(value)));

    return value >= 5.0 * unit ? 5.0 * unit : value >= 2.0 * unit ? 2.0 * unit : unit;
}

static axis_t linear_axis(double high)
{
    return (axis_t){0.0, high > 0.0 ? high : 1.0, false};
}

static axis_t log_axis(double low, double high)
{
    low = low > 0.0 ? round_down(low) : 1.0;
    high = high > low ? round_up(high) : low;
    return (axis_t){low, high > low ? high : 10.0 * low, true};
}

static void tick(const axis_t *a, double value, double top, double bottom, FILE *out)
{
    double x = place(a, value);

    fprintf(out,
            "<line class=axis x1=%.1f x2=%.1f y1=%.1f y2=%.1f /><text class=soft x=%.1f y=%.1f "
            "text-anchor=middle>%.6g</text>\n",
            x, x, top, bottom, x, bottom + 14.0, value);
}

static void draw_axis(const axis_t *a, double top, double bottom, const char *unit, FILE *out)
{
    if (a->log) {
        int decades = (int)ceil(log10(a->high / a->low));

        for (double v = a->low; v <= a->high * 1.0001; v = round_up(v * 1.01)) {
            double unit_of = pow(10.0, floor(log10(v * 1.0001)));

            if (decades <= 2 || v / unit_of < 1.5) {
                tick(a, v, top, bottom, out);
            }
        }
    } else {
        double step = round_up(a->high / 8.0);

        for (int i = 0; i * step <= a->high; i++) {
            tick(a, i * step, top, bottom, out);
        }
    }
    fprintf(out, "<text class=soft x=%d y=%.1f text-anchor=end>%s</text>\n", WIDTH - RIGHT,
            bottom + 28.0, unit);
}

/* --- phases ---------------------------------------------------------------------------------- */

/* Colours by kind: a reader looks for the all-to-all, the experts and the rest. */
static int colour_of(int phase)
{
    switch (phase) {
    case K3_PHASE_NOTIFY:
    case K3_PHASE_QUANTIZE:
    case K3_PHASE_DISPATCH_SEND:
        return 0;
    case K3_PHASE_DISPATCH_WAIT:
        return 1;
    case K3_PHASE_EXPERT_MLP:
        return 2;
    case K3_PHASE_COMBINE_SEND:
    case K3_PHASE_COMBINE_REDUCE:
        return 4;
    case K3_PHASE_COMBINE_WAIT:
        return 5;
    case K3_PHASE_SHARED_EXPERT:
        return 3;
    case K3_PHASE_ROUTER:
    case K3_PHASE_LATENT_DOWN:
    case K3_PHASE_LATENT_UP:
        return 6;
    default:
        return 7;
    }
}

static const char *const colour_names[] = {"dispatch: quantize, notify, send",
                                           "dispatch: wait",
                                           "experts",
                                           "shared expert",
                                           "combine: send, reduce",
                                           "combine: wait",
                                           "router, latent projections",
                                           "collectives"};

static bool is_part(int phase)
{
    return phase < K3_PHASE_DISPATCH;
}

static double sum_of_parts(const json_t *cell)
{
    double sum = 0.0, us;

    for (int p = 0; is_part(p); p++) {
        sum += k3_cell_median(cell, k3_phase_names[p], &us) ? us : 0.0;
    }
    return sum;
}

static void draw_parts(const axis_t *a, const json_t *cell, double y, FILE *out)
{
    double at = 0.0, us;
    char   text[32];

    for (int p = 0; is_part(p); p++) {
        if (k3_cell_median(cell, k3_phase_names[p], &us)) {
            fprintf(out,
                    "<rect class=\"bar s%d\" x=%.2f y=%.1f width=%.2f height=%d><title>%s: %s "
                    "us</title></rect>",
                    colour_of(p), place(a, at), y, place(a, at + us) - place(a, at), ROW - 8,
                    k3_phase_names[p], k3_html_us(us, text));
            at += us;
        }
    }
    if (k3_cell_median(cell, k3_cell_headline(cell), &us)) {
        fprintf(out,
                "<line class=mark x1=%.2f x2=%.2f y1=%.1f y2=%.1f><title>%s, measured: %s "
                "us</title></line>\n",
                place(a, us), place(a, us), y - 3.0, y + ROW - 5.0, k3_cell_headline(cell),
                k3_html_us(us, text));
    }
}

static void phase_rows(const json_t *cells, FILE *out)
{
    const json_t *cell;
    char          label[96], text[32];
    double        us;
    size_t        i;

    fputs("<details><summary>Numbers</summary><div class=wide><table><thead><tr><th class=t>phase, "
          "us</th>",
          out);
    json_array_foreach(cells, i, cell)
    {
        if (k3_cell_measured(cell)) {
            fputs("<th>", out);
            k3_html_text(k3_html_label(cell, label, sizeof(label)), out);
            fputs("</th>", out);
        }
    }
    fputs("</tr></thead><tbody>\n", out);
    for (int p = 0; k3_phase_names[p] != NULL; p++) {
        bool any = false;

        json_array_foreach(cells, i, cell)
        {
            any |= k3_cell_measured(cell) && k3_cell_phase(cell, k3_phase_names[p]) != NULL;
        }
        if (!any) {
            continue;
        }
        fprintf(out, "<tr><td class=t>%s</td>", k3_phase_names[p]);
        json_array_foreach(cells, i, cell)
        {
            if (k3_cell_measured(cell)) {
                bool known = k3_cell_median(cell, k3_phase_names[p], &us);

                fprintf(out, "<td>%s</td>", known ? k3_html_us(us, text) : "");
            }
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div></details>\n", out);
}

void k3_html_phases(const json_t *cells, FILE *out)
{
    const json_t *cell;
    size_t        i, row = 0, n = measured(cells);
    double        most = 0.0, us, bottom = HEAD + (double)n * ROW;
    axis_t        a;

    if (n == 0) {
        return;
    }
    json_array_foreach(cells, i, cell)
    {
        if (k3_cell_measured(cell)) {
            most = fmax(most, sum_of_parts(cell));
            most = k3_cell_median(cell, k3_cell_headline(cell), &us) ? fmax(most, us) : most;
        }
    }
    a = linear_axis(most);
    fputs("<h2>Phases</h2>\n<p class=soft>Medians of the parts, each of its slowest rank, end to "
          "end. The upright mark is "
          "the total as measured: parts of different ranks overlap, so it is less than their "
          "sum.</p>\n<p>",
          out);
    for (int c = 0; c < 8; c++) {
        fprintf(out, "<span class=\"key\" style=\"background: var(--c%d)\"></span>%s", c,
                colour_names[c]);
    }
    fputs("</p>\n", out);
    open_picture(bottom + FOOT, "time of the phases of each cell", out);
    draw_axis(&a, HEAD, bottom, "us", out);
    json_array_foreach(cells, i, cell)
    {
        if (k3_cell_measured(cell)) {
            double y = HEAD + (double)row++ * ROW + 4.0;

            label_row(cell, y + 13.0, out);
            draw_parts(&a, cell, y, out);
        }
    }
    close_picture(out);
    phase_rows(cells, out);
}

/* --- samples --------------------------------------------------------------------------------- */

static const json_t *samples_of(const json_t *cell)
{
    return json_object_get(k3_cell_phase(cell, k3_cell_headline(cell)), "samples");
}

static void widen(const json_t *cell, double *low, double *high)
{
    const json_t *sample;
    size_t        i;

    json_array_foreach(samples_of(cell), i, sample)
    {
        double us = json_number_value(sample);

        if (us > 0.0) {
            *low = fmin(*low, us);
            *high = fmax(*high, us);
        }
    }
}

static void draw_samples(const axis_t *a, const json_t *cell, double y, FILE *out)
{
    const json_t *samples = samples_of(cell);
    size_t        n = json_array_size(samples), step = n / DOTS + 1;
    double        low, high, us;
    char          text[32], t2[32];

    for (size_t i = 0; i < n; i += step) {
        us = json_number_value(json_array_get(samples, i));
        if (us > 0.0) {
            /* Spread upright by a fixed pattern, so that equal times do not hide each other. */
            fprintf(out,
                    "<circle class=dot cx=%.1f cy=%.1f r=2.5><title>iteration %zu: %s "
                    "us</title></circle>",
                    place(a, us), y + (double)(i * 7 % 11) - 5.0, i, k3_html_us(us, text));
        }
    }
    if (k3_cell_interval(cell, &low, &high) && low > 0.0) {
        fprintf(out,
                "<line class=mark x1=%.1f x2=%.1f y1=%.1f y2=%.1f><title>95 %% interval of the "
                "median: %s to %s us</title></line>",
                place(a, low), fmax(place(a, high), place(a, low) + 1.0), y, y,
                k3_html_us(low, text), k3_html_us(high, t2));
    }
    if (k3_cell_median(cell, k3_cell_headline(cell), &us) && us > 0.0) {
        fprintf(out,
                "<line class=mark x1=%.1f x2=%.1f y1=%.1f y2=%.1f><title>median: %s us, %zu "
                "iterations</title></line>\n",
                place(a, us), place(a, us), y - 8.0, y + 8.0, k3_html_us(us, text), n);
    }
}

void k3_html_samples(const json_t *cells, FILE *out)
{
    const json_t *cell;
    size_t        i, row = 0, n = measured(cells);
    double        low = INFINITY, high = 0.0, bottom = HEAD + (double)n * ROW;
    axis_t        a;

    json_array_foreach(cells, i, cell)
    {
        if (k3_cell_measured(cell)) {
            widen(cell, &low, &high);
        }
    }
    if (high <= 0.0) {
        return;
    }
    a = log_axis(low, high);
    fputs("<h2>Iterations</h2>\n<p class=soft>Every iteration's total (at most 300 a cell), with "
          "the median and its 95 % "
          "interval. Logarithmic axis.</p>\n",
          out);
    open_picture(bottom + FOOT, "samples of each cell", out);
    draw_axis(&a, HEAD, bottom, "us", out);
    json_array_foreach(cells, i, cell)
    {
        if (k3_cell_measured(cell)) {
            double y = HEAD + (double)row++ * ROW + ROW / 2.0;

            label_row(cell, y + 4.0, out);
            draw_samples(&a, cell, y, out);
        }
    }
    close_picture(out);
}

/* --- curves ---------------------------------------------------------------------------------- */

typedef struct curves {
    const json_t *cells;
    const json_t *first[SERIES]; /* a cell of each series */
    size_t        count;
    double        low_x, high_x, low_y, high_y;
} curves_t;

static double rows_asked(const json_t *cell)
{
    return json_number_value(json_object_get(json_object_get(cell, "tokens"), "asked"));
}

/* One curve: equal in all but the rows. */
static bool same_series(const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"backend",   "mode",   "generation",
                                       "component", "layout", "path"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (!json_equal(json_object_get(a, keys[i]), json_object_get(b, keys[i]))) {
            return false;
        }
    }
    return json_equal(json_object_get(json_object_get(a, "model"), "name"),
                      json_object_get(json_object_get(b, "model"), "name")) &&
           json_equal(json_object_get(json_object_get(a, "choices"), "dispatch_dtype"),
                      json_object_get(json_object_get(b, "choices"), "dispatch_dtype"));
}

static bool has_point(const json_t *cell, double *us)
{
    return k3_cell_measured(cell) && rows_asked(cell) > 0.0 &&
           k3_cell_median(cell, k3_cell_headline(cell), us) && *us > 0.0;
}

static void find_series(curves_t *c)
{
    const json_t *cell;
    double        us;
    size_t        i;

    *c = (curves_t){.cells = c->cells, .low_x = INFINITY, .low_y = INFINITY};
    json_array_foreach(c->cells, i, cell)
    {
        size_t s = 0;

        if (!has_point(cell, &us)) {
            continue;
        }
        while (s < c->count && !same_series(c->first[s], cell)) {
            s++;
        }
        if (s == c->count && s < SERIES) {
            c->first[c->count++] = cell;
        }
        c->low_x = fmin(c->low_x, rows_asked(cell));
        c->high_x = fmax(c->high_x, rows_asked(cell));
        c->low_y = fmin(c->low_y, us);
        c->high_y = fmax(c->high_y, us);
    }
}

enum { CURVE_HEIGHT = 320 };

static double height_of(const axis_t *y, double us)
{
    return HEAD + CURVE_HEIGHT * (1.0 - log(us / y->low) / log(y->high / y->low));
}

static void draw_series(const curves_t *c, size_t s, const axis_t *x, const axis_t *y, FILE *out)
{
    const json_t *cell;
    double        us, low, high;
    char          text[32], label[96];
    size_t        i;

    fprintf(out, "<polyline class=\"curve s%zu\" style=\"fill:none\" points=\"", s % 8);
    json_array_foreach(c->cells, i, cell)
    {
        if (has_point(cell, &us) && same_series(c->first[s], cell)) {
            fprintf(out, "%.1f,%.1f ", place(x, rows_asked(cell)), height_of(y, us));
        }
    }
    fputs("\" />\n", out);
    json_array_foreach(c->cells, i, cell)
    {
        if (!has_point(cell, &us) || !same_series(c->first[s], cell)) {
            continue;
        }
        if (k3_cell_interval(cell, &low, &high) && low > 0.0) {
            fprintf(out, "<line class=\"s%zu\" x1=%.1f x2=%.1f y1=%.1f y2=%.1f />", s % 8,
                    place(x, rows_asked(cell)), place(x, rows_asked(cell)),
                    height_of(y, fmax(low, y->low)), height_of(y, fmin(high, y->high)));
        }
        fprintf(out, "<circle class=\"s%zu\" cx=%.1f cy=%.1f r=4><title>", s % 8,
                place(x, rows_asked(cell)), height_of(y, us));
        k3_html_format(out, "%s: %s us", k3_html_label(cell, label, sizeof(label)),
                       k3_html_us(us, text));
        fputs("</title></circle>\n", out);
    }
}

static void draw_heights(const axis_t *y, FILE *out)
{
    char text[32];

    for (double v = y->low; v <= y->high * 1.0001; v = round_up(v * 1.01)) {
        double at = height_of(y, v);

        fprintf(out,
                "<line class=axis x1=%d x2=%d y1=%.1f y2=%.1f /><text class=soft x=%d y=%.1f "
                "text-anchor=end>%s</text>\n",
                LEFT, WIDTH - RIGHT, at, at, LEFT - 6, at + 4.0, k3_html_us(v, text));
    }
    fprintf(out, "<text class=soft x=%d y=%d text-anchor=end>us</text>\n", LEFT - 60, HEAD + 10);
}

void k3_html_curves(const json_t *cells, FILE *out)
{
    curves_t c = {.cells = cells};
    axis_t   x, y;
    char     label[96];

    find_series(&c);
    if (c.count == 0 || c.high_x <= c.low_x) {
        return;
    }
    x = log_axis(c.low_x, c.high_x);
    y = log_axis(c.low_y, c.high_y);
    fputs("<h2>Time over rows</h2>\n<p class=soft>Medians of the total with their 95 % intervals; "
          "both axes logarithmic. The "
          "numbers are in the table of cells.</p>\n<p>",
          out);
    for (size_t s = 0; s < c.count; s++) {
        fprintf(out, "<span class=\"key\" style=\"background: var(--c%zu)\"></span>", s % 8);
        k3_html_text(k3_html_label(c.first[s], label, sizeof(label)), out);
    }
    fputs(" (and the other rows)</p>\n", out);
    open_picture(HEAD + CURVE_HEIGHT + FOOT, "time over rows a rank", out);
    draw_heights(&y, out);
    draw_axis(&x, HEAD, HEAD + CURVE_HEIGHT, "rows a rank", out);
    for (size_t s = 0; s < c.count; s++) {
        draw_series(&c, s, &x, &y, out);
    }
    close_picture(out);
}
