#include "bench/report/cellview.h"

#include <stdio.h>
#include <string.h>

#include "bench/report/fields.h"
#include "bench/report/record.h"

const char *const k3_cell_statuses[] = {"ok", "degraded", "failed", "unsupported", "skipped", NULL};
const char *const k3_cell_check_states[] = {"ok", "wrong", "not checked", NULL};

k3_status_t k3_cell_refuse(const char *name, size_t index, const char *what, k3_error_t *err)
{
    return k3_fail(err, K3_ERR_IO, "%.300s: cells[%zu].%s is not what schema %s says", name, index,
                   what, K3_SCHEMA);
}

/* A text that was cut ends with a whole character. */
static void cut_clean(char *text, size_t size)
{
    size_t        end = strlen(text), at = end, bytes;
    unsigned char lead;

    while (at > 0 && end - at < 4 && ((unsigned char)text[at - 1] & 0xc0) == 0x80) {
        at--;
    }
    lead = at > 0 ? (unsigned char)text[at - 1] : 0;
    bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (end + 1 == size && at > 0 && end - at + 1 < bytes) {
        text[at - 1] = '\0';
    }
}

const char *k3_backend_text(const char *backend, const char *mode, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s", backend, mode[0] != '\0' ? ":" : "", mode);
    cut_clean(text, size);
    return text;
}

const char *k3_cell_backend(const json_t *cell, char *text, size_t size)
{
    return k3_backend_text(k3_get_text(cell, "backend"), k3_get_text(cell, "mode"), text, size);
}

const char *k3_cell_label(const json_t *cell, char *text, size_t size)
{
    const json_t *layout = json_object_get(cell, "layout");
    bool          whole = strcmp(k3_get_text(cell, "component"), "region") == 0;
    char          backend[32], part[24];

    snprintf(part, sizeof(part), " %s", k3_get_text(cell, "component"));
    snprintf(text, size, "%s tp%lld dp%lld T%lld%s%s",
             k3_cell_backend(cell, backend, sizeof(backend)), k3_get_int(layout, "tp"),
             k3_get_int(layout, "dp"), k3_get_int(json_object_get(cell, "tokens"), "asked"),
             json_is_false(json_object_get(json_object_get(cell, "path"), "fast")) ? " fallback"
                                                                                   : "",
             whole ? "" : part);
    cut_clean(text, size);
    return text;
}

const char *k3_cell_name(const json_t *cells, const json_t *cell, char *text, size_t size)
{
    size_t of_backend = 0;

    for (size_t i = 0; i < json_array_size(cells) && of_backend < 2; i++) {
        const json_t *other = json_array_get(cells, i);

        of_backend += strcmp(k3_get_text(other, "backend"), k3_get_text(cell, "backend")) == 0 &&
                      strcmp(k3_get_text(other, "mode"), k3_get_text(cell, "mode")) == 0;
    }
    return of_backend > 1 ? k3_cell_label(cell, text, size) : k3_cell_backend(cell, text, size);
}

bool k3_cell_measured(const json_t *cell)
{
    return json_is_array(json_object_get(cell, "phases"));
}

bool k3_cell_moves_rows(const json_t *cell)
{
    return !json_is_false(json_object_get(json_object_get(cell, "path"), "moves_rows"));
}

size_t k3_cells_measured(const json_t *cells)
{
    const json_t *cell;
    size_t        i, n = 0;

    json_array_foreach(cells, i, cell)
    {
        n += k3_cell_measured(cell);
    }
    return n;
}

const json_t *k3_cell_phase(const json_t *cell, const char *name)
{
    const json_t *phases = json_object_get(cell, "phases");

    for (size_t i = 0; i < json_array_size(phases); i++) {
        const json_t *phase = json_array_get(phases, i);

        if (strcmp(k3_get_text(phase, "name"), name) == 0) {
            return phase;
        }
    }
    return NULL;
}

bool k3_cell_median(const json_t *cell, const char *phase, double *us)
{
    const json_t *median = json_object_get(k3_cell_phase(cell, phase), "median");

    *us = json_number_value(median);
    return json_is_number(median);
}

/* --- which cells can be compared with the eye ------------------------------------------------ */

const char *k3_component_headline(const char *component)
{
    if (strcmp(component, "control") == 0) {
        return "dispatch";
    }
    return strcmp(component, "experts") == 0 ? "expert_mlp" : component;
}

const char *k3_cell_headline(const json_t *cell)
{
    return k3_component_headline(k3_get_text(cell, "component"));
}

bool k3_cell_same_group(const json_t *a, const json_t *b)
{
    /* Not the bound of rows: it follows from the path. */
    static const char *const keys[][2] = {{"model", NULL},     {"component", NULL},
                                          {"tokens", "asked"}, {"tokens", "min"},
                                          {"tokens", "max"},   {"tokens", "total"}};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const json_t *x = json_object_get(a, keys[i][0]), *y = json_object_get(b, keys[i][0]);

        if (keys[i][1] != NULL) {
            x = json_object_get(x, keys[i][1]);
            y = json_object_get(y, keys[i][1]);
        }
        if (x != y && !json_equal(x, y)) { /* both absent: equal */
            return false;
        }
    }
    return json_equal(json_object_get(json_object_get(a, "work"), "routing_hash"),
                      json_object_get(json_object_get(b, "work"), "routing_hash"));
}

bool k3_cell_interval(const json_t *cell, double *low, double *high)
{
    const json_t *ci = json_object_get(k3_cell_phase(cell, k3_cell_headline(cell)), "ci95");

    *low = json_number_value(json_array_get(ci, 0));
    *high = json_number_value(json_array_get(ci, 1));
    return json_is_array(ci);
}

const char *k3_record_name(const json_t *document, char *text, size_t size)
{
    const json_t *options = json_object_get(json_object_get(document, "run"), "options"), *option;
    const char   *path = "", *slash;
    size_t        i, length;

    json_array_foreach(options, i, option)
    {
        path =
            strcmp(k3_get_text(option, "name"), "out") == 0 ? k3_get_text(option, "value") : path;
    }
    path = strcmp(path, "-") == 0 ? "" : path;
    slash = strrchr(path, '/');
    snprintf(text, size, "%s", slash != NULL ? slash + 1 : path);
    length = strlen(text);
    if (length > 5 && strcmp(text + length - 5, ".json") == 0) {
        text[length - 5] = '\0';
    }
    cut_clean(text, size);
    return text;
}

static const char *start_of(const json_t *document)
{
    return k3_get_text(json_object_get(document, "run"), "started_utc");
}

size_t k3_launch_number(json_t *const *documents, size_t count, size_t d)
{
    size_t number = 1;

    for (size_t i = 0; i < count; i++) {
        int order = strcmp(start_of(documents[i]), start_of(documents[d]));

        number += order < 0 || (order == 0 && i < d);
    }
    return number;
}
