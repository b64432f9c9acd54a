/* The slowest lanes of one cell, as a table. */
#include <stdlib.h>

#include "bench/report/fields.h"
#include "bench/report/html_internal.h"
#include "harness/base/memory.h"

enum { SLOWEST = 12 };

typedef struct lane {
    const json_t *row;
    double        busy_us;
    size_t        at; /* equal ones keep their order */
} lane_t;

static int by_busy(const void *x, const void *y)
{
    const lane_t *a = x, *b = y;

    if (a->busy_us != b->busy_us) {
        return (a->busy_us < b->busy_us) - (a->busy_us > b->busy_us);
    }
    return (a->at > b->at) - (a->at < b->at);
}

static void print_lane(const k3_lanes_t *l, const json_t *row, FILE *out)
{
    const int numbers[] = {l->messages, l->bytes_wire, l->first_post_us, l->last_done_us,
                           l->busy_us,  l->p50_us,     l->p99_us,        l->max_us};

    fputs("<tr>", out);
    k3_html_td(k3_field_text(row, l->phase), "t", out);
    fprintf(out, "<td>%lld</td><td>%lld</td><td>%lld</td>", k3_field_int(row, l->src),
            k3_field_int(row, l->dst), k3_field_int(row, l->qp));
    k3_html_td(k3_field_text(row, l->lane), "t", out);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        fputs("<td>", out);
        k3_html_number(k3_field(row, numbers[i]), out);
        fputs("</td>", out);
    }
    fputs("</tr>\n", out);
}

static void print_heads(FILE *out)
{
    static const char *const heads[] = {
        "phase",         "source",       "destination", "QP",     "lane",   "messages", "wire B",
        "first post us", "last done us", "busy us",     "p50 us", "p99 us", "max us"};

    fputs("<h4>Slowest lanes</h4>\n<div class=wide><table class=sort><thead><tr>", out);
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        fprintf(out, "<th%s><button>%s</button></th>", i == 0 || i == 4 ? " class=t" : "",
                heads[i]);
    }
    fputs("</tr></thead><tbody>\n", out);
}

void k3_html_lanes(const json_t *cell, FILE *out)
{
    lane_t    *sorted = NULL;
    k3_lanes_t l;
    size_t     n;
    k3_error_t unused = K3_ERROR_INIT;

    k3_lanes_of(cell, &l);
    n = json_array_size(l.rows);
    if (n == 0 || k3_alloc("lanes", n, sizeof(*sorted), &sorted, &unused) != K3_OK) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(l.rows, i);

        sorted[i] = (lane_t){row, k3_field_number(row, l.busy_us), i};
    }
    qsort(sorted, n, sizeof(*sorted), by_busy);
    print_heads(out);
    for (size_t i = 0; i < n && i < SLOWEST; i++) {
        print_lane(&l, sorted[i].row, out);
    }
    fprintf(out,
            "</tbody></table></div>\n<p class=soft>%d of %zu lanes, by the time with work in "
            "flight in one iteration; first post, last completion and busy time are means over "
            "iterations, p50, p99 and max from post to completion of a message.</p>\n",
            n < SLOWEST ? (int)n : SLOWEST, n);
    k3_free(sorted);
}
