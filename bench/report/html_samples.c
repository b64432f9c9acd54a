/* Every iteration of each cell, the median and its interval. */
#include <math.h>
#include <string.h>

#include "bench/report/cellview.h"
#include "bench/report/fields.h"
#include "bench/report/html_internal.h"

/* Dots of the whole picture, and the least for a cell. */
enum { ROW = 26, TOP = 8, DOTS = 3000, DOTS_LEAST = 20 };

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

static void draw_dots(const k3_axis_t *a, const json_t *cell, double y, size_t most, FILE *out)
{
    const json_t *samples = samples_of(cell);
    size_t        n = json_array_size(samples), step = n / most + 1;
    char          text[32];

    for (size_t i = 0; i < n; i += step) {
        double us = json_number_value(json_array_get(samples, i));

        if (us > 0.0) {
            /* Spread upright by a fixed pattern, so that equal times do not hide each other. */
            fprintf(out,
                    "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" data-tip=\"iteration "
                    "%zu: %s us\" />",
                    k3_axis_at(a, us), y + (double)(i * 7 % 11) - 5.0, i, k3_html_us(us, text));
        }
    }
}

static void draw_interval(const k3_axis_t *a, const json_t *cell, double y, FILE *out)
{
    double low, high, us;
    char   text[32], t2[32];

    if (k3_cell_interval(cell, &low, &high) && low > 0.0) {
        fprintf(out,
                "<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" "
                "data-tip=\"95 %% interval of the median: %s to %s us\" />",
                k3_axis_at(a, low), fmax(k3_axis_at(a, high), k3_axis_at(a, low) + 1.0), y, y,
                k3_html_us(low, text), k3_html_us(high, t2));
    }
    if (k3_cell_median(cell, k3_cell_headline(cell), &us) && us > 0.0) {
        fprintf(out,
                "<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" "
                "data-tip=\"median: %s us, %zu iterations\" />\n",
                k3_axis_at(a, us), k3_axis_at(a, us), y - 8.0, y + 8.0, k3_html_us(us, text),
                json_array_size(samples_of(cell)));
    }
}

/* A percentile of so few iterations that it is their largest. */
static bool is_the_largest(const json_t *phase, const char *name)
{
    long long n = k3_get_int(phase, "n");

    return (strcmp(name, "p95") == 0 && n > 0 && n < 20) ||
           (strcmp(name, "p99") == 0 && n > 0 && n < 100);
}

static void number_row(const json_t *cell, FILE *out)
{
    static const char *const names[] = {"n", "min", "median", NULL, "p95", "p99", "max"};
    const json_t            *phase = k3_cell_phase(cell, k3_cell_headline(cell));
    char                     label[96];

    k3_html_text(k3_cell_label(cell, label, sizeof(label)), out);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        fputc('\t', out);
        if (names[i] != NULL) {
            k3_html_number(json_object_get(phase, names[i]), out);
            fputs(is_the_largest(phase, names[i]) ? " (max)" : "", out);
            continue;
        }
        k3_html_number(json_array_get(json_object_get(phase, "ci95"), 0), out);
        fputc('\t', out);
        k3_html_number(json_array_get(json_object_get(phase, "ci95"), 1), out);
    }
    fputc('\n', out);
}

static void number_rows(const json_t *cells, FILE *out)
{
    const json_t *cell;
    size_t        i;

    fputs("cell\titerations\tmin us\tmedian us\t95 % low us\t95 % high us\tp95 us\tp99 us\tmax "
          "us\n",
          out);
    json_array_foreach(cells, i, cell)
    {
        if (k3_cell_measured(cell)) {
            number_row(cell, out);
        }
    }
}

void k3_html_samples(const json_t *cells, FILE *out)
{
    const json_t *cell;
    size_t        i, row = 0, n = k3_cells_measured(cells);
    size_t        dots = n > 0 && DOTS / n > DOTS_LEAST ? DOTS / n : DOTS_LEAST;
    double        low = INFINITY, high = 0.0, bottom = TOP + (double)n * ROW;
    k3_axis_t     a;

    json_array_foreach(cells, i, cell)
    {
        widen(cell, &low, &high);
    }
    if (high <= 0.0) {
        return;
    }
    dots = dots < 300 ? dots : 300;
    a = k3_axis_log(low, high, K3_PICTURE_LEFT, K3_PICTURE_WIDTH - K3_PICTURE_RIGHT);
    fprintf(out,
            "<h2>Iterations</h2>\n<p class=soft>Every iteration's total (at most %zu of a cell, "
            "evenly taken), with the median and its 95 %% interval. Logarithmic axis.</p>\n",
            dots);
    k3_picture_open("samples", K3_PICTURE_WIDTH, bottom + K3_PICTURE_FOOT, "samples of each cell",
                    out);
    k3_axis_bottom(&a, TOP, bottom, "us", out);
    json_array_foreach(cells, i, cell)
    {
        if (k3_cell_measured(cell)) {
            double y = TOP + (double)row++ * ROW + ROW / 2.0;

            k3_picture_row(cell, y + 4.0, out);
            draw_dots(&a, cell, y, dots, out);
            draw_interval(&a, cell, y, out);
        }
    }
    k3_picture_numbers(out);
    number_rows(cells, out);
    k3_picture_close(out);
}
