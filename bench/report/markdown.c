#include "bench/report/markdown.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench/plan/phase.h"
#include "bench/report/cellview.h"
#include "bench/report/doubts.h"
#include "bench/report/fastest.h"
#include "bench/report/fields.h"
#include "bench/report/limits.h"
#include "bench/report/plain.h"

/* How much is written: cells of a record, folded parts or not. */
typedef struct extent {
    size_t cells;
    bool   folded;
} extent_t;

/* Text from a record is not markup, stays on its line, links nowhere and calls nobody. */
static void put_text(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (strchr("|<>`*_[]\\&~$", *text) != NULL || strncmp(text, "://", 3) == 0) {
            fputc('\\', out);
        }
        fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
        fputs(*text == '@' ? "<!-- -->" : "", out);
    }
}

static void put_backend(const json_t *cell, FILE *out)
{
    char backend[96];

    put_text(k3_cell_backend(cell, backend, sizeof(backend)), out);
}

/* Where no line of a table says which cell of the backend is meant. */
static void put_name(const json_t *cells, const json_t *cell, FILE *out)
{
    char name[96];

    put_text(k3_cell_name(cells, cell, name, sizeof(name)), out);
}

/* `decimals` < 0: four digits. */
static void put_number(const json_t *value, int decimals, FILE *out)
{
    char text[K3_PLAIN];

    if (json_is_number(value) && decimals >= 0) {
        fprintf(out, "%.*f ", decimals, json_number_value(value));
    } else if (json_is_number(value)) {
        fprintf(out, "%s ", k3_plain(json_number_value(value), 4, text));
    }
}

/* --- the table of a record -------------------------------------------------------------------- */

static void put_time(const json_t *cell, const char *phase, FILE *out)
{
    fputs(" ", out);
    put_number(json_object_get(k3_cell_phase(cell, phase), "median"), 1, out);
    fputs("|", out);
}

static void put_interval(const json_t *cell, FILE *out)
{
    double low, high;

    if (k3_cell_interval(cell, &low, &high)) {
        fprintf(out, " %.1f to %.1f", low, high);
    }
    fputs(" |", out);
}

/* A dash for what was left to its default; blank when nothing is known. */
static void put_layout(const json_t *layout, FILE *out)
{
    static const char *const names[] = {"tp", "dp", "ep"};
    bool                     known = false;

    for (int i = 0; i < 3; i++) {
        known = known || json_is_integer(json_object_get(layout, names[i]));
    }
    for (int i = 0; i < 3 && known; i++) {
        const json_t *size = json_object_get(layout, names[i]);

        fputs(i > 0 ? "/" : "", out);
        if (json_is_integer(size)) {
            fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(size));
        } else {
            fputc('-', out);
        }
    }
}

/* Rows, results, runner. */
static void put_formats(const json_t *cell, FILE *out)
{
    const json_t *choices = json_object_get(cell, "choices");

    fputs(" ", out);
    put_text(k3_get_text(choices, "dispatch_dtype"), out);
    fputs(" | ", out);
    put_text(k3_get_text(choices, "combine_dtype"), out);
    fputs(" | ", out);
    put_text(k3_get_text(json_object_get(choices, "recipe"), "runner"), out);
    fputs(" |", out);
}

static void put_cell(const json_t *cells, const json_t *cell, FILE *out)
{
    const json_t *asked = json_object_get(json_object_get(cell, "tokens"), "asked");
    const json_t *ratio = json_object_get(json_object_get(cell, "work"), "dispatch_ratio");
    const char   *mark = k3_is_fastest(cells, cell) ? "**" : "";

    fprintf(out, "| %s", mark);
    put_backend(cell, out);
    fprintf(out, "%s | ", mark);
    put_text(k3_get_text(json_object_get(cell, "model"), "name"), out);
    fputs(" | ", out);
    put_layout(json_object_get(cell, "layout"), out);
    fputs(" | ", out);
    if (json_is_integer(asked)) {
        fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(asked));
    }
    fputs(" | ", out);
    put_number(ratio, 2, out);
    fputs("|", out);
    put_time(cell, "dispatch", out);
    put_time(cell, "expert_mlp", out);
    put_time(cell, "combine", out);
    put_time(cell, k3_cell_headline(cell), out);
    put_interval(cell, out);
    put_formats(cell, out);
    fputs(" ", out);
    put_text(k3_get_text(cell, "status"), out);
    fputs(" | ", out);
    put_text(k3_get_text(json_object_get(cell, "check"), "state"), out);
    fputs(" |\n", out);
}

