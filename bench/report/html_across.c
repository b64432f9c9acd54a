/* Several records: which launches they are, the verdicts between them, times over launches. */
#include <math.h>
#include <string.h>

#include "bench/report/comparison.h"
#include "bench/report/facts.h"
#include "bench/report/fields.h"
#include "bench/report/html_internal.h"

enum { ROW = 26, TOP = 8, LEFT = 320 };

static void print_launches(json_t *const *documents, size_t count, size_t first, FILE *out)
{
    fputs("<h2>Launches</h2>\n<div class=wide><table class=sort><thead><tr>", out);
    for (size_t i = 0; i < 6; i++) {
        static const char *const heads[] = {"run", "started", "build", "machine", "ranks", "side"};

        fprintf(out, "<th class=\"%s\"><button>%s</button></th>", i == 4 ? "" : "t", heads[i]);
    }
    fputs("</tr></thead><tbody>\n", out);
    for (size_t d = 0; d < count; d++) {
        const json_t *run = json_object_get(documents[d], "run");

        fputs("<tr>", out);
        k3_html_td(k3_get_text(run, "id"), "t", out);
        k3_html_td(k3_get_text(run, "started_utc"), "t", out);
        k3_html_td(k3_get_text(run, "git_sha"), "t", out);
        k3_html_td(k3_get_text(json_object_get(documents[d], "fingerprint"), "key"), "t", out);
        fprintf(out, "<td>%lld</td>", k3_get_int(json_object_get(run, "launch"), "ranks"));
        k3_html_td(first == count ? "" : d < first ? "base" : "new", "t", out);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

/* --- verdicts -------------------------------------------------------------------------------- */

static double percent(const json_t *row, int end)
{
    return json_number_value(json_array_get(json_object_get(row, "ci95_pct"), (size_t)end));
}

static bool is_judged(const json_t *row)
{
    return json_is_number(json_object_get(row, "shift_pct"));
}

/* The largest shift that is drawn, rounded up; what is beyond stands at the edge. */
static double reach(const json_t *rows, double floor)
{
    const json_t *row;
    double        most = 2.0 * floor;
    size_t        i;

    json_array_foreach(rows, i, row)
    {
        if (is_judged(row)) {
            most = fmax(most, fabs(k3_get_number(row, "shift_pct")));
            most = fmax(most, fmax(fabs(percent(row, 0)), fabs(percent(row, 1))));
        }
    }
    return fmin(most, 200.0);
}

static double across(double value, double most)
{
    double share = fmin(fmax(value / most, -1.0), 1.0);

    return LEFT + (K3_PICTURE_WIDTH - K3_PICTURE_RIGHT - LEFT) * (0.5 + 0.5 * share);
}

static void draw_scale(double most, double floor, double bottom, FILE *out)
{
    fprintf(out,
            "<rect class=\"band\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%.1f\" "
            "data-tip=\"below the floor of %.3g %%: no finding\" />\n",
            across(-floor, most), TOP, across(floor, most) - across(-floor, most), bottom - TOP,
            floor);
    for (int i = -2; i <= 2; i++) {
        double x = across(i * most / 2.0, most);

        fprintf(out,
                "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%.1f\" /><text "
                "class=\"soft\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%+.3g</text>\n",
                x, x, TOP, bottom, x, bottom + 14.0, i * most / 2.0);
    }
    fprintf(out,
            "<text class=\"soft\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%% of the base; right: "
            "slower</text>\n",
            K3_PICTURE_WIDTH - K3_PICTURE_RIGHT, bottom + 28.0);
}

static void draw_row(const json_t *row, double most, double y, FILE *out)
{
    const char *verdict = k3_get_text(row, "verdict");
    int         colour = strcmp(verdict, "worse") == 0 ? 5 : strcmp(verdict, "better") == 0 ? 2 : 7;
    double      shift = k3_get_number(row, "shift_pct");

    fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", LEFT - 8, y + 4.0);
    k3_html_format(out, "%s: %s", k3_get_text(row, "label"), verdict);
    fputs("</text>", out);
    if (json_is_array(json_object_get(row, "ci95_pct"))) {
        fprintf(out, "<line class=\"curve k%d\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" />",
                colour, across(percent(row, 0), most), across(percent(row, 1), most), y, y);
    }
    fprintf(out, "<circle class=\"s%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\" data-tip=\"", colour,
            across(shift, most), y);
    k3_html_format(out, "%s: %+.3g %%, p %.3g", k3_get_text(row, "key"), shift,
                   k3_get_number(row, "p_family"));
    fputs("\" />\n", out);
}

static void number_rows(const json_t *rows, FILE *out)
{
    const json_t *row;
    size_t        i;

    fputs("cell\tagainst\tverdict\tshift %\t95 % low %\t95 % high %\tp\tp after Holm\tlaunches, "
          "base\tlaunches\twhy\tnote\n",
          out);
    json_array_foreach(rows, i, row)
    {
        const json_t *const values[] = {json_object_get(row, "shift_pct"),
                                        json_array_get(json_object_get(row, "ci95_pct"), 0),
                                        json_array_get(json_object_get(row, "ci95_pct"), 1),
                                        json_object_get(row, "p"),
                                        json_object_get(row, "p_family"),
                                        json_object_get(json_object_get(row, "base"), "launches"),
                                        json_object_get(json_object_get(row, "new"), "launches")};

        k3_html_text(k3_get_text(row, "key"), out);
        fputc('\t', out);
        k3_html_text(k3_get_text(row, "base_key"), out);
        fputc('\t', out);
        k3_html_text(k3_get_text(row, "verdict"), out);
        for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
            fputc('\t', out);
            k3_html_number(values[v], out);
        }
        fputc('\t', out);
        k3_html_text(k3_get_text(row, "reason"), out);
        fputc('\t', out);
        k3_html_text(k3_get_text(row, "note"), out);
        fputc('\n', out);
    }
}

/* Where nothing could be judged there is nothing to draw. */
static void print_reasons(const json_t *rows, FILE *out)
{
    const json_t *row;
    size_t        i;

    fputs("<ul>\n", out);
    json_array_foreach(rows, i, row)
    {
        fputs("<li>", out);
        k3_html_text(k3_get_text(row, "label"), out);
        fputs(", ", out);
        k3_html_text(k3_get_text(row, "work"), out);
        fputs(": ", out);
        k3_html_text(k3_get_text(row, "verdict"), out);
        fputs(": ", out);
        k3_html_text(k3_get_text(row, "reason"), out);
        fputs("</li>\n", out);
    }
    fputs("</ul>\n", out);
}

static void print_verdicts(const json_t *document, bool sides, FILE *out)
{
    const json_t *rows = json_object_get(document, "cells"), *row;
    double        floor = k3_get_number(document, "floor_pct"), most = reach(rows, floor), bottom;
    size_t        i, n = 0;

    json_array_foreach(rows, i, row)
    {
        n += is_judged(row);
    }
    bottom = TOP + (double)n * ROW;
    fprintf(out,
            "<h2>Comparison</h2>\n<p>%s: ", sides ? "New against base" : "Backend against backend");
    k3_comparison_counts(document, out);
    fputs("</p>\n<p class=soft>Over launches: the middle of the ratios with its 95 % interval; the "
          "grey band is below the floor. ",
          out);
    k3_html_text(k3_get_text(document, "method"), out);
    fputs(".</p>\n", out);
    if (n == 0) {
        print_reasons(rows, out);
        return;
    }
    k3_picture_open("comparison", K3_PICTURE_WIDTH, bottom + K3_PICTURE_FOOT,
                    "shift of each cell against its base", out);
    draw_scale(most, floor, bottom, out);
    n = 0;
    json_array_foreach(rows, i, row)
    {
        if (is_judged(row)) {
            draw_row(row, most, TOP + (double)n++ * ROW + ROW / 2.0, out);
        }
    }
    k3_picture_numbers(out);
    number_rows(rows, out);
    k3_picture_close(out);
}

static void compare(json_t *const *documents, size_t count, size_t first, FILE *out)
{
    k3_comparison_t   c = {.sides = first < count};
    k3_verdict_rule_t rule = {.level = 0.95, .floor = 0.03};
    k3_error_t        err = K3_ERROR_INIT;
    k3_facts_wanted_t wanted = {.phase = NULL};
    json_t           *document = NULL;
    size_t            worse;

    if (k3_comparison_open(&c, &err) == K3_OK) {
        for (size_t d = 0; d < count && err.status == K3_OK; d++) {
            json_t *facts;

            if (k3_facts_of("record", documents[d], &wanted, &facts, &err) == K3_OK) {
                k3_comparison_add(&c, d < first ? K3_SIDE_BASE : K3_SIDE_NEW, facts);
            }
            json_decref(facts);
        }
        if (err.status == K3_OK &&
            k3_comparison_judge(&c, &rule, &document, &worse, &err) == K3_OK) {
            print_verdicts(document, c.sides, out);
        }
    }
    if (err.status != K3_OK) {
        fputs("<p class=warn>No comparison: ", out);
        k3_html_text(err.text, out);
        fputs("</p>\n", out);
    }
    json_decref(document);
    k3_comparison_close(&c);
}

void k3_html_across(json_t *const *documents, size_t count, size_t first, FILE *out)
{
    fprintf(out, "<section>\n<h1>k3bench: %zu launches</h1>\n", count);
    print_launches(documents, count, first, out);
    compare(documents, count, first, out);
    k3_html_history(documents, count, out);
    k3_html_curves(documents, count, out);
    fputs("</section>\n", out);
}
