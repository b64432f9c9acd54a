#include "bench/report/table_notes.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "bench/report/cellview.h"
#include "bench/report/doubts.h"
#include "bench/report/fastest.h"
#include "bench/report/fields.h"
#include "bench/report/limits.h"
#include "bench/report/plain.h"
#include "bench/report/table_columns.h"
#include "harness/base/text.h"

/* Statements about one cell below its name, on as many lines as they need. */
typedef struct notes {
    FILE *out;
    int   at; /* the column where the next one would stand */
} notes_t;

enum { NOTE_INDENT = 17, NOTE = K3_TABLE_LINE - NOTE_INDENT };

static notes_t start_notes(const char *name, FILE *out)
{
    int width = NOTE_INDENT - 3;

    if ((int)strlen(name) > width) { /* a longer name has a line of its own */
        fprintf(out, "  %s\n%*s", name, NOTE_INDENT, "");
    } else {
        fprintf(out, "  %-*s ", width, name);
    }
    return (notes_t){out, NOTE_INDENT};
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
    if (n->at > NOTE_INDENT && n->at + 3 + length > K3_TABLE_LINE) {
        fprintf(n->out, ";\n%*s", NOTE_INDENT, "");
        n->at = NOTE_INDENT;
    }
    n->at += fprintf(n->out, "%s%s", n->at > NOTE_INDENT ? "; " : "", text);
}

/* The mean busy time of a lane may be that of one message which the scheduler held up: then it says
 * nothing about the lane. */
static void note_one_message(notes_t *n, const json_t *cell, const k3_lanes_t *lanes,
                             const json_t *lane)
{
    const json_t *phase = k3_cell_phase(cell, k3_field_text(lane, lanes->phase));
    double        all = k3_field_number(lane, lanes->busy_us) * (double)k3_get_int(phase, "n");
    double        most = json_number_value(k3_field(lane, lanes->max_us));

    if (all > 0 && most > all / 2) {
        note(n, "the longest alone is %.0f %% of its busy time in all iterations",
             100 * fmin(most / all, 1));
    }
}

/* One sample far above the usual is named: the median does not show it. */
static void note_outlier(notes_t *n, const json_t *cell)
{
    const json_t *phase = k3_cell_phase(cell, k3_cell_headline(cell));
    double        median = json_number_value(json_object_get(phase, "median"));
    double        most = json_number_value(json_object_get(phase, "max"));

    if (median > 0 && most >= 5 * median && json_is_integer(json_object_get(phase, "max_rank"))) {
        note(n, "iteration %lld took %.0f us on rank %lld, %.1f times the median",
             k3_get_int(phase, "max_iteration"), most, k3_get_int(phase, "max_rank"),
             most / median);
    }
}

/* The mean of a lane's work can be told from its messages only with the longest of them. */
static void note_messages(notes_t *n, const k3_lanes_t *lanes, const json_t *lane)
{
    char p50[K3_PLAIN], p99[K3_PLAIN], most[K3_PLAIN];

    if (json_is_number(k3_field(lane, lanes->p99_us))) {
        note(n, "a message p50 %s p99 %s max %s us",
             k3_plain(k3_field_number(lane, lanes->p50_us), 3, p50),
             k3_plain(k3_field_number(lane, lanes->p99_us), 3, p99),
             k3_plain(k3_field_number(lane, lanes->max_us), 3, most));
    }
}

static void note_slowest(notes_t *n, const json_t *cell)
{
    const json_t *worst;
    const char   *what;
    long long     count;
    k3_lanes_t    lanes;

    k3_lanes_of(cell, &lanes);
    worst = k3_lanes_slowest(&lanes);
    note(n, "slowest rank %lld",
         k3_get_int(k3_cell_phase(cell, k3_cell_headline(cell)), "slowest_rank"));
    if (worst == NULL) {
        return;
    }
    count = k3_field_int(worst, lanes.messages);
    what = count > 0 ? "message" : "signal";
    count = count > 0 ? count : k3_field_int(worst, lanes.signals);
    note(n, "slowest QP: %s %lld->%lld QP %lld (%s), mean busy %.1f us with %lld %s%s",
         k3_field_text(worst, lanes.phase), k3_field_int(worst, lanes.src),
         k3_field_int(worst, lanes.dst), k3_field_int(worst, lanes.qp),
         k3_field_text(worst, lanes.lane), k3_field_number(worst, lanes.busy_us), count, what,
         count == 1 ? "" : "s");
    note_messages(n, &lanes, worst);
    note_one_message(n, cell, &lanes, worst);
}

/* How many queue pair numbers carry rows; 0: the record does not have all lanes. */
static long long qps_with_rows(const json_t *cell)
{
    static const long long most = 4096;
    const json_t          *qps = json_object_get(cell, "qps"), *row;
    bool                   seen[4096] = {false};
    k3_lanes_t             lanes;
    long long              count = 0;
    size_t                 i;

    k3_lanes_of(cell, &lanes);
    if (k3_get_int(qps, "lanes_kept") != k3_get_int(qps, "lanes_total")) {
        return 0;
    }
    json_array_foreach(lanes.rows, i, row)
    {
        long long qp = k3_field_int(row, lanes.qp);

        if (qp >= 0 && qp < most && !seen[qp] && k3_field_int(row, lanes.bytes_payload) > 0) {
            seen[qp] = true;
            count++;
        }
    }
    return count;
}

static void note_qps(notes_t *n, const json_t *cell, long long qps)
{
    long long used = qps_with_rows(cell);

    if (used > 0 && used < qps) {
        note(n, "QPs %lld, %lld carry rows", qps, used);
    } else {
        note(n, "QPs %lld", qps);
    }
}

/* What may differ between the lines of a table without a column of its own. */
static void note_choices(notes_t *n, const json_t *cell)
{
    const json_t *choices = json_object_get(cell, "choices");
    char          formats[96];

    note(n, "%s: %s", k3_get_text(cell, "component"),
         k3_cell_formats(cell, formats, sizeof(formats)));
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
    note_qps(n, cell, k3_get_int(choices, "qps_per_peer"));
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
            used = k3_append(text, sizeof(text), used, "%s %s %.2f", used > 0 ? "," : "",
                             parts[i][1], json_number_value(value));
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

void k3_table_notes(const json_t *cells, const json_t *cell, FILE *out)
{
    char    name[96];
    notes_t n = start_notes(k3_cell_name(cells, cell, name, sizeof(name)), out);

    note_slowest(&n, cell);
    note_outlier(&n, cell);
    note_pattern(&n, cell);
    note_choices(&n, cell);
    note_imbalance(&n, cell);
    note_links(&n, cell);
    note_transport(&n, cell);
    note_limits(&n, cell);
    note_doubts(&n, cell);
    fprintf(out, "\n");
}
