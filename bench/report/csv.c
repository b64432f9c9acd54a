#include "bench/report/csv.h"

#include <string.h>

#include "bench/report/fields.h"
#include "bench/report/limits.h"

/* --- fields ---------------------------------------------------------------------------------- */

static void put_text(const char *text, FILE *out)
{
    bool formula = text[0] != '\0' && strchr("=+-@\t\r", text[0]) != NULL;

    if (!formula && strpbrk(text, ",\"\n\r") == NULL) {
        fputs(text, out);
        return;
    }
    fputs(formula ? "\"'" : "\"", out);
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            fputc('"', out);
        }
        fputc(*text, out);
    }
    fputc('"', out);
}

static void put_value(const json_t *value, FILE *out)
{
    if (json_is_string(value)) {
        put_text(json_string_value(value), out);
    } else if (json_is_integer(value)) {
        fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (json_is_real(value)) {
        fprintf(out, "%.9g", json_real_value(value));
    } else if (json_is_boolean(value)) {
        fputs(json_is_true(value) ? "true" : "false", out);
    }
}

/* --- what a row is of ------------------------------------------------------------------------ */

enum { PATH_TEXTS = 3 };

typedef struct column {
    const char *name, *path[PATH_TEXTS]; /* of members, from the outside in */
} column_t;

static const column_t run_columns[] = {
    {"run_id", {"id"}},
    {"started_utc", {"started_utc"}},
    {"git_sha", {"git_sha"}},
    {"ranks", {"launch", "ranks"}},
};

static const column_t cell_columns[] = {
    {"key", {"key"}},
    {"backend", {"backend"}},
    {"mode", {"mode"}},
    {"generation", {"generation"}},
    {"component", {"component"}},
    {"model", {"model", "name"}},
    {"tp", {"layout", "tp"}},
    {"dp", {"layout", "dp"}},
    {"cp", {"layout", "cp"}},
    {"ep", {"layout", "ep"}},
    {"attn_tp", {"layout", "attn_tp"}},
    {"moe_tp", {"layout", "moe_tp"}},
    {"nodes", {"layout", "nodes"}},
    {"path_rule", {"path", "rule"}},
    {"path_fast", {"path", "fast"}},
    {"tokens", {"tokens", "asked"}},
    {"tokens_min", {"tokens", "min"}},
    {"tokens_max", {"tokens", "max"}},
    {"tokens_total", {"tokens", "total"}},
    {"max_tokens", {"tokens", "bound"}},
    {"tokens_skew", {"choices", "tokens_skew"}},
    {"routing", {"choices", "routing"}},
    {"seed", {"choices", "seed"}},
    {"runner", {"choices", "recipe", "runner"}},
    {"dispatch_dtype", {"choices", "dispatch_dtype"}},
    {"combine_dtype", {"choices", "combine_dtype"}},
    {"qps_per_peer", {"choices", "qps_per_peer"}},
    {"fabric", {"choices", "fabric"}},
    {"p2p", {"choices", "p2p"}},
    {"shared", {"choices", "shared"}},
    {"shared_overlap", {"choices", "shared_overlap"}},
    {"signal", {"choices", "signal"}},
    {"zero_copy", {"choices", "zero_copy"}},
    {"status", {"status"}},
    {"reason", {"reason"}},
    {"check", {"check", "state"}},
    {"max_rel_err", {"check", "max_rel_err"}},
    {"rows_global", {"work", "rows_global"}},
    {"rows_dispatched", {"work", "rows_dispatched"}},
    {"dispatch_ratio", {"work", "dispatch_ratio"}},
    {"routing_hash", {"work", "routing_hash"}},
    {"imbalance_expert", {"work", "imbalance", "expert"}},
    {"imbalance_rank", {"work", "imbalance", "rank"}},
    {"imbalance_qp", {"work", "imbalance", "qp"}},
    {"buffers_bytes", {"memory", "buffers_bytes"}},
    {"sync", {"sync", "method"}},
    {"late_starts", {"sync", "late"}},
    {"stationary", {"trend", "stationary"}},
    {"slope_pct", {"trend", "slope_pct"}},
    {"accounts_pct", {"instrument", "difference_pct"}},
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static void put_names(const column_t *columns, size_t count, FILE *out)
{
    for (size_t c = 0; c < count; c++) {
        fprintf(out, "%s,", columns[c].name);
    }
}

static void put_members(const column_t *columns, size_t count, const json_t *of, FILE *out)
{
    for (size_t c = 0; c < count; c++) {
        const json_t *value = of;

        for (int step = 0; step < PATH_TEXTS && columns[c].path[step] != NULL; step++) {
            value = json_object_get(value, columns[c].path[step]);
        }
        put_value(value, out);
        fputc(',', out);
    }
}

static void put_heads(FILE *out)
{
    put_names(run_columns, COUNT(run_columns), out);
    fputs("host,", out);
    put_names(cell_columns, COUNT(cell_columns), out);
}

static void put_identity(const json_t *run, const json_t *cell, FILE *out)
{
    put_members(run_columns, COUNT(run_columns), run, out);
    put_value(json_array_get(json_object_get(json_object_get(run, "launch"), "hosts"), 0), out);
    fputc(',', out);
    put_members(cell_columns, COUNT(cell_columns), cell, out);
}

/* --- phases ---------------------------------------------------------------------------------- */

static const char *const bases[] = {"assignment", "deduplicated", "wire"};

static const json_t *rate_of(const json_t *cell, const char *phase, const char *basis)
{
    const json_t *rates = json_object_get(cell, "rates"), *rate;
    size_t        i;

    json_array_foreach(rates, i, rate)
    {
        if (strcmp(k3_get_text(rate, "name"), phase) == 0 &&
            strcmp(k3_get_text(rate, "basis"), basis) == 0) {
            return json_object_get(rate, "GBps");
        }
    }
    return NULL;
}

static void put_limit(const json_t *cell, const char *phase, FILE *out)
{
    static const char *const members[] = {"limit_us", "limited_by", "efficiency"};
    const json_t            *limit = k3_limits_of(cell, phase);

    for (size_t m = 0; m < COUNT(members); m++) {
        fputc(',', out);
        put_value(json_object_get(limit, members[m]), out);
    }
    fputc(',', out);
    put_value(limit != NULL ? json_object_get(json_object_get(cell, "limits"), "machine") : NULL,
              out);
}

static void put_phase(const json_t *cell, const json_t *phase, FILE *out)
{
    static const char *const members[] = {"min", "max", "mean", "deviation", "p95", "p99"};
    const json_t            *ci = json_object_get(phase, "ci95");

    put_value(json_object_get(phase, "name"), out);
    fputc(',', out);
    put_value(json_object_get(phase, "n"), out);
    fputc(',', out);
    put_value(json_object_get(phase, "median"), out);
    fputc(',', out);
    put_value(json_array_get(ci, 0), out);
    fputc(',', out);
    put_value(json_array_get(ci, 1), out);
    for (size_t m = 0; m < COUNT(members); m++) {
        fputc(',', out);
        put_value(json_object_get(phase, members[m]), out);
    }
    fputc(',', out);
    put_value(json_object_get(json_object_get(phase, "span"), "median"), out);
    fputc(',', out);
    put_value(json_object_get(phase, "slowest_rank"), out);
    for (size_t b = 0; b < COUNT(bases); b++) {
        fputc(',', out);
        put_value(rate_of(cell, k3_get_text(phase, "name"), bases[b]), out);
    }
    put_limit(cell, k3_get_text(phase, "name"), out);
    fputs("\r\n", out);
}

void k3_report_csv(json_t *const *documents, size_t count, FILE *out)
{
    put_heads(out);
    fputs("phase,n,median_us,ci_low_us,ci_high_us,min_us,max_us,mean_us,deviation_us,p95_us,"
          "p99_us,span_us,slowest_rank,assignment_GBps,deduplicated_GBps,wire_GBps,limit_us,"
          "limited_by,efficiency,limits_machine\r\n",
          out);
    for (size_t d = 0; d < count; d++) {
        const json_t *run = json_object_get(documents[d], "run");
        const json_t *cells = json_object_get(documents[d], "cells"), *cell;
        size_t        i;

        json_array_foreach(cells, i, cell)
        {
            const json_t *phases = json_object_get(cell, "phases");
            size_t        n = json_array_size(phases);

            for (size_t p = 0; p < n || p == 0; p++) {
                put_identity(run, cell, out);
                put_phase(cell, json_array_get(phases, p), out);
            }
        }
    }
}

/* --- lanes ----------------------------------------------------------------------------------- */

static const char *const lane_columns[] = {
    "phase",   "src",       "dst",           "qp",         "lane",          "messages",
    "signals", "doorbells", "bytes_payload", "bytes_wire", "first_post_us", "last_done_us",
    "busy_us", "p50_us",    "p99_us",        "max_us"};

static void put_lanes(const json_t *run, const json_t *cell, FILE *out)
{
    const json_t *qps = json_object_get(cell, "qps"), *rows = json_object_get(qps, "rows"), *row;
    int           at[COUNT(lane_columns)];
    size_t        i;

    for (size_t c = 0; c < COUNT(lane_columns); c++) {
        at[c] = k3_column(qps, lane_columns[c]);
    }
    json_array_foreach(rows, i, row)
    {
        put_identity(run, cell, out);
        for (size_t c = 0; c < COUNT(lane_columns); c++) {
            fputs(c > 0 ? "," : "", out);
            put_value(k3_field(row, at[c]), out);
        }
        fputs("\r\n", out);
    }
}

void k3_report_csv_lanes(json_t *const *documents, size_t count, FILE *out)
{
    put_heads(out);
    for (size_t c = 0; c < COUNT(lane_columns); c++) {
        fprintf(out, "%s%s", c > 0 ? "," : "", lane_columns[c]);
    }
    fputs("\r\n", out);
    for (size_t d = 0; d < count; d++) {
        const json_t *cells = json_object_get(documents[d], "cells"), *cell;
        size_t        i;

        json_array_foreach(cells, i, cell)
        {
            put_lanes(json_object_get(documents[d], "run"), cell, out);
        }
    }
}
