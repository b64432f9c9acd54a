/* Reading members of a record: what is absent or of another type reads as "", 0 or null. */
#ifndef K3_REPORT_FIELDS_H
#define K3_REPORT_FIELDS_H

#include <jansson.h>
#include <stdbool.h>

const char *k3_get_text(const json_t *object, const char *name);
long long   k3_get_int(const json_t *object, const char *name);
double      k3_get_number(const json_t *object, const char *name);

/* Control characters in the texts of a value, and of all in it, become '?': what a record says goes to terminals and
 * spreadsheets, and may not steer them. */
void k3_clean_texts(json_t *value);

/* --- tables: {columns: [NAME...], rows: [[value...]...]} ------------------------------------- */

/* Position of a column; -1 when the table has none of this name: its fields are then null. */
int           k3_column(const json_t *table, const char *name);
const json_t *k3_field(const json_t *row, int column);
const char   *k3_field_text(const json_t *row, int column);
double        k3_field_number(const json_t *row, int column);
long long     k3_field_int(const json_t *row, int column); /* -1 when it is no whole number */
bool          k3_field_is(const json_t *row, int column, const char *text);

/* The queue pairs of a cell, the waits; rows is NULL when it has none. Members are columns. */
typedef struct k3_lanes {
    const json_t *rows;
    int phase, src, dst, qp, lane, messages, signals, bytes_payload, bytes_wire, first_post_us,
        last_done_us, busy_us, p50_us, p99_us, max_us;
} k3_lanes_t;

typedef struct k3_waits {
    const json_t *rows;
    int           phase, dst, src, sum_us, max_us, count;
} k3_waits_t;

void k3_lanes_of(const json_t *cell, k3_lanes_t *lanes);
void k3_waits_of(const json_t *cell, k3_waits_t *waits);

/* The lane with work in flight longest: the last one to finish is only the last one posted. NULL: none. */
const json_t *k3_lanes_slowest(const k3_lanes_t *lanes);

#endif
