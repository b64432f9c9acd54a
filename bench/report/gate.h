/* The gate: new launches of a machine held against its baseline and its history.
 *
 * The result is a document "k3bench.gate/2", from which text and Markdown are made. It fails on a failed
 * check, a lost or unknown cell, a cell that is worse or cannot be compared, a recent change for the
 * worse, and a loss of the lanes' balance; it warns of improvements and of cells that too few launches
 * leave open. Deterministic: the same records and baseline give the same bytes. */
#ifndef K3_REPORT_GATE_H
#define K3_REPORT_GATE_H

#include <jansson.h>
#include <stdio.h>

#include "bench/report/launches.h"
#include "harness/record/history.h"
#include "harness/record/verdict.h"

typedef struct k3_gate {
    k3_verdict_rule_t    verdict;
    double               balance_floor; /* a rise below this share of the base is no finding */
    size_t               window;        /* launches of a cell in which changes are looked for */
    size_t               sessions;      /* last days of which a change is a finding */
    k3_history_t        *history;
    const char          *folder; /* of the history */
    const char          *baseline_path;
    const json_t        *baseline; /* the whole document */
    const k3_launches_t *fresh;
} k3_gate_t;

/* The caller frees *document_p. *failures: findings that fail the gate. */
k3_status_t k3_gate_judge(const k3_gate_t *gate, json_t **document_p, size_t *failures,
                          k3_error_t *err);

void k3_gate_text(const json_t *document, FILE *out);
void k3_gate_markdown(const json_t *document, FILE *out);

#endif
