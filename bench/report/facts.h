/* What comparisons and gates keep of a launch: of each cell its state, its time, how it was measured and how evenly its
 * lanes were used. Records are read from front to back; ten thousand of them are no sooner read by anything that
 * makes objects of all their members. */
#ifndef K3_REPORT_FACTS_H
#define K3_REPORT_FACTS_H

#include <jansson.h>
#include <stdbool.h>

#include "harness/base/status.h"

typedef struct k3_facts_wanted {
    const char *phase;  /* the time is of this phase; NULL: of the headline of each cell */
    bool        scaled; /* ... of the headline as the host's speed was (host.scaled_us) */
    bool        lanes;  /* `balance` too */
} k3_facts_wanted_t;

/* The facts of a record:
 *
 * {run, started, git_sha, asked, machine, stable, how: {FIELD: text}, cells: [{key, backend, work, control, moves, state,
 * reason, routing, us, bound_us, how: {FIELD: text}, balance: {measure: value}}]}
 *
 * state: "ok", "broken" (failed, or the check), "none" (refused, skipped, degraded, or without a time). us: null unless
 * "ok". bound_us: the median of a bare loop that posts the same messages. work: what must be equal for two backends
 * to have done the same. control: its time hangs on the host, not on the backend. FIELD: what gives the same work
 * another time, of the launch and of the cell, as far as known. Cells that were refused before they had a key are
 * left out. Control characters become '?'. K3_ERR_IO names file and fault. Several threads may read at a time. */
k3_status_t k3_facts_read(const char *path, const k3_facts_wanted_t *wanted, json_t **facts_p,
                          k3_error_t *err);

/* The same of a record that was read already; `name` for messages. */
k3_status_t k3_facts_of(const char *name, const json_t *record, const k3_facts_wanted_t *wanted,
                        json_t **facts_p, k3_error_t *err);

/* K3_ERR_IO when a launch does not say when and on which machine it ran: histories need both. */
k3_status_t k3_facts_placed(const char *name, const json_t *facts, k3_error_t *err);

/* The field that is part of what is compared when backends are. */
#define K3_HOW_TRANSPORT "qps.transport"

#endif
