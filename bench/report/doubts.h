/* What a reader of a cell's times should know about how they were taken, as short sentences. */
#ifndef K3_REPORT_DOUBTS_H
#define K3_REPORT_DOUBTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { K3_DOUBTS_MAX = 4, K3_DOUBT_TEXT = 100 };

typedef struct k3_doubts {
    char   text[K3_DOUBTS_MAX][K3_DOUBT_TEXT];
    size_t count;
} k3_doubts_t;

/* Not stationary, common starts that were missed, no span, what the accounts cost where that is known. */
void k3_doubts(const json_t *cell, k3_doubts_t *doubts);

/* The machine was busy when the launch began; false: it was not, or the record does not say. */
bool k3_busy_doubt(const json_t *document, char *text, size_t size);

#endif
