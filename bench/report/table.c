#include "bench/report/table.h"

#include "bench/report/cellview.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "bench/report/doubts.h"
#include "bench/report/fields.h"
#include "bench/report/limits.h"

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

/* --- columns that are as wide as what stands in them ----------------------------------------- */

enum { LINE = 120, COLUMNS_MAX = 12, ITEM = 48, MODEL_LEAST = 4 };

typedef struct column {
    const char *head, *unit;
    bool        left; /* texts; numbers stand at the right */
    int         most; /* what is longer is cut; 0: nothing is cut */
    bool        bar;  /* a bar in front */
    bool        fits; /* takes what the others leave of the line */
} column_t;

typedef struct items {
    char text[COLUMNS_MAX][ITEM];
} items_t;

typedef struct columns {
    const column_t *column;
    int             count;
    int             width[COLUMNS_MAX];
} columns_t;

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static void start_columns(columns_t *c)
{
    for (int i = 0; i < c->count; i++) {
        c->width[i] = larger((int)strlen(c->column[i].head), (int)strlen(c->column[i].unit));
    }
}

static void widen_columns(columns_t *c, const items_t *items)
{
    for (int i = 0; i < c->count; i++) {
        int most = c->column[i].most, length = (int)strlen(items->text[i]);

        length = most > 0 && length > most ? most : length;
        c->width[i] = larger(c->width[i], length);
    }
}

/* `tail` is what follows the last column. */
static void fit_columns(columns_t *c, int tail)
{
    int used = tail - 1; /* no blank in front of the first column */

    for (int i = 0; i < c->count; i++) {
        used += c->width[i] + (c->column[i].bar ? 3 : 1);
    }
    for (int i = 0; i < c->count && used > LINE; i++) {
        if (c->column[i].fits) {
            int least = larger(MODEL_LEAST, c->width[i] - (used - LINE));

            used -= c->width[i] - least;
            c->width[i] = least;
        }
    }
}

static void print_items(const columns_t *c, const items_t *items, FILE *out)
{
    for (int i = 0; i < c->count; i++) {
        int  width = c->width[i];
        bool last = i + 1 == c->count;

        fputs(i == 0 ? "" : c->column[i].bar ? " | " : " ", out);
        if (c->column[i].left) {
            fprintf(out, "%-*.*s", last ? 0 : width, width, items->text[i]);
        } else {
            fprintf(out, "%*.*s", width, width, items->text[i]);
        }
    }
}

static void print_heads(const columns_t *c, FILE *out)
{
    items_t head, unit;

    for (int i = 0; i < c->count; i++) {
        snprintf(head.text[i], ITEM, "%s", c->column[i].head);
        snprintf(unit.text[i], ITEM, "%s", c->column[i].unit);
    }
    print_items(c, &head, out);
    fputc('\n', out);
    print_items(c, &unit, out);
    fputc('\n', out);
}

/* --- measured cells -------------------------------------------------------------------------- */

static const column_t run_columns[] = {
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

    snprintf(text, ITEM, "%.9s/%.9s/%.9s %s",
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
        snprintf(text, ITEM, value >= 99999.5 ? "%.3g" : value >= 99.995 ? "%.0f" : "%.2f", value);
    } else {
        snprintf(text, ITEM, "-");
    }
}

/* Half width of the interval of the headline's median, percent. */
static void spread_text(const json_t *cell, char *text)
{
    const json_t *ci = json_object_get(k3_cell_phase(cell, k3_cell_headline(cell)), "ci95");
    double        median;

    snprintf(text, ITEM, "-");
    if (json_is_array(ci) && k3_cell_median(cell, k3_cell_headline(cell), &median) &&
        median > 0.0) {
        double low = json_number_value(json_array_get(ci, 0)),
               high = json_number_value(json_array_get(ci, 1));
        double percent = 50.0 * (high - low) / median;

        snprintf(text, ITEM,
                 percent >= 99999.5 ? "%.1g"
                 : percent >= 99.95 ? "%.0f"
                                    : "%.1f",
                 percent);
    }
}

