/* What a reader looks at first: the headline, the table of cells, what stands out, what was refused. */
#include <math.h>
#include <string.h>

#include "bench/report/cellview.h"
#include "bench/report/doubts.h"
#include "bench/report/fastest.h"
#include "bench/report/fields.h"
#include "bench/report/html_internal.h"
#include "bench/report/limits.h"

/* --- headline -------------------------------------------------------------------------------- */

static void say_fastest(const json_t *cell, const k3_fastest_t *f, FILE *out)
{
    double low, high, us, next_us;
    char   label[96], a[32], b[32], c[32], other[96], differs[240];

    k3_cell_median(cell, k3_cell_headline(cell), &us);
    k3_cell_interval(cell, &low, &high);
    k3_cell_median(f->next, k3_cell_headline(f->next), &next_us);
    fputs("<li><strong>", out);
    k3_html_text(k3_cell_label(cell, label, sizeof(label)), out);
    fputs("</strong> ", out);
    k3_html_format(
        out,
        "is the fastest in this launch: %s us (95 %% interval %s to %s us), %.0f %% less than the "
        "next, %s.",
        k3_html_us(us, a), k3_html_us(low, b), k3_html_us(high, c), 100.0 * (1.0 - us / next_us),
        k3_cell_label(f->next, other, sizeof(other)));
    if (k3_fastest_differs(cell, f, differs, sizeof(differs))) {
        k3_html_format(out, " The two differ in more than the backend: %s.", differs);
    }
    fputs("</li>\n", out);
}

static void say_doubt(const json_t *cell, const char *doubt, FILE *out)
{
    char label[96];

    fputs("<li>", out);
    k3_html_text(k3_cell_label(cell, label, sizeof(label)), out);
    k3_html_format(out,
                   " has the shortest time, but the machine changed its speed in this launch: %s. "
                   "This launch shows no winner.",
                   doubt);
    fputs("</li>\n", out);
}

/* False: the cell is not apart from its rivals. */
static bool say_place(const json_t *cells, const json_t *cell, FILE *out)
{
    k3_fastest_t f;
    char         doubt[240];

    k3_fastest(cells, cell, &f);
    if (k3_fastest_doubt(&f, doubt, sizeof(doubt))) {
        say_doubt(cell, doubt, out);
    } else if (f.apart) {
        say_fastest(cell, &f, out);
    }
    return f.apart;
}

static void warn(const json_t *document, FILE *out)
{
    char busy[160];

    if (json_is_true(json_object_get(json_object_get(document, "topology"), "oversubscribed"))) {
        fputs("<p class=warn>More ranks than cores: the times show order, not speed.</p>\n", out);
    }
    if (k3_busy_doubt(document, busy, sizeof(busy))) {
        fprintf(out, "<p class=warn>%s.</p>\n", busy);
    }
}

void k3_html_headline(const json_t *document, FILE *out)
{
    const json_t *cells = json_object_get(document, "cells"), *cell;
    bool          any = false;
    size_t        i;

    fputs("<ul>\n", out);
    json_array_foreach(cells, i, cell)
    {
        any = (k3_cell_measured(cell) && say_place(cells, cell, out)) || any;
    }
    if (!any) {
        fputs("<li>No cell is apart from its rivals by more than the intervals leave open: this "
              "launch shows no winner.</li>\n",
              out);
    }
    fputs("<li class=soft>One launch, with a bias of its own. Intervals are of its iterations; "
          "whether another launch agrees is what <code>k3bench compare</code> tells.</li>\n</ul>\n",
          out);
    warn(document, out);
}

/* --- the table of cells ---------------------------------------------------------------------- */

static void print_time(const json_t *cell, const char *phase, FILE *out)
{
    double us;
    char   text[32];

    if (k3_cell_median(cell, phase, &us)) {
        fprintf(out, "<td data-value=\"%.9g\">%s</td>", us, k3_html_us(us, text));
    } else {
        fputs("<td data-value=\"\"></td>", out);
    }
}

static void print_interval(const json_t *cell, FILE *out)
{
    double low, high;
    char   a[32], b[32];

    if (k3_cell_interval(cell, &low, &high)) {
        fprintf(out, "<td>%s to %s</td>", k3_html_us(low, a), k3_html_us(high, b));
    } else {
        fputs("<td></td>", out);
    }
}

/* Of the first phase that has a limit on the machine, dispatch as a rule. */
static void print_limit(const json_t *cell, FILE *out)
{
    char text[256];

    k3_html_td(k3_limits_text(cell, 0, text, sizeof(text)) ? text : "", "t wrap", out);
}

static void print_formats(const json_t *cell, FILE *out)
{
    const json_t *choices = json_object_get(cell, "choices");

    k3_html_td(k3_get_text(choices, "dispatch_dtype"), "t", out);
    k3_html_td(k3_get_text(choices, "combine_dtype"), "t", out);
    k3_html_td(k3_get_text(json_object_get(choices, "recipe"), "runner"), "t", out);
}

