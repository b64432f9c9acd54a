/* Pictures and their axes. */
#include <math.h>
#include <string.h>

#include "bench/report/cellview.h"
#include "bench/report/html_internal.h"

/* Microseconds and bytes beyond these are no measurements; they would only make endless axes. */
static const double least = 1e-6, most = 1e15;

void k3_picture_open(const char *kind, double width, double height, const char *name, FILE *out)
{
    fprintf(out,
            "<figure data-kind=\"%s\">\n<div class=wide><svg viewBox=\"0 0 %.0f %.0f\" "
            "width=\"%.0f\" height=\"%.0f\" role=img aria-label=\"",
            kind, width, height, width, height);
    k3_html_text(name, out);
    fputs("\">\n", out);
}

void k3_picture_numbers(FILE *out)
{
    fputs("</svg></div>\n<details><summary>Numbers</summary><pre class=tsv>", out);
}

void k3_picture_close(FILE *out)
{
    fputs("</pre></details>\n</figure>\n", out);
}

void k3_picture_row(const json_t *cell, double y, FILE *out)
{
    char label[96];

    fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", K3_PICTURE_LEFT - 8, y);
    k3_html_text(k3_cell_label(cell, label, sizeof(label)), out);
    fputs("</text>", out);
}

/* --- axes ------------------------------------------------------------------------------------ */

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

static double within(double value)
{
    return value > least ? fmin(value, most) : least; /* NaN too */
}

k3_axis_t k3_axis_linear(double high, double from, double to)
{
    return (k3_axis_t){0.0, high > 0.0 ? within(high) : 1.0, from, to, false, false};
}

k3_axis_t k3_axis_log(double low, double high, double from, double to)
{
    low = round_down(within(low));
    high = round_up(within(high));
    return (k3_axis_t){low, high > low ? high : 10.0 * low, from, to, true, false};
}

double k3_axis_at(const k3_axis_t *a, double value)
{
    double v = fmin(fmax(value, a->low), a->high);
    double share =
        a->log ? log(v / a->low) / log(a->high / a->low) : (v - a->low) / (a->high - a->low);

    return a->from + (a->to - a->from) * share;
}

/* The ticks of an axis, one after the other; at the first call *value is below all. */
static bool next_tick(const k3_axis_t *a, double *value)
{
    double decades = log10(a->high / fmax(a->low, least));

    if (!a->log) {
        double step = round_up(a->high / 8.0);

        *value = *value < 0.0 ? 0.0 : *value + (a->whole ? fmax(step, 1.0) : step);
    } else if (*value < 0.0) {
        *value = a->low;
    } else {
        do {
            *value = round_up(*value * 1.01);
        } while (decades > 2.0 && *value / pow(10.0, floor(log10(*value * 1.0001))) > 1.5);
    }
    return *value <= a->high * 1.0001;
}

void k3_axis_bottom(const k3_axis_t *a, double top, double bottom, const char *unit, FILE *out)
{
    for (double v = -1.0; next_tick(a, &v);) {
        double x = k3_axis_at(a, v);

        fprintf(out,
                "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" /><text "
                "class=\"soft\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.6g</text>\n",
                x, x, top, bottom, x, bottom + 14.0, v);
    }
    fprintf(out, "<text class=\"soft\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
            a->to, bottom + 28.0, unit);
}

void k3_axis_left(const k3_axis_t *a, double left, double right, const char *unit, FILE *out)
{
    for (double v = -1.0; next_tick(a, &v);) {
        double y = k3_axis_at(a, v);

        fprintf(out,
                "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" /><text "
                "class=\"soft\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n",
                left, right, y, y, left - 6.0, y + 4.0, v);
    }
    fprintf(out, "<text class=\"soft\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
            left - 66.0, a->to + 10.0, unit);
}
