/* Two sets of launches, or the backends of one set, held against each other.
 *
 * Launches are added one by one and not kept: what remains of each cell is in sides.h. The result is a document
 * "k3bench.comparison/2", from which text and Markdown are made. Deterministic: the same records in the same order give
 * the same bytes. */
#ifndef K3_REPORT_COMPARISON_H
#define K3_REPORT_COMPARISON_H

#include <jansson.h>
#include <stdio.h>

#include "harness/record/verdict.h"

typedef enum k3_side { K3_SIDE_BASE, K3_SIDE_NEW, K3_SIDE_COUNT } k3_side_t;

typedef struct k3_comparison {
    const char *phase;                /* NULL: the headline of each cell */
    const char *baseline;             /* of backends; NULL: the first of each group */
    bool        sides;                /* false: backend against backend, all in the base */
    bool        scaled;               /* headlines as the host's speed was (host.scaled_us) */
    json_t     *cells[K3_SIDE_COUNT]; /* k3_side_add, in order of appearance */
} k3_comparison_t;

k3_status_t k3_comparison_open(k3_comparison_t *c, k3_error_t *err);
void        k3_comparison_close(k3_comparison_t *c);

/* Facts as the comparison wants them (k3_facts_read): of its phase, scaled or not. */
void k3_comparison_add(k3_comparison_t *c, k3_side_t side, const json_t *facts);

/* The document; *worse: verdicts `worse`, `missing` and `broken` (between backends only the latter: being
 * slower is a result there, and no failure). The caller frees *document_p. */
k3_status_t k3_comparison_judge(const k3_comparison_t *c, const k3_verdict_rule_t *rule,
                                json_t **document_p, size_t *worse, k3_error_t *err);

void k3_comparison_text(const json_t *document, FILE *out);
void k3_comparison_markdown(const json_t *document, FILE *out);

/* Parts of them, for documents whose cells have the same members: the table (`differs`: each row says in which options its
 * cells differ), and "1 worse, 3 same". */
void k3_comparison_rows_text(const json_t *rows, bool backends, bool differs, FILE *out);
void k3_comparison_rows_markdown(const json_t *rows, bool backends, bool differs, FILE *out);
void k3_comparison_counts(const json_t *document, FILE *out);

#endif
