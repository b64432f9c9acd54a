#include "bench/report/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench/report/cellview.h"
#include "bench/report/fields.h"
#include "bench/report/html_internal.h"

/* The style and the script, from bench/report/page; NUL-terminated. */
extern const char k3_page_css[], k3_page_js[];

/* --- texts ----------------------------------------------------------------------------------- */

void k3_html_text(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

void k3_html_format(FILE *out, const char *format, ...)
{
    char    text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    k3_html_text(text, out);
}

const char *k3_html_us(double us, char text[32])
{
    snprintf(text, 32,
             us >= 1e7      ? "%.3g"
             : us >= 1000.0 ? "%.0f"
             : us >= 100.0  ? "%.1f"
                            : "%.3g",
             us);
    return text;
}

const char *k3_html_label(const json_t *cell, char *text, size_t size)
{
    const json_t *layout = json_object_get(cell, "layout");
    char          backend[32];

    snprintf(text, size, "%s tp%lld dp%lld T%lld%s%s",
             k3_cell_backend(cell, backend, sizeof(backend)), k3_get_int(layout, "tp"),
             k3_get_int(layout, "dp"), k3_get_int(json_object_get(cell, "tokens"), "asked"),
             json_is_false(json_object_get(json_object_get(cell, "path"), "fast")) ? " fallback"
                                                                                   : "",
             strcmp(k3_get_text(cell, "component"), "region") == 0 ? "" : " (part)");
    return text;
}

/* --- headline -------------------------------------------------------------------------------- */

/* The nearest rival of the same work, NULL when there is none. */
static const json_t *next_best(const json_t *cells, const json_t *best)
{
    const json_t *found = NULL, *cell;
    double        us, least = INFINITY;
    size_t        i;

    json_array_foreach(cells, i, cell)
    {
        bool moves = !json_is_false(json_object_get(json_object_get(cell, "path"), "moves_rows"));

        if (cell != best && moves && k3_cell_measured(cell) && k3_cell_same_group(cell, best) &&
            k3_cell_median(cell, k3_cell_headline(cell), &us) && us < least) {
            least = us;
            found = cell;
        }
    }
    return found;
}

static void say_fastest(const json_t *cells, const json_t *best, FILE *out)
{
    const json_t *rival = next_best(cells, best);
    double        low, high, us, rival_us;
    char          label[96], a[32], b[32], c[32], other[96];

    k3_cell_median(best, k3_cell_headline(best), &us);
    k3_cell_interval(best, &low, &high);
    k3_cell_median(rival, k3_cell_headline(rival), &rival_us);
    fputs("<li><strong>", out);
    k3_html_text(k3_html_label(best, label, sizeof(label)), out);
    fputs("</strong> ", out);
    k3_html_format(
        out, "is the fastest: %s us (95 %% interval %s to %s us), %.0f %% less than the next, %s.",
        k3_html_us(us, a), k3_html_us(low, b), k3_html_us(high, c), 100.0 * (1.0 - us / rival_us),
        k3_html_label(rival, other, sizeof(other)));
    fputs("</li>\n", out);
}

static void print_headline(const json_t *document, FILE *out)
{
    const json_t *cells = json_object_get(document, "cells"), *cell;
    bool          any = false;
    size_t        i;

    fputs("<ul>\n", out);
    json_array_foreach(cells, i, cell)
    {
        if (k3_cell_measured(cell) && k3_cell_is_fastest(cells, cell)) {
            say_fastest(cells, cell, out);
            any = true;
        }
    }
    if (!any) {
        fputs("<li>No cell is apart from its rivals by more than the intervals leave open: this "
              "launch "
              "shows no winner.</li>\n",
              out);
    }
    fputs("<li class=soft>One launch. Intervals are of its iterations; whether another launch "
          "agrees is what "
          "<code>k3bench compare</code> tells.</li>\n</ul>\n",
          out);
    if (json_is_true(json_object_get(json_object_get(document, "topology"), "oversubscribed"))) {
        fputs("<p class=warn>More ranks than cores: the times show order, not speed.</p>\n", out);
    }
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

static void print_text(const char *text, const char *class, FILE *out)
{
    fprintf(out, "<td class=\"%s\">", class);
    k3_html_text(text, out);
    fputs("</td>", out);
}

static void print_cell(const json_t *cells, const json_t *cell, FILE *out)
{
    const json_t *layout = json_object_get(cell, "layout"), *work = json_object_get(cell, "work");
    const json_t *ratio = json_object_get(work, "dispatch_ratio");
    const char   *status = k3_get_text(cell, "status");
    const char   *check = k3_get_text(json_object_get(cell, "check"), "state");
    bool          bad = strcmp(status, "failed") == 0 || strcmp(check, "wrong") == 0;
    char          backend[32], text[64];

    fprintf(out, "<tr%s>",
            bad                               ? " class=bad"
            : k3_cell_is_fastest(cells, cell) ? " class=best"
                                              : "");
    print_text(k3_cell_backend(cell, backend, sizeof(backend)), "t", out);
    print_text(k3_get_text(json_object_get(cell, "model"), "name"), "t", out);
    snprintf(text, sizeof(text), "%lld/%lld/%lld %s", k3_get_int(layout, "tp"),
             k3_get_int(layout, "dp"), k3_get_int(layout, "ep"),
             json_is_true(json_object_get(json_object_get(cell, "path"), "fast")) ? "fast"
                                                                                  : "fallback");
    print_text(text, "t", out);
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
    print_text(strcmp(status, "ok") == 0 ? check : status, "t", out);
    fputs("</tr>\n", out);
}

static void print_cells(const json_t *document, size_t number, FILE *out)
{
    static const char *const heads[][2] = {
        {"t", "backend"}, {"t", "model"},        {"t", "tp/dp/ep"},  {"", "rows a rank"},
        {"", "ratio"},    {"", "dispatch us"},   {"", "experts us"}, {"", "combine us"},
        {"", "total us"}, {"", "95 % interval"}, {"t", "check"}};
    const json_t *cells = json_object_get(document, "cells"), *cell;
    size_t        i;

    fprintf(out,
            "<h2>Cells</h2>\n<p><label>Filter: <input type=search data-table=\"cells%zu\" "
            "placeholder=\"8/2/8 fast\"></label></p>\n<div class=wide><table class=sort "
            "id=\"cells%zu\">"
            "<thead><tr>",
            number, number);
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
          "rank. Bold: the "
          "fastest of its work, its interval below all others'. Ratio: rows dispatched by all "
          "ranks over global "
          "rows.</p>\n",
          out);
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
            k3_html_text(k3_html_label(cell, label, sizeof(label)), out);
            fputs(": ", out);
            k3_html_text(k3_get_text(pattern, "text"), out);
            fputs("</li>\n", out);
        }
    }
    fputs(any ? "</ul>\n" : "", out);
}

