#include "bench/report/table.h"

#include <math.h>
#include <string.h>

#include "bench/report/cellview.h"
#include "bench/report/doubts.h"
#include "bench/report/fastest.h"
#include "bench/report/fields.h"
#include "bench/report/table_columns.h"
#include "bench/report/table_notes.h"

const char *k3_table_bytes(double bytes, char *text, size_t size)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    int                      u = 0;

    while (bytes >= 1000.0 && u < 6) {
        bytes /= 1000.0;
        u++;
    }
    snprintf(text, size, u == 0 ? "%.0f %s" : "%.2f %s", bytes, units[u]);
    return text;
}

/* At most seven characters. */
static const char *time_text(bool known, double us, char *text, size_t size)
{
    if (!known) {
        snprintf(text, size, "-");
    } else {
        snprintf(text, size,
                 us >= 9999999.5 ? "%.3g"
                 : us >= 1000.0  ? "%.0f"
                 : us >= 100.0   ? "%.1f"
                                 : "%.2f",
                 us);
    }
    return text;
}

/* Exact where ten characters can be; null: a dash. */
static const char *count_text(const json_t *value, char *text, size_t size)
{
    long long count = (long long)json_integer_value(value);

    if (!json_is_integer(value)) {
        snprintf(text, size, "-");
    } else if (count < 10000000000) {
        snprintf(text, size, "%lld", count);
    } else {
        snprintf(text, size, "%.4g", (double)count);
    }
    return text;
}

/* Large powers of two in Ki and Mi, which lose nothing: "64Ki". */
static const char *size_text(const json_t *value, char *text, size_t size)
{
    long long count = (long long)json_integer_value(value);

    if (!json_is_integer(value)) {
        snprintf(text, size, "-");
    } else if (count >= 1 << 20 && count % (1 << 20) == 0) {
        snprintf(text, size, "%lldMi", count >> 20);
    } else if (count >= 10000 && count % 1024 == 0) {
        snprintf(text, size, "%lldKi", count >> 10);
    } else {
        snprintf(text, size, "%lld", count);
    }
    return text;
}

static const char *bytes_text(const json_t *value, char *text, size_t size)
{
    if (!json_is_integer(value)) {
        snprintf(text, size, "-");
        return text;
    }
    return k3_table_bytes((double)json_integer_value(value), text, size);
}

/* --- measured cells -------------------------------------------------------------------------- */

static const k3_table_column_t run_columns[] = {
    {"backend", "", true, 18, false, false},       {"model", "", true, 16, false, true},
    {"layout", "tp/dp/ep", true, 0, false, false}, {"rows", "/rank", false, 0, false, false},
    {"ratio", "", false, 0, false, false},         {"dispatch", "us", false, 0, true, false},
    {"experts", "us", false, 0, false, false},     {"combine", "us", false, 0, false, false},
    {"total", "us", false, 0, false, false},       {"+-%", "", false, 0, false, false},
    {"wire", "GB/s", false, 0, true, false},       {"check", "", true, 0, false, false},
};

static void layout_text(const json_t *cell, char *text)
{
    const json_t *layout = json_object_get(cell, "layout"), *path = json_object_get(cell, "path");
    char          tp[24], dp[24], ep[24];

    snprintf(text, K3_ITEM, "%.9s/%.9s/%.9s %s",
             size_text(json_object_get(layout, "tp"), tp, sizeof(tp)),
             size_text(json_object_get(layout, "dp"), dp, sizeof(dp)),
             size_text(json_object_get(layout, "ep"), ep, sizeof(ep)),
             json_is_true(json_object_get(path, "fast")) ? "F" : "-");
}

static void ratio_text(const json_t *cell, char *text)
{
    const json_t *ratio = json_object_get(json_object_get(cell, "work"), "dispatch_ratio");
    double        value = json_number_value(ratio);

    if (json_is_number(ratio)) {
        snprintf(text, K3_ITEM,
                 value >= 99999.5  ? "%.3g"
                 : value >= 99.995 ? "%.0f"
                                   : "%.2f",
                 value);
    } else {
        snprintf(text, K3_ITEM, "-");
    }
}

/* Half width of the interval of the headline's median, percent. */
static void spread_text(const json_t *cell, char *text)
{
    const json_t *ci = json_object_get(k3_cell_phase(cell, k3_cell_headline(cell)), "ci95");
    double        median;

    snprintf(text, K3_ITEM, "-");
    if (json_is_array(ci) && k3_cell_median(cell, k3_cell_headline(cell), &median) &&
        median > 0.0) {
        double low = json_number_value(json_array_get(ci, 0)),
               high = json_number_value(json_array_get(ci, 1));
        double percent = 50.0 * (high - low) / median;

        snprintf(text, K3_ITEM,
                 percent >= 99999.5 ? "%.1g"
                 : percent >= 99.95 ? "%.0f"
                                    : "%.1f",
                 percent);
    }
}