/* --- what stands out -------------------------------------------------------------------------- */

/* Why a cell that is apart is not bold, or what else than its backend may have made it so. */
static void put_fastest(const json_t *cells, const json_t *cell, FILE *out)
{
    k3_fastest_t f;
    char         text[240], label[96];
    bool         doubted, differs;

    k3_fastest(cells, cell, &f);
    doubted = k3_fastest_doubt(&f, text, sizeof(text));
    differs = !doubted && k3_fastest_differs(cell, &f, text, sizeof(text));
    if (doubted || differs) {
        fputs("- ", out);
        put_text(k3_cell_label(cell, label, sizeof(label)), out);
        fputs(
            doubted
                ? " is the fastest by its time, but the machine changed its speed in this launch: "
                : " is the fastest, but it and the next differ in more than the backend: ",
            out);
        put_text(text, out);
        fputs("\n", out);
    }
}

static void put_status(const json_t *cells, const json_t *cell, FILE *out)
{
    if (strcmp(k3_get_text(cell, "status"), "ok") != 0) {
        fputs("- ", out);
        put_name(cells, cell, out);
        fputs(" ", out);
        put_text(k3_get_text(cell, "status"), out);
        fputs(": ", out);
        put_text(k3_get_text(cell, "reason"), out);
        fputs("\n", out);
    }
}

/* Who holds the cell back, with the evidence. */
static void put_pattern(const json_t *cells, const json_t *cell, FILE *out)
{
    const json_t *pattern = json_object_get(cell, "pattern");

    if (json_is_object(pattern) && strcmp(k3_get_text(pattern, "name"), "none") != 0) {
        fputs("- ", out);
        put_name(cells, cell, out);
        fputs(" ", out);
        put_text(k3_get_text(pattern, "text"), out);
        fputs("\n", out);
    }
}

/* How near each phase comes to what the machine allows. */
static void put_limits(const json_t *cells, const json_t *cell, FILE *out)
{
    char   text[256];
    size_t i;

    for (i = 0; k3_limits_text(cell, i, text, sizeof(text)); i++) {
        fputs(i == 0 ? "- " : "; ", out);
        if (i == 0) {
            put_name(cells, cell, out);
            fputs(": ", out);
        }
        put_text(text, out);
    }
    fputs(i > 0 ? "\n" : "", out);
}

static void put_doubts(const json_t *cells, const json_t *cell, FILE *out)
{
    k3_doubts_t doubts;

    k3_doubts(cell, &doubts);
    for (size_t i = 0; i < doubts.count; i++) {
        fputs(i == 0 ? "- " : "; ", out);
        if (i == 0) {
            put_name(cells, cell, out);
            fputs(": ", out);
        }
        put_text(doubts.text[i], out);
    }
    fputs(doubts.count > 0 ? "\n" : "", out);
}

/* --- folded ----------------------------------------------------------------------------------- */

static void fold(const char *title, FILE *out)
{
    fprintf(out, "\n<details><summary>%s</summary>\n\n", title);
}

static void unfold(FILE *out)
{
    fputs("\n</details>\n", out);
}

/* What the machine file allows; blank where it says nothing. */
static void put_limit(const json_t *limit, FILE *out)
{
    const json_t *efficiency = json_object_get(limit, "efficiency");
    char          text[K3_PLAIN];

    fputs("| ", out);
    put_number(json_object_get(limit, "limit_us"), -1, out);
    fputs("| ", out);
    if (json_is_number(efficiency)) {
        fprintf(out, "%s ", k3_plain(100.0 * json_number_value(efficiency), 2, text));
    }
    fputs("| ", out);
    put_text(k3_get_text(limit, "limited_by"), out);
    fputs(" ", out);
}

