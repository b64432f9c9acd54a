/* Every writer of reports on records in which members are missing, null, huge, hostile or of another type. The
 * bytes choose which ones: three for each change. They are also tried as a record of their own. */
#include <jansson.h>
#include <string.h>

#include "bench/report/csv.h"
#include "bench/report/html.h"
#include "bench/report/markdown.h"
#include "bench/report/metrics.h"
#include "bench/report/table.h"
#include "bench/report/trace.h"
#include "tests/fuzz/fuzz.h"

const char *const fuzz_seeds[] = {
    "a",
    "abcabc",
    "{\"cells\": [{\"phases\": []}]}",
    "{\"run\": 3, \"cells\": {}}",
    "\x01\x02\x03\x7f\x80\xff",
    "",
    NULL,
};

static const char record_text[] = "{'run': {'id': '1', 'started_utc': '2026-01-31T12:00:00Z', "
                                  "'version': '0', 'git_sha': 'g', 'launch': {'ranks': 2, "
                                  "'hosts': ['h']}, 'options': [{'name': 'model', 'value': 'm', "
                                  "'origin': 'command line'}]}, 'fingerprint': {'key': "
                                  "'k', 'stable': {'cores': 2}, 'volatile': {'load': [1.5]}}, "
                                  "'topology': {'oversubscribed': true}, 'cells': [{'key': "
                                  "'c', 'backend': 'b', 'mode': 'm', 'component': 'region', "
                                  "'status': 'ok', 'reason': null, 'model': {'name': 'm'}, "
                                  "'layout': {'tp': 2, 'dp': 1, 'cp': 1, 'ep': 2}, 'path': "
                                  "{'fast': true, 'moves_rows': true}, 'tokens': {'asked': "
                                  "16}, 'choices': {'qps_per_peer': 2, 'recipe': {'runner': 'r'}}, "
                                  "'work': {'dispatch_ratio': 1.0, 'imbalance': "
                                  "{'expert': 1.5, 'rank': 1.0, 'qp': null}, 'routing_hash': 'x'}, "
                                  "'check': {'state': 'ok', 'max_rel_err': 0.1}, "
                                  "'phases': [{'name': 'dispatch', 'n': 2, 'median': 4.5, 'ci95': "
                                  "[4, 5], 'p99': 6}, {'name': 'region', 'n': 2, "
                                  "'median': 11, 'ci95': [10, 12], 'p99': 13, 'slowest_rank': 1, "
                                  "'samples': [10, 12.5]}], 'rates': [{'name': "
                                  "'dispatch', 'basis': 'wire', 'GBps': 0.5}], 'qps': "
                                  "{'matches_plan': true, 'lanes_total': 9, 'lanes_kept': 1, "
                                  "'columns': ['phase', 'src', 'dst', 'qp', 'lane', 'messages', "
                                  "'bytes_wire', 'first_post_us', 'last_done_us', "
                                  "'busy_us', 'p50_us', 'p99_us'], 'rows': [['dispatch', 0, 1, 1, "
                                  "'qp', 4, 100, 0.5, 2.5, 1.5, 0.5, 0.75], "
                                  "['combine', 1, 0, 0, 'qp', 4, 100, 0.5, 2.5, 1.5, null, "
                                  "null]]}, 'waits': {'columns': ['phase', 'dst', 'src', "
                                  "'sum_us', 'max_us', 'count'], 'rows': [['dispatch', 1, 0, 5.5, "
                                  "3.5, 2]]}, 'timeline': {'iteration': 1, 'chosen': "
                                  "'t', 'headline_us': 11, 'clock_error_us': 0.5, 'columns': "
                                  "['rank', 'phase', 'begin_us', 'end_us', 'own_us'], "
                                  "'rows': [[0, 'dispatch_send', 0, 2, 2], [1, 'dispatch_wait', 1, "
                                  "3, 2], [1, 'combine_send', 3, 4, 1], [0, "
                                  "'combine_wait', 3, 5, 2]]}, 'pattern': {'name': 'late rank', "
                                  "'phase': 'dispatch', 'text': 't', 'rank': 1, "
                                  "'share': 0.5}, 'trend': {'stationary': false, 'slope_pct': 3, "
                                  "'p': 0.01}, 'sync': {'late': 1, 'late_max_us': 2}}]}";

