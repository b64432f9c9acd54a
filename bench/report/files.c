#include "bench/report/files.h"

#include <string.h>

#include "bench/plan/phase.h"
#include "bench/report/cellview.h"
#include "bench/report/doubts.h"
#include "bench/report/fields.h"

/* --- CSV (RFC 4180) -------------------------------------------------------------------------- */

static void csv_text(const char *text, FILE *out)
{
    if (strpbrk(text, ",\"\n\r") == NULL) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            fputc('"', out);
        }
        fputc(*text, out);
    }
    fputc('"', out);
}

/* Null stays an empty field. */
static void csv_value(const json_t *value, FILE *out)
{
    if (json_is_string(value)) {
        csv_text(json_string_value(value), out);
    } else if (json_is_integer(value)) {
        fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (json_is_real(value)) {
        fprintf(out, "%.9g", json_real_value(value));
    } else if (json_is_boolean(value)) {
        fputs(json_is_true(value) ? "true" : "false", out);
    }
}

/* Columns: name and path inside a cell. */
enum { COLUMN_TEXTS = 4 };

static const char *const cell_columns[][COLUMN_TEXTS] = {
    {"backend", "backend", NULL},
    {"mode", "mode", NULL},
    {"generation", "generation", NULL},
    {"component", "component", NULL},
    {"model", "model", "name"},
    {"tp", "layout", "tp"},
    {"dp", "layout", "dp"},
    {"cp", "layout", "cp"},
    {"ep", "layout", "ep"},
    {"attn_tp", "layout", "attn_tp"},
    {"moe_tp", "layout", "moe_tp"},
    {"nodes", "layout", "nodes"},
    {"path_rule", "path", "rule"},
    {"path_fast", "path", "fast"},
    {"tokens", "tokens", "asked"},
    {"tokens_min", "tokens", "min"},
    {"tokens_max", "tokens", "max"},
    {"tokens_total", "tokens", "total"},
    {"max_tokens", "tokens", "bound"},
    {"tokens_skew", "choices", "tokens_skew"},
    {"routing", "choices", "routing"},
    {"seed", "choices", "seed"},
    {"runner", "choices", "recipe", "runner"},
    {"dispatch_dtype", "choices", "dispatch_dtype"},
    {"combine_dtype", "choices", "combine_dtype"},
    {"qps_per_peer", "choices", "qps_per_peer"},
    {"fabric", "choices", "fabric"},
    {"p2p", "choices", "p2p"},
    {"status", "status", NULL},
    {"reason", "reason", NULL},
    {"check", "check", "state"},
    {"max_rel_err", "check", "max_rel_err"},
    {"rows_global", "work", "rows_global"},
    {"rows_dispatched", "work", "rows_dispatched"},
    {"dispatch_ratio", "work", "dispatch_ratio"},
    {"routing_hash", "work", "routing_hash"},
    {"buffers_bytes", "memory", "buffers_bytes"},
    {"sync", "sync", "method"},
    {"late_starts", "sync", "late"},
    {"stationary", "trend", "stationary"},
    {"slope_pct", "trend", "slope_pct"},
    {"accounts_pct", "instrument", "difference_pct"},
};

enum { CELL_COLUMNS = sizeof(cell_columns) / sizeof(cell_columns[0]) };

static void csv_head(FILE *out)
{
    fputs("run_id,host,key", out);
    for (int c = 0; c < CELL_COLUMNS; c++) {
        fprintf(out, ",%s", cell_columns[c][0]);
    }
    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        fprintf(out, ",%s_us,%s_ci_low_us,%s_ci_high_us", k3_phase_names[p], k3_phase_names[p],
                k3_phase_names[p]);
    }
    fputs("\r\n", out);
}

static void csv_cell(const json_t *run, const json_t *cell, FILE *out)
{
    csv_text(k3_get_text(run, "id"), out);
    fputc(',', out);
    csv_value(json_array_get(json_object_get(json_object_get(run, "launch"), "hosts"), 0), out);
    fputc(',', out);
    csv_value(json_object_get(cell, "key"), out);
    for (int c = 0; c < CELL_COLUMNS; c++) {
        const json_t *value = cell;

        for (int step = 1; step < COLUMN_TEXTS && cell_columns[c][step] != NULL; step++) {
            value = json_object_get(value, cell_columns[c][step]);
        }
        fputc(',', out);
        csv_value(value, out);
    }
    for (int p = 0; p < K3_PHASE_COUNT; p++) {
        const json_t *phase = k3_cell_phase(cell, k3_phase_names[p]);
        const json_t *ci = json_object_get(phase, "ci95");

        fputc(',', out);
        csv_value(json_object_get(phase, "median"), out);
        fputc(',', out);
        csv_value(json_array_get(ci, 0), out);
        fputc(',', out);
        csv_value(json_array_get(ci, 1), out);
    }
    fputs("\r\n", out);
}

void k3_report_csv(json_t *const *documents, size_t count, FILE *out)
{
    csv_head(out);
    for (size_t d = 0; d < count; d++) {
        const json_t *cells = json_object_get(documents[d], "cells");

        for (size_t i = 0; i < json_array_size(cells); i++) {
            csv_cell(json_object_get(documents[d], "run"), json_array_get(cells, i), out);
        }
    }
}

