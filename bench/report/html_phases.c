/* Bars of the phases, one row a cell, on a common axis. */
#include <math.h>

#include "bench/plan/phase.h"
#include "bench/report/cellview.h"
#include "bench/report/html_internal.h"

enum { ROW = 26, TOP = 8 };

/* Colours by kind: a reader looks for the all-to-all, the experts and the rest. */
int k3_phase_colour(int phase)
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
    case K3_PHASE_SHARED_EXPERT:
        return 3;
    case K3_PHASE_COMBINE_SEND:
    case K3_PHASE_COMBINE_REDUCE:
        return 4;
    case K3_PHASE_COMBINE_WAIT:
        return 5;
    case K3_PHASE_ROUTER:
    case K3_PHASE_LATENT_DOWN:
    case K3_PHASE_LATENT_UP:
        return 6;
    default:
        return 7;
    }
}

void k3_phase_colours(FILE *out)
{
    static const char *const names[K3_PHASE_COLOURS] = {"dispatch: quantize, notify, send",
                                                        "dispatch: wait",
                                                        "experts",
                                                        "shared expert",
                                                        "combine: send, reduce",
                                                        "combine: wait",
                                                        "router, latent projections",
                                                        "collectives"};

    fputs("<p class=keys>", out);
    for (int c = 0; c < K3_PHASE_COLOURS; c++) {
        fprintf(out, "<span><i class=\"key k%d\"></i>%s</span> ", c, names[c]);
    }
    fputs("</p>\n", out);
}

static bool is_part(int phase)
{
    return phase < K3_PHASE_DISPATCH;
}

/* How far the bars of all cells reach. */
static double longest(const json_t *cells)
{
    const json_t *cell;
    double        most = 0.0, us;
    size_t        i;

    json_array_foreach(cells, i, cell)
    {
        double sum = 0.0;

        for (int p = 0; is_part(p); p++) {
            sum += k3_cell_median(cell, k3_phase_names[p], &us) ? us : 0.0;
        }
        most = fmax(most, sum);
        most = k3_cell_median(cell, k3_cell_headline(cell), &us) ? fmax(most, us) : most;
    }
    return most;
}

static void draw_total(const k3_axis_t *a, const json_t *cell, double y, FILE *out)
{
    double us, low, high;
    char   text[32], t2[32], t3[32];

    if (!k3_cell_median(cell, k3_cell_headline(cell), &us)) {
        return;
    }
    fprintf(out,
            "<line class=\"mark\" x1=\"%.2f\" x2=\"%.2f\" y1=\"%.1f\" y2=\"%.1f\" "
            "data-tip=\"",
            k3_axis_at(a, us), k3_axis_at(a, us), y - 3.0, y + ROW - 5.0);
    if (k3_cell_interval(cell, &low, &high)) {
        k3_html_format(out, "%s, measured: %s us (95 %% interval %s to %s)", k3_cell_headline(cell),
                       k3_html_us(us, text), k3_html_us(low, t2), k3_html_us(high, t3));
        fprintf(out,
                "\" /><line class=\"mark\" x1=\"%.2f\" x2=\"%.2f\" y1=\"%.1f\" y2=\"%.1f\" "
                "/>\n",
                k3_axis_at(a, low), k3_axis_at(a, high), y + 9.0, y + 9.0);
    } else {
        k3_html_format(out, "%s, measured: %s us (no interval)", k3_cell_headline(cell),
                       k3_html_us(us, text));
        fputs("\" />\n", out);
    }
}

static void draw_parts(const k3_axis_t *a, const json_t *cell, double y, FILE *out)
{
    double at = 0.0, us;
    char   text[32];

    for (int p = 0; is_part(p); p++) {
        if (k3_cell_median(cell, k3_phase_names[p], &us) && us > 0.0) {
            fprintf(out,
                    "<rect class=\"bar s%d\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" "
                    "data-tip=\"%s: %s us\" />",
                    k3_phase_colour(p), k3_axis_at(a, at), y,
                    k3_axis_at(a, at + us) - k3_axis_at(a, at), ROW - 8, k3_phase_names[p],
                    k3_html_us(us, text));
            at += us;
        }
    }
    draw_total(a, cell, y, out);
}

static void number_rows(const json_t *cells, FILE *out)
{
    const json_t *cell;
    char          label[96];
    size_t        i;

    fputs("cell\tphase\tmedian us\t95 % low us\t95 % high us\tp99 us\tslowest rank\n", out);
    json_array_foreach(cells, i, cell)
    {
        for (int p = 0; k3_phase_names[p] != NULL; p++) {
            const json_t *phase = k3_cell_phase(cell, k3_phase_names[p]);
            const json_t *ci = json_object_get(phase, "ci95");

            if (phase == NULL) {
                continue;
            }
            k3_html_text(k3_cell_label(cell, label, sizeof(label)), out);
            fprintf(out, "\t%s\t", k3_phase_names[p]);
            k3_html_number(json_object_get(phase, "median"), out);
            fputc('\t', out);
            k3_html_number(json_array_get(ci, 0), out);
            fputc('\t', out);
            k3_html_number(json_array_get(ci, 1), out);
            fputc('\t', out);
            k3_html_number(json_object_get(phase, "p99"), out);
            fputs(json_is_true(json_object_get(phase, "p99_is_max")) ? " (max)" : "", out);
            fputc('\t', out);
            k3_html_number(json_object_get(phase, "slowest_rank"), out);
            fputc('\n', out);
        }
    }
}

void k3_html_phases(const json_t *cells, FILE *out)
{
    const json_t *cell;
    size_t        i, row = 0, n = k3_cells_measured(cells);
    double        bottom = TOP + (double)n * ROW;
    k3_axis_t     a;

    if (n == 0) {
        return;
    }
    a = k3_axis_linear(longest(cells), K3_PICTURE_LEFT, K3_PICTURE_WIDTH - K3_PICTURE_RIGHT);
    fputs("<h2>Phases</h2>\n<p class=soft>Medians of the parts, each of its slowest rank, end to "
          "end. The upright mark is the total as measured, with its 95 % interval: parts of "
          "different ranks overlap, so it is less than their sum.</p>\n",
          out);
    k3_phase_colours(out);
    k3_picture_open("phases", K3_PICTURE_WIDTH, bottom + K3_PICTURE_FOOT,
                    "time of the phases of each cell", out);
    k3_axis_bottom(&a, TOP, bottom, "us", out);
    json_array_foreach(cells, i, cell)
    {
        if (k3_cell_measured(cell)) {
            double y = TOP + (double)row++ * ROW + 4.0;

            k3_picture_row(cell, y + 13.0, out);
            draw_parts(&a, cell, y, out);
        }
    }
    k3_picture_numbers(out);
    number_rows(cells, out);
    k3_picture_close(out);
}
