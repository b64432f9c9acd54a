#include "bench/report/facts.h"

#include <stdlib.h>
#include <string.h>

#include "bench/report/facts_internal.h"
#include "bench/report/fields.h"
#include "bench/report/record.h"
#include "harness/base/text.h"
#include "harness/record/document.h"
#include "harness/record/json_values.h"

/* --- the launch ------------------------------------------------------------------------------ */

typedef struct reading {
    k3_cursor_t              c;
    const char              *name; /* of the record, for messages */
    const k3_facts_wanted_t *wanted;
    json_t                  *facts, *how, *cells;
    bool                     is_record; /* its schema is the one that this reads */
} reading_t;

/* One of [{name, value, origin}]: those that change how a cell is measured. */
static void take_option(reading_t *r)
{
    static const char *const names[] = {"name", "value", NULL};
    static const char *const options[] = {"check",   "isa",    "accounting",
                                          "threads", "staged", "events"};
    k3_view_t                views[2] = {{0}};

    k3_facts_take(&r->c, names, views);
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (k3_view_is(views[0], options[i])) {
            k3_facts_set(r->how, options[i], k3_facts_text(views[1]));
        }
    }
}

/* What UCX was told to use. */
static void take_environment(reading_t *r)
{
    static const char *const names[] = {"UCX_TLS", "UCX_NET_DEVICES", NULL};
    k3_view_t                views[2] = {{0}};
    char                     asked[256];
    size_t                   used = 0;

    k3_facts_take(&r->c, names, views);
    asked[0] = '\0';
    for (int i = 0; i < 2; i++) {
        json_t *text = k3_facts_text(views[i]);

        if (text != NULL) {
            used = k3_append(asked, sizeof(asked), used, "%s%s=%s", used > 0 ? " " : "", names[i],
                             json_string_value(text));
        }
        json_decref(text);
    }
    k3_facts_set(r->facts, "asked", k3_json_string(used > 0 ? asked : "UCX's own choice"));
}

static void take_run(reading_t *r)
{
    static const char *const names[] = {"id",      "started_utc", "git_sha",
                                        "options", "environment", NULL};
    static const char *const facts[] = {"run", "started", "git_sha"};
    uint32_t                 seen = 0;
    int                      i;

    if (!k3_cursor_enter(&r->c, '{')) {
        k3_cursor_skip(&r->c);
        return;
    }
    while ((i = k3_cursor_member(&r->c, names, &seen)) >= 0) {
        if (i < 3) {
            k3_facts_set(r->facts, facts[i], k3_facts_text(k3_cursor_view(&r->c)));
        } else if (i == 4) {
            take_environment(r);
        } else if (k3_cursor_enter(&r->c, '[')) {
            while (k3_cursor_element(&r->c)) {
                take_option(r);
            }
        } else {
            k3_cursor_skip(&r->c);
        }
    }
}

static void take_fingerprint(reading_t *r)
{
    static const char *const names[] = {"key", "stable", NULL};
    k3_view_t                views[2] = {{0}};
    json_t                  *stable;

    k3_facts_take(&r->c, names, views);
    k3_facts_set(r->facts, "machine", k3_facts_text(views[0]));
    stable = views[1].at != NULL && *views[1].at == '{' ? k3_view_json(views[1]) : NULL;
    r->c.wrong = r->c.wrong || (stable == NULL && views[1].at != NULL && *views[1].at == '{');
    k3_clean_texts(stable);
    k3_facts_set(r->facts, "stable", stable);
}

static void take_topology(reading_t *r)
{
    static const char *const names[] = {"oversubscribed", NULL};
    k3_view_t                view = {0};

    k3_facts_take(&r->c, names, &view);
    if (k3_view_is(view, "true") || k3_view_is(view, "false")) {
        k3_facts_set(r->how, "topology.oversubscribed", json_stringn(view.at, view.length));
    }
}

static k3_status_t take_cells(reading_t *r, k3_error_t *err)
{
    if (!k3_cursor_enter(&r->c, '[')) {
        k3_cursor_skip(&r->c);
        return K3_OK;
    }
    r->cells = json_array();
    for (size_t i = 0; k3_cursor_element(&r->c) && err->status == K3_OK; i++) {
        k3_facts_cell(&r->c, r->name, i, r->wanted, r->cells, err);
    }
    return err->status;
}

static k3_status_t take_schema(reading_t *r, k3_error_t *err)
{
    json_t     *schema = k3_facts_text(k3_cursor_view(&r->c));
    const char *text = json_string_value(schema);

    r->is_record = text != NULL && strcmp(text, K3_SCHEMA) == 0;
    if (!r->is_record) {
        k3_fail(err, K3_ERR_IO, "%.300s: schema is \"%.60s\", not %s", r->name,
                text != NULL ? text : "no text", K3_SCHEMA);
    }
    json_decref(schema);
    return err->status;
}