static void rate_text(const json_t *cell, char *text)
{
    const json_t *rates = json_object_get(cell, "rates");

    snprintf(text, ITEM, "-");
    for (size_t i = 0; i < json_array_size(rates); i++) {
        const json_t *rate = json_array_get(rates, i), *value = json_object_get(rate, "GBps");
        double        rated = json_number_value(value);

        if (strcmp(k3_get_text(rate, "name"), "dispatch") == 0 &&
            strcmp(k3_get_text(rate, "basis"), "wire") == 0 && json_is_number(value)) {
            snprintf(text, ITEM,
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

static void run_items(const json_t *cell, items_t *items)
{
    static const char *const phases[] = {"dispatch", "expert_mlp", "combine"};
    char(*text)[ITEM] = items->text;

    k3_cell_backend(cell, text[0], ITEM);
    snprintf(text[1], ITEM, "%s", k3_get_text(json_object_get(cell, "model"), "name"));
    layout_text(cell, text[2]);
    size_text(json_object_get(json_object_get(cell, "tokens"), "max"), text[3], ITEM);
    ratio_text(cell, text[4]);
    for (int p = 0; p < 4; p++) {
        double us;
        /* The last one is what the component is judged by. */
        bool known = k3_cell_median(cell, p == 3 ? k3_cell_headline(cell) : phases[p], &us);

        time_text(known, us, text[5 + p], ITEM);
    }
    spread_text(cell, text[9]);
    rate_text(cell, text[10]);
    snprintf(text[11], ITEM, "%s",
             has_failed(cell) ? "FAILED" : k3_get_text(json_object_get(cell, "check"), "state"));
}

static void print_cell(const columns_t *columns, const json_t *cell, bool fastest, bool colour,
                       FILE *out)
{
    bool    bad = has_failed(cell);
    items_t items;

    run_items(cell, &items);
    fputs(!colour ? "" : bad ? "\033[31m" : fastest ? "\033[32m" : "", out);
    print_items(columns, &items, out);
    fputs(fastest ? " *" : "", out);
    fputs(colour && (bad || fastest) ? "\033[0m\n" : "\n", out);
}

/* --- below the table ------------------------------------------------------------------------- */

/* Statements about one cell below its name, on as many lines as they need. */
typedef struct notes {
    FILE *out;
    int   at; /* the column where the next one would stand */
} notes_t;

enum { NOTE_INDENT = 17, NOTE = LINE - NOTE_INDENT };

static notes_t start_notes(const char *name, FILE *out)
{
    int at = fprintf(out, "  %-14s ", name);

    if (at > NOTE_INDENT) { /* a longer name has a line of its own */
        at = fprintf(out, "\n%*s", NOTE_INDENT, "") - 1;
    }
    return (notes_t){out, at};
}

__attribute__((format(printf, 2, 3))) static void note(notes_t *n, const char *format, ...)
{
    char    text[NOTE + 1];
    va_list args;
    int     length;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    length = (int)strlen(text);
    if (n->at > NOTE_INDENT && n->at + 3 + length > LINE) {
        fprintf(n->out, ";\n%*s", NOTE_INDENT, "");
        n->at = NOTE_INDENT;
    }
    n->at += fprintf(n->out, "%s%s", n->at > NOTE_INDENT ? "; " : "", text);
}

static void note_slowest(notes_t *n, const json_t *cell)
{
    const json_t *worst;
    k3_lanes_t    lanes;
    char          spread[64] = "";

    k3_lanes_of(cell, &lanes);
    worst = k3_lanes_slowest(&lanes);
    note(n, "slowest rank %lld",
         k3_get_int(k3_cell_phase(cell, k3_cell_headline(cell)), "slowest_rank"));
    if (worst == NULL) {
        return;
    }
    if (json_is_number(k3_field(worst, lanes.p99_us))) {
        snprintf(spread, sizeof(spread), ", p50 %.2f p99 %.2f us",
                 k3_field_number(worst, lanes.p50_us), k3_field_number(worst, lanes.p99_us));
    }
    note(n, "slowest QP: %s %lld->%lld QP %lld (%s), busy %.1f us with %lld messages%s",
         k3_field_text(worst, lanes.phase), k3_field_int(worst, lanes.src),
         k3_field_int(worst, lanes.dst), k3_field_int(worst, lanes.qp),
         k3_field_text(worst, lanes.lane), k3_field_number(worst, lanes.busy_us),
         k3_field_int(worst, lanes.messages), spread);
}

/* What may differ between the lines of a table without a column of its own. */
static void note_choices(notes_t *n, const json_t *cell)
{
    const json_t *choices = json_object_get(cell, "choices");

    note(n, "%s: rows %s, results %s, runner %s", k3_get_text(cell, "component"),
         k3_get_text(choices, "dispatch_dtype"), k3_get_text(choices, "combine_dtype"),
         k3_get_text(json_object_get(choices, "recipe"), "runner"));
    if (k3_get_int(json_object_get(cell, "layout"), "cp") > 1) {
        note(n, "cp %lld", k3_get_int(json_object_get(cell, "layout"), "cp"));
    }
    if (strcmp(k3_get_text(choices, "shared"), "sharded") == 0) {
        note(n, "shared expert sharded");
    }
    if (json_is_true(json_object_get(choices, "shared_overlap"))) {
        note(n, "shared expert inside the dispatch");
    }
    note(n, "routing %.60s", k3_get_text(choices, "routing"));
    note(n, "path rule %s", k3_get_text(json_object_get(cell, "path"), "rule"));
    note(n, "QPs %lld", k3_get_int(choices, "qps_per_peer"));
}

/* Without a dispatch there is none of the ranks, without rows none at all. */
static void note_imbalance(notes_t *n, const json_t *cell)
{
    static const char *const parts[][2] = {{"expert", "expert"}, {"rank", "rank"}, {"qp", "QP"}};
    const json_t *imbalance = json_object_get(json_object_get(cell, "work"), "imbalance");
    char          text[NOTE] = "";
    size_t        used = 0;

    for (int i = 0; i < 3; i++) {
        const json_t *value = json_object_get(imbalance, parts[i][0]);

        if (json_is_number(value)) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s %s %.2f",
                                     used > 0 ? "," : "", parts[i][1], json_number_value(value));
        }
    }
    note(n, "imbalance (max/mean):%s", used > 0 ? text : " none");
}

/* The busiest link of a node, where there is one. */
static void note_links(notes_t *n, const json_t *cell)
{
    const json_t *rows = json_object_get(json_object_get(cell, "links"), "rows"), *row;
    const json_t *best = NULL;
    double        most = 0.0;
    int           column = 0;
    size_t        i;

    json_array_foreach(rows, i, row)
    {
        for (int c = 4; c < 6; c++) { /* out_GBps, in_GBps */
            double rate = json_number_value(json_array_get(row, (size_t)c));

            if (rate > most) {
                most = rate;
                best = row;
                column = c;
            }
        }
    }
    if (best != NULL) {
        note(n, "busiest link: node %lld %s, %.4g GB/s in the %s",
             (long long)json_integer_value(json_array_get(best, 1)), column == 4 ? "out" : "in",
             most, k3_field_text(best, 0));
    }
}

static void note_transport(notes_t *n, const json_t *cell)
{
    const json_t *qps = json_object_get(cell, "qps");

    if (json_is_string(json_object_get(qps, "transport"))) {
        note(n, "measured %s plan",
             json_is_true(json_object_get(qps, "matches_plan")) ? "==" : "!=");
        note(n, "transport: %s", k3_get_text(qps, "transport"));
    }
}

/* Who holds the cell back, in short; the record and Markdown have the evidence. */
static void note_pattern(notes_t *n, const json_t *cell)
{
    const json_t *pattern = json_object_get(cell, "pattern");
    const json_t *lane = json_object_get(pattern, "lane");
    const char   *name = k3_get_text(pattern, "name");
    char          who[64] = "";

    if (name[0] == '\0' || strcmp(name, "none") == 0) {
        return;
    }
    if (json_is_array(lane)) {
        snprintf(who, sizeof(who), "%lld->%lld QP %lld",
                 (long long)json_integer_value(json_array_get(lane, 0)),
                 (long long)json_integer_value(json_array_get(lane, 1)),
                 (long long)json_integer_value(json_array_get(lane, 2)));
    } else {
        bool node = json_is_integer(json_object_get(pattern, "node"));

        snprintf(who, sizeof(who), "%s %lld", node ? "node" : "rank",
                 k3_get_int(pattern, node ? "node" : "rank"));
    }
    note(n, "%s: %s, %.0f %% of the %s", name, who,
         100.0 * json_number_value(json_object_get(pattern, "share")),
         k3_get_text(pattern, "phase"));
}

static void note_doubts(notes_t *n, const json_t *cell)
{
    k3_doubts_t doubts;

    k3_doubts(cell, &doubts);
    for (size_t i = 0; i < doubts.count; i++) {
        note(n, "%s", doubts.text[i]);
    }
}

static void note_limits(notes_t *n, const json_t *cell)
{
    char text[NOTE];

    for (size_t i = 0; k3_limits_text(cell, i, text, sizeof(text)); i++) {
        note(n, "%s", text);
    }
}

static void print_notes(const json_t *cell, FILE *out)
{
    char    backend[32];
    notes_t n = start_notes(k3_cell_backend(cell, backend, sizeof(backend)), out);

    note_slowest(&n, cell);
    note_pattern(&n, cell);
    note_choices(&n, cell);
    note_imbalance(&n, cell);
    note_links(&n, cell);
    note_transport(&n, cell);
    note_limits(&n, cell);
    note_doubts(&n, cell);
    fprintf(out, "\n");
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
    columns_t columns = {run_columns, sizeof(run_columns) / sizeof(run_columns[0]), {0}};
    bool      any = false;

    start_columns(&columns);
    for (size_t i = 0; i < json_array_size(cells); i++) {
        items_t items;

        if (k3_cell_measured(json_array_get(cells, i))) {
            run_items(json_array_get(cells, i), &items);
            widen_columns(&columns, &items);
            any = true;
        }
    }
    fit_columns(&columns, 2);
    if (any) {
        print_heads(&columns, out);
    }
    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *cell = json_array_get(cells, i);

        if (k3_cell_measured(cell)) {
            print_cell(&columns, cell, k3_cell_is_fastest(cells, cell), colour, out);
        }
    }
    return any;
}

void k3_table_print(const json_t *document, FILE *out, bool colour)
{
    const json_t *cells = json_object_get(document, "cells");

    if (print_measured(cells, out, colour)) {
        fprintf(out, "times: median over iterations of the slowest rank; +-%%: half width of its "
                     "95 %% interval\n"
                     "layout F: fast path, -: fallback; wire: of the dispatch, all ranks; *: the "
                     "fastest, its "
                     "interval below all others'\n\n");
    }
    for (size_t i = 0; i < json_array_size(cells); i++) {
        if (k3_cell_measured(json_array_get(cells, i))) {
            print_notes(json_array_get(cells, i), out);
        }
    }
    print_refused(cells, out);
    if (json_is_true(json_object_get(json_object_get(document, "topology"), "oversubscribed"))) {
        fprintf(out, "oversubscribed: more ranks than cores; the times show order, not speed\n");
    }
}

/* --- planned cells --------------------------------------------------------------------------- */

static const column_t plan_columns[] = {
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
};

static void plan_items(const json_t *cell, items_t *items)
{
    const json_t *memory = json_object_get(cell, "memory");
    const json_t *dispatch = json_object_get(json_object_get(cell, "traffic"), "dispatch");
    char(*text)[ITEM] = items->text;

    k3_cell_backend(cell, text[0], ITEM);
    snprintf(text[1], ITEM, "%s", k3_get_text(json_object_get(cell, "model"), "name"));
    layout_text(cell, text[2]);
    count_text(json_object_get(json_object_get(cell, "work"), "rows_global"), text[3], ITEM);
    ratio_text(cell, text[4]);
    count_text(json_object_get(dispatch, "messages"), text[5], ITEM);
    count_text(json_object_get(dispatch, "signals"), text[6], ITEM);
    bytes_text(json_object_get(dispatch, "bytes_wire"), text[7], ITEM);
    bytes_text(json_object_get(memory, "buffers_bytes"), text[8], ITEM);
    bytes_text(json_object_get(memory, "expert_weights_bytes"), text[9], ITEM);
}

static bool is_planned(const json_t *cell)
{
    return strcmp(k3_get_text(cell, "status"), "planned") == 0;
}

void k3_table_plan(const json_t *cells, FILE *out)
{
    columns_t columns = {plan_columns, sizeof(plan_columns) / sizeof(plan_columns[0]), {0}};
    bool      any = false;
    items_t   items;

    start_columns(&columns);
    for (size_t i = 0; i < json_array_size(cells); i++) {
        if (is_planned(json_array_get(cells, i))) {
            plan_items(json_array_get(cells, i), &items);
            widen_columns(&columns, &items);
            any = true;
        }
    }
    fit_columns(&columns, 0);
    if (any) {
        print_heads(&columns, out);
    }
    for (size_t i = 0; i < json_array_size(cells); i++) {
        if (is_planned(json_array_get(cells, i))) {
            plan_items(json_array_get(cells, i), &items);
            print_items(&columns, &items, out);
            fputc('\n', out);
        }
    }
    print_refused(cells, out);
}