static void rate_text(const json_t *cell, char *text)
{
    const json_t *rates = json_object_get(cell, "rates");

    snprintf(text, K3_ITEM, "-");
    for (size_t i = 0; i < json_array_size(rates); i++) {
        const json_t *rate = json_array_get(rates, i), *value = json_object_get(rate, "GBps");
        double        rated = json_number_value(value);

        if (strcmp(k3_get_text(rate, "name"), "dispatch") == 0 &&
            strcmp(k3_get_text(rate, "basis"), "wire") == 0 && json_is_number(value)) {
            snprintf(text, K3_ITEM,
                     rated >= 999999.5 ? "%.3g"
                     : rated >= 100.0  ? "%.0f"
                                       : "%.3f",
                     rated);
        }
    }
}

static bool has_failed(const json_t *cell)
{
    return strcmp(k3_get_text(cell, "status"), "failed") == 0;
}

static void run_items(const json_t *cell, k3_items_t *items)
{
    static const char *const phases[] = {"dispatch", "expert_mlp", "combine"};
    char(*text)[K3_ITEM] = items->text;

    k3_cell_backend(cell, text[0], K3_ITEM);
    snprintf(text[1], K3_ITEM, "%s", k3_get_text(json_object_get(cell, "model"), "name"));
    layout_text(cell, text[2]);
    size_text(json_object_get(json_object_get(cell, "tokens"), "max"), text[3], K3_ITEM);
    ratio_text(cell, text[4]);
    for (int p = 0; p < 4; p++) {
        double us;
        /* The last one is what the component is judged by. */
        bool known = k3_cell_median(cell, p == 3 ? k3_cell_headline(cell) : phases[p], &us);

        time_text(known, us, text[5 + p], K3_ITEM);
    }
    spread_text(cell, text[9]);
    rate_text(cell, text[10]);
    snprintf(text[11], K3_ITEM, "%s",
             has_failed(cell) ? "FAILED" : k3_get_text(json_object_get(cell, "check"), "state"));
}

static void print_cell(const k3_columns_t *columns, const json_t *cell, bool fastest, bool colour,
                       FILE *out)
{
    bool       bad = has_failed(cell);
    k3_items_t items;

    run_items(cell, &items);
    fputs(!colour ? "" : bad ? "\033[31m" : fastest ? "\033[32m" : "", out);
    k3_columns_items(columns, &items, out);
    fputs(fastest ? " *" : "", out);
    fputs(colour && (bad || fastest) ? "\033[0m\n" : "\n", out);
}

/* Why a cell that is apart has no star, or what else than its backend may have earned it. */
static void print_fastest(const json_t *cells, FILE *out)
{
    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *cell = json_array_get(cells, i);
        k3_fastest_t  f;
        char          text[240], label[96];

        k3_fastest(cells, cell, &f);
        k3_cell_label(cell, label, sizeof(label));
        if (k3_fastest_doubt(&f, text, sizeof(text))) {
            fprintf(out, "no star for %s: the machine changed its speed in this launch:\n  %s\n",
                    label, text);
        } else if (k3_fastest_differs(cell, &f, text, sizeof(text))) {
            fprintf(out, "* %s: it and the next differ in more than the backend:\n  %s\n", label,
                    text);
        }
    }
}

static void print_refused(const json_t *cells, FILE *out)
{
    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *cell = json_array_get(cells, i);
        const char   *status = k3_get_text(cell, "status");
        char          backend[32];

        if (strcmp(status, "ok") != 0 && strcmp(status, "planned") != 0) {
            fprintf(out, "%s: %s %s: %s\n", status, k3_cell_backend(cell, backend, sizeof(backend)),
                    k3_get_text(json_object_get(cell, "model"), "name"),
                    k3_get_text(cell, "reason"));
        }
    }
}

/* False: nothing was measured. */
static bool print_measured(const json_t *cells, FILE *out, bool colour)
{
    k3_columns_t columns = {run_columns, sizeof(run_columns) / sizeof(run_columns[0]), {0}};
    bool         any = false;

    k3_columns_start(&columns);
    for (size_t i = 0; i < json_array_size(cells); i++) {
        k3_items_t items;

        if (k3_cell_measured(json_array_get(cells, i))) {
            run_items(json_array_get(cells, i), &items);
            k3_columns_widen(&columns, &items);
            any = true;
        }
    }
    k3_columns_fit(&columns, 2);
    if (any) {
        k3_columns_heads(&columns, out);
    }
    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *cell = json_array_get(cells, i);

        if (k3_cell_measured(cell)) {
            print_cell(&columns, cell, k3_is_fastest(cells, cell), colour, out);
        }
    }
    return any;
}