/* --- Markdown -------------------------------------------------------------------------------- */

/* Text from a record is not markup, and stays on its line. */
static void md_text(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (strchr("|<>`*_[]\\&~$", *text) != NULL) {
            fputc('\\', out);
        }
        fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
    }
}

static void md_time(const json_t *cell, const char *phase, FILE *out)
{
    double us;

    if (k3_cell_median(cell, phase, &us)) {
        fprintf(out, " %.1f |", us);
    } else {
        fputs(" |", out);
    }
}

/* A dash for what was left to its default; blank when nothing is known. */
static void md_layout(const json_t *layout, FILE *out)
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

static void md_cell(const json_t *cell, FILE *out)
{
    const json_t *asked = json_object_get(json_object_get(cell, "tokens"), "asked");
    const json_t *ratio = json_object_get(json_object_get(cell, "work"), "dispatch_ratio");
    char          backend[32];

    fputs("| ", out);
    md_text(k3_cell_backend(cell, backend, sizeof(backend)), out);
    fputs(" | ", out);
    md_text(k3_get_text(json_object_get(cell, "model"), "name"), out);
    fputs(" | ", out);
    md_layout(json_object_get(cell, "layout"), out);
    fputs(" | ", out);
    csv_value(asked, out);
    fputs(" |", out);
    if (json_is_number(ratio)) {
        fprintf(out, " %.2f |", json_number_value(ratio));
    } else {
        fputs(" |", out);
    }
    md_time(cell, "dispatch", out);
    md_time(cell, "expert_mlp", out);
    md_time(cell, "combine", out);
    md_time(cell, "region", out);
    fputs(" ", out);
    md_text(k3_get_text(cell, "status"), out);
    fputs(" | ", out);
    md_text(k3_get_text(json_object_get(cell, "check"), "state"), out);
    fputs(" |\n", out);
}

/* Who holds the cell back, with the evidence. */
static void md_pattern(const json_t *cell, FILE *out)
{
    const json_t *pattern = json_object_get(cell, "pattern");
    char          backend[32];

    if (json_is_object(pattern) && strcmp(k3_get_text(pattern, "name"), "none") != 0) {
        fputs("- ", out);
        md_text(k3_cell_backend(cell, backend, sizeof(backend)), out);
        fputs(" ", out);
        md_text(k3_get_text(pattern, "text"), out);
        fputs("\n", out);
    }
}

static void md_doubts(const json_t *cell, FILE *out)
{
    k3_doubts_t doubts;
    char        backend[32];

    k3_doubts(cell, &doubts);
    for (size_t i = 0; i < doubts.count; i++) {
        fputs(i == 0 ? "- " : "; ", out);
        if (i == 0) {
            md_text(k3_cell_backend(cell, backend, sizeof(backend)), out);
            fputs(": ", out);
        }
        md_text(doubts.text[i], out);
    }
    fputs(doubts.count > 0 ? "\n" : "", out);
}

static void md_record(const json_t *document, FILE *out)
{
    const json_t *run = json_object_get(document, "run"),
                 *cells = json_object_get(document, "cells");

    fputs("### run ", out);
    md_text(k3_get_text(run, "id"), out);
    fputs("\n\nk3bench ", out);
    md_text(k3_get_text(run, "version"), out);
    fputs(" (", out);
    md_text(k3_get_text(run, "git_sha"), out);
    fprintf(
        out, "), %lld ranks, started ",
        (long long)json_integer_value(json_object_get(json_object_get(run, "launch"), "ranks")));
    md_text(k3_get_text(run, "started_utc"), out);
    fputs(". Times in us: median over iterations of the slowest rank.\n\n", out);
    if (json_is_true(json_object_get(json_object_get(document, "topology"), "oversubscribed"))) {
        fputs("**More ranks than cores: the times show order, not speed.**\n\n", out);
    }
    fputs("| backend | model | tp/dp/ep | rows a rank | dispatch ratio | dispatch | experts | "
          "combine | region | status | check |\n",
          out);
    fputs("|---|---|---|---:|---:|---:|---:|---:|---:|---|---|\n", out);
    for (size_t i = 0; i < json_array_size(cells); i++) {
        md_cell(json_array_get(cells, i), out);
    }
    fputs("\n", out);
    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *cell = json_array_get(cells, i);

        if (strcmp(k3_get_text(cell, "status"), "ok") != 0) {
            char backend[32];

            fputs("- ", out);
            md_text(k3_cell_backend(cell, backend, sizeof(backend)), out);
            fputs(" ", out);
            md_text(k3_get_text(cell, "status"), out);
            fputs(": ", out);
            md_text(k3_get_text(cell, "reason"), out);
            fputs("\n", out);
        }
        md_pattern(cell, out);
        md_doubts(cell, out);
    }
}

void k3_report_markdown(json_t *const *documents, size_t count, FILE *out)
{
    for (size_t d = 0; d < count; d++) {
        if (d > 0) {
            fputs("\n", out);
        }
        md_record(documents[d], out);
    }
}
