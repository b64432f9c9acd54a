/* One iteration over the ranks. */
#include <math.h>
#include <string.h>

#include "bench/plan/phase.h"
#include "bench/report/cellview.h"
#include "bench/report/fields.h"
#include "bench/report/html_internal.h"

enum { LEFT = 80, ROW = 16, TOP = 8 };

typedef struct timeline {
    const json_t *table, *rows;
    int           rank, phase, begin_us, end_us, own_us; /* columns */
    long long     step;                                  /* each so many of the ranks is drawn */
} timeline_t;

static int phase_of(const timeline_t *t, const json_t *row)
{
    int p = 0;

    while (k3_phase_names[p] != NULL && !k3_field_is(row, t->phase, k3_phase_names[p])) {
        p++;
    }
    return p;
}

static bool is_drawn(const timeline_t *t, const json_t *row)
{
    long long rank = k3_field_int(row, t->rank);

    return rank >= 0 && rank % t->step == 0 && phase_of(t, row) < K3_PHASE_DISPATCH;
}

static void draw_rows(const timeline_t *t, const k3_axis_t *a, FILE *out)
{
    const json_t *row;
    long long     last = -1;
    double        y = TOP - ROW;
    size_t        i;

    json_array_foreach(t->rows, i, row)
    {
        double    begin = k3_field_number(row, t->begin_us), end = k3_field_number(row, t->end_us);
        long long rank = k3_field_int(row, t->rank);
        int       phase = phase_of(t, row);

        if (!is_drawn(t, row)) {
            continue;
        }
        if (rank != last) {
            y += ROW;
            fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">rank %lld</text>\n",
                    LEFT - 8, y + 11.0, rank);
            last = rank;
        }
        fprintf(out,
                "<rect class=\"bar s%d\" x=\"%.1f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" "
                "data-tip=\"rank %lld, %s: %.1f to %.1f us\" />\n",
                k3_phase_colour(phase), k3_axis_at(a, begin), y + 2.0,
                fmax(k3_axis_at(a, end) - k3_axis_at(a, begin), 0.3), ROW - 4, rank,
                k3_phase_names[phase], begin, end);
    }
}

static void number_rows(const timeline_t *t, FILE *out)
{
    const json_t *row;
    size_t        i;

    fputs("rank\tphase\tbegin us\tend us\tin it us\n", out);
    json_array_foreach(t->rows, i, row)
    {
        if (k3_field_int(row, t->rank) % t->step == 0) {
            k3_html_number(k3_field(row, t->rank), out);
            fputc('\t', out);
            k3_html_text(k3_field_text(row, t->phase), out);
            fputc('\t', out);
            k3_html_number(k3_field(row, t->begin_us), out);
            fputc('\t', out);
            k3_html_number(k3_field(row, t->end_us), out);
            fputc('\t', out);
            k3_html_number(k3_field(row, t->own_us), out);
            fputc('\n', out);
        }
    }
}

/* How many ranks are drawn, and where the last phase ends. */
static size_t extent(const timeline_t *t, double *end)
{
    const json_t *row;
    long long     last = -1;
    size_t        i, ranks = 0;

    *end = 0.0;
    json_array_foreach(t->rows, i, row)
    {
        if (is_drawn(t, row)) {
            *end = fmax(*end, k3_field_number(row, t->end_us));
            ranks += k3_field_int(row, t->rank) != last;
            last = k3_field_int(row, t->rank);
        }
    }
    return ranks;
}

static void say_which(const timeline_t *t, const json_t *cell, FILE *out)
{
    char label[96], text[32];

    fputs("<h3>One iteration of ", out);
    k3_html_text(k3_cell_label(cell, label, sizeof(label)), out);
    fputs("</h3>\n<p class=soft>", out);
    k3_html_format(
        out, "Iteration %lld, %s us (%s). Global clock, each time known to +-%.3g us. %s",
        k3_get_int(t->table, "iteration"), k3_html_us(k3_get_number(t->table, "headline_us"), text),
        k3_get_text(t->table, "chosen"), k3_get_number(t->table, "clock_error_us"),
        t->step > 1 ? "Some of the ranks, evenly spread." : "");
    fputs("</p>\n", out);
}

void k3_html_timeline(const json_t *cell, int ranks, FILE *out)
{
    const json_t *table = json_object_get(cell, "timeline");
    timeline_t    t = {.table = table,
                       .rows = json_object_get(table, "rows"),
                       .rank = k3_column(table, "rank"),
                       .phase = k3_column(table, "phase"),
                       .begin_us = k3_column(table, "begin_us"),
                       .end_us = k3_column(table, "end_us"),
                       .own_us = k3_column(table, "own_us"),
                       .step = 1};
    double        end, bottom;
    size_t        n;
    k3_axis_t     a;

    while ((n = extent(&t, &end)) > (size_t)ranks) {
        t.step *= 2;
    }
    if (n == 0) {
        return;
    }
    bottom = TOP + (double)n * ROW;
    a = k3_axis_linear(end, LEFT, K3_PICTURE_WIDTH - K3_PICTURE_RIGHT);
    say_which(&t, cell, out);
    k3_picture_open("timeline", K3_PICTURE_WIDTH, bottom + K3_PICTURE_FOOT,
                    "one iteration over the ranks", out);
    k3_axis_bottom(&a, TOP, bottom, "us", out);
    draw_rows(&t, &a, out);
    k3_picture_numbers(out);
    number_rows(&t, out);
    k3_picture_close(out);
}
