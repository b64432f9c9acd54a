/* A comparison as text and as Markdown, from its document alone. */
#include <stdbool.h>
#include <string.h>

#include "bench/report/comparison.h"
#include "bench/report/fields.h"
#include "harness/base/text.h"

/* Blank where nothing is known, never 0. `digits` behind the point; a sign where it is a difference. */
static const char *number(const json_t *value, int digits, bool sign, char text[24])
{
    double x = json_number_value(value);

    text[0] = '\0';
    if (json_is_number(value) && sign) {
        snprintf(text, 24, "%+.*f", digits, x);
    } else if (json_is_number(value)) {
        snprintf(text, 24, "%.*f", digits, x);
    }
    return text;
}

/* Small probabilities need their digits in front. */
static const char *probability(const json_t *row, char text[24])
{
    const json_t *p = json_object_get(row, "p_family");

    text[0] = '\0';
    if (json_is_number(p)) {
        snprintf(text, 24, "%.3g", json_number_value(p));
    }
    return text;
}

static const char *percent(const json_t *row, char text[24])
{
    return number(json_object_get(row, "shift_pct"), 1, true, text);
}

/* The interval of the shift in percent of the base. */
static const char *interval(const json_t *row, char text[48])
{
    const json_t *ci = json_object_get(row, "ci95_pct");

    text[0] = '\0';
    if (json_is_array(ci)) {
        snprintf(text, 48, "%+.1f .. %+.1f", json_number_value(json_array_get(ci, 0)),
                 json_number_value(json_array_get(ci, 1)));
    }
    return text;
}

static const char *median(const json_t *row, const char *side, char text[24])
{
    return number(json_object_get(json_object_get(row, side), "median_us"), 1, false, text);
}

static long long launches(const json_t *row, const char *side)
{
    return (long long)json_integer_value(json_object_get(json_object_get(row, side), "launches"));
}

static bool between_backends(const json_t *document)
{
    return strcmp(k3_get_text(document, "compares"), "backends") == 0;
}

/* "deepep:ll over mooncake"; of cells of one backend, with what tells them apart. */
static const char *against(const json_t *row, char *text, size_t size)
{
    const char *base = k3_get_text(row, "base_label");

    snprintf(text, size, "%s%s%s", k3_get_text(row, "label"), base[0] != '\0' ? " over " : "",
             base);
    return text;
}

/* Members that some rows have in common with the whole. */
static void print_apart(const json_t *document, FILE *out)
{
    const json_t *idle = json_object_get(document, "not_judged"), *key, *row;
    size_t        i, apart = 0;

    if (json_array_size(idle) > 0) {
        fputs("not judged, because no row is moved:", out);
        json_array_foreach(idle, i, key)
        {
            const char *text = json_string_value(key);
            int         length = (int)strcspn(text, "/");
            const char *before = i > 0 ? json_string_value(json_array_get(idle, i - 1)) : "";

            if (strncmp(before, text, (size_t)length + 1) != 0) {
                fprintf(out, " %.*s", length, text);
            }
        }
        fprintf(out, " (%zu cell%s)\n", i, i == 1 ? "" : "s");
    }
    json_array_foreach(json_object_get(document, "cells"), i, row)
    {
        apart += json_is_false(json_object_get(row, "moves")) &&
                 json_is_number(json_object_get(row, "p"));
    }
    if (apart > 0) {
        fprintf(out, "%zu cell%s move%s no rows and say%s how the host did: a family of %s own\n",
                apart, apart == 1 ? "" : "s", apart == 1 ? "s" : "", apart == 1 ? "s" : "",
                apart == 1 ? "its" : "their");
    }
}

static void print_rule(const json_t *document, FILE *out)
{
    long long family = k3_get_int(document, "family");

    print_apart(document, out);
    if (json_is_true(json_object_get(document, "oversubscribed"))) {
        fputs(
            "oversubscribed: launches had more ranks than cores; the times show order, not speed\n",
            out);
    }
    fprintf(
        out,
        "times of phase %s (lower is better), median over launches; shift: the middle of the "
        "ratios\n(Hodges-Lehmann), with its 95 %% interval; p after Holm over %lld cell%s; a shift "
        "below %g %% is no finding\n",
        k3_get_text(document, "phase"), family, family == 1 ? "" : "s",
        json_number_value(json_object_get(document, "floor_pct")));
}

void k3_comparison_counts(const json_t *document, FILE *out)
{
    const json_t *counts = json_object_get(document, "verdicts");
    const char   *between = "";

    for (int v = 0; v < K3_VERDICT_COUNT; v++) {
        long long n = (long long)json_integer_value(json_object_get(counts, k3_verdict_names[v]));

        if (n > 0) {
            fprintf(out, "%s%lld %s", between, n, k3_verdict_names[v]);
            between = ", ";
        }
    }
    fprintf(out, "%s\n", between[0] == '\0' ? "no cells" : "");
}

/* --- text ------------------------------------------------------------------------------------ */

enum { SEGMENTS = 16, LINE = 120 };

/* The key's part number i: between the i-th and the next slash. */
static const char *segment(const char *key, int i, int *length)
{
    for (; i > 0 && *key != '\0'; i--) {
        key += strcspn(key, "/");
        key += *key == '/';
    }
    *length = (int)strcspn(key, "/");
    return key;
}

