/* What gates keep of a record: of each cell its state, its time and how evenly its lanes were used. */
#ifndef K3_REPORT_FACTS_H
#define K3_REPORT_FACTS_H

#include <jansson.h>

#include "harness/base/status.h"

/* Lanes of a cell are looked at by phase; a measure is "PHASE.NAME", in words for people. */
typedef struct k3_balance_measure {
    const char *phase, *name; /* "dispatch", "busy_gini" */
    const char *text;         /* "Gini of the busy time of the lanes" */
    bool        timed;        /* varies from launch to launch; else it follows from the plan */
} k3_balance_measure_t;

extern const k3_balance_measure_t k3_balance_measures[];
extern const size_t               k3_balance_measure_count;

/* "dispatch.busy_gini"; `text` is returned. */
const char *k3_balance_name(const k3_balance_measure_t *measure, char *text, size_t size);

/* The facts of a record that its reader has checked (commands/records.h):
 *
 * {run, started, git_sha, machine, stable, cells: [{key, backend, control, state, reason, routing, us,
 * bound_us, balance: {measure: value}}]}
 *
 * state: "ok", "broken" (failed, or the check), "none" (refused or skipped). us: the median of the
 * headline, null unless "ok". bound_us: that of a bare loop that posts the same messages. control: its
 * time hangs on the host, not on the backend. Cells that were refused before they had a key are left
 * out. K3_ERR_IO when the record does not say when and where it ran. */
k3_status_t k3_facts(const json_t *record, json_t **facts_p, k3_error_t *err);

/* --- sides ----------------------------------------------------------------------------------- */

/* Several launches as one side of a comparison: key -> {backend, control, routing, runs: [run of each
 * launch with a time], us: [its time], bound_us: [], balance: {measure: []}, wrong, none}. wrong and none
 * say why a launch has no value, or are null. A cell that a launch holds several times counts once, with the median; it is
 * wrong when one of them is. */
void k3_side_add(json_t *side, const json_t *facts);

#endif