static void put_phases(const json_t *cells, size_t most, FILE *out)
{
    char label[96];

    fold("All phases, us: median and 95 % interval", out);
    fputs("| cell | phase | median | low | high | p99 | slowest rank | limit | % of it | by |\n"
          "|---|---|---:|---:|---:|---:|---:|---:|---:|---|\n",
          out);
    for (size_t i = 0; i < json_array_size(cells) && i < most; i++) {
        const json_t *cell = json_array_get(cells, i);

        for (int p = 0; p < K3_PHASE_COUNT; p++) {
            const json_t *phase = k3_cell_phase(cell, k3_phase_names[p]);
            const json_t *ci = json_object_get(phase, "ci95");

            if (phase == NULL) {
                continue;
            }
            fputs("| ", out);
            put_text(k3_cell_label(cell, label, sizeof(label)), out);
            fprintf(out, " | `%s` | ", k3_phase_names[p]);
            put_number(json_object_get(phase, "median"), -1, out);
            fputs("| ", out);
            put_number(json_array_get(ci, 0), -1, out);
            fputs("| ", out);
            put_number(json_array_get(ci, 1), -1, out);
            fputs("| ", out);
            put_number(json_object_get(phase, "p99"), -1, out);
            fputs(json_is_true(json_object_get(phase, "p99_is_max")) ? "(max) " : "", out);
            fputs("| ", out);
            put_number(json_object_get(phase, "slowest_rank"), 0, out);
            put_limit(k3_limits_of(cell, k3_phase_names[p]), out);
            fputs("|\n", out);
        }
    }
    unfold(out);
}

static void put_lanes(const json_t *cells, size_t most, FILE *out)
{
    char label[96];

    fold("Slowest queue pair of each cell", out);
    fputs(
        "| cell | phase | source | destination | QP | lane | busy us | messages | p50 us | p99 us "
        "| max us |\n|---|---|---:|---:|---:|---|---:|---:|---:|---:|---:|\n",
        out);
    for (size_t i = 0; i < json_array_size(cells) && i < most; i++) {
        const json_t *cell = json_array_get(cells, i), *worst;
        k3_lanes_t    l;

        k3_lanes_of(cell, &l);
        worst = k3_lanes_slowest(&l);
        if (worst == NULL) {
            continue;
        }
        fputs("| ", out);
        put_text(k3_cell_label(cell, label, sizeof(label)), out);
        fputs(" | ", out);
        put_text(k3_field_text(worst, l.phase), out);
        fprintf(out, " | %lld | %lld | %lld | ", k3_field_int(worst, l.src),
                k3_field_int(worst, l.dst), k3_field_int(worst, l.qp));
        put_text(k3_field_text(worst, l.lane), out);
        fputs(" | ", out);
        put_number(k3_field(worst, l.busy_us), -1, out);
        fprintf(out, "| %lld | ", k3_field_int(worst, l.messages));
        put_number(k3_field(worst, l.p50_us), -1, out);
        fputs("| ", out);
        put_number(k3_field(worst, l.p99_us), -1, out);
        fputs("| ", out);
        put_number(k3_field(worst, l.max_us), -1, out);
        fputs("|\n", out);
    }
    unfold(out);
}

static void put_origin(const json_t *document, FILE *out)
{
    const json_t *run = json_object_get(document, "run"), *option;
    const json_t *stable = json_object_get(json_object_get(document, "fingerprint"), "stable");
    char         *machine = json_dumps(stable, JSON_REAL_PRECISION(9));
    size_t        i;

    fold("Machine, and options that are not at their defaults", out);
    fputs("Machine: ", out);
    put_text(machine != NULL ? machine : "", out);
    fputs("\n\n| option | value | from |\n|---|---|---|\n", out);
    json_array_foreach(json_object_get(run, "options"), i, option)
    {
        if (strcmp(k3_get_text(option, "origin"), "default") != 0) {
            fputs("| ", out);
            put_text(k3_get_text(option, "name"), out);
            fputs(" | ", out);
            put_text(k3_get_text(option, "value"), out);
            fputs(" | ", out);
            put_text(k3_get_text(option, "origin"), out);
            fputs(" |\n", out);
        }
    }
    unfold(out);
    free(machine);
}

/* --- a record --------------------------------------------------------------------------------- */

