/* Columns that are as wide as what stands in them, on lines of one width. */
#ifndef K3_REPORT_TABLE_COLUMNS_H
#define K3_REPORT_TABLE_COLUMNS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum { K3_TABLE_LINE = 120, K3_COLUMNS_MAX = 12, K3_ITEM = 48 };

typedef struct column {
    const char *head, *unit;
    bool        left; /* texts; numbers stand at the right */
    int         most; /* what is longer is cut; 0: nothing is cut */
    bool        bar;  /* a bar in front */
    bool        fits; /* takes what the others leave of the line */
} k3_table_column_t;

typedef struct items {
    char text[K3_COLUMNS_MAX][K3_ITEM];
} k3_items_t;

typedef struct columns {
    const k3_table_column_t *column;
    int                      count;
    int                      width[K3_COLUMNS_MAX];
} k3_columns_t;

/* Widths begin with the heads, and grow with each line that will be printed. */
void k3_columns_start(k3_columns_t *c);
void k3_columns_widen(k3_columns_t *c, const k3_items_t *items);

/* Makes the line fit; `tail` is what follows the last column. */
void k3_columns_fit(k3_columns_t *c, int tail);

void k3_columns_items(const k3_columns_t *c, const k3_items_t *items, FILE *out);
void k3_columns_heads(const k3_columns_t *c, FILE *out);

#endif
