#include "bench/report/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "bench/report/cellview.h"
#include "bench/report/fields.h"
#include "harness/base/memory.h"

/* --- labels ---------------------------------------------------------------------------------- */

static void put_label(const char *name, const char *text, FILE *out)
{
    fprintf(out, "%s=\"", name);
    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            fputs("\\n", out);
        } else {
            fputs(*text == '"' || *text == '\\' ? "\\" : "", out);
            fputc(*text, out);
        }
    }
    fputc('"', out);
}

static void put_count(const char *name, const json_t *value, FILE *out)
{
    char text[32] = "";

    if (json_is_integer(value)) {
        snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    }
    fputc(',', out);
    put_label(name, text, out);
}

/* What tells a cell from others of its launch, but for attempts. */
static void put_identity(const json_t *cell, FILE *out)
{
    static const char *const sizes[] = {"tp", "dp", "cp", "ep"};
    const json_t            *layout = json_object_get(cell, "layout");
    char                     backend[96];

    put_label("cell", k3_get_text(cell, "key"), out);
    fputc(',', out);
    put_label("backend", k3_cell_backend(cell, backend, sizeof(backend)), out);
    fputc(',', out);
    put_label("model", k3_get_text(json_object_get(cell, "model"), "name"), out);
    fputc(',', out);
    put_label("component", k3_get_text(cell, "component"), out);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        put_count(sizes[i], json_object_get(layout, sizes[i]), out);
    }
    put_count("tokens", json_object_get(json_object_get(cell, "tokens"), "asked"), out);
}

typedef struct sampled {
    const json_t *document, *cell;
    char         *labels; /* owned */
} sampled_t;

typedef struct metrics {
    sampled_t *cell;
    size_t     count;
    char     **launch; /* [documents] labels; owned */
    FILE      *out;
} metrics_t;

static char *cell_labels(const json_t *cell, const char *launch, json_t *seen)
{
    char  *text = NULL, *all = NULL;
    size_t size;
    FILE  *memory = open_memstream(&text, &size);
    int    attempt;

    if (memory == NULL) {
        return NULL;
    }
    put_identity(cell, memory);
    fclose(memory);
    attempt = (int)json_integer_value(json_object_get(seen, text)) + 1;
    json_object_set_new(seen, text, json_integer(attempt));
    memory = open_memstream(&all, &size);
    if (memory != NULL) {
        fprintf(memory, "%s,%s,attempt=\"%d\"", text, launch, attempt);
        fclose(memory);
    }
    free(text);
    return all;
}

/* --- families -------------------------------------------------------------------------------- */

typedef struct family {
    const char *name, *unit, *help; /* unit "": none */
    const char *member;             /* of what is sampled */
    double      scale;              /* to the base unit */
    void (*sample)(metrics_t *m, const struct family *f, const sampled_t *s);
} family_t;

/* `more`: further labels, NULL or ending without a comma. */
static void put_sample(metrics_t *m, const family_t *f, const sampled_t *s, const char *names[2],
                       const char *texts[2], double value)
{
    fprintf(m->out, "%s{%s", f->name, s->labels);
    for (int i = 0; i < 2 && names[i] != NULL; i++) {
        fputc(',', m->out);
        put_label(names[i], texts[i], m->out);
    }
    fprintf(m->out, "} %.9g\n", value);
}

static void sample_status(metrics_t *m, const family_t *f, const sampled_t *s)
{
    const char *text = k3_get_text(s->cell, "status");

    put_sample(m, f, s, (const char *[2]){"status"}, (const char *[2]){text},
               strcmp(text, "ok") == 0);
}

static void sample_check(metrics_t *m, const family_t *f, const sampled_t *s)
{
    const char *text = k3_get_text(json_object_get(s->cell, "check"), "state");

    if (text[0] != '\0') {
        put_sample(m, f, s, (const char *[2]){"state"}, (const char *[2]){text},
                   strcmp(text, "ok") == 0);
    }
}

static void sample_check_error(metrics_t *m, const family_t *f, const sampled_t *s)
{
    const json_t *value = json_object_get(json_object_get(s->cell, "check"), f->member);

    if (json_is_number(value)) {
        put_sample(m, f, s, (const char *[2]){NULL}, (const char *[2]){NULL},
                   json_number_value(value));
    }
}

static void sample_plan(metrics_t *m, const family_t *f, const sampled_t *s)
{
    const json_t *value = json_object_get(json_object_get(s->cell, "qps"), f->member);

    if (json_is_boolean(value)) {
        put_sample(m, f, s, (const char *[2]){NULL}, (const char *[2]){NULL}, json_is_true(value));
    }
}

