#include "bench/sweep/readback.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/report/record.h"
#include "harness/record/document.h"

enum { TRANSPORTS_MAX = 64, TRANSPORT_TEXT = 128 };

/* --- options --------------------------------------------------------------------------------- */

static const char *asked_value(const k3_asked_t *asked, const char *name)
{
    if (strcmp(name, "rotate") == 0) {
        return asked->rotate;
    }
    if (strcmp(name, "out") == 0) {
        return asked->out;
    }
    if (strcmp(name, "progress") == 0) {
        return "off";
    }
    return k3_options_get(asked->variant->options, name);
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static const char *shown(const char *text)
{
    return text != NULL ? text : "(not set)";
}

/* The record's value of an option. NULL: not set; *found: it is there at all. */
static const char *value_of(const json_t *options, const char *name, bool *found)
{
    size_t        i;
    const json_t *row;

    *found = false;
    json_array_foreach(options, i, row)
    {
        const char *own = json_string_value(json_object_get(row, "name"));

        if (own != NULL && strcmp(own, name) == 0) {
            *found = true;
            return json_string_value(json_object_get(row, "value"));
        }
    }
    return NULL;
}

static k3_status_t check_options(const json_t *run, const k3_asked_t *asked, k3_error_t *err)
{
    const json_t            *options = json_object_get(run, "options");
    const k3_option_table_t *table = &asked->source->table;

    for (size_t i = 0; i < table->count; i++) {
        const char *name = table->defs[i].name, *want, *got;
        bool        found;

        if ((table->defs[i].commands & asked->source->run) == 0 ||
            (asked->out == NULL && strcmp(name, "out") == 0)) {
            continue;
        }
        want = asked_value(asked, name);
        got = value_of(options, name, &found);
        if (!found || !same_text(want, got)) {
            return k3_fail(err, K3_ERR_CHECK, "option %s: asked for %.200s, the record has %.200s",
                           name, shown(want), found ? shown(got) : "no such option");
        }
    }
    return K3_OK;
}

/* --- transports ------------------------------------------------------------------------------ */

typedef struct words {
    char   items[TRANSPORTS_MAX][TRANSPORT_TEXT];
    size_t count;
} words_t;

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Adds the words of "self, mapped" that are new. */
static void add_words(words_t *words, const char *text)
{
    while (text != NULL && *text != '\0') {
        size_t skip = strspn(text, ", "), length = strcspn(text + skip, ",");
        char   word[TRANSPORT_TEXT];
        bool   known = length == 0 || words->count == TRANSPORTS_MAX;

        (void)snprintf(word, sizeof(word), "%.*s", (int)length, text + skip);
        for (size_t i = 0; i < words->count; i++) {
            known = known || strcmp(words->items[i], word) == 0;
        }
        if (!known) {
            memcpy(words->items[words->count++], word, sizeof(word));
        }
        text += skip + length;
    }
}

/* "rc_mlx5" allows "rc_mlx5/mlx5_0:1"; what never leaves the node needs no leave. */
static bool is_allowed(const words_t *allowed, const char *transport)
{
    if (strcmp(transport, "self") == 0 || strcmp(transport, "mapped") == 0) {
        return true;
    }
    for (size_t i = 0; i < allowed->count; i++) {
        size_t length = strlen(allowed->items[i]);

        if (strncmp(allowed->items[i], transport, length) == 0 &&
            (transport[length] == '\0' || transport[length] == '/')) {
            return true;
        }
    }
    return false;
}

static char *join(words_t *words)
{
    size_t bytes = 1;
    char  *text;

    qsort(words->items, words->count, sizeof(words->items[0]), by_text);
    for (size_t i = 0; i < words->count; i++) {
        bytes += strlen(words->items[i]) + 2;
    }
    text = calloc(bytes, 1);
    for (size_t i = 0; i < words->count && text != NULL; i++) {
        strcat(text, i > 0 ? ", " : "");
        strcat(text, words->items[i]);
    }
    return text;
}

static k3_status_t check_transports(const json_t *cells, const k3_asked_t *asked,
                                    k3_readback_t *back, k3_error_t *err)
{
    words_t       used = {.count = 0}, allowed = {.count = 0};
    size_t        i;
    const json_t *cell;

    json_array_foreach(cells, i, cell)
    {
        add_words(&used,
                  json_string_value(json_object_get(json_object_get(cell, "qps"), "transport")));
    }
    add_words(&allowed, asked->carried_by);
    for (i = 0; i < used.count && asked->carried_by != NULL; i++) {
        if (!is_allowed(&allowed, used.items[i])) {
            return k3_fail(err, K3_ERR_CHECK, "queue pairs were carried by %s; allowed: %.200s",
                           used.items[i], asked->carried_by);
        }
    }
    back->carried = join(&used);
    if (asked->carried != NULL && back->carried != NULL &&
        strcmp(asked->carried, back->carried) != 0) {
        k3_fail(err, K3_ERR_CHECK,
                "queue pairs were carried by %.200s, in the launches before by %.200s",
                back->carried, asked->carried);
    }
    return err->status;
}

/* --- the record ------------------------------------------------------------------------------ */

void k3_readback_build(const json_t *record, char *text, size_t room)
{
    const json_t *run = json_object_get(record, "run");
    const char   *version = json_string_value(json_object_get(run, "version"));
    const char   *commit = json_string_value(json_object_get(run, "git_sha"));

    (void)snprintf(text, room, "%s %s", version != NULL ? version : "?",
                   commit != NULL ? commit : "?");
}

static k3_status_t check_launch(const json_t *record, const k3_asked_t *asked, k3_error_t *err)
{
    const json_t *run = json_object_get(record, "run");
    json_int_t ranks = json_integer_value(json_object_get(json_object_get(run, "launch"), "ranks"));
    size_t     cells = json_array_size(json_object_get(record, "cells"));
    char       build[256];

    k3_readback_build(record, build, sizeof(build));
    if (strcmp(build, asked->source->build) != 0) {
        return k3_fail(err, K3_ERR_CHECK, "it ran build %s, this is %s", build,
                       asked->source->build);
    }
    if (ranks != (json_int_t)asked->variant->ranks) {
        return k3_fail(err, K3_ERR_CHECK, "asked for %u ranks, the record has %lld",
                       asked->variant->ranks, (long long)ranks);
    }
    if (cells != asked->variant->cells) {
        return k3_fail(err, K3_ERR_CHECK, "asked for %zu cells, the record has %zu",
                       asked->variant->cells, cells);
    }
    return check_options(run, asked, err);
}

static bool any_wrong(const json_t *cells)
{
    size_t        i;
    const json_t *cell;

    json_array_foreach(cells, i, cell)
    {
        const char *status = json_string_value(json_object_get(cell, "status"));
        const char *state =
            json_string_value(json_object_get(json_object_get(cell, "check"), "state"));

        if ((status != NULL && strcmp(status, "failed") == 0) ||
            (state != NULL && strcmp(state, "wrong") == 0)) {
            return true;
        }
    }
    return false;
}

k3_status_t k3_readback(const char *path, const k3_asked_t *asked, k3_readback_t *back,
                        k3_error_t *err)
{
    json_t       *record = NULL;
    const json_t *cells;
    const char   *schema;

    memset(back, 0, sizeof(*back));
    if (k3_document_read(path, &record, err) != K3_OK) {
        return err->status;
    }
    cells = json_object_get(record, "cells");
    schema = json_string_value(json_object_get(record, "schema"));
    if (schema == NULL || strcmp(schema, K3_SCHEMA) != 0 || !json_is_array(cells)) {
        k3_fail(err, K3_ERR_IO, "%.200s: no record of schema %s", path, K3_SCHEMA);
    } else if (check_launch(record, asked, err) == K3_OK &&
               check_transports(cells, asked, back, err) == K3_OK) {
        back->wrong = any_wrong(cells);
    }
    json_decref(record);
    if (err->status != K3_OK) {
        free(back->carried);
        back->carried = NULL;
    }
    return err->status;
}
