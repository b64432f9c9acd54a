/* What every reader of a cell asks of its JSON. */
#ifndef K3_REPORT_CELLVIEW_H
#define K3_REPORT_CELLVIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "harness/base/status.h"

/* What `status` and `check.state` of a cell may be; NULL at the end. */
extern const char *const k3_cell_statuses[], *const k3_cell_check_states[];

/* K3_ERR_IO: member `what` of a cell of the record `name` is not what readers rely on. */
k3_status_t k3_cell_refuse(const char *name, size_t index, const char *what, k3_error_t *err);

enum { K3_CELL_BACKEND = 32 }; /* bytes for a backend with its mode */

/* "deepep:ll"; `text` is returned, and ends with a whole character where it was cut. */
const char *k3_cell_backend(const json_t *cell, char *text, size_t size);
const char *k3_backend_text(const char *backend, const char *mode, char *text, size_t size);

/* "BACKEND tp8 dp2 T16": how a cell is called where it stands beside others of its record. */
const char *k3_cell_label(const json_t *cell, char *text, size_t size);

/* The backend alone where no other cell of the record has it, else the label. */
const char *k3_cell_name(const json_t *cells, const json_t *cell, char *text, size_t size);

bool          k3_cell_measured(const json_t *cell);   /* it has phases */
bool          k3_cell_moves_rows(const json_t *cell); /* or, an old record, does not say */
size_t        k3_cells_measured(const json_t *cells); /* how many */
const json_t *k3_cell_phase(const json_t *cell, const char *name); /* NULL: absent */

/* Median of a phase in us; false when the cell does not have it. */
bool k3_cell_median(const json_t *cell, const char *phase, double *us);

/* The phase that a cell is judged by. */
const char *k3_cell_headline(const json_t *cell);
const char *k3_component_headline(const char *component);

/* The 95 % interval of the headline's median; false when it has none. */
bool k3_cell_interval(const json_t *cell, double *low, double *high);

/* The same work: model, component, rows and routing. */
bool k3_cell_same_group(const json_t *a, const json_t *b);

/* The name of the file that a record was written to, without its folders and ending: a sweep puts section and round
 * there. "": a run without --out. */
enum { K3_RECORD_NAME = 96 };
const char *k3_record_name(const json_t *document, char *text, size_t size);

/* The number of a launch among several, from 1, in order of start. */
size_t k3_launch_number(json_t *const *documents, size_t count, size_t d);

#endif