static void print_cell(const json_t *cells, const json_t *cell, FILE *out)
{
    const json_t *layout = json_object_get(cell, "layout"), *work = json_object_get(cell, "work");
    const json_t *ratio = json_object_get(work, "dispatch_ratio");
    const char   *status = k3_get_text(cell, "status");
    const char   *check = k3_get_text(json_object_get(cell, "check"), "state");
    bool          bad = strcmp(status, "failed") == 0 || strcmp(check, "wrong") == 0;
    char          backend[32], text[64];

    fprintf(out, "<tr%s>", bad ? " class=bad" : k3_is_fastest(cells, cell) ? " class=best" : "");
    k3_html_td(k3_cell_backend(cell, backend, sizeof(backend)), "t", out);
    k3_html_td(k3_get_text(json_object_get(cell, "model"), "name"), "t", out);
    snprintf(text, sizeof(text), "%lld/%lld/%lld %s", k3_get_int(layout, "tp"),
             k3_get_int(layout, "dp"), k3_get_int(layout, "ep"),
             json_is_true(json_object_get(json_object_get(cell, "path"), "fast")) ? "fast"
                                                                                  : "fallback");
    k3_html_td(text, "t", out);
    fprintf(out, "<td>%lld</td>", k3_get_int(json_object_get(cell, "tokens"), "asked"));
    if (json_is_number(ratio)) {
        fprintf(out, "<td>%.2f</td>", json_number_value(ratio));
    } else {
        fputs("<td data-value=\"\"></td>", out);
    }
    print_time(cell, "dispatch", out);
    print_time(cell, "expert_mlp", out);
    print_time(cell, "combine", out);
    print_time(cell, k3_cell_headline(cell), out);
    print_interval(cell, out);
    print_formats(cell, out);
    k3_html_td(strcmp(status, "ok") == 0 ? check : status, "t", out);
    print_limit(cell, out);
    fputs("</tr>\n", out);
}

void k3_html_cells(const json_t *document, size_t number, FILE *out)
{
    static const char *const heads[][2] = {
        {"t", "backend"}, {"t", "model"},        {"t", "tp/dp/ep"},    {"", "rows a rank"},
        {"", "ratio"},    {"", "dispatch us"},   {"", "experts us"},   {"", "combine us"},
        {"", "total us"}, {"", "95 % interval"}, {"t", "rows"},        {"t", "results"},
        {"t", "runner"},  {"t", "check"},        {"t", "of the limit"}};
    const json_t *cells = json_object_get(document, "cells"), *cell;
    size_t        i;

    fprintf(out,
            "<h2>Cells</h2>\n<p class=filters><label>Filter: <input type=search "
            "data-table=\"cells%zu\" placeholder=\"8/2/8 fast\"></label> <label>Backend: <select "
            "data-table=\"cells%zu\" data-column=\"0\"><option value=\"\">all</option></select>"
            "</label> <label>Layout: <select data-table=\"cells%zu\" data-column=\"2\"><option "
            "value=\"\">all</option></select></label></p>\n<div class=wide><table class=sort "
            "id=\"cells%zu\"><thead><tr>",
            number, number, number, number);
    for (i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        fprintf(out, "<th class=\"%s\"><button>%s</button></th>", heads[i][0], heads[i][1]);
    }
    fputs("</tr></thead>\n<tbody>\n", out);
    json_array_foreach(cells, i, cell)
    {
        if (k3_cell_measured(cell)) {
            print_cell(cells, cell, out);
        }
    }
    fputs("</tbody></table></div>\n<p class=soft>Times are medians over iterations of the slowest "
          "rank. Bold: the fastest of its work in this launch, its interval below all others' on a "
          "machine that kept its speed. Ratio: rows dispatched by all ranks over global rows. "
          "Rows, results: their formats on the way.</p>\n",
          out);
}

/* What makes the times of a cell less sure. */
static void print_doubts(const json_t *document, FILE *out)
{
    const json_t *cells = json_object_get(document, "cells"), *cell;
    bool          any = false;
    k3_doubts_t   doubts;
    char          label[96];
    size_t        i;

    json_array_foreach(cells, i, cell)
    {
        k3_doubts(cell, &doubts);
        for (size_t d = 0; d < doubts.count; d++) {
            fputs(any ? "" : "<h2>How sure</h2>\n<ul>\n", out);
            any = true;
            fputs("<li>", out);
            k3_html_text(k3_cell_label(cell, label, sizeof(label)), out);
            fputs(": ", out);
            k3_html_text(doubts.text[d], out);
            fputs("</li>\n", out);
        }
    }
    fputs(any ? "</ul>\n" : "", out);
}

static void print_patterns(const json_t *document, FILE *out)
{
    const json_t *cells = json_object_get(document, "cells"), *cell;
    bool          any = false;
    size_t        i;

    json_array_foreach(cells, i, cell)
    {
        const json_t *pattern = json_object_get(cell, "pattern");
        char          label[96];

        if (json_is_object(pattern) && strcmp(k3_get_text(pattern, "name"), "none") != 0) {
            fputs(any ? "" : "<h2>Who holds a cell back</h2>\n<ul>\n", out);
            any = true;
            fputs("<li>", out);
            k3_html_text(k3_cell_label(cell, label, sizeof(label)), out);
            fputs(": ", out);
            k3_html_text(k3_get_text(pattern, "text"), out);
            fputs("</li>\n", out);
        }
    }
    fputs(any ? "</ul>\n" : "", out);
}

void k3_html_refused(const json_t *document, FILE *out)
{
    const json_t *cells = json_object_get(document, "cells"), *cell;
    bool          any = false;
    size_t        i;

    print_patterns(document, out);
    print_doubts(document, out);
    json_array_foreach(cells, i, cell)
    {
        if (strcmp(k3_get_text(cell, "status"), "ok") != 0) {
            char label[96];

            fputs(any ? "" : "<h2>Refused and failed</h2>\n<ul>\n", out);
            any = true;
            fputs("<li>", out);
            k3_html_text(k3_get_text(cell, "status"), out);
            fputs(": ", out);
            k3_html_text(k3_cell_label(cell, label, sizeof(label)), out);
            fputs(": ", out);
            k3_html_text(k3_get_text(cell, "reason"), out);
            fputs("</li>\n", out);
        }
    }
    fputs(any ? "</ul>\n" : "", out);
}
