/* Dead and late ranks: who was masked by whom, and when. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bench/report/record.h"
#include "bench/report/values.h"

/* How many have masked `rank`; the first of them in *first. */
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

static bool is_gone(const k3_measurement_t *m, int rank, int ranks)
{
    const k3_mask_row_t *unused;

    return 2 * masked_by(m, rank, &unused) > ranks - 1;
}

/* The same, by ranks that are not gone themselves. */
static int masked_by_present(const k3_measurement_t *m, int rank, int ranks,
                             const k3_mask_row_t **first)
{
    int count = 0;

    for (uint64_t i = m->mask_count; i-- > 0;) {
        if (m->masks[i].rank == rank && !is_gone(m, m->masks[i].by, ranks)) {
            *first = &m->masks[i];
            count++;
        }
    }
    return count;
}

/* How many `by` has masked; the first of them in *first. */
static int masked_others(const k3_measurement_t *m, int by, const k3_mask_row_t **first)
{
    int count = 0;

    for (uint64_t i = m->mask_count; i-- > 0;) {
        if (m->masks[i].by == by) {
            *first = &m->masks[i];
            count++;
        }
    }
    return count;
}

typedef struct text {
    char   bytes[384];
    size_t used;
} text_t;

__attribute__((format(printf, 2, 3))) static void add(text_t *t, const char *format, ...)
{
    va_list args;
    int     wrote;

    va_start(args, format);
    wrote = vsnprintf(t->bytes + t->used, sizeof(t->bytes) - t->used, format, args);
    va_end(args);
    t->used += wrote > 0 && (size_t)wrote < sizeof(t->bytes) - t->used ? (size_t)wrote : 0;
    t->bytes[t->used] = '\0'; /* a clause that does not fit is left out whole */
}

static void add_when(text_t *t, const k3_mask_row_t *row)
{
    add(t, " in %s of call %llu)", k3_phase_names[row->mask.phase],
        (unsigned long long)row->mask.call);
}

/* A rank that most others have masked is gone; what it has masked itself follows from that. */
void k3_record_degraded(json_t *object, const k3_measurement_t *m, int ranks)
{
    const k3_mask_row_t *first = NULL;
    text_t               t = {0};

    for (int rank = 0; rank < ranks; rank++) {
        bool gone = is_gone(m, rank, ranks);
        int  count = masked_by_present(m, rank, ranks, &first);

        if (count > 0) {
            add(&t, "%srank %d masked by %d of %d others (by rank %d", t.used > 0 ? "; " : "", rank,
                count, ranks - 1, first->by);
            add_when(&t, first);
        }
        count = gone ? masked_others(m, rank, &first) : 0;
        if (count > 0) {
            add(&t, ", and has masked %d itself (rank %d", count, first->rank);
            add_when(&t, first);
        }
    }
    k3_record_status(object, "degraded", t.used > 0 ? t.bytes : "ranks were masked");
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
    k3_set_text(faults, "action", k3_fault_action_name(k3_region_action(cell)));
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
