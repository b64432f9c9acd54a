#include "bench/report/table.h"

#include <math.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text != NULL ? text : "";
}

static long long int_of(const json_t *object, const char *name)
{
    return (long long)json_integer_value(json_object_get(object, name));
}

const char *k3_table_backend(const json_t *cell, char *text, size_t size)
{
    const char *mode = text_of(cell, "mode");

    snprintf(text, size, "%s%s%s", text_of(cell, "backend"), mode[0] != '\0' ? ":" : "", mode);
    return text;
}

static const json_t *phase_of(const json_t *cell, const char *name)
{
    const json_t *phases = json_object_get(cell, "phases");

    for (size_t i = 0; i < json_array_size(phases); i++) {
        const json_t *phase = json_array_get(phases, i);

        if (strcmp(text_of(phase, "name"), name) == 0) {
            return phase;
        }
    }
    return NULL;
}

bool k3_table_median(const json_t *cell, const char *phase, double *us)
{
    const json_t *median = json_object_get(phase_of(cell, phase), "median");

    *us = json_number_value(median);
    return json_is_number(median);
}

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

/* Four significant digits fit every column. */
static const char *time_text(bool known, double us, char *text, size_t size)
{
    if (!known) {
        snprintf(text, size, "-");
    } else {
        snprintf(text, size, us >= 1000.0 ? "%.0f" : us >= 100.0 ? "%.1f" : "%.2f", us);
    }
    return text;
}

/* --- which cells can be compared with the eye ------------------------------------------------ */

/* The phase that a component is judged by. */
static const char *headline(const json_t *cell)
{
    const char *component = text_of(cell, "component");

    if (strcmp(component, "control") == 0) {
        return "dispatch";
    }
    return strcmp(component, "experts") == 0 ? "expert_mlp" : component;
}

static bool same_group(const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"model", "tokens", "component", NULL};

    for (int i = 0; keys[i] != NULL; i++) {
        if (!json_equal(json_object_get(a, keys[i]), json_object_get(b, keys[i]))) {
            return false;
        }
    }
    return json_equal(json_object_get(json_object_get(a, "work"), "routing_hash"),
                      json_object_get(json_object_get(b, "work"), "routing_hash"));
}

/* Baselines that move nothing are no rivals. */
static bool is_fastest(const json_t *cells, const json_t *cell)
{
    double own, other;

    if (strcmp(text_of(cell, "status"), "ok") != 0 ||
        strcmp(text_of(cell, "backend"), "null") == 0 ||
        !k3_table_median(cell, headline(cell), &own)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *rival = json_array_get(cells, i);

        if (rival != cell && strcmp(text_of(rival, "status"), "ok") == 0 &&
            strcmp(text_of(rival, "backend"), "null") != 0 && same_group(rival, cell) &&
            k3_table_median(rival, headline(rival), &other) && other < own) {
            return false;
        }
    }
    return true;
}

/* --- measured cells -------------------------------------------------------------------------- */

static void print_head(FILE *out)
{
    fprintf(out, "%-14s %-16s %-17s %5s %5s | %9s %9s %9s %9s %6s | %9s  %s\n", "backend", "model",
            "layout", "rows", "ratio", "dispatch", "experts", "combine", "total", "+-%",
            "wire GB/s", "check");
    fprintf(out, "%-14s %-16s %-17s %5s %5s | %9s %9s %9s %9s %6s | %9s\n", "", "", "", "/rank", "",
            "us", "us", "us", "us", "", "dispatch");
}

static const char *layout_text(const json_t *cell, char *text, size_t size)
{
    const json_t *layout = json_object_get(cell, "layout"), *path = json_object_get(cell, "path");

    snprintf(text, size, "tp%lld dp%lld ep%lld%s", int_of(layout, "tp"), int_of(layout, "dp"),
             int_of(layout, "ep"), json_is_true(json_object_get(path, "fast")) ? " F" : " -");
    return text;
}

/* Half width of the interval of the headline's median, percent. */
static const char *spread_text(const json_t *cell, char *text, size_t size)
{
    const json_t *phase = phase_of(cell, headline(cell));
    const json_t *ci = json_object_get(phase, "ci95");
    double        median;

    snprintf(text, size, "-");
    if (json_is_array(ci) && k3_table_median(cell, headline(cell), &median) && median > 0.0) {
        double low = json_number_value(json_array_get(ci, 0)),
               high = json_number_value(json_array_get(ci, 1));

        snprintf(text, size, "%.1f", 50.0 * (high - low) / median);
    }
    return text;
}

