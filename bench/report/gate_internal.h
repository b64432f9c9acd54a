/* What the files of the gate share. */
#ifndef K3_REPORT_GATE_INTERNAL_H
#define K3_REPORT_GATE_INTERNAL_H

#include "bench/report/gate.h"
#include "bench/report/judged.h"

/* A cell of either side. */
typedef struct k3_gate_row {
    const char   *key;
    const char   *machine;      /* of the launches that hold it */
    const json_t *promotion;    /* of that machine; NULL: the baseline does not know it */
    const json_t *base, *fresh; /* entries of the sides; NULL: that side does not have it */
    const char   *reason;       /* why nothing was judged; else NULL */
    char          how[320];     /* room for a reason */
    k3_verdict_t  verdict;      /* then */
    k3_judged_t   judged;       /* else */
    double       *values;       /* owned: of `judged` */
    json_t       *json;         /* owned until the document takes it */
} k3_gate_row_t;

typedef struct k3_gate_work {
    const k3_gate_t *gate;
    k3_gate_row_t   *rows;
    size_t           count;
    json_t          *findings;
    size_t           failures;
} k3_gate_work_t;

typedef enum k3_severity { K3_SEVERITY_FAIL, K3_SEVERITY_WARN } k3_severity_t;

/* Failures stand before warnings. `key` may be NULL: not of one cell. */
void k3_gate_find(k3_gate_work_t *work, k3_severity_t severity, const char *kind, const char *key,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));

/* What can be found with so many launches, {judged, unreachable, open, launches_needed, text}; text "": all of it. */
json_t *k3_gate_reach(const k3_gate_work_t *work);

/* Adds `history` to the rows with new times: launches, the best time, changes. */
k3_status_t k3_gate_changes(k3_gate_work_t *work, k3_error_t *err);

/* Adds `balance` to the rows. */
k3_status_t k3_gate_balance(k3_gate_work_t *work, k3_error_t *err);

/* Is the machine itself slower? {state, text, cells}. */
k3_status_t k3_gate_control(k3_gate_work_t *work, json_t **control_p, k3_error_t *err);

#endif
