#include "bench/report/fields.h"

#include <stdlib.h>
#include <string.h>

const char *k3_get_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text != NULL ? text : "";
}

long long k3_get_int(const json_t *object, const char *name)
{
    return (long long)json_integer_value(json_object_get(object, name));
}

double k3_get_number(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

int k3_column(const json_t *table, const char *name)
{
    const json_t *columns = json_object_get(table, "columns"), *column;
    size_t        i;

    json_array_foreach(columns, i, column)
    {
        const char *text = json_string_value(column);

        if (text != NULL && strcmp(text, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

const json_t *k3_field(const json_t *row, int column)
{
    return column < 0 ? NULL : json_array_get(row, (size_t)column);
}

const char *k3_field_text(const json_t *row, int column)
{
    const char *text = json_string_value(k3_field(row, column));

    return text != NULL ? text : "";
}

double k3_field_number(const json_t *row, int column)
{
    return json_number_value(k3_field(row, column));
}

long long k3_field_int(const json_t *row, int column)
{
    const json_t *field = k3_field(row, column);

    return json_is_integer(field) ? (long long)json_integer_value(field) : -1;
}

bool k3_field_is(const json_t *row, int column, const char *text)
{
    return strcmp(k3_field_text(row, column), text) == 0;
}

static const json_t *rows_of(const json_t *table)
{
    const json_t *rows = json_object_get(table, "rows");

    return json_is_array(rows) ? rows : NULL;
}

void k3_lanes_of(const json_t *cell, k3_lanes_t *l)
{
    const json_t *table = json_object_get(cell, "qps");

    *l = (k3_lanes_t){
        .rows = rows_of(table),
        .phase = k3_column(table, "phase"),
        .src = k3_column(table, "src"),
        .dst = k3_column(table, "dst"),
        .qp = k3_column(table, "qp"),
        .lane = k3_column(table, "lane"),
        .messages = k3_column(table, "messages"),
        .signals = k3_column(table, "signals"),
        .bytes_payload = k3_column(table, "bytes_payload"),
        .bytes_wire = k3_column(table, "bytes_wire"),
        .first_post_us = k3_column(table, "first_post_us"),
        .last_done_us = k3_column(table, "last_done_us"),
        .busy_us = k3_column(table, "busy_us"),
        .p50_us = k3_column(table, "p50_us"),
        .p99_us = k3_column(table, "p99_us"),
        .max_us = k3_column(table, "max_us"),
    };
}

void k3_waits_of(const json_t *cell, k3_waits_t *w)
{
    const json_t *table = json_object_get(cell, "waits");

    *w = (k3_waits_t){
        .rows = rows_of(table),
        .phase = k3_column(table, "phase"),
        .dst = k3_column(table, "dst"),
        .src = k3_column(table, "src"),
        .sum_us = k3_column(table, "sum_us"),
        .max_us = k3_column(table, "max_us"),
        .count = k3_column(table, "count"),
    };
}

const json_t *k3_lanes_slowest(const k3_lanes_t *l)
{
    const json_t *worst = NULL, *row;
    bool          worst_is_self = true;
    size_t        i;

    json_array_foreach(l->rows, i, row)
    {
        bool self = k3_field_int(row, l->src) == k3_field_int(row, l->dst);

        if (worst == NULL || self < worst_is_self ||
            (self == worst_is_self &&
             k3_field_number(row, l->busy_us) > k3_field_number(worst, l->busy_us))) {
            worst = row;
            worst_is_self = self;
        }
    }
    return worst;
}

static bool has_controls(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            return true;
        }
    }
    return false;
}

void k3_clean_texts(json_t *value)
{
    const char *key;
    json_t     *member;
    size_t      i;

    if (json_is_string(value) && has_controls(json_string_value(value))) {
        char *text = strdup(json_string_value(value));

        for (char *c = text; c != NULL && *c != '\0'; c++) {
            *c = (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c;
        }
        if (text != NULL) {
            json_string_set(value, text);
        }
        free(text);
    }
    json_object_foreach(value, key, member)
    {
        k3_clean_texts(member);
    }
    json_array_foreach(value, i, member)
    {
        k3_clean_texts(member);
    }
}