static json_t *record(void)
{
    static char text[sizeof(record_text)];
    json_t     *json;

    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = record_text[i] == '\'' ? '"' : record_text[i];
    }
    json = json_loads(text, 0, NULL);
    FUZZ_CHECK(json != NULL);
    return json;
}

/* --- changes --------------------------------------------------------------------------------- */

static json_t *odd_value(unsigned which)
{
    static const char *const texts[] = {"<script>alert(1)</script>",
                                        "\" onload=\"x",
                                        "=1+1",
                                        "a|b\n`c`\t",
                                        "\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80",
                                        "",
                                        "</pre>",
                                        "dispatch"};
    static const double      reals[] = {-1.5, 1e308, -1e308, 5e-324, 0.1};

    switch (which % 8) {
    case 0:
        return json_null();
    case 1:
        return json_integer(which % 3 == 0 ? -1 : which % 3 == 1 ? 9223372036854775807 : 70000);
    case 2:
        return json_real(reals[which / 8 % 5]);
    case 3:
        return json_array();
    case 4:
        return json_object();
    case 5:
        return json_true();
    default:
        return json_string(texts[which / 8 % 8]);
    }
}

/* Walks down by the bits of `path` and replaces, removes or doubles what stands there. */
static void change(json_t *at, unsigned path, unsigned what)
{
    for (;;) {
        bool        object = json_is_object(at);
        size_t      n = object ? json_object_size(at) : json_array_size(at), i;
        const char *key = NULL;
        json_t     *member, *found = NULL;

        if (n == 0) {
            return;
        }
        i = path % n;
        path /= (unsigned)n;
        if (object) {
            json_object_foreach(at, key, member)
            {
                if (i-- == 0) {
                    found = member;
                    break;
                }
            }
        } else {
            found = json_array_get(at, i);
        }
        if (path != 0 && (json_is_object(found) || json_is_array(found))) {
            at = found;
        } else if (object && what % 9 == 8) {
            json_object_del(at, key);
            return;
        } else if (object) {
            json_object_set_new(at, key, odd_value(what));
            return;
        } else {
            json_array_set_new(at, i % n, odd_value(what));
            return;
        }
    }
}

/* --- writers --------------------------------------------------------------------------------- */

#define WRITE(text, call)                                                                          \
    do {                                                                                           \
        size_t size_of_text = 0;                                                                   \
        FILE  *out = open_memstream(&(text), &size_of_text);                                       \
                                                                                                   \
        FUZZ_CHECK(out != NULL);                                                                   \
        call;                                                                                      \
        (void)fclose(out);                                                                         \
    } while (0)

static void write_all(json_t *document)
{
    json_t *documents[] = {document, document}, *trace;
    char   *text = NULL;

    WRITE(text, k3_report_html(documents, 1, 1, out));
    FUZZ_CHECK(strstr(text, "<script>alert") == NULL && strstr(text, "\" onload=") == NULL);
    free(text);
    WRITE(text, k3_report_html(documents, 2, 1, out));
    FUZZ_CHECK(strstr(text, "<script>alert") == NULL && strstr(text, "</html>\n") != NULL);
    free(text);
    WRITE(text, k3_report_trace(documents, 2, out));
    trace = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    FUZZ_CHECK(trace != NULL);
    json_decref(trace);
    free(text);
    WRITE(text, k3_report_metrics(documents, 2, out));
    FUZZ_CHECK(strlen(text) > 6 && strcmp(text + strlen(text) - 6, "# EOF\n") == 0);
    FUZZ_CHECK(strstr(text, "} nan") == NULL && strstr(text, "} -nan") == NULL);
    free(text);
    WRITE(text, k3_report_csv(documents, 2, out));
    FUZZ_CHECK(strstr(text, ",=1") == NULL);
    free(text);
    WRITE(text, k3_report_csv_lanes(documents, 2, out));
    free(text);
    WRITE(text, k3_report_markdown(documents, 2, out));
    FUZZ_CHECK(strlen(text) <= K3_MARKDOWN_MOST && strstr(text, "<script>") == NULL);
    free(text);
    WRITE(text, k3_table_print(document, out, true));
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *document = json_loadb((const char *)data, size, 0, NULL);

    if (document != NULL) {
        write_all(document);
        json_decref(document);
    }
    document = record();
    for (size_t i = 0; i + 2 < size && i < 60; i += 3) {
        change(document, (unsigned)data[i] << 8 | data[i + 1] | (unsigned)i << 16, data[i + 2]);
    }
    write_all(document);
    json_decref(document);
    return 0;
}
