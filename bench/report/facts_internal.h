/* What the files that read facts share. */
#ifndef K3_REPORT_FACTS_INTERNAL_H
#define K3_REPORT_FACTS_INTERNAL_H

#include "bench/report/facts.h"
#include "harness/record/cursor.h"

/* A text without control characters; NULL when it is none. */
json_t *k3_facts_text(k3_view_t view);

/* Sets a member unless the value is NULL; takes the value. */
void k3_facts_set(json_t *object, const char *name, json_t *value);

/* The members of the object that comes next, as views in the order of `names`; what is no object is skipped. */
void k3_facts_take(k3_cursor_t *c, const char *const *names, k3_view_t *views);

/* The cell that comes next, appended to `cells`. `name` and `index` for messages. */
k3_status_t k3_facts_cell(k3_cursor_t *c, const char *name, size_t index,
                          const k3_facts_wanted_t *wanted, json_t *cells, k3_error_t *err);

#endif