/* Member "low" and "high": the ends of the interval. */
static void sample_phases(metrics_t *m, const family_t *f, const sampled_t *s)
{
    const json_t *phases = json_object_get(s->cell, "phases"), *phase;
    size_t        i;

    json_array_foreach(phases, i, phase)
    {
        const json_t *ci = json_object_get(phase, "ci95");
        const json_t *value = strcmp(f->member, "low") == 0    ? json_array_get(ci, 0)
                              : strcmp(f->member, "high") == 0 ? json_array_get(ci, 1)
                                                               : json_object_get(phase, f->member);

        if (json_is_number(value) && json_is_string(json_object_get(phase, "name"))) {
            put_sample(m, f, s, (const char *[2]){"phase"},
                       (const char *[2]){k3_get_text(phase, "name")},
                       f->scale * json_number_value(value));
        }
    }
}

static void sample_rates(metrics_t *m, const family_t *f, const sampled_t *s)
{
    const json_t *rates = json_object_get(s->cell, "rates"), *rate;
    size_t        i;

    json_array_foreach(rates, i, rate)
    {
        const json_t *value = json_object_get(rate, f->member);

        if (json_is_number(value)) {
            put_sample(m, f, s, (const char *[2]){"phase", "basis"},
                       (const char *[2]){k3_get_text(rate, "name"), k3_get_text(rate, "basis")},
                       f->scale * json_number_value(value));
        }
    }
}

static void sample_imbalance(metrics_t *m, const family_t *f, const sampled_t *s)
{
    static const char *const parts[] = {"expert", "rank", "qp"};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const json_t *imbalance = json_object_get(json_object_get(s->cell, "work"), f->member);
        const json_t *value = json_object_get(imbalance, parts[i]);

        if (json_is_number(value)) {
            put_sample(m, f, s, (const char *[2]){"of"}, (const char *[2]){parts[i]},
                       json_number_value(value));
        }
    }
}

static void sample_pattern(metrics_t *m, const family_t *f, const sampled_t *s)
{
    const json_t *pattern = json_object_get(s->cell, "pattern");

    if (json_is_number(json_object_get(pattern, f->member))) {
        put_sample(m, f, s, (const char *[2]){"pattern", "phase"},
                   (const char *[2]){k3_get_text(pattern, "name"), k3_get_text(pattern, "phase")},
                   k3_get_number(pattern, f->member));
    }
}

static const family_t families[] = {
    {"k3bench_cell_ok", "", "1 when the cell ended ok; the label says how it ended.", "", 1.0,
     sample_status},
    {"k3bench_check_ok", "", "1 when the results were checked and right.", "", 1.0, sample_check},
    {"k3bench_check_max_error_ratio", "ratio", "Largest relative error that the check found.",
     "max_rel_err", 1.0, sample_check_error},
    {"k3bench_plan_matched", "", "1 when every lane moved what was planned.", "matches_plan", 1.0,
     sample_plan},
    {"k3bench_phase_median_seconds", "seconds",
     "Median over iterations of the slowest rank's time in a phase.", "median", 1e-6,
     sample_phases},
    {"k3bench_phase_ci95_low_seconds", "seconds", "Lower end of the median's 95 % interval.", "low",
     1e-6, sample_phases},
    {"k3bench_phase_ci95_high_seconds", "seconds", "Upper end of the median's 95 % interval.",
     "high", 1e-6, sample_phases},
    {"k3bench_phase_p99_seconds", "seconds", "99th percentile over iterations.", "p99", 1e-6,
     sample_phases},
    {"k3bench_phase_iterations", "", "Timed iterations.", "n", 1.0, sample_phases},
    {"k3bench_rate_bytes_per_second", "bytes_per_second",
     "Bytes of all ranks over the median; the basis says which bytes.", "GBps", 1e9, sample_rates},
    {"k3bench_imbalance_ratio", "ratio", "Largest over mean: of experts, ranks, queue pairs.",
     "imbalance", 1.0, sample_imbalance},
    {"k3bench_pattern_share_ratio", "ratio",
     "What holds the cell back, as a share of its phase; absent when nothing stands out.", "share",
     1.0, sample_pattern},
};

static void put_head(const char *name, const char *unit, const char *help, FILE *out)
{
    fprintf(out, "# TYPE %s gauge\n", name);
    if (unit[0] != '\0') {
        fprintf(out, "# UNIT %s %s\n", name, unit);
    }
    fprintf(out, "# HELP %s %s\n", name, help);
}

/* --- launches -------------------------------------------------------------------------------- */

