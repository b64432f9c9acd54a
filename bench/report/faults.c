/* Dead and late ranks: who was masked by whom, and when. */
#include <stdio.h>
#include <string.h>

#include "bench/report/record.h"
#include "bench/report/values.h"

/* Ranks that have masked `rank`; the first row in *first. */
static int masked_by(const k3_measurement_t *m, int rank, const k3_mask_row_t **first)
{
    int count = 0;

    for (uint64_t i = m->mask_count; i-- > 0;) {
        if (m->masks[i].rank == rank) {
            *first = &m->masks[i];
            count++;
        }
    }
    return count;
}

void k3_record_degraded(json_t *object, const k3_measurement_t *m, int ranks)
{
    char   text[512] = "";
    size_t used = 0;

    for (int rank = 0; rank < ranks && used < sizeof(text); rank++) {
        const k3_mask_row_t *first = NULL;
        int                  count = masked_by(m, rank, &first), wrote;

        if (count == 0) {
            continue;
        }
        wrote = snprintf(text + used, sizeof(text) - used,
                         "%srank %d masked by %d of %d others (by rank %d in %s of call %llu)",
                         used > 0 ? "; " : "", rank, count, ranks - 1, first->by,
                         k3_phase_names[first->mask.phase], (unsigned long long)first->mask.call);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    k3_record_status(object, "degraded", text[0] != '\0' ? text : "masks on another rank");
}

static json_t *mask_rows(const k3_measurement_t *m)
{
    json_t *rows = json_array();

    for (uint64_t i = 0; i < m->mask_count; i++) {
        const k3_mask_row_t *row = &m->masks[i];

        json_array_append_new(rows, json_pack("[i, i, s, I]", row->by, row->rank,
                                              k3_phase_names[row->mask.phase],
                                              (json_int_t)row->mask.call));
    }
    return rows;
}

void k3_record_faults(json_t *object, const k3_cell_t *cell, const k3_measurement_t *m,
                      const char *injected)
{
    json_t *faults = json_object();

    k3_set_text(faults, "injected", strcmp(injected, "none") != 0 ? injected : NULL);
    k3_set_text(faults, "action", k3_fault_action_name(cell->fault));
    if (m->limit_s > 0.0) {
        k3_set_number(faults, "limit_s", m->limit_s);
    } else {
        k3_set_null(
            faults, "limit_s",
            "calls wait for ever: no limit is in force without a dead rank or --call-timeout, "
            "or the backend has none");
    }
    k3_set_bool(faults, "first_call_unlimited", cell->profile->first_call_unlimited);
    json_object_set_new(faults, "masks",
                        json_pack("{s:[s, s, s, s], s:o}", "columns", "by", "rank", "phase", "call",
                                  "rows", mask_rows(m)));
    json_object_set_new(object, "faults", faults);
}