static void print_refused(const json_t *document, FILE *out)
{
    const json_t *cells = json_object_get(document, "cells"), *cell;
    bool          any = false;
    size_t        i;

    json_array_foreach(cells, i, cell)
    {
        if (strcmp(k3_get_text(cell, "status"), "ok") != 0) {
            char label[96];

            fputs(any ? "" : "<h2>Refused and failed</h2>\n<ul>\n", out);
            any = true;
            fputs("<li>", out);
            k3_html_text(k3_get_text(cell, "status"), out);
            fputs(": ", out);
            k3_html_text(k3_html_label(cell, label, sizeof(label)), out);
            fputs(": ", out);
            k3_html_text(k3_get_text(cell, "reason"), out);
            fputs("</li>\n", out);
        }
    }
    fputs(any ? "</ul>\n" : "", out);
}

/* --- where it comes from --------------------------------------------------------------------- */

static void print_value(const json_t *value, FILE *out)
{
    char *text;

    if (json_is_string(value)) {
        k3_html_text(json_string_value(value), out);
        return;
    }
    text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    k3_html_text(text != NULL ? text : "", out);
    free(text);
}

static void print_members(const char *title, const json_t *object, FILE *out)
{
    const char *name;
    json_t     *value;

    fputs("<h3>", out);
    k3_html_text(title, out);
    fputs("</h3>\n<table><tbody>\n", out);
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        fputs("<tr>", out);
        print_text(name, "t", out);
        fputs("<td class=\"t wrap\">", out);
        print_value(value, out);
        fputs("</td></tr>\n", out);
    }
    fputs("</tbody></table>\n", out);
}

