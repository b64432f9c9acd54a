/* How unevenly work falls: of experts, ranks and queue pairs. */
#include <math.h>

#include "bench/report/cellview.h"
#include "bench/report/fields.h"
#include "bench/report/html_internal.h"

enum { ROW = 26, TOP = 8, PARTS = 3 };

/* Form and colour both tell them apart. */
static const struct part {
    const char *member, *name;
} parts[PARTS] = {{"expert", "rows of an expert"},
                  {"rank", "rows that a rank receives"},
                  {"qp", "bytes of a queue pair that leaves its node"}};

static const json_t *factor_of(const json_t *cell, int part)
{
    return json_object_get(json_object_get(json_object_get(cell, "work"), "imbalance"),
                           parts[part].member);
}

static void draw_form(int part, double x, double y, FILE *out)
{
    if (part == 0) {
        fprintf(out, "<circle class=\"s0\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\" data-tip=\"", x, y);
    } else if (part == 1) {
        fprintf(out,
                "<rect class=\"s1\" x=\"%.1f\" y=\"%.1f\" width=\"9\" height=\"9\" data-tip=\"",
                x - 4.5, y - 4.5);
    } else {
        fprintf(out, "<path class=\"s2\" d=\"M%.1f %.1fl6 6l-6 6l-6 -6z\" data-tip=\"", x, y - 6.0);
    }
}

static void draw_cell(const k3_axis_t *a, const json_t *cell, double y, FILE *out)
{
    for (int p = 0; p < PARTS; p++) {
        const json_t *factor = factor_of(cell, p);

        if (json_is_number(factor)) {
            draw_form(p, k3_axis_at(a, json_number_value(factor)), y, out);
            fprintf(out, "%s: max/mean %.3g\" />", parts[p].name, json_number_value(factor));
        }
    }
}

static void number_rows(const json_t *cells, FILE *out)
{
    const json_t *cell;
    char          label[96];
    size_t        i;

    fputs("cell", out);
    for (int p = 0; p < PARTS; p++) {
        fprintf(out, "\t%s, max/mean", parts[p].name);
    }
    fputc('\n', out);
    json_array_foreach(cells, i, cell)
    {
        if (k3_cell_measured(cell)) {
            k3_html_text(k3_cell_label(cell, label, sizeof(label)), out);
            for (int p = 0; p < PARTS; p++) {
                fputc('\t', out);
                k3_html_number(factor_of(cell, p), out);
            }
            fputc('\n', out);
        }
    }
}

static double largest(const json_t *cells)
{
    const json_t *cell;
    double        most = 0.0;
    size_t        i;

    json_array_foreach(cells, i, cell)
    {
        for (int p = 0; p < PARTS && k3_cell_measured(cell); p++) {
            most = fmax(most, json_number_value(factor_of(cell, p)));
        }
    }
    return most;
}

static void draw_keys(FILE *out)
{
    static const char *const forms[PARTS] = {"&#9679;", "&#9632;", "&#9670;"};

    fputs("<p class=keys>", out);
    for (int p = 0; p < PARTS; p++) {
        fprintf(out, "<span><i class=\"form f%d\">%s</i>%s</span> ", p, forms[p], parts[p].name);
    }
    fputs("</p>\n", out);
}

void k3_html_balance(const json_t *cells, FILE *out)
{
    const json_t *cell;
    double        most = largest(cells);
    double        bottom = TOP + (double)k3_cells_measured(cells) * ROW;
    size_t        i, row = 0;
    k3_axis_t     a =
        k3_axis_log(1.0, fmax(most, 2.0), K3_PICTURE_LEFT, K3_PICTURE_WIDTH - K3_PICTURE_RIGHT - 8);

    if (most <= 0.0) {
        return;
    }
    fputs("<h2>Imbalance</h2>\n<p class=soft>Largest over mean, as the routing and the plan give "
          "it: 1 is even. It follows from the work and has no interval. Logarithmic axis.</p>\n",
          out);
    draw_keys(out);
    k3_picture_open("imbalance", K3_PICTURE_WIDTH, bottom + K3_PICTURE_FOOT,
                    "imbalance of each cell", out);
    k3_axis_bottom(&a, TOP, bottom, "max / mean", out);
    json_array_foreach(cells, i, cell)
    {
        if (k3_cell_measured(cell)) {
            double y = TOP + (double)row++ * ROW + ROW / 2.0;

            k3_picture_row(cell, y + 4.0, out);
            draw_cell(&a, cell, y, out);
        }
    }
    k3_picture_numbers(out);
    number_rows(cells, out);
    k3_picture_close(out);
}
