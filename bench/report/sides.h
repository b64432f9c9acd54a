/* Several launches put together as one side of a comparison, and whether two sides may be held against each other. */
#ifndef K3_REPORT_SIDES_H
#define K3_REPORT_SIDES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Adds a launch (k3_facts_read) to a side: key -> {backend, work, control, moves, routing, machine, stable, asked, runs:
 * [run of each launch with a time], us: [its time], bound_us: [], balance: {measure: []}, how: {FIELD: text}, mixed:
 * {FIELD: sentence}, wrong, none}. A cell that a launch holds several times counts once, with the median; it is wrong when one of them is. wrong
 * and none say why a launch has no value, or are null; mixed says in which fields, in what routing and
 * machine, the launches differ among themselves. */
void k3_side_add(json_t *side, const json_t *facts);

bool        k3_side_has_times(const json_t *entry); /* NULL: no */
const char *k3_side_wrong(const json_t *entry);     /* NULL: nothing is */
const char *k3_side_mixed(const json_t *entry, bool transports);
bool k3_side_moves(const json_t *entry); /* false: the record says that its backend moves no rows */

/* True when UCX was told to use one thing on one side and another on the other: "UCX_TLS=sm -> UCX_TLS=tcp". */
bool k3_sides_asked(const json_t *base, const json_t *fresh, char *text, size_t size);

/* Why entries of two sides cannot be compared: machine, routing, or how they were measured differ between them or within
 * one; false: they can. Judged by the launches that hold the cell: others of either side do not matter. `transports`:
 * they are part of what is compared, as between backends. What is not known is not held against anybody: older records
 * have less. */
bool k3_sides_differ(const json_t *base, const json_t *fresh, bool transports, char *text,
                     size_t size);

#endif
