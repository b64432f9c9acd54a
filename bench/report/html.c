#include "bench/report/html.h"

#include <math.h>

#include "bench/report/cellview.h"
#include "bench/report/fields.h"
#include "bench/report/html_internal.h"

/* The style and the script, from bench/report/page; NUL-terminated. */
extern const char k3_page_css[], k3_page_js[];

/* A page stays below 5 MB: rows and columns of heat maps and ranks of timelines, over all cells. About
 * 12 bytes a square and 10 maps a cell; about 2 kB a rank. */
enum { SIDE = 64, SIDE_LEAST = 8, SQUARES = 25000, RANKS = 400 };

static int clamp(double value)
{
    return (int)fmin(fmax(value, SIDE_LEAST), SIDE);
}

static size_t count_cells(json_t *const *documents, size_t count)
{
    size_t cells = 0;

    for (size_t d = 0; d < count; d++) {
        cells += k3_cells_measured(json_object_get(documents[d], "cells"));
    }
    return cells > 0 ? cells : 1;
}

/* `cells`: of all records of the page. */
static void print_details(const json_t *document, size_t cells, FILE *out)
{
    const json_t *list = json_object_get(document, "cells"), *cell;
    size_t        i;

    if (k3_cells_measured(list) == 0) {
        return;
    }
    fputs("<h2>Cell by cell</h2>\n", out);
    k3_phase_colours(out);
    json_array_foreach(list, i, cell)
    {
        if (k3_cell_measured(cell)) {
            k3_html_timeline(cell, clamp((double)RANKS / (double)cells), out);
            k3_html_maps(cell, clamp(sqrt((double)SQUARES / (double)cells)), out);
        }
    }
}

static void print_record(json_t *document, size_t number, size_t cells, bool alone, FILE *out)
{
    const json_t *run = json_object_get(document, "run"), *launch = json_object_get(run, "launch");
    const json_t *list = json_object_get(document, "cells");

    fputs("<section>\n<h1>k3bench: run ", out);
    k3_html_text(k3_get_text(run, "id"), out);
    fputs("</h1>\n<p class=soft>", out);
    k3_html_format(out, "%lld ranks on %zu host(s), started %s, k3bench %s (%s)",
                   k3_get_int(launch, "ranks"), json_array_size(json_object_get(launch, "hosts")),
                   k3_get_text(run, "started_utc"), k3_get_text(run, "version"),
                   k3_get_text(run, "git_sha"));
    fputs("</p>\n", out);
    k3_html_headline(document, out);
    k3_html_cells(document, number, out);
    k3_html_refused(document, out);
    k3_html_phases(list, out);
    k3_html_samples(list, out);
    k3_html_balance(list, out);
    if (alone) {
        k3_html_curves(&document, 1, out);
    }
    print_details(document, cells, out);
    k3_html_origin(document, out);
    fputs("</section>\n", out);
}

void k3_report_html(json_t *const *documents, size_t count, size_t first, FILE *out)
{
    size_t cells = count_cells(documents, count);

    fputs("<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n<meta name=viewport "
          "content=\"width=device-width, initial-scale=1\">\n<meta "
          "http-equiv=Content-Security-Policy "
          "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
          "img-src data:\">\n"
          "<link rel=icon href=\"data:,\">\n<title>k3bench report</title>\n<style>\n",
          out);
    fputs(k3_page_css, out);
    fputs("</style>\n</head>\n<body>\n", out);
    if (count > 1) {
        k3_html_across(documents, count, first, out);
    }
    for (size_t i = 0; i < count; i++) {
        print_record(documents[i], i, cells, count == 1, out);
    }
    fputs("<div id=tip role=status hidden></div>\n<script>\n", out);
    fputs(k3_page_js, out);
    fputs("</script>\n</body>\n</html>\n", out);
}
