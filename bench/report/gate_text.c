/* A gate's verdict as text and as Markdown, from its document alone. */
#include <stdbool.h>
#include <string.h>

#include "bench/report/comparison.h"
#include "bench/report/fields.h"
#include "bench/report/gate.h"

static void print_head(const json_t *document, FILE *out)
{
    long long failures = k3_get_int(document, "failures"),
              warnings = k3_get_int(document, "warnings");

    fprintf(out, "gate: %s, %lld failure%s, %lld warning%s",
            json_is_true(json_object_get(document, "passed")) ? "passed" : "FAILED", failures,
            failures == 1 ? "" : "s", warnings, warnings == 1 ? "" : "s");
}

/* Shares of the best time that the history knows, and of the bare loop. */
static void print_shares(const json_t *row, FILE *out)
{
    static const char *const shares[][2] = {{"share_of_best_pct", "best time of the history"},
                                            {"share_of_bound_pct", "bare loop"}};
    const json_t *base = json_object_get(row, "base"), *fresh = json_object_get(row, "new");

    for (int i = 0; i < 2; i++) {
        const json_t *a = json_object_get(base, shares[i][0]);
        const json_t *b = json_object_get(fresh, shares[i][0]);

        if (json_is_number(a) && json_is_number(b)) {
            fprintf(out, "%s%s: base at %.0f %%, new at %.0f %%", i > 0 ? "; " : "", shares[i][1],
                    json_number_value(a), json_number_value(b));
        }
    }
}

static bool has_poor_base(const json_t *row)
{
    const json_t *base = json_object_get(row, "base");
    const json_t *best = json_object_get(base, "share_of_best_pct");
    const json_t *bound = json_object_get(base, "share_of_bound_pct");

    return (json_is_number(best) && json_number_value(best) < 80.0) ||
           (json_is_number(bound) && json_number_value(bound) < 80.0);
}

/* What the base was worth, where it was not worth much. */
static void print_poor_bases(const json_t *document, const char *mark, FILE *out)
{
    const json_t *rows = json_object_get(document, "cells"), *row;
    size_t        i;

    json_array_foreach(rows, i, row)
    {
        if (has_poor_base(row)) {
            fprintf(out, "%spoor baseline of %s: ", mark, k3_get_text(row, "key"));
            print_shares(row, out);
            fputs("\n", out);
        }
    }
}

static void print_origin(const json_t *document, FILE *out)
{
    const json_t *baselines = json_object_get(document, "baselines"), *baseline;
    const json_t *history = json_object_get(document, "history");
    const char   *machine, *between = "";
    json_t       *stable;
    size_t        i;

    json_array_foreach(baselines, i, baseline)
    {
        fprintf(out, "baseline number %lld, promoted %s by %s: %s (%zu launches)\n",
                k3_get_int(baseline, "number"), k3_get_text(baseline, "when"),
                k3_get_text(baseline, "who"), k3_get_text(baseline, "why"),
                json_array_size(json_object_get(baseline, "launches")));
    }
    fprintf(out, "history %s: %lld launches of machine ", k3_get_text(history, "folder"),
            k3_get_int(history, "launches"));
    json_object_foreach(json_object_get(document, "machines"), machine, stable)
    {
        fprintf(out, "%s%s", between, machine);
        between = ", ";
    }
    fputs("\n", out);
}

/* What these launches could not have shown. */
static void print_reach(const json_t *document, const char *mark, FILE *out)
{
    const char *text = k3_get_text(json_object_get(document, "reach"), "text");

    if (text[0] != '\0') {
        fprintf(out, "%s%s\n", mark, text);
    }
}

/* Nobody should take "passed" for more than it is. */
static void print_end(const json_t *document, FILE *out)
{
    const json_t *reach = json_object_get(document, "reach");
    long long     open = k3_get_int(reach, "open"), judged = k3_get_int(reach, "judged");

    if (open > 0) {
        fprintf(out, "%s; %lld of %lld cells could not be judged\n",
                json_is_true(json_object_get(document, "passed")) ? "passed" : "FAILED", open,
                judged);
    }
}

static void print_rule(const json_t *document, FILE *out)
{
    const json_t *rule = json_object_get(document, "rule");

    fprintf(out,
            "times are those of the headline phase, lower is better; median over launches; p after "
            "Holm;\na shift below %g %% is no finding; changes are looked for in the last %lld "
            "launches of a cell\nand count when they began in the last %lld days with launches; a "
            "small change is found late\n",
            json_number_value(json_object_get(rule, "floor_pct")),
            k3_get_int(rule, "window_launches"), k3_get_int(rule, "sessions_days"));
}

/* --- text ------------------------------------------------------------------------------------ */

static void print_findings(const json_t *document, FILE *out)
{
    const json_t *findings = json_object_get(document, "findings"), *finding;
    size_t        i;

    json_array_foreach(findings, i, finding)
    {
        const char *key = k3_get_text(finding, "key");

        fprintf(out, "%s %s%s%s\n     %s\n",
                strcmp(k3_get_text(finding, "severity"), "fail") == 0 ? "FAIL" : "warn",
                k3_get_text(finding, "kind"), key[0] != '\0' ? ": " : "", key,
                k3_get_text(finding, "text"));
    }
}

void k3_gate_text(const json_t *document, FILE *out)
{
    print_head(document, out);
    fputs("\n", out);
    print_reach(document, "", out);
    print_findings(document, out);
    print_poor_bases(document, "", out);
    fprintf(out, "host: %s\n\n", k3_get_text(json_object_get(document, "control"), "text"));
    k3_comparison_rows_text(json_object_get(document, "cells"), false, false, out);
    k3_comparison_counts(document, out);
    print_origin(document, out);
    print_rule(document, out);
    print_end(document, out);
}

/* --- Markdown -------------------------------------------------------------------------------- */

/* Text from a record is not markup. */
static void print_plain(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (strchr("|<>`*_[]\\&~$", *text) != NULL) {
            fputc('\\', out);
        }
        fputc(*text, out);
    }
}

static void print_finding_rows(const json_t *document, FILE *out)
{
    const json_t *findings = json_object_get(document, "findings"), *finding;
    size_t        i;

    if (json_array_size(findings) == 0) {
        return;
    }
    fputs("| | finding | cell | what |\n|---|---|---|---|\n", out);
    json_array_foreach(findings, i, finding)
    {
        fprintf(out, "| %s | %s | ", k3_get_text(finding, "severity"),
                k3_get_text(finding, "kind"));
        print_plain(k3_get_text(finding, "key"), out);
        fputs(" | ", out);
        print_plain(k3_get_text(finding, "text"), out);
        fputs(" |\n", out);
    }
    fputs("\n", out);
}

void k3_gate_markdown(const json_t *document, FILE *out)
{
    fputs("**", out);
    print_head(document, out);
    fputs("**\n\n", out);
    print_reach(document, "- ", out);
    fputs("\n", out);
    print_finding_rows(document, out);
    print_poor_bases(document, "- ", out);
    fprintf(out, "\nHost: %s\n\n", k3_get_text(json_object_get(document, "control"), "text"));
    k3_comparison_rows_markdown(json_object_get(document, "cells"), false, false, out);
    fputs("\n", out);
    k3_comparison_counts(document, out);
    fputs("\n", out);
    print_origin(document, out);
    fputs("\n", out);
    print_rule(document, out);
    fputs("\n", out);
    print_end(document, out);
}