static const char *rate_text(const json_t *cell, char *text, size_t size)
{
    const json_t *rates = json_object_get(cell, "rates");

    snprintf(text, size, "-");
    for (size_t i = 0; i < json_array_size(rates); i++) {
        const json_t *rate = json_array_get(rates, i), *value = json_object_get(rate, "GBps");

        if (strcmp(text_of(rate, "name"), "dispatch") == 0 &&
            strcmp(text_of(rate, "basis"), "wire") == 0 && json_is_number(value)) {
            snprintf(text, size, "%.3f", json_number_value(value));
        }
    }
    return text;
}

static void print_cell(const json_t *cell, bool fastest, bool colour, FILE *out)
{
    static const char *const phases[] = {"dispatch", "expert_mlp", "combine", "region"};
    char          backend[32], layout[32], spread[16], rate[16], ratio[16] = "-", times[4][16];
    const json_t *work = json_object_get(cell, "work");
    const json_t *check = json_object_get(cell, "check");
    bool          bad = strcmp(text_of(cell, "status"), "failed") == 0;

    for (int p = 0; p < 4; p++) {
        double us;
        /* The last column is what the component is judged by. */
        bool known = k3_table_median(cell, p == 3 ? headline(cell) : phases[p], &us);

        time_text(known, us, times[p], sizeof(times[p]));
    }
    if (json_is_number(json_object_get(work, "dispatch_ratio"))) {
        snprintf(ratio, sizeof(ratio), "%.2f",
                 json_number_value(json_object_get(work, "dispatch_ratio")));
    }
    fprintf(out, "%s%-14s %-16.16s %-17s %5lld %5s | %9s %9s %9s %9s %6s | %9s  %s%s%s\n",
            colour && bad       ? "\033[31m"
            : colour && fastest ? "\033[32m"
                                : "",
            k3_table_backend(cell, backend, sizeof(backend)),
            text_of(json_object_get(cell, "model"), "name"),
            layout_text(cell, layout, sizeof(layout)),
            int_of(json_object_get(cell, "tokens"), "max"), ratio, times[0], times[1], times[2],
            times[3], spread_text(cell, spread, sizeof(spread)),
            rate_text(cell, rate, sizeof(rate)), bad ? "FAILED" : text_of(check, "state"),
            fastest ? " *" : "", colour && (bad || fastest) ? "\033[0m" : "");
}

static bool was_measured(const json_t *cell)
{
    return json_is_array(json_object_get(cell, "phases"));
}

/* --- below the table ------------------------------------------------------------------------- */

/* The lane that finished last, by its mean over iterations. */
static void print_slowest_lane(const json_t *cell, FILE *out)
{
    const json_t *rows = json_object_get(json_object_get(cell, "qps"), "rows"), *worst = NULL;
    const json_t *phase = phase_of(cell, headline(cell));
    char          backend[32];

    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);

        if (worst == NULL || json_number_value(json_array_get(row, 11)) >
                                 json_number_value(json_array_get(worst, 11))) {
            worst = row;
        }
    }
    fprintf(out, "  %-14s slowest rank %lld", k3_table_backend(cell, backend, sizeof(backend)),
            int_of(phase, "slowest_rank"));
    if (worst != NULL) {
        fprintf(out, "; slowest QP: %s %lld->%lld QP %lld (%s), last done %.1f us",
                json_string_value(json_array_get(worst, 0)),
                (long long)json_integer_value(json_array_get(worst, 1)),
                (long long)json_integer_value(json_array_get(worst, 2)),
                (long long)json_integer_value(json_array_get(worst, 3)),
                json_string_value(json_array_get(worst, 4)),
                json_number_value(json_array_get(worst, 11)));
        if (json_is_number(json_array_get(worst, 14))) {
            fprintf(out, ", p99 %.2f us", json_number_value(json_array_get(worst, 14)));
        }
    }
    fprintf(out, "\n");
}