/* Seconds since 1970 of "2026-01-31T12:00:00Z"; false: it is no such time. */
static bool seconds_of(const char *text, long long *seconds)
{
    int       year, month, day, hour, minute, second;
    long long days;

    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2dZ", &year, &month, &day, &hour, &minute, &second) !=
            6 ||
        month < 1 || month > 12 || year < 1970) {
        return false;
    }
    /* Days of the civil calendar: years begin in March, so that the leap day is the last one. */
    year -= month <= 2;
    days = 365LL * year + year / 4 - year / 100 + year / 400 +
           (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1 - 719468;
    *seconds = days * 86400 + hour * 3600 + minute * 60 + second;
    return true;
}

static void put_runs(const metrics_t *m, json_t *const *documents, size_t count)
{
    static const char *const members[] = {"id", "git_sha", "version"};
    static const char *const labels[] = {"run", "git_sha", "version"};

    put_head("k3bench_run", "", "One for each launch, with what it was.", m->out);
    for (size_t d = 0; d < count; d++) {
        const json_t *run = json_object_get(documents[d], "run");

        fprintf(m->out, "k3bench_run{%s", m->launch[d]);
        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
            fputc(',', m->out);
            put_label(labels[i], k3_get_text(run, members[i]), m->out);
        }
        fputc(',', m->out);
        put_label("machine", k3_get_text(json_object_get(documents[d], "fingerprint"), "key"),
                  m->out);
        fputs("} 1\n", m->out);
    }
    put_head("k3bench_run_started_timestamp_seconds", "seconds", "When the launch started.",
             m->out);
    for (size_t d = 0; d < count; d++) {
        const json_t *run = json_object_get(documents[d], "run");
        long long     seconds;

        if (seconds_of(k3_get_text(run, "started_utc"), &seconds)) {
            fprintf(m->out, "k3bench_run_started_timestamp_seconds{%s} %lld\n", m->launch[d],
                    seconds);
        }
    }
    put_head("k3bench_run_ranks", "", "Ranks of the launch.", m->out);
    for (size_t d = 0; d < count; d++) {
        const json_t *launch = json_object_get(json_object_get(documents[d], "run"), "launch");

        fprintf(m->out, "k3bench_run_ranks{%s} %lld\n", m->launch[d], k3_get_int(launch, "ranks"));
    }
    put_head("k3bench_run_oversubscribed", "", "1 when there were more ranks than cores.", m->out);
    for (size_t d = 0; d < count; d++) {
        const json_t *topology = json_object_get(documents[d], "topology");

        fprintf(m->out, "k3bench_run_oversubscribed{%s} %d\n", m->launch[d],
                json_is_true(json_object_get(topology, "oversubscribed")));
    }
}

/* --- all ------------------------------------------------------------------------------------- */

static k3_status_t open_metrics(metrics_t *m, json_t *const *documents, size_t count,
                                k3_error_t *err)
{
    size_t cells = 0;

    for (size_t d = 0; d < count; d++) {
        cells += json_array_size(json_object_get(documents[d], "cells"));
    }
    if (k3_alloc("launches", count, sizeof(char *), &m->launch, err) != K3_OK ||
        k3_alloc("cells", cells, sizeof(sampled_t), &m->cell, err) != K3_OK) {
        return err->status;
    }
    for (size_t d = 0; d < count; d++) {
        const json_t *list = json_object_get(documents[d], "cells"), *cell;
        json_t       *seen = json_object();
        size_t        i;

        if (k3_alloc("launch", 32, 1, &m->launch[d], err) != K3_OK) {
            json_decref(seen);
            return err->status;
        }
        snprintf(m->launch[d], 32, "launch=\"%zu\"", k3_launch_number(documents, count, d));
        json_array_foreach(list, i, cell)
        {
            char *labels = cell_labels(cell, m->launch[d], seen);

            if (labels != NULL) {
                m->cell[m->count++] = (sampled_t){documents[d], cell, labels};
            }
        }
        json_decref(seen);
    }
    return K3_OK;
}

static void close_metrics(metrics_t *m, size_t count)
{
    for (size_t i = 0; i < m->count; i++) {
        free(m->cell[i].labels);
    }
    for (size_t d = 0; d < count && m->launch != NULL; d++) {
        k3_free(m->launch[d]);
    }
    k3_free(m->cell);
    k3_free(m->launch);
}

void k3_report_metrics(json_t *const *documents, size_t count, FILE *out)
{
    metrics_t  m = {.out = out};
    k3_error_t unused = K3_ERROR_INIT;

    if (open_metrics(&m, documents, count, &unused) == K3_OK) {
        put_runs(&m, documents, count);
        for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
            put_head(families[f].name, families[f].unit, families[f].help, out);
            for (size_t i = 0; i < m.count; i++) {
                families[f].sample(&m, &families[f], &m.cell[i]);
            }
        }
        fputs("# EOF\n", out);
    }
    close_metrics(&m, count);
}
