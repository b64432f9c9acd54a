/* What the files of the HTML report share.
 *
 * A picture is an SVG in a <figure>, followed by its numbers as tab-separated text that is folded; the
 * script of the page makes a table of them when they are opened, and looks the numbers of heat maps up
 * there. What the pointer shows stands in the attribute data-tip. */
#ifndef K3_REPORT_HTML_INTERNAL_H
#define K3_REPORT_HTML_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* --- html_text.c: texts ----------------------------------------------------------------------- */

/* Text of a record in an element or a quoted attribute: it may hold markup. */
void k3_html_text(const char *text, FILE *out);

/* printf into text: what is formatted is escaped as a whole. */
__attribute__((format(printf, 2, 3))) void k3_html_format(FILE *out, const char *format, ...);

/* Microseconds with the digits that matter, without a unit: "4.13", "1371", "1.2e+07". */
const char *k3_html_us(double us, char text[32]);

/* <td class="...">text</td> */
void k3_html_td(const char *text, const char *class, FILE *out);

/* Five digits, or all in front of the point: a reader looks for order and size, the record has the rest. */
void k3_html_real(double value, FILE *out);

/* A number of a record; NULL and null: nothing. */
void k3_html_number(const json_t *value, FILE *out);

/* --- html_axes.c: pictures -------------------------------------------------------------------- */

enum {
    K3_PICTURE_WIDTH = 1000,
    K3_PICTURE_LEFT = 230,
    K3_PICTURE_RIGHT = 20,
    K3_PICTURE_FOOT = 34
};

/* `kind` is a word for scripts, `name` says what is seen. */
void k3_picture_open(const char *kind, double width, double height, const char *name, FILE *out);
void k3_picture_numbers(FILE *out); /* ends the drawing; what follows are its numbers */
void k3_picture_close(FILE *out);

typedef struct k3_axis {
    double low, high;  /* of the data, widened to ticks */
    double from, to;   /* where these lie in the picture */
    bool   log, whole; /* whole: ticks at whole numbers */
} k3_axis_t;

k3_axis_t k3_axis_linear(double high, double from, double to);
k3_axis_t k3_axis_log(double low, double high, double from, double to);
double    k3_axis_at(const k3_axis_t *axis, double value);
/* Grid, ticks and unit of an axis that runs along the bottom, or up at the left. */
void k3_axis_bottom(const k3_axis_t *axis, double top, double bottom, const char *unit, FILE *out);
void k3_axis_left(const k3_axis_t *axis, double left, double right, const char *unit, FILE *out);

/* A cell's name left of its row. */
void k3_picture_row(const json_t *cell, double y, FILE *out);

/* Colours of the phases by kind; what they stand for. */
enum { K3_PHASE_COLOURS = 8 };
int  k3_phase_colour(int phase);
void k3_phase_colours(FILE *out);

/* --- parts of the page ------------------------------------------------------------------------- */

void k3_html_headline(const json_t *document, FILE *out);
void k3_html_cells(const json_t *document, size_t number, FILE *out);
void k3_html_refused(const json_t *document, FILE *out);
void k3_html_origin(const json_t *document, FILE *out);

void k3_html_phases(const json_t *cells, FILE *out);  /* medians of the parts, one bar a cell */
void k3_html_samples(const json_t *cells, FILE *out); /* every iteration and the interval */
void k3_html_balance(const json_t *cells, FILE *out); /* imbalance */
void k3_html_lanes(const json_t *cell, FILE *out);    /* the slowest lanes */

/* Of one cell; pages with many cells draw fewer rows and columns of each. */
void k3_html_maps(const json_t *cell, int side, FILE *out);
void k3_html_timeline(const json_t *cell, int ranks, FILE *out);

/* Over the cells of all records: time over rows and over EP size where there are several; and over
 * launches in order of their start. */
void k3_html_curves(json_t *const *documents, size_t count, FILE *out);
void k3_html_history(json_t *const *documents, size_t count, FILE *out);

/* Where there are several records: the launches, the verdicts, times over launches. `first`: records of
 * the base; `count`: backend against backend. */
void k3_html_across(json_t *const *documents, size_t count, size_t first, FILE *out);

#endif