/* What the tables mean is said once, above the first. */
static void put_meaning(FILE *out)
{
    fputs("Times in us: median over iterations of the slowest rank. Total: the region, or the "
          "component that was asked for. Bold: the fastest of its work in this launch, its "
          "interval below all others' on a machine that kept its speed.\n\n",
          out);
}

static void put_head(const json_t *document, FILE *out)
{
    const json_t *run = json_object_get(document, "run");
    char          name[K3_RECORD_NAME], busy[160];

    fputs("### ", out);
    put_text(k3_record_name(document, name, sizeof(name)), out);
    fputs(name[0] != '\0' ? ": run " : "run ", out);
    put_text(k3_get_text(run, "id"), out);
    fputs("\n\nk3bench ", out);
    put_text(k3_get_text(run, "version"), out);
    fputs(" (", out);
    put_text(k3_get_text(run, "git_sha"), out);
    fprintf(out, "), %lld ranks, started ", k3_get_int(json_object_get(run, "launch"), "ranks"));
    put_text(k3_get_text(run, "started_utc"), out);
    fputs(".\n\n", out);
    if (json_is_true(json_object_get(json_object_get(document, "topology"), "oversubscribed"))) {
        fputs("**More ranks than cores: the times show order, not speed.**\n\n", out);
    }
    if (k3_busy_doubt(document, busy, sizeof(busy))) {
        fprintf(out, "**%s**\n\n", busy);
    }
}

static void put_record(const json_t *document, extent_t extent, FILE *out)
{
    const json_t *cells = json_object_get(document, "cells");
    size_t        n = json_array_size(cells), most = n < extent.cells ? n : extent.cells;

    put_head(document, out);
    fputs("| backend | model | tp/dp/ep | rows a rank | dispatch ratio | dispatch | experts | "
          "combine | total | 95 % interval | rows | results | runner | status | check |\n"
          "|---|---|---|---:|---:|---:|---:|---:|---:|---|---|---|---|---|---|\n",
          out);
    for (size_t i = 0; i < most; i++) {
        put_cell(cells, json_array_get(cells, i), out);
    }
    fputs("\n", out);
    if (most < n) {
        fprintf(out, "%zu more cells are left out: a comment has no room for them.\n\n", n - most);
    }
    for (size_t i = 0; i < most; i++) {
        const json_t *cell = json_array_get(cells, i);

        put_fastest(cells, cell, out);
        put_status(cells, cell, out);
        put_pattern(cells, cell, out);
        put_limits(cells, cell, out);
        put_doubts(cells, cell, out);
    }
    if (extent.folded) {
        put_phases(cells, most, out);
        put_lanes(cells, most, out);
        put_origin(document, out);
    }
}

static char *text_of(json_t *const *documents, size_t count, size_t records, extent_t extent)
{
    char  *text = NULL;
    size_t size;
    FILE  *memory = open_memstream(&text, &size);

    if (memory == NULL) {
        return NULL;
    }
    put_meaning(memory);
    for (size_t d = 0; d < records; d++) {
        fputs(d > 0 ? "\n" : "", memory);
        put_record(documents[d], extent, memory);
    }
    if (records < count) {
        fprintf(memory, "\n%zu more records are left out.\n", count - records);
    }
    if (!extent.folded) {
        fputs("\nPhases, lanes and options are left out: a comment has no room for them.\n",
              memory);
    }
    fclose(memory);
    return text;
}

static bool fits(const char *text)
{
    return text == NULL || strlen(text) <= K3_MARKDOWN_MOST;
}

void k3_report_markdown(json_t *const *documents, size_t count, FILE *out)
{
    extent_t extent = {.cells = SIZE_MAX, .folded = true};
    size_t   records = count;
    char    *text = text_of(documents, count, records, extent);

    while (!fits(text) && (extent.folded || extent.cells > 1 || records > 1)) {
        if (extent.folded) {
            extent.folded = false;
        } else if (extent.cells > 8) {
            extent.cells = extent.cells > 1024 ? 1024 : extent.cells / 2;
        } else if (records > 1) {
            records /= 2;
        } else {
            extent.cells /= 2;
        }
        free(text);
        text = text_of(documents, count, records, extent);
    }
    if (fits(text) && text != NULL) {
        fputs(text, out);
    } else {
        fputs("The record has texts that no comment has room for.\n", out);
    }
    free(text);
}