void k3_table_print(const json_t *document, FILE *out, bool colour)
{
    const json_t *cells = json_object_get(document, "cells");
    char          text[160];

    if (print_measured(cells, out, colour)) {
        fprintf(out, "times: median over iterations of the slowest rank; +-%%: half width of its "
                     "95 %% interval\n"
                     "layout F: fast path, -: fallback; wire: of the dispatch, all ranks; *: the "
                     "fastest, its "
                     "interval below all others'\n");
        print_fastest(cells, out);
        fputc('\n', out);
    }
    for (size_t i = 0; i < json_array_size(cells); i++) {
        if (k3_cell_measured(json_array_get(cells, i))) {
            k3_table_notes(cells, json_array_get(cells, i), out);
        }
    }
    print_refused(cells, out);
    if (json_is_true(json_object_get(json_object_get(document, "topology"), "oversubscribed"))) {
        fprintf(out, "oversubscribed: more ranks than cores; the times show order, not speed\n");
    }
    if (k3_busy_doubt(document, text, sizeof(text))) {
        fprintf(out, "%s\n", text);
    }
}

void k3_table_head(const json_t *document, FILE *out)
{
    const json_t *run = json_object_get(document, "run");
    char          name[K3_RECORD_NAME];

    k3_record_name(document, name, sizeof(name));
    fprintf(out, "== %s%srun %s, %lld ranks, started %s\n", name, name[0] != '\0' ? ": " : "",
            k3_get_text(run, "id"), k3_get_int(json_object_get(run, "launch"), "ranks"),
            k3_get_text(run, "started_utc"));
}

/* --- planned cells --------------------------------------------------------------------------- */

static const k3_table_column_t plan_columns[] = {
    {"backend", "", true, 18, false, false},
    {"model", "", true, 16, false, true},
    {"layout", "tp/dp/ep", true, 0, false, false},
    {"rows", "global", false, 0, false, false},
    {"ratio", "", false, 0, false, false},
    {"messages", "dispatch", false, 0, false, false},
    {"signals", "dispatch", false, 0, false, false},
    {"wire", "dispatch", false, 0, false, false},
    {"buffers", "per rank", false, 0, false, false},
    {"experts", "per rank", false, 0, false, false},
    {"total", "per rank", false, 0, false, false},
};

static void plan_items(const json_t *cell, k3_items_t *items)
{
    const json_t *memory = json_object_get(cell, "memory");
    const json_t *dispatch = json_object_get(json_object_get(cell, "traffic"), "dispatch");
    char(*text)[K3_ITEM] = items->text;

    k3_cell_backend(cell, text[0], K3_ITEM);
    snprintf(text[1], K3_ITEM, "%s", k3_get_text(json_object_get(cell, "model"), "name"));
    layout_text(cell, text[2]);
    count_text(json_object_get(json_object_get(cell, "work"), "rows_global"), text[3], K3_ITEM);
    ratio_text(cell, text[4]);
    count_text(json_object_get(dispatch, "messages"), text[5], K3_ITEM);
    count_text(json_object_get(dispatch, "signals"), text[6], K3_ITEM);
    bytes_text(json_object_get(dispatch, "bytes_wire"), text[7], K3_ITEM);
    bytes_text(json_object_get(memory, "buffers_bytes"), text[8], K3_ITEM);
    bytes_text(json_object_get(memory, "expert_weights_bytes"), text[9], K3_ITEM);
    bytes_text(json_object_get(memory, "total_bytes"), text[10], K3_ITEM);
}

static bool is_planned(const json_t *cell)
{
    return strcmp(k3_get_text(cell, "status"), "planned") == 0;
}

void k3_table_plan(const json_t *cells, FILE *out)
{
    k3_columns_t columns = {plan_columns, sizeof(plan_columns) / sizeof(plan_columns[0]), {0}};
    bool         any = false;
    k3_items_t   items;

    k3_columns_start(&columns);
    for (size_t i = 0; i < json_array_size(cells); i++) {
        if (is_planned(json_array_get(cells, i))) {
            plan_items(json_array_get(cells, i), &items);
            k3_columns_widen(&columns, &items);
            any = true;
        }
    }
    k3_columns_fit(&columns, 0);
    if (any) {
        k3_columns_heads(&columns, out);
    }
    for (size_t i = 0; i < json_array_size(cells); i++) {
        if (is_planned(json_array_get(cells, i))) {
            plan_items(json_array_get(cells, i), &items);
            k3_columns_items(&columns, &items, out);
            fputc('\n', out);
        }
    }
    print_refused(cells, out);
}
