/* What so many launches can show at all. */
#include "bench/report/gate_internal.h"
#include "bench/report/values.h"
#include "harness/base/text.h"

typedef struct reach {
    size_t judged, unreachable, open, family, base, fresh;
} reach_t;

static void look_at(reach_t *r, const k3_gate_row_t *row, double level)
{
    const k3_judged_t *j = &row->judged;

    r->judged++;
    r->open += row->verdict == K3_VERDICT_INCONCLUSIVE;
    if (k3_smallest_p(j->na, j->nb) * (double)j->family <= 1.0 - level) {
        return;
    }
    if (r->unreachable++ == 0 || j->family > r->family) {
        r->family = j->family;
        r->base = j->na;
        r->fresh = j->nb;
    }
}

json_t *k3_gate_reach(const k3_gate_work_t *work)
{
    double  level = work->gate->verdict.level;
    reach_t r = {0};
    char    text[320] = "";
    json_t *json = json_object();

    for (size_t i = 0; i < work->count; i++) {
        if (work->rows[i].reason == NULL) {
            look_at(&r, &work->rows[i], level);
        }
    }
    k3_set_count(json, "judged", r.judged);
    k3_set_count(json, "unreachable", r.unreachable);
    k3_set_count(json, "open", r.open);
    if (r.unreachable > 0) {
        size_t needed = k3_launches_least(false, r.family, level);

        k3_append(
            text, sizeof(text), 0,
            "worse is out of reach for %zu of %zu cells: %zu launches in the baseline and %zu "
            "new reach p = %.2g at best, and %zu cell%s judged together need%s %zu a side; only "
            "checks, lost cells, balance and change points can fail these",
            r.unreachable, r.judged, r.base, r.fresh, k3_smallest_p(r.base, r.fresh), r.family,
            r.family == 1 ? "" : "s", r.family == 1 ? "s" : "", needed);
        k3_set_count(json, "launches_needed", needed);
    } else {
        k3_set_null(json, "launches_needed", "there are enough");
    }
    k3_set_text(json, "text", text);
    return json;
}
