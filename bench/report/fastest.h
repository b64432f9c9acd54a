/* Which cell of a launch is the fastest of its work, and whether the launch can tell: one rule for the table, Markdown
 * and the page. */
#ifndef K3_REPORT_FASTEST_H
#define K3_REPORT_FASTEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The same work may take so much longer in one cell than in another before the machine counts as another one. */
#define K3_SPEED_BOUND 0.15

typedef struct k3_fastest {
    const json_t *cells; /* of the launch, borrowed */
    bool apart; /* its interval lies below those of all rivals; without it nothing below is set */
    const json_t *next; /* the nearest of them */
    const char
        *work; /* the machine changed speed: what took another time for another rival; else NULL */
    const json_t *other; /* ... the one where that differs most */
    double        us, other_us;
} k3_fastest_t;

void k3_fastest(const json_t *cells, const json_t *cell, k3_fastest_t *f);

/* It is apart and the machine kept its speed: what a star, bold and a headline stand for. */
bool k3_is_fastest(const json_t *cells, const json_t *cell);

/* Why a cell that is apart is not called the fastest; false where there is no such reason. */
bool k3_fastest_doubt(const k3_fastest_t *f, char *text, size_t size);

/* What else than the backend differs between the fastest and the next: formats or runner; false: nothing. */
bool k3_fastest_differs(const json_t *cell, const k3_fastest_t *f, char *text, size_t size);

/* "rows fp8, results bf16, runner deep_gemm" */
const char *k3_cell_formats(const json_t *cell, char *text, size_t size);

#endif
