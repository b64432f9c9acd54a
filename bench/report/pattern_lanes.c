/* One lane apart from all others of its kind. */
#include <stdio.h>

#include "bench/report/pattern_internal.h"

static void find_lane_of_kind(k3_pattern_view_t *v, const char *kind, k3_finding_t *best)
{
    const json_t *row, *worst = NULL;
    double        most = 0.0, usual, excess;
    size_t        i;
    int           count = 0;
    k3_finding_t  f;
    char          a[32], b[32];

    json_array_foreach(v->lanes.rows, i, row)
    {
        if (k3_pattern_is_lane(v, row, kind)) {
            double p50 = k3_field_number(row, v->lanes.p50_us);

            v->times[count++] = p50;
            if (worst == NULL || p50 > most) {
                most = p50;
                worst = row;
            }
        }
    }
    usual = k3_pattern_median(v->times, count);
    excess = worst != NULL ? (most - usual) * k3_field_number(worst, v->lanes.messages) : 0.0;
    /* The second slowest must not be like it: that would be no single lane. */
    if (count < 4 || most < K3_PATTERN_RATIO * usual || most < 2.0 * v->times[count - 2] ||
        excess < 0.02 * v->phase_us) {
        return;
    }
    f = k3_pattern_finding(v, "slow lane", excess);
    f.lane[0] = (int)k3_field_int(worst, v->lanes.src);
    f.lane[1] = (int)k3_field_int(worst, v->lanes.dst);
    f.lane[2] = (int)k3_field_int(worst, v->lanes.qp);
    snprintf(f.text, sizeof(f.text),
             "slow lane: %s %d->%d QP %d; a message takes %s us there (median), %s us on the other "
             "%s lanes (%.0f %% of the phase)",
             v->phase, f.lane[0], f.lane[1], f.lane[2], k3_pattern_us(most, a),
             k3_pattern_us(usual, b), kind, 100.0 * f.share);
    k3_pattern_keep(best, &f);
}

void k3_pattern_lanes(k3_pattern_view_t *v, k3_finding_t *best)
{
    static const char *const kinds[] = {"self", "p2p", "qp"};

    for (int k = 0; k < 3; k++) {
        find_lane_of_kind(v, kinds[k], best);
    }
}