/* Which parts of the keys tell the cells apart. */
static void find_varying(const json_t *rows, bool *varies)
{
    const char   *first = k3_get_text(json_array_get(rows, 0), "key");
    const json_t *row;
    size_t        i;

    memset(varies, 0, SEGMENTS * sizeof(*varies));
    json_array_foreach(rows, i, row)
    {
        for (int s = 0; s < SEGMENTS; s++) {
            int         a, b;
            const char *x = segment(first, s, &a), *y = segment(k3_get_text(row, "key"), s, &b);

            varies[s] |= a != b || strncmp(x, y, (size_t)a) != 0;
        }
    }
}

/* The backend, and what else differs between the cells. */
static void print_name(const json_t *row, const bool *varies, FILE *out)
{
    int  length, used;
    char label[1100];

    if (varies == NULL) {
        fprintf(out, " %s", against(row, label, sizeof(label)));
        return;
    }
    used = fprintf(out, " %s", k3_get_text(row, "backend"));
    for (int s = 1; s < SEGMENTS; s++) {
        const char *part = segment(k3_get_text(row, "key"), s, &length);

        if (varies[s] && length > 0) {
            if (used + length > LINE - 78) {
                used = fprintf(out, "\n%12s", "") - 1;
            }
            used += fprintf(out, " %.*s", length, part);
        }
    }
}

/* What is said of a row below it; between sets in which all cells differ alike that is said once. */
static const char *const lines[] = {"differs", "reason", "note"};

static void print_row(const json_t *row, const bool *varies, bool differs, FILE *out)
{
    char base[24], fresh[24], shift[24], range[48], p[24];

    fprintf(out, "%-12s %10s %10s %8s %19s %8s %3lld/%-3lld", k3_get_text(row, "verdict"),
            median(row, "base", base), median(row, "new", fresh), percent(row, shift),
            interval(row, range), probability(row, p), launches(row, "base"), launches(row, "new"));
    print_name(row, varies, out);
    fputc('\n', out);
    for (size_t i = differs ? 0 : 1; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (k3_get_text(row, lines[i])[0] != '\0') {
            fprintf(out, "%12s %s\n", "", k3_get_text(row, lines[i]));
        }
    }
}

void k3_comparison_rows_text(const json_t *rows, bool backends, bool differs, FILE *out)
{
    const json_t *row;
    bool          varies[SEGMENTS];
    const char   *work = "";
    size_t        i;

    find_varying(rows, varies);
    fprintf(out, "%-12s %10s %10s %8s %19s %8s %7s %s\n", "verdict", "base us", "new us", "shift %",
            "95 % interval", "p", "n", backends ? "backend" : "cell");
    json_array_foreach(rows, i, row)
    {
        if (backends && strcmp(work, k3_get_text(row, "work")) != 0) {
            work = k3_get_text(row, "work");
            fprintf(out, "%s\n", work);
        }
        print_row(row, backends ? NULL : varies, differs, out);
    }
}

/* The options in which all cells of the two sets differ alike. */
static bool print_difference(const json_t *document, const char *end, FILE *out)
{
    const char *differs = k3_get_text(document, "differs");

    if (differs[0] != '\0') {
        fprintf(out, "base and new differ in: %s%s", differs, end);
    }
    return differs[0] != '\0';
}

void k3_comparison_text(const json_t *document, FILE *out)
{
    bool said = print_difference(document, "\n", out);

    k3_comparison_rows_text(json_object_get(document, "cells"), between_backends(document), !said,
                            out);
    k3_comparison_counts(document, out);
    print_rule(document, out);
}

/* --- Markdown -------------------------------------------------------------------------------- */

/* A bar would end a column. */
static void print_cell(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        fprintf(out, *text == '|' ? "\\%c" : "%c", *text);
    }
    fputs(" |", out);
}

/* Reason and note, and what differs. */
static void print_lines(const json_t *row, bool differs, FILE *out)
{
    const char *between = "";
    char        text[1024];
    size_t      used = 0;

    text[0] = '\0';
    for (size_t i = differs ? 0 : 1; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const char *line = k3_get_text(row, lines[i]);

        if (line[0] != '\0') {
            used = k3_append(text, sizeof(text), used, "%s%s", between, line);
            between = "; ";
        }
    }
    print_cell(text, out);
}

void k3_comparison_rows_markdown(const json_t *rows, bool backends, bool differs, FILE *out)
{
    const json_t *row;
    size_t        i;

    fprintf(
        out,
        "| verdict | %s | base us | new us | shift %% | 95 %% interval | p | launches | reason |\n"
        "|%s---|---|---:|---:|---:|---|---:|---|---|\n",
        backends ? "backend over base | work" : "cell", backends ? "---|" : "");

    json_array_foreach(rows, i, row)
    {
        char base[24], fresh[24], shift[24], range[48], p[24], label[1100];

        fprintf(out, "| %s | ", k3_get_text(row, "verdict"));
        if (backends) {
            print_cell(against(row, label, sizeof(label)), out);
            fputs(" ", out);
            print_cell(k3_get_text(row, "work"), out);
        } else {
            print_cell(k3_get_text(row, "key"), out);
        }
        fprintf(out, " %s | %s | %s | %s | %s | %lld/%lld | ", median(row, "base", base),
                median(row, "new", fresh), percent(row, shift), interval(row, range),
                probability(row, p), launches(row, "base"), launches(row, "new"));
        print_lines(row, differs, out);
        fputs("\n", out);
    }
}

void k3_comparison_markdown(const json_t *document, FILE *out)
{
    bool said = print_difference(document, "\n\n", out);

    k3_comparison_rows_markdown(json_object_get(document, "cells"), between_backends(document),
                                !said, out);
    fputs("\n", out);
    k3_comparison_counts(document, out);
    fputs("\n", out);
    print_rule(document, out);
}