static void print_origin(const json_t *document, FILE *out)
{
    const json_t *run = json_object_get(document, "run"), *option;
    const json_t *print = json_object_get(document, "fingerprint");
    size_t        i;

    fputs("<h2>Origin</h2>\n<details><summary>Machine, versions and every option</summary>\n", out);
    print_members("Machine (stable)", json_object_get(print, "stable"), out);
    print_members("Machine (volatile)", json_object_get(print, "volatile"), out);
    print_members("Built with", json_object_get(run, "build"), out);
    print_members("Loaded", json_object_get(run, "loaded"), out);
    fputs("<h3>Options</h3>\n<table><thead><tr><th class=t>option</th><th class=t>value</th><th "
          "class=t>from</th></tr></thead><tbody>\n",
          out);
    json_array_foreach(json_object_get(run, "options"), i, option)
    {
        fputs("<tr>", out);
        print_text(k3_get_text(option, "name"), "t", out);
        fputs("<td class=\"t wrap\">", out);
        print_value(json_object_get(option, "value"), out);
        fputs("</td>", out);
        print_text(k3_get_text(option, "origin"), "t", out);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table>\n</details>\n", out);
}

/* --- the page -------------------------------------------------------------------------------- */

static void print_record(const json_t *document, size_t number, FILE *out)
{
    const json_t *run = json_object_get(document, "run"), *launch = json_object_get(run, "launch");
    const json_t *cells = json_object_get(document, "cells"), *cell;
    size_t        i;

    fputs("<section>\n<h1>k3bench: run ", out);
    k3_html_text(k3_get_text(run, "id"), out);
    fputs("</h1>\n<p class=soft>", out);
    k3_html_format(out, "%lld ranks on %zu host(s), started %s, k3bench %s (%s)",
                   k3_get_int(launch, "ranks"), json_array_size(json_object_get(launch, "hosts")),
                   k3_get_text(run, "started_utc"), k3_get_text(run, "version"),
                   k3_get_text(run, "git_sha"));
    fputs("</p>\n", out);
    print_headline(document, out);
    print_cells(document, number, out);
    print_patterns(document, out);
    print_refused(document, out);
    k3_html_phases(cells, out);
    k3_html_samples(cells, out);
    k3_html_curves(cells, out);
    json_array_foreach(cells, i, cell)
    {
        k3_html_maps(cell, out);
    }
    print_origin(document, out);
    fputs("</section>\n", out);
}

void k3_report_html(json_t *const *documents, size_t count, FILE *out)
{
    fputs("<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n<meta name=viewport "
          "content=\"width=device-width, initial-scale=1\">\n<meta "
          "http-equiv=Content-Security-Policy "
          "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
          "img-src data:\">\n"
          "<link rel=icon href=\"data:,\">\n<title>k3bench report</title>\n<style>\n",
          out);
    fputs(k3_page_css, out);
    fputs("</style>\n</head>\n<body>\n", out);
    for (size_t i = 0; i < count; i++) {
        print_record(documents[i], i, out);
    }
    fputs("<script>\n", out);
    fputs(k3_page_js, out);
    fputs("</script>\n</body>\n</html>\n", out);
}