static void print_imbalance(const json_t *cell, FILE *out)
{
    const json_t *imbalance = json_object_get(json_object_get(cell, "work"), "imbalance");
    const json_t *qp = json_object_get(imbalance, "qp");

    fprintf(out, "  %-14s imbalance (max/mean): expert %.2f, rank %.2f", "",
            json_number_value(json_object_get(imbalance, "expert")),
            json_number_value(json_object_get(imbalance, "rank")));
    if (json_is_number(qp)) {
        fprintf(out, ", QP %.2f", json_number_value(qp));
    }
    if (json_is_string(json_object_get(json_object_get(cell, "qps"), "transport"))) {
        fprintf(out, "; measured %s plan; transport: %s",
                json_is_true(json_object_get(json_object_get(cell, "qps"), "matches_plan")) ? "=="
                                                                                            : "!=",
                text_of(json_object_get(cell, "qps"), "transport"));
    }
    fprintf(out, "\n");
}

static void print_refused(const json_t *cells, FILE *out)
{
    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *cell = json_array_get(cells, i);
        const char   *status = text_of(cell, "status");
        char          backend[32];

        if (strcmp(status, "ok") != 0 && strcmp(status, "planned") != 0) {
            fprintf(out, "%s: %s %s: %s\n", status,
                    k3_table_backend(cell, backend, sizeof(backend)),
                    text_of(json_object_get(cell, "model"), "name"), text_of(cell, "reason"));
        }
    }
}

void k3_table_print(const json_t *document, FILE *out, bool colour)
{
    const json_t *cells = json_object_get(document, "cells");
    bool          head = false;

    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *cell = json_array_get(cells, i);

        if (was_measured(cell)) {
            if (!head) {
                print_head(out);
                head = true;
            }
            print_cell(cell, is_fastest(cells, cell), colour, out);
        }
    }
    if (head) {
        fprintf(out, "times: median over iterations of the slowest rank; +-%%: half width of its "
                     "95 %% interval; "
                     "layout F: fast path; * fastest\n\n");
    }
    for (size_t i = 0; i < json_array_size(cells); i++) {
        if (was_measured(json_array_get(cells, i))) {
            print_slowest_lane(json_array_get(cells, i), out);
            print_imbalance(json_array_get(cells, i), out);
        }
    }
    print_refused(cells, out);
    if (json_is_true(json_object_get(json_object_get(document, "topology"), "oversubscribed"))) {
        fprintf(out, "oversubscribed: more ranks than cores; the times show order, not speed\n");
    }
}

/* --- planned cells --------------------------------------------------------------------------- */

static void print_planned(const json_t *cell, FILE *out)
{
    const json_t *work = json_object_get(cell, "work"), *memory = json_object_get(cell, "memory");
    const json_t *dispatch = json_object_get(json_object_get(cell, "traffic"), "dispatch");
    char          backend[32], layout[32], ratio[16] = "-", wire[32], buffers[32], weights[32];

    if (json_is_number(json_object_get(work, "dispatch_ratio"))) {
        snprintf(ratio, sizeof(ratio), "%.2f",
                 json_number_value(json_object_get(work, "dispatch_ratio")));
    }
    fprintf(
        out, "%-18s %-16.16s %-17s %9lld %6s %10lld %9lld %10s %10s %10s\n",
        k3_table_backend(cell, backend, sizeof(backend)),
        text_of(json_object_get(cell, "model"), "name"), layout_text(cell, layout, sizeof(layout)),
        int_of(work, "rows_global"), ratio, int_of(dispatch, "messages"),
        int_of(dispatch, "signals"),
        k3_table_bytes((double)int_of(dispatch, "bytes_wire"), wire, sizeof(wire)),
        k3_table_bytes((double)int_of(memory, "buffers_bytes"), buffers, sizeof(buffers)),
        k3_table_bytes((double)int_of(memory, "expert_weights_bytes"), weights, sizeof(weights)));
}

void k3_table_plan(const json_t *cells, FILE *out)
{
    bool head = false;

    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *cell = json_array_get(cells, i);

        if (strcmp(text_of(cell, "status"), "planned") != 0) {
            continue;
        }
        if (!head) {
            fprintf(out, "%-18s %-16s %-17s %9s %6s %10s %9s %10s %10s %10s\n", "backend", "model",
                    "layout", "rows", "ratio", "messages", "signals", "wire", "buffers", "experts");
            fprintf(out, "%-18s %-16s %-17s %9s %6s %10s %9s %10s %10s %10s\n", "", "", "",
                    "global", "", "dispatch", "dispatch", "dispatch", "per rank", "per rank");
            head = true;
        }
        print_planned(cell, out);
    }
    print_refused(cells, out);
}