static void take_record(reading_t *r, k3_error_t *err)
{
    static const char *const names[] = {"schema", "run", "fingerprint", "topology", "cells", NULL};
    uint32_t                 seen = 0;
    int                      i;

    if (!k3_cursor_enter(&r->c, '{')) {
        k3_cursor_skip(&r->c);
        return;
    }
    while (err->status == K3_OK && (i = k3_cursor_member(&r->c, names, &seen)) >= 0) {
        switch (i) {
        case 0:
            take_schema(r, err);
            break;
        case 1:
            take_run(r);
            break;
        case 2:
            take_fingerprint(r);
            break;
        case 3:
            take_topology(r);
            break;
        default:
            take_cells(r, err);
            break;
        }
    }
}

/* --- a record -------------------------------------------------------------------------------- */

static k3_status_t check(const reading_t *r, k3_error_t *err)
{
    if (!r->is_record) {
        return k3_fail(err, K3_ERR_IO, "%.300s: schema is \"absent\", not %s", r->name, K3_SCHEMA);
    }
    if (r->cells == NULL || json_object_get(r->facts, "run") == NULL) {
        return k3_fail(err, K3_ERR_IO, "%.300s: %s; only records of `run` can be reported", r->name,
                       r->cells != NULL ? "it has no run.id, it is a plan" : "it has no cells");
    }
    return K3_OK;
}

/* `path`: of the file that the text is from, or NULL. What the cursor stumbles over is read again as a whole: then the
 * fault is described with line and column. */
static k3_status_t describe(const char *name, const char *path, k3_error_t *err)
{
    json_t *document = NULL;

    if (path == NULL || k3_document_read(path, &document, err) == K3_OK) {
        k3_fail(err, K3_ERR_IO, "%.300s: a name stands twice in an object, or a text is damaged",
                name);
    }
    json_decref(document);
    return err->status;
}

static k3_status_t read_text(const char *name, const char *path, const char *text, size_t length,
                             const k3_facts_wanted_t *wanted, json_t **facts_p, k3_error_t *err)
{
    reading_t r = {.c = k3_cursor(text, length),
                   .name = name,
                   .wanted = wanted,
                   .facts = json_object(),
                   .how = json_object()};

    *facts_p = NULL;
    take_record(&r, err);
    if (err->status == K3_OK &&
        (k3_cursor_done(&r.c) ? check(&r, err) : describe(name, path, err)) == K3_OK) {
        json_object_set(r.facts, "how", r.how);
        json_object_set(r.facts, "cells", r.cells);
        *facts_p = json_incref(r.facts);
    }
    json_decref(r.cells);
    json_decref(r.how);
    json_decref(r.facts);
    return err->status;
}

k3_status_t k3_facts_read(const char *path, const k3_facts_wanted_t *wanted, json_t **facts_p,
                          k3_error_t *err)
{
    k3_text_t text;

    *facts_p = NULL;
    if (k3_text_open(path, &text, err) == K3_OK) {
        read_text(path, path, text.at, text.length, wanted, facts_p, err);
        k3_text_close(&text);
    }
    return err->status;
}

k3_status_t k3_facts_of(const char *name, const json_t *record, const k3_facts_wanted_t *wanted,
                        json_t **facts_p, k3_error_t *err)
{
    char *text = json_dumps(record, JSON_COMPACT);

    *facts_p = NULL;
    if (text == NULL) {
        return k3_fail(err, K3_ERR_ENV, "%.300s: memory is short", name);
    }
    read_text(name, NULL, text, strlen(text), wanted, facts_p, err);
    free(text);
    return err->status;
}

/* "2026-01-31T12:00:00Z" */
static bool is_time(const char *text)
{
    static const char form[] = "dddd-dd-ddTdd:dd:ddZ";

    for (size_t i = 0; i < sizeof(form); i++) {
        bool digit = text[i] >= '0' && text[i] <= '9';

        if (form[i] == 'd' ? !digit : text[i] != form[i]) {
            return false;
        }
    }
    return true;
}

k3_status_t k3_facts_placed(const char *name, const json_t *facts, k3_error_t *err)
{
    const char *started = k3_get_text(facts, "started");

    if (!is_time(started)) {
        return k3_fail(err, K3_ERR_IO,
                       "%.300s: run.started_utc is \"%.40s\", no time of the form %s", name,
                       started, "2026-01-31T12:00:00Z");
    }
    return k3_get_text(facts, "machine")[0] != '\0' &&
                   json_is_object(json_object_get(facts, "stable"))
               ? K3_OK
               : k3_fail(err, K3_ERR_IO, "%.300s: it has no fingerprint.key and fingerprint.stable",
                         name);
}
