#include "bench/report/table_columns.h"

#include <string.h>

enum { LEAST = 4 }; /* of a column that is made to fit */

static int larger(int a, int b)
{
    return a > b ? a : b;
}

void k3_columns_start(k3_columns_t *c)
{
    for (int i = 0; i < c->count; i++) {
        c->width[i] = larger((int)strlen(c->column[i].head), (int)strlen(c->column[i].unit));
    }
}

void k3_columns_widen(k3_columns_t *c, const k3_items_t *items)
{
    for (int i = 0; i < c->count; i++) {
        int most = c->column[i].most, length = (int)strlen(items->text[i]);

        length = most > 0 && length > most ? most : length;
        c->width[i] = larger(c->width[i], length);
    }
}

void k3_columns_fit(k3_columns_t *c, int tail)
{
    int used = tail - 1; /* no blank in front of the first column */

    for (int i = 0; i < c->count; i++) {
        used += c->width[i] + (c->column[i].bar ? 3 : 1);
    }
    for (int i = 0; i < c->count && used > K3_TABLE_LINE; i++) {
        if (c->column[i].fits) {
            int least = larger(LEAST, c->width[i] - (used - K3_TABLE_LINE));

            used -= c->width[i] - least;
            c->width[i] = least;
        }
    }
}

void k3_columns_items(const k3_columns_t *c, const k3_items_t *items, FILE *out)
{
    for (int i = 0; i < c->count; i++) {
        int  width = c->width[i];
        bool last = i + 1 == c->count;

        fputs(i == 0 ? "" : c->column[i].bar ? " | " : " ", out);
        if (c->column[i].left) {
            fprintf(out, "%-*.*s", last ? 0 : width, width, items->text[i]);
        } else {
            fprintf(out, "%*.*s", width, width, items->text[i]);
        }
    }
}

void k3_columns_heads(const k3_columns_t *c, FILE *out)
{
    k3_items_t head, unit;

    for (int i = 0; i < c->count; i++) {
        snprintf(head.text[i], K3_ITEM, "%s", c->column[i].head);
        snprintf(unit.text[i], K3_ITEM, "%s", c->column[i].unit);
    }
    k3_columns_items(c, &head, out);
    fputc('\n', out);
    k3_columns_items(c, &unit, out);
    fputc('\n', out);
}
